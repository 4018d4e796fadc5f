//! The normalized envelope, derived from the raw bytes whenever it is read.

use serde_json::{Value, json};
use wakepost_domain::event::Event;
use wakepost_domain::redaction::REDACTED;

use super::{Content, redacted};
use crate::directory::LiveSource;

/// What agents and operators read about an event. Without its body or its source, which may be gone, the
/// stored columns are what is left.
pub fn envelope(
    event: &Event,
    tenant: &str,
    source: Option<&LiveSource>,
    content: Option<&Content>,
) -> Value {
    let part = event.part.map_or(0, |part| usize::from(part.index));
    let request = content.map(Content::as_request);
    let mut data = request.map(|request| match source {
        Some(source) => source.provider.data(&request, part),
        None => wakepost_providers::data(&request),
    });
    let hidden = match (source, content) {
        (Some(source), _) => data.as_mut().map(|data| source.redaction.apply(data)),
        // The rules of a source that is gone are those that the request was stored with.
        (None, Some(content)) => data.as_mut().map(|data| content.redaction().apply(data)),
        (None, None) => None,
    };
    let hidden = hidden.unwrap_or_default();
    let mapped = source.zip(request).and_then(|(source, request)| match &data {
        Some(data) if !hidden.is_empty() => redacted::map(source, &request, part, data, &hidden),
        _ => redacted::map_whole(source, &request, part),
    });
    let mut mapped = mapped.unwrap_or_default();
    if let Some(actor) = mapped.actor.as_mut().filter(|_| !event.verified) {
        actor.verified = false;
    }
    let order_key = source.zip(request).and_then(|(source, request)| {
        source.order_by.as_ref()?.fill(source.provider, &request, part)
    });
    let shown = |text: Option<&str>| {
        text.map(|text| if hidden.is_in(text) { REDACTED } else { text }.to_owned())
    };
    json!({
        "event_id": event.id,
        "source": event.source,
        "provider": source.map(|source| source.provider.name()),
        "tenant_id": tenant,
        "event_type": event.event_type,
        "occurred_at": event.occurred_at,
        "received_at": event.received_at,
        "payload_hash": format!("sha256:{}", hex::encode(event.payload_hash)),
        "dedup_key": shown(Some(&event.dedup_key)),
        "order_key": shown(order_key.as_deref()),
        "provider_request_id": mapped.provider_request_id,
        "verified": event.verified,
        "body_signed": source.map(|source| event.verified && source.facts.signs_body),
        "actor": mapped.actor,
        "subject": mapped.subject,
        "message": mapped.message,
        "data": data,
    })
}
