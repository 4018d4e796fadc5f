//! Deliveries: what a webhook's receiver is sent, and what is kept of a try.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize, Serializer};
use utoipa::ToSchema;
use wakepost_domain::publication::{Head, linked};
use wakepost_domain::webhook::{Auth, INLINE_BYTES_MAX, Webhook};
use wakepost_domain::{EventId, Timestamp};
use wakepost_store::moves::Claimed;
use wakepost_store::vault::{Sealed, Slot, TenantKey};

use crate::chains;
use crate::context::Context;
use crate::outbound::{Delivery, Identity, Timings, Tried};
use crate::view::Content;

/// What is sent for a claimed delivery. Every try of it has the same id and body.
pub fn compose(
    context: &Context,
    claimed: &Claimed,
    webhook: &Webhook,
    event: EventId,
    body: Bytes,
) -> Result<Delivery, String> {
    let body = match body.len() > INLINE_BYTES_MAX {
        false => body,
        true => link(context, claimed, &body)?,
    };
    to(webhook, event.to_string(), chains::traceparent(claimed), body, context.now())
}

/// What an event says, byte for byte as it was published, from its record.
pub fn said(key: &TenantKey, event: EventId, record: &Sealed) -> wakepost_store::Result<Bytes> {
    let plain = key.open(Slot::Content(event), record)?;
    Ok(Content::decode(&plain)?.body.into())
}

/// Something for a webhook, signed with what it has at that moment.
pub fn to(
    webhook: &Webhook,
    id: String,
    traceparent: String,
    body: Bytes,
    now: Timestamp,
) -> Result<Delivery, String> {
    let (authorization, identity) = credentials(webhook.secrets.auth.as_ref())?;
    Ok(Delivery {
        url: webhook.config.url.clone().unwrap_or_default(),
        trusted: false,
        id,
        secrets: webhook.secrets.live(now).map(str::to_owned).collect(),
        traceparent,
        headers: own_headers(webhook),
        authorization,
        identity,
        timeout: webhook.timeout(),
        body,
    })
}

/// The same of an event that is too large to be sent: where it is.
fn link(context: &Context, claimed: &Claimed, body: &[u8]) -> Result<Bytes, String> {
    #[derive(Deserialize)]
    struct Said<'a> {
        id: EventId,
        #[serde(rename = "type", borrow)]
        event_type: Cow<'a, str>,
        #[serde(borrow)]
        api_version: Option<Cow<'a, str>>,
        created_at: Timestamp,
        livemode: bool,
    }
    let said: Said<'_> = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let head = Head {
        id: said.id,
        event_type: &said.event_type,
        api_version: said.api_version.as_deref(),
        created_at: said.created_at,
        livemode: said.livemode,
    };
    let token = context.tokens.event_link(claimed.ticket.tenant, claimed.ticket.work);
    Ok(linked(head, &format!("{}/e/{token}", context.base_url)).into())
}

fn own_headers(webhook: &Webhook) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in &webhook.secrets.headers {
        // Both were checked when they were set.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            headers.insert(name, value);
        }
    }
    headers
}

type Credentials = (Option<HeaderValue>, Option<Arc<Identity>>);

fn credentials(auth: Option<&Auth>) -> Result<Credentials, String> {
    let secret = |text: String| {
        let mut value = HeaderValue::from_str(&text).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        Ok::<_, String>(Some(value))
    };
    Ok(match auth {
        None => (None, None),
        Some(Auth::Bearer { token }) => (secret(format!("Bearer {token}"))?, None),
        Some(Auth::Basic { username, password }) => {
            let pair = STANDARD.encode(format!("{username}:{password}"));
            (secret(format!("Basic {pair}"))?, None)
        }
        Some(Auth::Mtls { cert, key }) => {
            let identity =
                Identity::read(cert, key).map_err(|(field, why)| format!("{field} {why}"))?;
            (None, Some(Arc::new(identity)))
        }
    })
}

/// What is kept of a try: what was sent less secrets, what came back, and how long it took.
#[derive(Serialize)]
struct Detail<'a> {
    request_headers: Shown<'a>,
    status_code: Option<u16>,
    body: Option<Cow<'a, str>>,
    truncated: bool,
    response_headers: Option<Shown<'a>>,
    remote: Option<SocketAddr>,
    error_class: Option<&'static str>,
    timings: Millis,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    probe: bool,
}

/// Headers as JSON; of those with the same name the last.
struct Shown<'a>(&'a HeaderMap);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.keys().map(|name| {
            let last = self.0.get_all(name).iter().next_back();
            (name.as_str(), String::from_utf8_lossy(last.map_or(b"", HeaderValue::as_bytes)))
        }))
    }
}

/// What is kept of a try, as JSON. `probe`: whether it was only to see if the receiver is back.
pub fn detail(tried: &Tried, probe: bool) -> String {
    let answer = tried.answer.as_ref();
    let detail = Detail {
        request_headers: Shown(&tried.headers),
        status_code: answer.map(|answer| answer.status.as_u16()),
        body: answer.map(|answer| String::from_utf8_lossy(&answer.body)),
        truncated: answer.is_some_and(|answer| answer.truncated),
        response_headers: answer.map(|answer| Shown(&answer.headers)),
        remote: answer.and_then(|answer| answer.remote),
        error_class: tried.class.map(|class| class.as_str()),
        timings: timings(&tried.timings),
        probe,
    };
    serde_json::to_string(&detail).expect("what is kept is plain data")
}

/// How long each step took, in milliseconds.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Timings)]
pub struct Millis {
    /// Resolving the name; `null` for a written address.
    dns_ms: Option<f64>,
    /// Connecting; `null` on a connection kept from before.
    connect_ms: Option<f64>,
    /// The TLS handshake.
    tls_ms: Option<f64>,
    /// From the start to the head of the answer.
    first_byte_ms: Option<f64>,
    /// All of it.
    total_ms: f64,
}

/// How long each step of a try took.
pub fn timings(timings: &Timings) -> Millis {
    let ms = |took: Duration| took.as_micros() as f64 / 1000.0;
    Millis {
        dns_ms: timings.dns.map(ms),
        connect_ms: timings.connect.map(ms),
        tls_ms: timings.tls.map(ms),
        first_byte_ms: timings.first_byte.map(ms),
        total_ms: ms(timings.total),
    }
}
