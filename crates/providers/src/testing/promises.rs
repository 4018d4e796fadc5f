//! What every signature check promises, tried on every provider and on the generic one in many shapes.

use std::time::Duration;

use http::HeaderValue;
use proptest::prelude::*;
use proptest::sample::Index;
use wakepost_domain::Timestamp;

use super::{Counting, NOW, settings, verify_with};
use crate::{Refusal, Settings, SignedRequest, Verified, Why, registry, standard};

const BODY: &str =
    r#"{"id":"evt_1","type":"thing.done","at":1700000000,"data":{"object":{"id":"o"}}}"#;

/// One way of signing.
struct Sender {
    provider: &'static str,
    settings: Settings,
    /// What it signs with and what it is verified with: two keys where the scheme has a public one.
    keys: (String, String),
    /// Another sender's keys.
    other_keys: (String, String),
    /// The headers that the signature is made of or covers; the signature itself is the first.
    headers: &'static [&'static str],
    /// Whether letter case in the signature header can change its value (not so in hex).
    case_matters: bool,
    signs_body: bool,
    signs_time: bool,
}

impl Sender {
    fn shared(provider: &'static str, headers: &'static [&'static str]) -> Sender {
        let same = |key: &str| (key.to_owned(), key.to_owned());
        Sender {
            provider,
            settings: Settings::new(),
            keys: same("first secret"),
            other_keys: same("second secret"),
            headers,
            case_matters: false,
            signs_body: true,
            signs_time: false,
        }
    }

    fn generic(headers: &'static [&'static str], pairs: &[(&str, &str)]) -> Sender {
        Sender { settings: settings(pairs), ..Sender::shared("generic", headers) }
    }

    fn with_key_pairs(self) -> Sender {
        let entropy = Counting::default();
        let pair = || {
            let private = standard::generate_private_key(&entropy);
            let public = standard::public_key(&private).unwrap();
            (private, public)
        };
        Sender { keys: pair(), other_keys: pair(), case_matters: true, ..self }
    }

    fn request(&self) -> SignedRequest {
        self.request_with(&self.keys.0, NOW)
    }

    fn request_with(&self, key: &str, at: Timestamp) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1?a=b", BODY);
        let provider = registry::find(self.provider).unwrap();
        provider.sign(&mut request, key, &self.settings, "evt_1", at).unwrap();
        request
    }

    fn verify(&self, request: &SignedRequest, keys: &[&str]) -> Result<Verified, Refusal> {
        self.verify_at(request, keys, NOW)
    }

    fn verify_at(
        &self,
        request: &SignedRequest,
        keys: &[&str],
        now: Timestamp,
    ) -> Result<Verified, Refusal> {
        let provider = registry::find(self.provider).unwrap();
        verify_with(provider, request, keys, &self.settings, now)
    }

    fn must_refuse(&self, request: &SignedRequest, what: &str) {
        let refused = self.verify(request, &[&self.keys.1]);
        let name = format!("{} {:?}", self.provider, self.settings);
        assert!(matches!(refused, Err(Refusal::Signature(_))), "{name}, {what}: {refused:?}");
    }
}

fn senders() -> Vec<Sender> {
    const STANDARD: &[&str] = &["webhook-signature", "webhook-id", "webhook-timestamp"];
    let timed = |sender| Sender { signs_time: true, ..sender };
    let cased = |sender| Sender { case_matters: true, ..sender };
    let bare = |sender| Sender { signs_body: false, case_matters: true, ..sender };
    let same = |key: &str| (key.to_owned(), key.to_owned());
    vec![
        Sender::shared("github", &["x-hub-signature-256"]),
        timed(Sender::shared("stripe", &["stripe-signature"])),
        timed(cased(Sender::shared("standard-webhooks", STANDARD))),
        timed(Sender::shared("standard-webhooks", STANDARD).with_key_pairs()),
        Sender::generic(&["x-sig"], &[("header", "X-Sig")]),
        Sender::generic(
            &["x-sig"],
            &[("header", "X-Sig"), ("algorithm", "hmac-sha1"), ("prefix", "sha1=")],
        ),
        cased(Sender::generic(
            &["x-sig"],
            &[
                ("header", "X-Sig"),
                ("algorithm", "hmac-sha512"),
                ("encoding", "base64"),
                ("separator", ","),
            ],
        )),
        timed(cased(Sender::generic(
            &["x-sig", "x-time", "x-id"],
            &[
                ("header", "X-Sig"),
                ("encoding", "base64url"),
                ("content", "{method} {url} {id} {timestamp} {body}"),
                ("timestamp_header", "X-Time"),
                ("timestamp_unit", "ms"),
                ("id_header", "X-Id"),
            ],
        ))),
        timed(Sender::generic(
            &["x-sig", "x-time"],
            &[
                ("header", "X-Sig"),
                ("content", "{timestamp}{body}"),
                ("timestamp_header", "X-Time"),
                ("timestamp_unit", "rfc3339"),
            ],
        )),
        Sender {
            case_matters: false,
            ..Sender::generic(&["x-sig"], &[("header", "X-Sig"), ("algorithm", "ed25519")])
                .with_key_pairs()
        },
        bare(Sender::generic(
            &["x-token"],
            &[("header", "X-Token"), ("algorithm", "token"), ("prefix", "Token ")],
        )),
        Sender {
            keys: same("user:first"),
            other_keys: same("user:second"),
            ..bare(Sender::generic(&["authorization"], &[("algorithm", "basic")]))
        },
    ]
}

