//! The Standard Webhooks scheme: `v1` (HMAC-SHA256) and `v1a` (Ed25519) over `{id}.{time}.{body}`.
//!
//! The outbound side signs with it, and the `standard-webhooks` provider verifies with it.

use aws_lc_rs::hmac::HMAC_SHA256;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Entropy;

use crate::provider::Keys;
use crate::settings::ConfigError;
use crate::signature::{self, Encoding};

/// The signature of a request that Wakepost sends: `v1,…`, or `v1a,…` where the secret is a private key (`whsk_`).
pub fn sign(secret: &str, id: &str, at: Timestamp, body: &[u8]) -> Result<String, ConfigError> {
    let time = at.as_secs().to_string();
    Key::read(secret)?.sign(&content(id, &time, body)).ok_or_else(Key::cannot_sign)
}

/// A new shared secret: `whsec_` and base64 of 32 random bytes.
pub fn generate_secret(entropy: &dyn Entropy) -> String {
    format!("whsec_{}", Encoding::Base64.encode(&signature::random_key(entropy)))
}

/// A new private key for Ed25519: `whsk_` and base64 of its 32-byte seed.
pub fn generate_private_key(entropy: &dyn Entropy) -> String {
    format!("whsk_{}", Encoding::Base64.encode(&signature::random_key(entropy)))
}

/// The public key (`whpk_…`) that belongs to a private one (`whsk_…`).
pub fn public_key(private_key: &str) -> Result<String, ConfigError> {
    let pair = signature::ed25519_pair(private_key).ok_or_else(Key::malformed_private)?;
    Ok(format!("whpk_{}", Encoding::Base64.encode(pair.public_key().as_ref())))
}

/// A new key pair to try things with: `whsk_…` signs and `whpk_…` verifies.
pub(crate) fn generate_key_pair(entropy: &dyn Entropy) -> Keys {
    let signs = generate_private_key(entropy);
    let verifies = public_key(&signs).expect("a private key just made is sound");
    Keys { signs, verifies }
}

/// What is signed.
pub(crate) fn content<'a>(id: &'a str, time: &'a str, body: &'a [u8]) -> [&'a [u8]; 5] {
    [id.as_bytes(), b".", time.as_bytes(), b".", body]
}

/// A key in one of the scheme's three forms. The form alone says which version it can check, so that a
/// public key can never be mistaken for a shared secret.
pub(crate) enum Key {
    Shared(Vec<u8>),
    Public([u8; 32]),
    Private(Ed25519KeyPair),
}

impl Key {
    /// Reads a key as the scheme's own libraries do: `whsec_` or nothing, then base64. A text that is not
    /// base64 and claims no prefix is taken as it is.
    pub(crate) fn read(secret: &str) -> Result<Key, ConfigError> {
        // Supabase writes the version before the secret.
        let secret = match secret.strip_prefix("v1,") {
            Some(rest) if rest.starts_with("whsec_") => rest,
            _ => secret,
        };
        if let Some(text) = secret.strip_prefix("whpk_") {
            let key = signature::decode_key(text).and_then(|bytes| bytes.try_into().ok());
            return key.map(Key::Public).ok_or_else(|| {
                ConfigError::new("secret", "must have 32 bytes in base64 after whpk_")
            });
        }
        if secret.starts_with("whsk_") {
            let pair = signature::ed25519_pair(secret);
            return pair.map(Key::Private).ok_or_else(Key::malformed_private);
        }
        let key = match secret.strip_prefix("whsec_") {
            Some(text) => signature::decode_key(text).unwrap_or_default(),
            None => signature::decode_key(secret).unwrap_or_else(|| secret.as_bytes().to_vec()),
        };
        if key.is_empty() {
            return Err(ConfigError::new("secret", "must have base64 after whsec_"));
        }
        Ok(Key::Shared(key))
    }

    /// The version, as it stands before the comma, that this key can check; none for a private key.
    pub(crate) fn checks(&self) -> Option<&'static str> {
        match self {
            Key::Shared(_) => Some("v1"),
            Key::Public(_) => Some("v1a"),
            Key::Private(_) => None,
        }
    }

    /// Whether any of the signatures, all of the version that it checks, is good.
    pub(crate) fn fits(&self, parts: &[&[u8]], signatures: &[Vec<u8>]) -> bool {
        match self {
            Key::Shared(key) => signature::hmac_fits(HMAC_SHA256, key, parts, signatures),
            Key::Public(key) => signature::ed25519_fits(key, parts, signatures),
            Key::Private(_) => false,
        }
    }

    fn sign(&self, parts: &[&[u8]]) -> Option<String> {
        let (version, bytes) = match self {
            Key::Shared(key) => ("v1", signature::hmac(HMAC_SHA256, key, parts).as_ref().to_vec()),
            Key::Private(pair) => ("v1a", pair.sign(&parts.concat()).as_ref().to_vec()),
            Key::Public(_) => return None,
        };
        Some(format!("{version},{}", Encoding::Base64.encode(&bytes)))
    }

    fn cannot_sign() -> ConfigError {
        ConfigError::new("secret", "is a public key, which cannot sign")
    }

    fn malformed_private() -> ConfigError {
        ConfigError::new("secret", "must have 32 or 64 bytes in base64 after whsk_")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Counting;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const AT: Timestamp = Timestamp::from_secs(1_614_265_330);
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    #[test]
    fn the_published_vector_is_what_we_sign() {
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        for secret in [SECRET, &SECRET["whsec_".len()..], &format!("v1,{SECRET}")] {
            let signed = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", AT, BODY);
            assert_eq!(signed.as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_secret_that_is_not_base64_is_used_as_it_is() {
        let tag = signature::hmac(HMAC_SHA256, b"not base64!", &content("m", "1614265330", BODY));
        let expected = format!("v1,{}", Encoding::Base64.encode(tag.as_ref()));
        assert_eq!(sign("not base64!", "m", AT, BODY), Ok(expected));
    }

    #[test]
    fn a_malformed_key_is_named_and_never_repeated() {
        for bad in ["", "whsec_", "whsec_!!", "whpk_AAAA", "whsk_AAAA", "whpk_"] {
            let error = sign(bad, "m", AT, BODY).unwrap_err();
            assert_eq!(error.field, "secret");
            assert!(!error.message.contains("AAAA") && !error.message.contains("!!"));
        }
        let public = public_key(&generate_private_key(&Counting::default())).unwrap();
        assert!(sign(&public, "m", AT, BODY).is_err(), "a public key cannot sign");
    }

    #[test]
    fn a_private_key_signs_what_its_public_key_checks() {
        let private = generate_private_key(&Counting::default());
        let signed = sign(&private, "m", AT, BODY).unwrap();
        let bytes = Encoding::Base64.decode(signed.strip_prefix("v1a,").unwrap()).unwrap();
        let public = Key::read(&public_key(&private).unwrap()).unwrap();
        assert!(public.fits(&content("m", "1614265330", BODY), std::slice::from_ref(&bytes)));
        assert!(!public.fits(&content("n", "1614265330", BODY), &[bytes]));
    }

    #[test]
    fn the_long_form_of_a_private_key_is_the_same_key() {
        let private = generate_private_key(&Counting::default());
        let seed = signature::decode_key(&private["whsk_".len()..]).unwrap();
        let public = public_key(&private).unwrap();
        let both = [seed, signature::decode_key(&public["whpk_".len()..]).unwrap()].concat();
        let long = format!("whsk_{}", Encoding::Base64.encode(&both));
        assert_eq!(public_key(&long), Ok(public));
    }
}
