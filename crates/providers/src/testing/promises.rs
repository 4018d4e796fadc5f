//! What every signature check promises, tried on every provider and on the generic one in many shapes.

use std::collections::HashSet;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use proptest::prelude::*;
use proptest::sample::Index;
use wakepost_domain::Timestamp;

use super::{Counting, NOW, settings, verify_with};
use crate::{
    Keys, Provider, Refusal, Settings, SignedHeader, SignedRequest, Verified, Why, registry,
    standard,
};

/// One way of signing.
struct Sender {
    provider: &'static dyn Provider,
    settings: Settings,
    keys: Keys,
    /// Another sender's keys.
    other_keys: Keys,
    headers: Vec<SignedHeader>,
    signs_body: bool,
    signs_time: bool,
}

impl Sender {
    fn of(provider: &'static dyn Provider, settings: Settings) -> Sender {
        let entropy = Counting::default();
        let keys = || provider.sample_keys(&settings, &entropy);
        let (keys, other_keys) = (keys(), keys());
        Sender::with_keys(provider, settings, keys, other_keys)
    }

    fn with_keys(
        provider: &'static dyn Provider,
        settings: Settings,
        keys: Keys,
        other_keys: Keys,
    ) -> Sender {
        let mut sender = Sender {
            provider,
            headers: provider.signed_headers(&settings),
            signs_body: provider.facts_for(&settings).signs_body,
            signs_time: false,
            settings,
            keys,
            other_keys,
        };
        let verified = sender.verify(&sender.request(), &[&sender.keys.verifies]);
        let verified = verified.unwrap_or_else(|why| panic!("{}: {why}", provider.name()));
        sender.signs_time = verified.signed_at.is_some();
        sender
    }

    fn request(&self) -> SignedRequest {
        self.request_with(&self.keys.signs, NOW)
    }

    fn request_with(&self, key: &str, at: Timestamp) -> SignedRequest {
        let sample = self.provider.samples()[0];
        let mut request = sample.request("https://hooks.example/in/src_1?a=b", "7001", at);
        self.provider.sign(&mut request, key, &self.settings, "7001", at).unwrap();
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
        verify_with(self.provider, request, keys, &self.settings, now)
    }

    fn must_refuse(&self, request: &SignedRequest, what: &str) {
        let refused = self.verify(request, &[&self.keys.verifies]);
        let name = format!("{} {:?}", self.provider.name(), self.settings);
        assert!(matches!(refused, Err(Refusal::Signature(_))), "{name}, {what}: {refused:?}");
    }

    /// A changed body is refused; or, where the signature cannot tell the two apart, it says the very same.
    fn must_not_be_misled(&self, changed: &SignedRequest, what: &str) {
        let signed = self.request();
        let (signed, received) = (signed.as_request(), changed.as_request());
        if !self.provider.says_the_same(&signed, &received) {
            return self.must_refuse(changed, what);
        }
        let name = self.provider.name();
        assert!(self.verify(changed, &[&self.keys.verifies]).is_ok(), "{name}, {what}");
        let map = |request| self.provider.map(request, &self.settings);
        assert_eq!(map(&signed), map(&received), "{name}, {what}");
        let data = |request| self.provider.data(request, 0);
        assert_eq!(data(&signed), data(&received), "{name}, {what}");
    }
}

/// Every provider with the settings it needs, and the ones that can sign in several ways in each of them.
fn senders() -> Vec<Sender> {
    let usual = |provider: &&'static dyn Provider| {
        Sender::of(*provider, crate::examples(provider.settings()))
    };
    let generic =
        |pairs: &[(&str, &str)]| Sender::of(registry::find("generic").unwrap(), settings(pairs));
    let entropy = Counting::default();
    let pair = || standard::generate_key_pair(&entropy);
    let standard = registry::find("standard-webhooks").unwrap();
    let gitlab = registry::find("gitlab").unwrap();
    registry::all()
        .iter()
        .map(usual)
        .chain([
            Sender::with_keys(standard, Settings::new(), pair(), pair()),
            Sender::of(gitlab, settings(&[("verification", "signature")])),
            generic(&[("header", "X-Sig"), ("algorithm", "hmac-sha1"), ("prefix", "sha1=")]),
            generic(&[
                ("header", "X-Sig"),
                ("algorithm", "hmac-sha512"),
                ("encoding", "base64"),
                ("separator", ","),
            ]),
            generic(&[
                ("header", "X-Sig"),
                ("encoding", "base64url"),
                ("content", "{method} {url} {id} {timestamp} {body}"),
                ("timestamp_header", "X-Time"),
                ("timestamp_unit", "ms"),
                ("id_header", "X-Id"),
            ]),
            generic(&[
                ("header", "X-Sig"),
                ("content", "{timestamp}{body}"),
                ("timestamp_header", "X-Time"),
                ("timestamp_unit", "rfc3339"),
            ]),
            generic(&[("header", "X-Sig"), ("algorithm", "ed25519")]),
            generic(&[("header", "X-Token"), ("algorithm", "token"), ("prefix", "Token ")]),
            generic(&[("algorithm", "basic")]),
        ])
        .collect()
}

