//! Realistic requests of a provider, to try things with.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use wakepost_domain::Timestamp;

use crate::request::SignedRequest;

/// A request as a provider sends it, before it is signed. In its body and headers `$ID` stands for the event's
/// id, and `$SECONDS`, `$MILLIS` and `$TIME` for the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// What it maps to; of a body that holds many, the first.
    pub event_type: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Its headers, besides the media type and what signing adds.
    pub headers: &'static [(&'static str, &'static str)],
    /// Its body.
    pub body: &'static str,
}

impl Sample {
    /// A JSON body without headers of its own.
    pub const fn json(event_type: &'static str, body: &'static str) -> Sample {
        Sample { event_type, content_type: "application/json", headers: &[], body }
    }

    /// The same with headers.
    pub const fn with_headers(self, headers: &'static [(&'static str, &'static str)]) -> Sample {
        Sample { headers, ..self }
    }

    /// The request, not signed yet. `id` must be digits: some providers' ids are numbers.
    pub fn request(&self, url: &str, id: &str, now: Timestamp) -> SignedRequest {
        let fill = |text: &str| {
            text.replace("$ID", id)
                .replace("$SECONDS", &now.as_secs().to_string())
                .replace("$MILLIS", &now.as_millis().to_string())
                .replace("$TIME", &now.to_string())
        };
        let mut headers = HeaderMap::new();
        let media_type = HeaderValue::from_static(self.content_type);
        headers.insert(header::CONTENT_TYPE, media_type);
        for (name, value) in self.headers {
            let value = HeaderValue::try_from(fill(value)).expect("a sample's headers are plain");
            headers.insert(HeaderName::from_static(name), value);
        }
        let body = fill(self.body).into_bytes();
        SignedRequest { method: Method::POST, url: url.to_owned(), headers, body }
    }
}
