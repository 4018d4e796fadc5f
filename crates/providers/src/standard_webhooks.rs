//! Standard Webhooks, and so every sender that signs as Svix does, under either set of header names.

use std::time::Duration;

use http::HeaderMap;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::ports::Entropy;

use crate::freshness::Unit;
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SecretNeed, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::signature::{CANDIDATES_MAX, Encoding};
use crate::standard::{self, Key};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

/// Any sender that follows the Standard Webhooks specification.
pub(crate) struct StandardWebhooks;

impl Provider for StandardWebhooks {
    fn name(&self) -> &'static str {
        "standard-webhooks"
    }

    fn facts(&self) -> Facts {
        Facts {
            patience: Duration::from_secs(15),
            secret: SecretNeed::Generated,
            ..Facts::usual("Standard Webhooks")
        }
    }

    fn steps(&self, webhook_url: &str) -> Vec<String> {
        vec![format!("Give the sender the address {webhook_url} and the source's secret.")]
    }

    fn check_secret(&self, secret: &str, _: &Settings) -> Result<(), ConfigError> {
        checking_key(secret).map(|_| ())
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        [WEBHOOK.signature, WEBHOOK.id, WEBHOOK.time].map(SignedHeader::exact).into()
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        verify(Names::of(request.headers), request, check)
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let id = header::one(request.headers, Names::of(request.headers).id)?;
        let [event_type, timestamp] = payload::pick(request.body, ["/type", "/timestamp"])?;
        mapping::one(Mapped {
            dedup_key: Some(id.to_owned()),
            // The specification recommends a type but does not require one.
            event_type: event_type.map_or_else(|| "event".to_owned(), |text| text.into_owned()),
            occurred_at: timestamp.and_then(|text| Unit::Rfc3339.read(&text)),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    fn is_public(&self, secret: &str, _: &Settings) -> bool {
        matches!(Key::read(secret), Ok(Key::Public(_)))
    }

    fn generate_secret(&self, _: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Some(standard::generate_secret(entropy))
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        _: &Settings,
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        sign(&WEBHOOK, request, secret, id, now)
    }
}

static SAMPLES: &[Sample] = &[Sample::json(
    "contact.created",
    include_str!("../fixtures/standard-webhooks/contact.created.json"),
)];

/// Checks a request that has its proof under these names, for whoever signs in this way.
pub(crate) fn verify(
    names: &Names,
    request: &Request<'_>,
    check: &Check<'_>,
) -> Result<Verified, Refusal> {
    let given = header::one(request.headers, names.signature)?;
    let id = header::one(request.headers, names.id)?;
    let time_text = header::one(request.headers, names.time)?;
    let time = Unit::Seconds
        .read(time_text)
        .ok_or_else(|| Why::malformed(names.time, Unit::Seconds.expected()))?;
    if given.split(' ').count() > CANDIDATES_MAX || signatures(given, None).is_empty() {
        let expected = "one to 16 signatures, each v1, or v1a, and base64";
        return Err(Why::malformed(names.signature, expected).into());
    }
    let parts = standard::content(id, time_text, request.body);
    let secret_index = check.secret_that(|secret| {
        let (key, version) = checking_key(secret)?;
        Ok(key.fits(&parts, &signatures(given, Some(version))))
    })?;
    check.fresh(time)?;
    Ok(Verified { secret_index, signed_at: Some(time) })
}

/// Signs a request under these names.
pub(crate) fn sign(
    names: &Names,
    request: &mut SignedRequest,
    secret: &str,
    id: &str,
    now: Timestamp,
) -> Result<(), ConfigError> {
    let signature = standard::sign(secret, id, now, &request.body)?;
    request.set(names.id, id)?;
    request.set(names.time, &Unit::Seconds.write(now))?;
    request.set(names.signature, &signature)
}

/// The three headers under one set of names.
pub(crate) struct Names {
    pub(crate) id: &'static str,
    pub(crate) time: &'static str,
    pub(crate) signature: &'static str,
}

static WEBHOOK: Names =
    Names { id: "webhook-id", time: "webhook-timestamp", signature: "webhook-signature" };
/// The names that Svix uses.
pub(crate) static SVIX: Names =
    Names { id: "svix-id", time: "svix-timestamp", signature: "svix-signature" };

impl Names {
    /// One set or the other, never mixed, and the same for verifying and mapping: the id that makes a
    /// duplicate must be the id that was signed.
    fn of(headers: &HeaderMap) -> &'static Names {
        let svix_only =
            headers.contains_key(SVIX.signature) && !headers.contains_key(WEBHOOK.signature);
        if svix_only { &SVIX } else { &WEBHOOK }
    }
}

/// The well-formed signatures in the header, of one version or of both.
fn signatures(header: &str, version: Option<&str>) -> Vec<Vec<u8>> {
    header
        .split(' ')
        .filter_map(|item| item.split_once(','))
        .filter(|(given, _)| version.map_or(matches!(*given, "v1" | "v1a"), |v| v == *given))
        .filter_map(|(_, text)| Encoding::Base64.decode(text))
        .collect()
}

/// The key and the version it checks.
pub(crate) fn checking_key(secret: &str) -> Result<(Key, &'static str), ConfigError> {
    let key = Key::read(secret)?;
    let version = key.checks().ok_or_else(|| {
        ConfigError::new("secret", "is the sender's private key; give its public key, whpk_…")
    })?;
    Ok((key, version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, Counting, NOW, map, verify_at};

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const GOOD: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const AT: Timestamp = Timestamp::from_secs(1_614_265_330);

    fn vector(names: &Names) -> SignedRequest {
        let mut request =
            SignedRequest::post("https://hooks.example/in/src_1", r#"{"test": 2432232314}"#);
        request.set(names.id, "msg_p5jXN8AQM9LWM0D4loKWxJek").unwrap();
        request.set(names.time, "1614265330").unwrap();
        request.set(names.signature, GOOD).unwrap();
        request
    }

    fn verdict(request: &SignedRequest) -> Result<Verified, Refusal> {
        verify_at(&StandardWebhooks, request, &[SECRET], AT)
    }

    #[test]
    fn the_published_vector_is_accepted_under_both_sets_of_names() {
        for names in [&WEBHOOK, &SVIX] {
            let request = vector(names);
            let expected = Verified { secret_index: 0, signed_at: Some(AT) };
            assert_eq!(verdict(&request), Ok(expected));
            let mapped = map(&StandardWebhooks, &request).unwrap();
            assert_eq!(mapped.dedup_key.as_deref(), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));
            assert_eq!(mapped.event_type, "event");
        }
    }

    #[test]
    fn the_two_sets_of_names_are_never_mixed() {
        let mut request = vector(&SVIX);
        request.set(WEBHOOK.id, "msg_other").unwrap();
        assert!(verdict(&request).is_ok());
        let mapped = map(&StandardWebhooks, &request).unwrap();
        assert_eq!(mapped.dedup_key.as_deref(), Some("msg_p5jXN8AQM9LWM0D4loKWxJek"));

        let mut request = vector(&SVIX);
        request.set(WEBHOOK.signature, GOOD).unwrap();
        assert!(matches!(verdict(&request), Err(Refusal::Signature(Why::Missing(_)))));
    }

    #[test]
    fn one_good_signature_among_several_is_enough() {
        let zeros = Encoding::Base64.encode(&[0; 32]);
        for good in [
            format!("v1,{zeros} {GOOD}"),
            format!("{GOOD} v1a,{zeros}"),
            format!("v1, v2,x junk {GOOD}"),
        ] {
            let mut request = vector(&WEBHOOK);
            request.set(WEBHOOK.signature, &good).unwrap();
            assert!(verdict(&request).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_malformed_signature_is_refused() {
        let tag = &GOOD["v1,".len()..];
        for bad in [
            "v1,".to_owned(),
            "v1".to_owned(),
            " ".to_owned(),
            tag.to_owned(),
            format!("v2,{tag}"),
            format!("v1a,{tag}"),
            format!("V1,{tag}"),
            format!("v1,{}", tag.trim_end_matches('=')),
            format!("v1,{}", tag.replace("E=", "F=")),
            format!("v1,{tag}="),
            format!("v1,{}", &tag[..40]),
            format!("{}{GOOD}", "v1,AAAA ".repeat(16)),
        ] {
            let mut request = vector(&WEBHOOK);
            request.set(WEBHOOK.signature, &bad).unwrap();
            let refused = verdict(&request);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn a_malformed_time_is_a_bad_signature_and_never_a_stale_one() {
        for bad in ["1614265330x", "-1614265330", "1614265330000", "1614265330.0", " 1614265330"] {
            let mut request = vector(&WEBHOOK);
            request.set(WEBHOOK.time, bad).unwrap();
            assert!(matches!(verdict(&request), Err(Refusal::Signature(_))), "{bad}");
        }
    }

    #[test]
    fn a_public_key_checks_v1a_only_and_a_shared_secret_v1_only() {
        let private = standard::generate_private_key(&Counting::default());
        let public = standard::public_key(&private).unwrap();
        let mut request = SignedRequest::post("https://hooks.example/", "{}");
        StandardWebhooks.sign(&mut request, &private, &Settings::new(), "msg_1", NOW).unwrap();
        let verified = testing::verify(&StandardWebhooks, &request, &[SECRET, &public]).unwrap();
        assert_eq!(verified.secret_index, 1);
        // An HMAC keyed with the public key's bytes, which everybody knows, must not pass.
        let forged = public.replace("whpk_", "whsec_");
        StandardWebhooks.sign(&mut request, &forged, &Settings::new(), "msg_1", NOW).unwrap();
        let refused = testing::verify(&StandardWebhooks, &request, &[&public]);
        assert_eq!(refused, Err(Refusal::Signature(Why::Mismatch)));
    }

    #[test]
    fn a_private_key_is_not_a_receivers_secret() {
        let private = standard::generate_private_key(&Counting::default());
        let settings = Settings::new();
        assert!(StandardWebhooks.check_config(Some(&private), &settings).is_err());
        assert!(StandardWebhooks.check_config(Some("whsec_%"), &settings).is_err());
        assert_eq!(StandardWebhooks.check_config(Some(SECRET), &settings), Ok(vec![]));
        let missing = StandardWebhooks.check_config(None, &settings);
        assert_eq!(missing, Ok(vec!["secret".to_owned()]));
    }

    #[test]
    fn an_event_says_its_type_and_when_it_happened() {
        let body = r#"{"type":"invoice.paid","timestamp":"2021-02-25T15:02:10Z","data":{}}"#;
        let mut request = SignedRequest::post("https://hooks.example/", body);
        StandardWebhooks.sign(&mut request, SECRET, &Settings::new(), "msg_1", NOW).unwrap();
        let mapped = map(&StandardWebhooks, &request).unwrap();
        assert_eq!(mapped.event_type, "invoice.paid");
        assert_eq!(mapped.occurred_at, Some(AT));
        assert_eq!(mapped.dedup_key.as_deref(), Some("msg_1"));
    }
}