#[test]
fn a_request_signed_with_any_live_secret_is_accepted_and_says_which() {
    for sender in senders() {
        let (first, second) = (&sender.keys.verifies, &sender.other_keys.verifies);
        let signed_at = sender.signs_time.then_some(NOW);
        for (keys, secret_index) in
            [(vec![first.as_str()], 0), (vec![first, second], 0), (vec![second, first], 1)]
        {
            let verified = sender.verify(&sender.request(), &keys);
            assert_eq!(
                verified,
                Ok(Verified { secret_index, signed_at }),
                "{}",
                sender.provider.name()
            );
        }
    }
}

#[test]
fn every_sample_is_accepted_and_maps_to_its_type() {
    for provider in registry::all() {
        let settings = crate::examples(provider.settings());
        let keys = provider.sample_keys(&settings, &Counting::default());
        assert_eq!(provider.check_config(Some(&keys.verifies), &settings).err(), None);
        let mut seen = HashSet::new();
        for sample in provider.samples() {
            let name = format!("{} {}", provider.name(), sample.event_type);
            assert!(seen.insert(sample.event_type), "{name} is there twice");
            let keys_of = |id: &str| {
                let mut request = sample.request("https://hooks.example/in/src_1", id, NOW);
                provider.sign(&mut request, &keys.signs, &settings, id, NOW).unwrap();
                let verdict = verify_with(*provider, &request, &[&keys.verifies], &settings, NOW);
                assert!(verdict.is_ok(), "{name}: {verdict:?}");
                let events = provider.map(&request.as_request(), &settings).unwrap();
                assert_eq!(events[0].event_type, sample.event_type);
                for part in 0..events.len() {
                    let data = provider.data(&request.as_request(), part);
                    assert!(!data.is_null() || request.body.is_empty(), "{name} has no data");
                }
                (events, request.body)
            };
            let ((first, first_body), (second, second_body)) = (keys_of("7001"), keys_of("7002"));
            for (first, second) in first.iter().zip(&second) {
                match &first.dedup_key {
                    Some(key) => assert_ne!(Some(key), second.dedup_key.as_ref(), "{name}"),
                    None => assert_ne!(first_body, second_body, "{name}"),
                }
            }
        }
        assert!(!seen.is_empty(), "{} has no sample", provider.name());
    }
}

#[test]
fn only_the_half_of_a_pair_that_cannot_sign_is_public() {
    for sender in senders() {
        let Keys { signs, verifies } = &sender.keys;
        let is_public = sender.provider.is_public(verifies, &sender.settings);
        assert_eq!(is_public, signs != verifies, "{}", sender.provider.name());
    }
}

#[test]
fn a_request_signed_with_another_secret_is_refused() {
    for sender in senders() {
        let refused = sender.verify(&sender.request(), &[&sender.other_keys.verifies]);
        assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)), "{}", sender.provider.name());
    }
}

#[test]
fn a_source_without_a_secret_is_not_ready_and_accepts_nothing() {
    for sender in senders() {
        for keys in [&[][..], &[""]] {
            let refused = sender.verify(&sender.request(), keys);
            assert!(matches!(refused, Err(Refusal::Unready(_))), "{}", sender.provider.name());
        }
    }
}

