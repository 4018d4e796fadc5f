//! A received request as it is stored: its headers, its body, and what was fetched because of it, in one record.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use wakepost_domain::event::Event;
use wakepost_domain::redaction::Redaction;
use wakepost_providers::Request;
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::context::Context;

/// Headers and body, exactly as received, less the headers that carry credentials of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// What was fetched because of it.
    pub fetched: Option<Vec<u8>>,
    /// What its source hid of payloads when it came, for when that source is gone.
    pub redact: Vec<String>,
}

/// Where the rules stand in a record, beside the headers. No sender's header of this name is kept.
static RULES: HeaderName = HeaderName::from_static("wakepost-redact");

/// Headers that are never stored.
const DROPPED: [HeaderName; 3] =
    [header::COOKIE, header::AUTHORIZATION, header::PROXY_AUTHORIZATION];

/// A secret shorter than this could end many a header by chance.
const PREFIXED_BYTES_MIN: usize = 8;

impl Content {
    /// What an event's request was, while it is kept.
    pub async fn of(context: &Context, event: &Event) -> Result<Option<Content>> {
        let Some((body, record)) = context.store.contents(vec![event.body()]).await?.pop() else {
            return Ok(None);
        };
        let key = context.vault.key(event.tenant).await?;
        Content::decode(&key.open(Slot::Content(body), &record)?).map(Some)
    }

    /// The record of a request.
    /// A header that holds one of `secrets` itself, as a token does, is left out.
    pub fn encode(
        headers: &HeaderMap,
        secrets: &[&str],
        redact: &[String],
        body: &[u8],
        fetched: Option<&[u8]>,
    ) -> Vec<u8> {
        let kept = |(name, value): &(&HeaderName, &HeaderValue)| {
            !DROPPED.contains(name)
                && **name != RULES
                && !secrets.iter().any(|secret| shows(value, secret))
        };
        let rules = (!redact.is_empty()).then(|| written(redact));
        let rules = rules.iter().map(|rules| (&RULES, rules));
        record(headers.iter().filter(kept).chain(rules), body, fetched)
    }

    /// The record of a request that was stored before, with what was fetched since.
    pub fn encode_with(&self, fetched: &[u8]) -> Vec<u8> {
        Content::encode(&self.headers, &[], &self.redact, &self.body, Some(fetched))
    }

    /// What its source hid of payloads when it came.
    pub fn redaction(&self) -> Redaction {
        // Rules were checked before they were stored; whatever these are, they do not show more.
        Redaction::read(&self.redact).unwrap_or_else(|_| Redaction::everything())
    }

    /// The request as its provider's adapter reads it.
    pub fn as_request(&self) -> Request<'_> {
        Request {
            method: &http::Method::POST,
            url: "",
            headers: &self.headers,
            body: &self.body,
            fetched: self.fetched.as_deref(),
        }
    }

    /// Reads a record.
    pub fn decode(record: &[u8]) -> Result<Content> {
        let damaged = || StoreError::Corrupt("a stored request cannot be read".to_owned());
        let (headers_bytes, rest) = record.split_first_chunk::<4>().ok_or_else(damaged)?;
        let (fetched_bytes, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let headers_bytes = u32::from_be_bytes(*headers_bytes) as usize;
        let (lines, rest) = rest.split_at_checked(headers_bytes).ok_or_else(damaged)?;
        let (fetched, body) = match u32::from_be_bytes(*fetched_bytes) {
            NOTHING => (None, rest),
            bytes => {
                let (fetched, body) = rest.split_at_checked(bytes as usize).ok_or_else(damaged)?;
                (Some(fetched.to_vec()), body)
            }
        };
        let mut headers = HeaderMap::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let colon = line.iter().position(|byte| *byte == b':').ok_or_else(damaged)?;
            let name = HeaderName::from_bytes(&line[..colon]).map_err(|_| damaged())?;
            let value = HeaderValue::from_bytes(&line[colon + 1..]).map_err(|_| damaged())?;
            headers.append(name, value);
        }
        let redact = match headers.remove(&RULES) {
            Some(rules) => serde_json::from_slice(rules.as_bytes()).map_err(|_| damaged())?,
            None => Vec::new(),
        };
        Ok(Content { headers, body: body.to_vec(), fetched, redact })
    }
}

