//! Signatures: made, decoded, and compared in constant time.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{
    STANDARD, STANDARD_PAD_INDIFFERENT, URL_SAFE, URL_SAFE_NO_PAD,
};
use wakepost_domain::ports::Entropy;

/// More signatures than this in one request is an attempt to make us work.
pub(crate) const CANDIDATES_MAX: usize = 16;
/// The longest text of a signature: 64 bytes in hex.
const TEXT_BYTES_MAX: usize = 128;

/// How a signature is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Hex,
    Base64,
    Base64Url,
}

impl Encoding {
    /// The bytes. Hex goes by value; base64 only in its one canonical form, so that no second text of the
    /// same signature can pass for a new one. The URL alphabet is canonical with and without padding.
    pub(crate) fn decode(self, text: &str) -> Option<Vec<u8>> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return None;
        }
        match self {
            Encoding::Hex => hex::decode(text).ok(),
            Encoding::Base64 => STANDARD.decode(text).ok(),
            Encoding::Base64Url if text.ends_with('=') => URL_SAFE.decode(text).ok(),
            Encoding::Base64Url => URL_SAFE_NO_PAD.decode(text).ok(),
        }
    }

    /// The text a sender writes.
    pub(crate) fn encode(self, bytes: &[u8]) -> String {
        match self {
            Encoding::Hex => hex::encode(bytes),
            Encoding::Base64 => STANDARD.encode(bytes),
            Encoding::Base64Url => URL_SAFE_NO_PAD.encode(bytes),
        }
    }
}

/// A key or secret in base64, padded or not: people copy them by hand.
pub(crate) fn decode_key(text: &str) -> Option<Vec<u8>> {
    STANDARD_PAD_INDIFFERENT.decode(text).ok()
}

/// Base64 of something longer than a signature, in its canonical form.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

/// HMAC over the parts one after another, without copying them together.
pub(crate) fn hmac(algorithm: hmac::Algorithm, key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    for part in parts {
        context.update(part);
    }
    context.sign()
}

/// Whether the two are the same, in a time that depends on their lengths only.
pub(crate) fn equal(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

/// Whether any of the signatures is the HMAC of the parts.
pub(crate) fn hmac_fits(
    algorithm: hmac::Algorithm,
    key: &[u8],
    parts: &[&[u8]],
    signatures: &[Vec<u8>],
) -> bool {
    let tag = hmac(algorithm, key, parts);
    signatures.iter().any(|signature| equal(tag.as_ref(), signature))
}

/// Whether any of the signatures is one of the parts by the holder of the private key.
pub(crate) fn ed25519_fits(key: &[u8; 32], parts: &[&[u8]], signatures: &[Vec<u8>]) -> bool {
    let message = parts.concat();
    let key = UnparsedPublicKey::new(&ED25519, key);
    signatures.iter().any(|signature| key.verify(&message, signature).is_ok())
}

/// An Ed25519 key pair from `whsk_` and base64 of its 32-byte seed, or of the seed and the public key.
pub(crate) fn ed25519_pair(secret: &str) -> Option<Ed25519KeyPair> {
    let bytes = decode_key(secret.strip_prefix("whsk_")?)?;
    match bytes.len() {
        32 => Ed25519KeyPair::from_seed_unchecked(&bytes).ok(),
        64 => Ed25519KeyPair::from_seed_and_public_key(&bytes[..32], &bytes[32..]).ok(),
        _ => None,
    }
}

/// 256 bits of chance.
pub(crate) fn random_key(entropy: &dyn Entropy) -> [u8; 32] {
    let mut key = [0u8; 32];
    entropy.fill(&mut key);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_goes_by_value_and_base64_by_its_canonical_text() {
        assert_eq!(Encoding::Hex.decode("aBcD"), Some(vec![0xab, 0xcd]));
        assert_eq!(Encoding::Hex.decode("abc"), None);
        assert_eq!(Encoding::Hex.decode("0xab"), None);
        assert_eq!(Encoding::Base64.decode("/+8="), Some(vec![0xff, 0xef]));
        // Trailing bits set, padding missing, doubled or elsewhere, the other alphabet, a space.
        for bad in ["/+9=", "/+8", "/+8==", "/+=8", "_-8=", "/+8= "] {
            assert_eq!(Encoding::Base64.decode(bad), None, "{bad:?}");
        }
        assert_eq!(Encoding::Base64Url.decode("_-8="), Some(vec![0xff, 0xef]));
        assert_eq!(Encoding::Base64Url.decode("_-8"), Some(vec![0xff, 0xef]));
        assert_eq!(Encoding::Base64Url.decode("_-9"), None);
        assert_eq!(Encoding::Base64Url.decode("/+8="), None);
    }

    #[test]
    fn an_empty_or_endless_signature_is_none() {
        for encoding in [Encoding::Hex, Encoding::Base64, Encoding::Base64Url] {
            assert_eq!(encoding.decode(""), None);
            assert_eq!(encoding.decode(&"00".repeat(65)), None);
        }
    }

    #[test]
    fn parts_are_signed_as_if_they_were_one() {
        let whole = hmac(hmac::HMAC_SHA256, b"k", &[b"hello world"]);
        let parts = hmac(hmac::HMAC_SHA256, b"k", &[b"hello", b"", b" world"]);
        assert_eq!(whole.as_ref(), parts.as_ref());
    }
}