#[test]
fn a_missing_empty_doubled_or_unreadable_header_is_refused() {
    for sender in senders() {
        for header in &sender.headers {
            let name = &*header.name;
            let mut request = sender.request();
            let value = request.headers.remove(name).unwrap();
            sender.must_refuse(&request, "missing");
            request.headers.insert(named(header), HeaderValue::from_static(""));
            sender.must_refuse(&request, "empty");
            let unreadable = HeaderValue::from_bytes(b"\xff\xfe").unwrap();
            request.headers.insert(named(header), unreadable);
            sender.must_refuse(&request, "unreadable");
            request.headers.insert(named(header), value.clone());
            request.headers.append(named(header), value);
            sender.must_refuse(&request, "doubled");
        }
    }
}

#[test]
fn a_signed_time_may_be_off_by_the_tolerance_either_way_and_no_more() {
    let second = Duration::from_secs(1);
    for sender in senders().iter().filter(|sender| sender.signs_time) {
        let tolerance = sender.provider.facts().tolerance;
        let keys = [sender.keys.verifies.as_str()];
        for at in [NOW.before(tolerance), NOW.after(tolerance)] {
            let request = sender.request_with(&sender.keys.signs, at);
            assert!(sender.verify(&request, &keys).is_ok(), "{}", sender.provider.name());
        }
        for (at, is_ahead) in
            [(NOW.before(tolerance + second), false), (NOW.after(tolerance + second), true)]
        {
            let request = sender.request_with(&sender.keys.signs, at);
            match sender.verify(&request, &keys) {
                Err(Refusal::Stale { off, ahead, .. }) => {
                    assert_eq!((off, ahead), (tolerance + second, is_ahead));
                }
                other => panic!("{}: {other:?}", sender.provider.name()),
            }
            let refused = sender.verify(&request, &[&sender.other_keys.verifies]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "forged before stale");
        }
    }
}

#[test]
fn a_refusal_never_repeats_a_secret() {
    for sender in senders() {
        let mut request = sender.request();
        if let Some(header) = sender.headers.first() {
            request.headers.remove(&*header.name);
        } else {
            request.body.clear();
        }
        for refusal in [
            sender.verify(&request, &[&sender.keys.verifies]).unwrap_err(),
            sender.verify(&sender.request(), &[&sender.other_keys.verifies]).unwrap_err(),
        ] {
            for secret in [&sender.keys.verifies, &sender.other_keys.verifies] {
                assert!(!format!("{refusal} {refusal:?}").contains(secret.as_str()));
            }
        }
    }
}

fn named(header: &SignedHeader) -> HeaderName {
    HeaderName::try_from(&*header.name).unwrap()
}

fn flip(bytes: &mut [u8], which: Index) {
    let bit = which.index(bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
}

proptest! {
    #[test]
    fn a_body_with_any_bit_flipped_is_refused_or_says_the_same(which: Index) {
        for sender in senders().iter().filter(|sender| sender.signs_body) {
            let mut request = sender.request();
            flip(&mut request.body, which);
            sender.must_not_be_misled(&request, "body");
        }
    }

    #[test]
    fn a_body_with_bytes_added_or_cut_is_refused_or_says_the_same(cut: Index, extra in 1u8..) {
        for sender in senders().iter().filter(|sender| sender.signs_body) {
            let mut request = sender.request();
            let length = request.body.len();
            request.body.push(extra);
            sender.must_not_be_misled(&request, "longer");
            request.body.truncate(cut.index(length));
            sender.must_not_be_misled(&request, "shorter");
        }
    }

    #[test]
    fn a_signed_header_with_any_bit_flipped_is_refused(which: Index) {
        for sender in senders() {
            for header in &sender.headers {
                let mut request = sender.request();
                let good = request.headers[&*header.name].as_bytes();
                let mut bytes = good.to_vec();
                flip(&mut bytes, which);
                if header.any_case && bytes.eq_ignore_ascii_case(good) {
                    continue;
                }
                // Some flips make a byte that no header can hold: the HTTP parser refuses those.
                let Ok(value) = HeaderValue::from_bytes(&bytes) else { continue };
                request.headers.insert(named(header), value);
                sender.must_refuse(&request, &header.name);
            }
        }
    }

    #[test]
    fn no_header_makes_a_check_panic_or_pass(value in "[ -~]{0,80}") {
        for sender in senders() {
            for header in &sender.headers {
                let mut request = sender.request();
                if request.headers[&*header.name] == value.as_str() {
                    continue;
                }
                request.headers.insert(named(header), HeaderValue::from_str(&value).unwrap());
                sender.must_refuse(&request, &header.name);
            }
        }
    }
}