/// In place of a length: nothing was fetched.
const NOTHING: u32 = u32::MAX;

/// Two lengths, then the headers as text lines, what was fetched, and the body.
fn record<'h>(
    headers: impl Iterator<Item = (&'h HeaderName, &'h HeaderValue)>,
    body: &[u8],
    fetched: Option<&[u8]>,
) -> Vec<u8> {
    let mut record = vec![0u8; 8];
    for (name, value) in headers {
        record.extend_from_slice(name.as_str().as_bytes());
        record.push(b':');
        record.extend_from_slice(value.as_bytes());
        // No header value holds a line feed.
        record.push(b'\n');
    }
    let length = u32::try_from(record.len() - 8).expect("headers are bounded by the listener");
    record[..4].copy_from_slice(&length.to_be_bytes());
    let length = fetched.map_or(NOTHING, |fetched| {
        u32::try_from(fetched.len()).expect("answers are bounded by the client")
    });
    record[4..8].copy_from_slice(&length.to_be_bytes());
    record.extend_from_slice(fetched.unwrap_or_default());
    record.extend_from_slice(body);
    record
}

fn written(redact: &[String]) -> HeaderValue {
    let text = serde_json::to_string(redact).expect("rules are plain data");
    HeaderValue::from_bytes(text.as_bytes()).expect("rules have no control characters")
}

/// Whether a header's value is the secret, or ends with it behind a prefix such as `Bearer`.
fn shows(value: &HeaderValue, secret: &str) -> bool {
    let (value, secret) = (value.as_bytes(), secret.as_bytes());
    value == secret || secret.len() >= PREFIXED_BYTES_MIN && value.ends_with(secret)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_request_reads_back_as_it_came(
            values in prop::collection::vec("[ -~\\x80-\\xff]{0,20}", 0..5),
            body: Vec<u8>,
            fetched: Option<Vec<u8>>,
            redact in prop::collection::vec("(/[a-zü\"*~0]{0,9}){0,3}", 0..3),
        ) {
            let mut headers = HeaderMap::new();
            for value in &values {
                if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
                    headers.append("x-value", value);
                }
            }
            let record = Content::encode(&headers, &[], &redact, &body, fetched.as_deref());
            let content = Content::decode(&record).unwrap();
            prop_assert_eq!(&content, &Content { headers, body, fetched, redact });
            let more = Content::decode(&content.encode_with(b"more")).unwrap();
            prop_assert_eq!(more, Content { fetched: Some(b"more".to_vec()), ..content });
        }
    }

    #[test]
    fn credentials_of_the_sender_are_not_stored() {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", HeaderValue::from_static("Basic c2VjcmV0"));
        headers.insert("cookie", HeaderValue::from_static("a=b"));
        headers.insert("x-kept", HeaderValue::from_static("yes"));
        headers.insert("x-token", HeaderValue::from_static("the secret itself"));
        headers.insert("x-other", HeaderValue::from_static("Token the secret itself"));
        headers.insert("wakepost-redact", HeaderValue::from_static("not ours"));
        let secrets = ["another", "the secret itself"];
        let record = Content::encode(&headers, &secrets, &[], b"", None);
        let content = Content::decode(&record).unwrap();
        assert_eq!((content.headers.len(), content.redact.len()), (1, 0));
    }

    #[test]
    fn a_cut_record_is_an_error() {
        assert!(Content::decode(&[0, 0]).is_err());
        assert!(Content::decode(&[0, 0, 0, 9, 255, 255, 255, 255, b'x']).is_err());
        assert!(Content::decode(&[0, 0, 0, 0, 0, 0, 0, 9, b'x']).is_err());
    }
}
