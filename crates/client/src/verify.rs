//! Whether a request really came from Wakepost: the Standard Webhooks scheme, for those who receive.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use http::HeaderMap;
use serde::Deserialize;

/// How far the time of a request may be from ours, unless the receiver says otherwise.
const TOLERANCE: Duration = Duration::from_secs(300);
/// More signatures than this in one request is an attempt to make us work.
const SIGNATURES_MAX: usize = 16;
/// The longest text of a signature: 64 bytes, written in hex.
const SIGNATURE_CHARS_MAX: usize = 128;
/// More digits than this are not seconds.
const TIME_DIGITS_MAX: usize = 12;

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
    /// A secret is not one: `whsec_…` or plain text verifies `v1`; a public key, `whpk_…` or one entry of the key set,
    /// verifies `v1a`.
    #[error(
        "a secret must be whsec_ and base64, whpk_ and a public key in base64, one Ed25519 key of the key set, or \
         plain text"
    )]
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
    /// A verifier with these secrets, any of which may fit: `whsec_…` or plain text; for Ed25519 `whpk_…`, or the
    /// webhook's entry in `/.well-known/wakepost-keys`, as JSON.
    ///
    /// Not the whole set: the other keys in it sign for other webhooks, and so for other people.
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

    /// As [`Verifier::verify`], at another time than now (Unix seconds).
    pub fn verify_at(&self, headers: &HeaderMap, body: &[u8], now: u64) -> Result<(), VerifyError> {
        let names = Names::in_use(headers);
        let id = only(headers, names.id)?;
        let time = only(headers, names.time)?;
        let at = seconds(time).ok_or(VerifyError::Headers)?;
        let signatures = signatures(only(headers, names.signature)?)?;
        if at.abs_diff(now) > self.tolerance.as_secs() {
            return Err(VerifyError::Time);
        }
        let content = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        match self.keys.iter().any(|key| key.fits(&content, &signatures)) {
            true => Ok(()),
            false => Err(VerifyError::Signature),
        }
    }
}

impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier(…)")
    }
}

impl Key {
    /// Reads a key as the scheme's own libraries do: `whsec_` or nothing, then base64; other text as it is. Its form
    /// says which version it checks, so that a public key never passes for a shared secret.
    fn read(secret: &str) -> Result<Key, VerifyError> {
        // Supabase writes the version before the secret.
        let secret = match secret.strip_prefix("v1,") {
            Some(rest) if rest.starts_with("whsec_") => rest,
            _ => secret,
        };
        // Padded or not: people copy keys by hand.
        let decode = |text: &str| STANDARD_NO_PAD.decode(text.trim_end_matches('=')).ok();
        if secret.starts_with("whsk_") {
            return Err(VerifyError::Secret);
        }
        // Never plain text, even if it is no key: everybody knows a public key, and could sign with its text.
        if secret.trim_start().starts_with('{') {
            let entry = serde_json::from_str::<PublicJwk>(secret).ok();
            return entry.and_then(PublicJwk::key).map(Key::Public).ok_or(VerifyError::Secret);
        }
        if let Some(text) = secret.strip_prefix("whpk_") {
            let key = decode(text).filter(|key| key.len() == 32).map(Key::Public);
            return key.ok_or(VerifyError::Secret);
        }
        let key = match secret.strip_prefix("whsec_") {
            Some(text) => decode(text).unwrap_or_default(),
            None => decode(secret).unwrap_or_else(|| secret.into()),
        };
        match key.is_empty() {
            true => Err(VerifyError::Secret),
            false => Ok(Key::Shared(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &key)))),
        }
    }

    /// Whether one of the signatures is good. A shared key is used once, however many there are, and the comparison
    /// takes the same time wherever it fails.
    fn fits(&self, content: &[u8], signatures: &[(&str, Vec<u8>)]) -> bool {
        let of = |wanted: &'static str| {
            let found = signatures.iter().filter(move |(version, _)| *version == wanted);
            found.map(|(_, signature)| signature)
        };
        match self {
            Key::Shared(key) => {
                let tag = hmac::sign(key, content);
                of("v1").any(|signature| verify_slices_are_equal(tag.as_ref(), signature).is_ok())
            }
            Key::Public(key) => {
                let key = UnparsedPublicKey::new(&ED25519, key);
                of("v1a").any(|signature| key.verify(content, signature).is_ok())
            }
        }
    }
}

/// A public Ed25519 key as a key set has it (RFC 8037).
#[derive(Deserialize)]
struct PublicJwk {
    kty: String,
    crv: String,
    x: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    d: Option<serde::de::IgnoredAny>,
}

impl PublicJwk {
    /// Its bytes, unless it is of another kind, for another purpose, or has the private half with it.
    fn key(self) -> Option<Vec<u8>> {
        let is = |field: &Option<String>, allowed: &[&str]| {
            field.as_deref().is_none_or(|text| allowed.contains(&text))
        };
        let fits = self.kty == "OKP"
            && self.crv == "Ed25519"
            && self.d.is_none()
            && is(&self.purpose, &["sig"])
            && is(&self.alg, &["EdDSA", "Ed25519"]);
        URL_SAFE_NO_PAD.decode(&self.x).ok().filter(|key| fits && key.len() == 32)
    }
}