#[test]
fn a_request_signed_with_any_live_secret_is_accepted_and_says_which() {
    for sender in senders() {
        let (first, second) = (&sender.keys.1, &sender.other_keys.1);
        let signed_at = sender.signs_time.then_some(NOW);
        for (keys, secret_index) in
            [(vec![first.as_str()], 0), (vec![first, second], 0), (vec![second, first], 1)]
        {
            let verified = sender.verify(&sender.request(), &keys);
            assert_eq!(verified, Ok(Verified { secret_index, signed_at }), "{}", sender.provider);
        }
    }
}

#[test]
fn a_request_signed_with_another_secret_is_refused() {
    for sender in senders() {
        let refused = sender.verify(&sender.request(), &[&sender.other_keys.1]);
        assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)), "{}", sender.provider);
    }
}

#[test]
fn a_source_without_a_secret_is_not_ready_and_accepts_nothing() {
    for sender in senders() {
        for keys in [&[][..], &[""]] {
            let refused = sender.verify(&sender.request(), keys);
            assert!(matches!(refused, Err(Refusal::Unready(_))), "{}", sender.provider);
        }
    }
}

#[test]
fn a_missing_empty_doubled_or_unreadable_header_is_refused() {
    for sender in senders() {
        for &name in sender.headers {
            let mut request = sender.request();
            let value = request.headers.remove(name).unwrap();
            sender.must_refuse(&request, "missing");
            request.headers.insert(name, HeaderValue::from_static(""));
            sender.must_refuse(&request, "empty");
            request.headers.insert(name, HeaderValue::from_bytes(b"\xff\xfe").unwrap());
            sender.must_refuse(&request, "unreadable");
            request.headers.insert(name, value.clone());
            request.headers.append(name, value);
            sender.must_refuse(&request, "doubled");
        }
    }
}

#[test]
fn a_signed_time_may_be_off_by_the_tolerance_either_way_and_no_more() {
    let second = Duration::from_secs(1);
    let tolerance = Duration::from_secs(300);
    for sender in senders().iter().filter(|sender| sender.signs_time) {
        let keys = [sender.keys.1.as_str()];
        for at in [NOW.before(tolerance), NOW.after(tolerance)] {
            let request = sender.request_with(&sender.keys.0, at);
            assert!(sender.verify(&request, &keys).is_ok(), "{}", sender.provider);
        }
        for (at, is_ahead) in
            [(NOW.before(tolerance + second), false), (NOW.after(tolerance + second), true)]
        {
            let request = sender.request_with(&sender.keys.0, at);
            match sender.verify(&request, &keys) {
                Err(Refusal::Stale { off, ahead, .. }) => {
                    assert_eq!((off, ahead), (tolerance + second, is_ahead));
                }
                other => panic!("{}: {other:?}", sender.provider),
            }
            let refused = sender.verify(&request, &[&sender.other_keys.1]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "forged before stale");
        }
    }
}

#[test]
fn a_refusal_never_repeats_a_secret() {
    for sender in senders() {
        let mut request = sender.request();
        request.headers.remove(sender.headers[0]);
        for refusal in [
            sender.verify(&request, &[&sender.keys.1]).unwrap_err(),
            sender.verify(&sender.request(), &[&sender.other_keys.1]).unwrap_err(),
        ] {
            for secret in [&sender.keys.1, &sender.other_keys.1] {
                assert!(!format!("{refusal} {refusal:?}").contains(secret.as_str()));
            }
        }
    }
}

fn flip(bytes: &mut [u8], which: Index) {
    let bit = which.index(bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
}

proptest! {
    #[test]
    fn a_body_with_any_bit_flipped_is_refused(which: Index) {
        for sender in senders().iter().filter(|sender| sender.signs_body) {
            let mut request = sender.request();
            flip(&mut request.body, which);
            sender.must_refuse(&request, "body");
        }
    }

    #[test]
    fn a_body_with_bytes_added_or_cut_is_refused(cut in 0..BODY.len(), extra in 1u8..) {
        for sender in senders().iter().filter(|sender| sender.signs_body) {
            let mut request = sender.request();
            request.body.push(extra);
            sender.must_refuse(&request, "longer");
            request.body.truncate(cut);
            sender.must_refuse(&request, "shorter");
        }
    }

    #[test]
    fn a_signed_header_with_any_bit_flipped_is_refused(which: Index) {
        for sender in senders() {
            for &name in sender.headers {
                let mut request = sender.request();
                let mut bytes = request.headers[name].as_bytes().to_vec();
                flip(&mut bytes, which);
                let by_value = name == sender.headers[0] && !sender.case_matters
                    || name == "authorization";
                if by_value && bytes.eq_ignore_ascii_case(request.headers[name].as_bytes()) {
                    continue;
                }
                // Some flips make a byte that no header can hold: the HTTP parser refuses those.
                let Ok(value) = HeaderValue::from_bytes(&bytes) else { continue };
                request.headers.insert(name, value);
                sender.must_refuse(&request, name);
            }
        }
    }

    #[test]
    fn no_header_makes_a_check_panic_or_pass(value in "[ -~]{0,80}") {
        for sender in senders() {
            for &name in sender.headers {
                let mut request = sender.request();
                if request.headers[name] == value.as_str() {
                    continue;
                }
                request.headers.insert(name, HeaderValue::from_str(&value).unwrap());
                sender.must_refuse(&request, name);
            }
        }
    }
}
