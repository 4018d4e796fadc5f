//! What is stored: a sealed record, and the request in it.

use std::sync::{Arc, LazyLock};

use wakepost_domain::ports::Entropy;
use wakepost_domain::{EventId, TenantId};
use wakepost_server::view::Content;
use wakepost_store::vault::{Sealed, Slot, TenantKey};

/// Chance that is none, so that a record can be known again.
struct Sevens;

impl Entropy for Sevens {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
}

static KEY: LazyLock<TenantKey> =
    LazyLock::new(|| TenantKey::new(TenantId::DEFAULT, 1, &[9; 32], Arc::new(Sevens)));

fn slot() -> Slot<'static> {
    Slot::Content(EventId::from_bytes([1; 16]))
}

pub fn run(bytes: &[u8]) {
    if let Ok(plain) = KEY.open(slot(), &Sealed::from_stored(bytes.to_vec())) {
        assert_eq!(KEY.seal(slot(), &plain).as_bytes(), bytes, "a record that nobody sealed");
    }
    let Ok(content) = Content::decode(bytes) else { return };
    content.redaction();
    let Content { headers, body, fetched, redact } = &content;
    let record = Content::encode(headers, &[], redact, body, fetched.as_deref());
    let again = Content::decode(&record).expect("what was written is read");
    assert_eq!((&again.body, &again.fetched, &again.redact), (body, fetched, redact));
    for (name, value) in &again.headers {
        assert!(headers.get_all(name).iter().any(|had| had == value), "{name} is new");
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let headers = [("content-type", "application/json"), ("x-event", "a"), ("x-event", "b")];
    let headers = headers.into_iter().map(|(name, value)| {
        (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
    });
    let headers = headers.collect();
    let rules = ["/email".to_owned()];
    let plain = Content::encode(&headers, &[], &rules, b"{}", Some(b"[1]"));
    let bare = Content::encode(&headers, &[], &[], b"", None);
    vec![KEY.seal(slot(), &plain).as_bytes().to_vec(), plain, bare]
}