/// What the headers are called.
struct Names {
    id: &'static str,
    time: &'static str,
    signature: &'static str,
}

const WEBHOOK: Names =
    Names { id: "webhook-id", time: "webhook-timestamp", signature: "webhook-signature" };
const SVIX: Names = Names { id: "svix-id", time: "svix-timestamp", signature: "svix-signature" };

impl Names {
    /// One set of names or the other, never mixed.
    fn in_use(headers: &HeaderMap) -> &'static Names {
        let has = |name| headers.contains_key(name);
        if has(SVIX.signature) && !has(WEBHOOK.signature) { &SVIX } else { &WEBHOOK }
    }
}

/// A header that must be there once, as plain text.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    let mut values = headers.get_all(name).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    };
    let is_plain = |text: &&str| !text.is_empty() && text.bytes().all(|b| matches!(b, b' '..=b'~'));
    value.filter(is_plain).ok_or(VerifyError::Headers)
}

fn seconds(text: &str) -> Option<u64> {
    let digits = text.len() <= TIME_DIGITS_MAX && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// The well-formed signatures in the header. Those of versions that are not known may stand beside them.
fn signatures(header: &str) -> Result<Vec<(&str, Vec<u8>)>, VerifyError> {
    let mut found = Vec::new();
    for (index, item) in header.split(' ').enumerate() {
        let (version, text) = item.split_once(',').unwrap_or((item, ""));
        // A header that was sent twice may arrive as one, joined by a comma and a space.
        if index >= SIGNATURES_MAX || text.contains(',') {
            return Err(VerifyError::Headers);
        }
        if text.is_empty() || text.len() > SIGNATURE_CHARS_MAX {
            continue;
        }
        // Canonical base64 alone, so that no second text of a signature can pass for a new one.
        found.extend(STANDARD.decode(text).ok().map(|signature| (version, signature)));
    }
    Ok(found)
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
        for odd in ["+1614265330", "-1", "1614265330x", "99999999999999999999999", "0001614265330"]
        {
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
        let entry = jwk(&URL_SAFE_NO_PAD.encode(pair.public_key()));
        assert_eq!(verify(&[&entry], &AT.to_string(), &signature), Ok(()));
    }

    /// An entry of the key set.
    fn jwk(x: &str) -> String {
        format!(
            r#"{{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"wh_1","x":"{x}"}}"#
        )
    }

    #[test]
    fn an_entry_of_another_kind_a_private_key_or_a_whole_set_is_no_key() {
        let good = jwk(&URL_SAFE_NO_PAD.encode([7; 32]));
        assert!(Verifier::new([good.as_str()]).is_ok());
        for wrong in [
            good.replace("OKP", "EC"),
            good.replace("Ed25519\"", "X25519\""),
            good.replace("sig", "enc"),
            good.replace("EdDSA", "HS256"),
            good.replace("{", r#"{"d":"AAAA","#),
            jwk("AAAA"),
            jwk(&STANDARD.encode([0xff; 32])),
            format!(r#"{{"keys":[{good}]}}"#),
            "{}".to_owned(),
            " {not json".to_owned(),
        ] {
            assert_eq!(Verifier::new([wrong.as_str()]).err(), Some(VerifyError::Secret), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused_at_once() {
        for wrong in ["", "whsec_", "whpk_AAAA", "whsec_not base64!", "whsk_AAAA"] {
            assert_eq!(Verifier::new([wrong]).err(), Some(VerifyError::Secret), "{wrong}");
        }
        assert_eq!(Verifier::new([]).err(), Some(VerifyError::Secret));
    }

    #[test]
    fn a_flood_of_signatures_is_refused_before_any_is_checked() {
        let time = AT.to_string();
        let good_and = |others: usize| {
            let mut all = vec!["v1,AAAA"; others];
            all.push(SIGNATURE);
            verify(&[SECRET], &time, &all.join(" "))
        };
        assert_eq!(good_and(15), Ok(()));
        assert_eq!(good_and(16), Err(VerifyError::Headers));
    }

    #[test]
    fn the_names_of_svix_are_known_and_the_two_are_never_mixed() {
        let time = AT.to_string();
        let mut svix = HeaderMap::new();
        for (name, value) in &headers(&time, SIGNATURE) {
            let name = name.as_str().replace("webhook-", "svix-");
            svix.insert(http::HeaderName::try_from(name).expect("a name"), value.clone());
        }
        let verifier = Verifier::new([SECRET]).expect("a secret");
        assert_eq!(verifier.verify_at(&svix, BODY, AT), Ok(()));
        let time = svix.remove("svix-timestamp").expect("a time");
        svix.insert("webhook-timestamp", time);
        assert_eq!(verifier.verify_at(&svix, BODY, AT), Err(VerifyError::Headers));
    }
}
