//! The normalized envelope, derived from the raw bytes whenever it is read.

use serde_json::value::RawValue;
use serde_json::{Value, json};
use wakepost_domain::event::Event;
use wakepost_providers::Request;

use super::Content;
use crate::directory::LiveSource;

/// What agents and operators read about an event. Without its body or its source, which may be gone, the
/// stored columns are what is left.
pub fn envelope(
    event: &Event,
    tenant: &str,
    source: Option<&LiveSource>,
    content: Option<&Content>,
) -> Value {
    let mapped = source.zip(content).and_then(|(source, content)| {
        let request = Request {
            method: &http::Method::POST,
            url: "",
            headers: &content.headers,
            body: &content.body,
        };
        source.provider.map(&request, &source.settings).ok()
    });
    let mut mapped = mapped.unwrap_or_default();
    if let Some(actor) = mapped.actor.as_mut().filter(|_| !event.verified) {
        actor.verified = false;
    }
    json!({
        "event_id": event.id,
        "source": event.source,
        "provider": source.map(|source| source.provider.name()),
        "tenant_id": tenant,
        "event_type": event.event_type,
        "occurred_at": event.occurred_at,
        "received_at": event.received_at,
        "payload_hash": format!("sha256:{}", hex::encode(event.payload_hash)),
        "dedup_key": event.dedup_key,
        "order_key": null,
        "provider_request_id": mapped.provider_request_id,
        "verified": event.verified,
        "actor": mapped.actor,
        "subject": mapped.subject,
        "data": content.map(|content| data(&content.body)),
    })
}

/// The payload: JSON as it is, other text as text, anything else not at all (it is at `/raw`).
fn data(body: &[u8]) -> Value {
    match std::str::from_utf8(body) {
        Err(_) => Value::Null,
        Ok(text) => serde_json::from_str::<&RawValue>(text)
            .ok()
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_else(|| Value::String(text.to_owned())),
    }
}
