//! Whether a request really came from Wakepost: the Standard Webhooks scheme, for those who receive.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use http::HeaderMap;

/// How far the time of a request may be from ours, unless the receiver says otherwise.
const TOLERANCE: Duration = Duration::from_secs(300);

/// Checks requests with one secret, or with several while one takes another's place.
///
/// ```
/// use wakepost_client::Verifier;
///
/// # fn receive(headers: &http::HeaderMap, body: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
/// let verifier = Verifier::new(["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])?;
/// verifier.verify(headers, body)?; // the exact bytes, before anything parses them
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Verifier {
    keys: Vec<Key>,
    tolerance: Duration,
}

/// Why a request is not to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// A secret is not one: `whsec_…` verifies `v1`, `whpk_…` verifies `v1a`.
    #[error("a secret must be whsec_ or whpk_ and base64")]
    Secret,
    /// A header is missing, doubled or malformed.
    #[error(
        "webhook-id, webhook-timestamp and webhook-signature must be there, once and well formed"
    )]
    Headers,
    /// The request is too old, or from the future.
    #[error("the request's time is too far off")]
    Time,
    /// No signature fits.
    #[error("no signature fits")]
    Signature,
}

#[derive(Clone)]
enum Key {
    Shared(Box<hmac::Key>),
    Public(Vec<u8>),
}

impl Verifier {
    /// A verifier with these secrets, any of which may fit: `whsec_…`, or `whpk_…` for Ed25519.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Result<Verifier, VerifyError> {
        let keys = secrets.into_iter().map(Key::read).collect::<Result<Vec<_>, _>>()?;
        match keys.is_empty() {
            true => Err(VerifyError::Secret),
            false => Ok(Verifier { keys, tolerance: TOLERANCE }),
        }
    }

    /// With another tolerance than 5 minutes either way.
    pub fn tolerance(mut self, tolerance: Duration) -> Verifier {
        self.tolerance = tolerance;
        self
    }

    /// Checks a request: its headers, and the exact bytes of its body.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(), VerifyError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.verify_at(headers, body, now.as_secs())
    }

    fn verify_at(&self, headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), VerifyError> {
        let id = only(headers, "webhook-id")?;
        let time = only(headers, "webhook-timestamp")?;
        let signatures = only(headers, "webhook-signature")?;
        if !time.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(VerifyError::Headers);
        }
        let at: u64 = time.parse().map_err(|_| VerifyError::Headers)?;
        if at.abs_diff(now) > self.tolerance.as_secs() {
            return Err(VerifyError::Time);
        }
        let content = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        let fits = signatures.split(' ').filter_map(|signature| signature.split_once(',')).any(
            |(version, text)| {
                let Ok(signature) = STANDARD.decode(text) else { return false };
                self.keys.iter().any(|key| key.fits(version, &content, &signature))
            },
        );
        if fits { Ok(()) } else { Err(VerifyError::Signature) }
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier(…)")
    }
}

impl Key {
    fn read(secret: &str) -> Result<Key, VerifyError> {
        let decode = |text: &str| {
            let text = text.trim_end_matches('=');
            STANDARD_NO_PAD.decode(text).ok().filter(|key| !key.is_empty())
        };
        let key = match secret.strip_prefix("whpk_") {
            Some(text) => decode(text).filter(|key| key.len() == 32).map(Key::Public),
            None => decode(secret.strip_prefix("whsec_").unwrap_or(secret))
                .map(|key| Key::Shared(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &key)))),
        };
        key.ok_or(VerifyError::Secret)
    }

    /// Whether a signature of this version is good. The comparison takes the same time wherever it fails.
    fn fits(&self, version: &str, content: &[u8], signature: &[u8]) -> bool {
        match (self, version) {
            (Key::Shared(key), "v1") => hmac::verify(key, content, signature).is_ok(),
            (Key::Public(key), "v1a") => {
                UnparsedPublicKey::new(&ED25519, key).verify(content, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// A header that must be there once, as text.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok().filter(|text| !text.is_empty()),
        _ => None,
    }
    .ok_or(VerifyError::Headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scheme's own published vector.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const OTHER: &str = "whsec_b3RoZXItc2VjcmV0LW90aGVyLXNlY3JldA==";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const AT: u64 = 1_614_265_330;

    fn headers(time: &str, signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().expect("a value"));
        headers.insert("webhook-timestamp", time.parse().expect("a value"));
        headers.insert("webhook-signature", signature.parse().expect("a value"));
        headers
    }

    fn verify(secrets: &[&str], time: &str, signature: &str) -> Result<(), VerifyError> {
        let verifier = Verifier::new(secrets.iter().copied()).expect("secrets");
        verifier.verify_at(&headers(time, signature), BODY, AT)
    }

    #[test]
    fn the_published_vector_is_believed_and_nothing_else() {
        let time = AT.to_string();
        assert_eq!(verify(&[SECRET], &time, SIGNATURE), Ok(()));
        assert_eq!(verify(&[OTHER, SECRET], &time, SIGNATURE), Ok(()), "while secrets change");
        let several = format!("v1,AAAA v2,x {SIGNATURE}");
        assert_eq!(verify(&[SECRET], &time, &several), Ok(()), "one of several is good");
        assert_eq!(verify(&[OTHER], &time, SIGNATURE), Err(VerifyError::Signature));
        for wrong in ["v1,", "v1", "v1a,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", "x"] {
            assert_eq!(verify(&[SECRET], &time, wrong), Err(VerifyError::Signature), "{wrong}");
        }
        let verifier = Verifier::new([SECRET]).expect("a secret");
        let other = verifier.verify_at(&headers(&time, SIGNATURE), b"{}", AT);
        assert_eq!(other, Err(VerifyError::Signature));
    }

    #[test]
    fn a_time_that_is_off_or_no_time_is_refused() {
        for late in [AT - 301, AT + 301] {
            assert_eq!(verify(&[SECRET], &late.to_string(), SIGNATURE), Err(VerifyError::Time));
        }
        for odd in ["+1614265330", "-1", "1614265330x", "99999999999999999999999"] {
            assert_eq!(verify(&[SECRET], odd, SIGNATURE), Err(VerifyError::Headers), "{odd}");
        }
        let mut doubled = headers(&AT.to_string(), SIGNATURE);
        doubled.append("webhook-timestamp", AT.into());
        let verifier = Verifier::new([SECRET]).expect("a secret");
        assert_eq!(verifier.verify_at(&doubled, BODY, AT), Err(VerifyError::Headers));
    }

    #[test]
    fn a_public_key_verifies_what_its_private_half_signed() {
        use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a pair");
        let public = format!("whpk_{}", STANDARD.encode(pair.public_key()));
        let content = format!("msg_p5jXN8AQM9LWM0D4loKWxJek.{AT}.");
        let signed = pair.sign(&[content.as_bytes(), BODY].concat());
        let signature = format!("v1a,{}", STANDARD.encode(signed.as_ref()));
        assert_eq!(verify(&[&public], &AT.to_string(), &signature), Ok(()));
        assert_eq!(verify(&[SECRET], &AT.to_string(), &signature), Err(VerifyError::Signature));
    }

    #[test]
    fn what_is_no_secret_is_refused_at_once() {
        for wrong in ["", "whsec_", "whpk_AAAA", "whsec_not base64!"] {
            assert_eq!(Verifier::new([wrong]).err(), Some(VerifyError::Secret), "{wrong}");
        }
        assert_eq!(Verifier::new([]).err(), Some(VerifyError::Secret));
    }
}
