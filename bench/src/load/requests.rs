//! Signed events: one prepared request whose number and signature are changed in place.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The size of a body.
const BODY_BYTES: usize = 1024;
/// A number as text.
pub const DIGITS: usize = 16;
/// What stands before the number in a body.
pub const NUMBERED: &str = "\"order_";
/// An HMAC-SHA256 in base64.
const SIGNATURE: usize = 44;

/// Which events to send.
#[derive(Debug, Clone)]
enum Choice {
    /// Each with the next number.
    New,
    /// Those of a range over and over, from its first on.
    Again { first: u64, count: u64, next: Arc<AtomicU64> },
}

/// Makes requests, each an event of its own in id and body.
#[derive(Debug, Clone)]
pub struct Events {
    address: SocketAddr,
    key: hmac::Key,
    choice: Choice,
    numbers: Arc<AtomicU64>,
    request: Vec<u8>,
    places: Places,
}

/// Where the changing parts lie in the request.
#[derive(Debug, Clone, Copy)]
struct Places {
    id: usize,
    time: usize,
    signature: usize,
    body: usize,
    body_number: usize,
}

impl Events {
    /// Events for a source. `numbers`: the next number.
    pub fn new(
        address: SocketAddr,
        source: &str,
        secret: &str,
        numbers: Arc<AtomicU64>,
    ) -> anyhow::Result<Events> {
        let encoded = secret.strip_prefix("whsec_").context("not such a secret")?;
        let (request, places) = prepare(address, source)?;
        Ok(Events {
            address,
            key: hmac::Key::new(hmac::HMAC_SHA256, &STANDARD.decode(encoded)?),
            choice: Choice::New,
            numbers,
            request,
            places,
        })
    }

    /// The same events once more: those with the numbers from `first` and before `past`.
    pub fn again(mut self, first: u64, past: u64) -> Events {
        self.choice =
            Choice::Again { first, count: past.saturating_sub(first).max(1), next: Arc::default() };
        self
    }

    /// The same work for the generator, but signed with another key.
    pub fn badly_signed(mut self) -> Events {
        self.key = hmac::Key::new(hmac::HMAC_SHA256, b"not the secret of this source");
        self
    }

    /// Where they are sent.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The next request.
    pub fn next(&mut self) -> &[u8] {
        let number = match &self.choice {
            Choice::New => self.numbers.fetch_add(1, Ordering::Relaxed),
            Choice::Again { first, count, next } => {
                first + next.fetch_add(1, Ordering::Relaxed) % count
            }
        };
        let places = self.places;
        let digits = digits(number);
        self.request[places.id + 4..][..DIGITS].copy_from_slice(&digits);
        self.request[places.body_number..][..DIGITS].copy_from_slice(&digits);
        let mut signing = hmac::Context::with_key(&self.key);
        signing.update(&self.request[places.id..][..4 + DIGITS]);
        signing.update(b".");
        signing.update(&self.request[places.time..][..10]);
        signing.update(b".");
        signing.update(&self.request[places.body..]);
        let tag = signing.sign();
        let place = &mut self.request[places.signature..][..SIGNATURE];
        // The place has the length of an encoded HMAC, so this cannot fail.
        let _ = STANDARD.encode_slice(tag.as_ref(), place);
        &self.request
    }
}

/// A number as it stands in a request.
pub fn digits(number: u64) -> [u8; DIGITS] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    std::array::from_fn(|place| HEX[(number >> (60 - 4 * place) & 15) as usize])
}

fn prepare(address: SocketAddr, source: &str) -> anyhow::Result<(Vec<u8>, Places)> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let head = format!(
        "POST /in/{source} HTTP/1.1\r\nhost: {address}\r\nuser-agent: wakepost-bench/1\r\n\
         accept: */*\r\ncontent-type: application/json\r\ncontent-length: {BODY_BYTES}\r\n\
         webhook-id: msg_{:0DIGITS$}\r\nwebhook-timestamp: {now:010}\r\n\
         webhook-signature: v1,{:0SIGNATURE$}\r\n\r\n",
        0, 0
    );
    let body = body();
    let place = |text: &str, mark: &str| {
        let found = text.find(mark).map(|at| at + mark.len());
        found.context("a mark that is not in the request")
    };
    let places = Places {
        id: place(&head, "webhook-id: ")?,
        time: place(&head, "webhook-timestamp: ")?,
        signature: place(&head, "webhook-signature: v1,")?,
        body: head.len(),
        body_number: head.len() + place(&body, NUMBERED)?,
    };
    Ok(([head.as_bytes(), body.as_bytes()].concat(), places))
}

/// An order with its lines: the number near the front, then as many lines as fit.
pub fn body() -> String {
    let mut body = format!(
        "{{\"type\":\"order.paid\",\"timestamp\":\"2026-01-02T03:04:05.678Z\",\
         \"data\":{{\"id\":\"order_{:0DIGITS$}\",\"currency\":\"EUR\",\"total\":129.90,\"lines\":[",
        0
    );
    let line = "{\"sku\":\"A-100-23\",\"name\":\"A thing of use\",\"quantity\":2,\"price\":12.99},";
    let (last, end) = ("{\"note\":\"", "\"}]}}");
    while body.len() + line.len() + last.len() + end.len() < BODY_BYTES {
        body.push_str(line);
    }
    body.push_str(last);
    let room = BODY_BYTES - body.len() - end.len();
    body.push_str(&"x".repeat(room));
    body.push_str(end);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events() -> Events {
        let address = "127.0.0.1:1".parse().unwrap();
        Events::new(address, "src_1", "whsec_AAAA", Arc::default()).unwrap()
    }

    #[test]
    fn a_body_is_json_of_the_promised_size() {
        let body = body();
        assert_eq!(body.len(), BODY_BYTES);
        let _: serde_json::Value = serde_json::from_str(&body).unwrap();
    }

    #[test]
    fn each_event_has_its_own_id_body_and_signature() {
        let mut events = events();
        let first = events.next().to_vec();
        let second = events.next().to_vec();
        let places = events.places;
        assert_eq!(&second[places.id..][..20], b"msg_0000000000000001");
        assert_ne!(first[places.body..], second[places.body..]);
        assert_ne!(first[places.signature..][..SIGNATURE], second[places.signature..][..SIGNATURE]);
    }

    #[test]
    fn events_sent_again_begin_with_the_first() {
        let mut first = events();
        let expected = first.next().to_vec();
        let mut again = events().again(0, 2);
        assert_eq!(again.next(), expected);
        again.next();
        assert_eq!(again.next(), expected);
    }
}
