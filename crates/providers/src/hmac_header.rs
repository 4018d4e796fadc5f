//! One HMAC in one header: how most providers sign.

use std::borrow::Cow;

use aws_lc_rs::hmac::{Algorithm, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256};

use crate::header;
use crate::provider::SignedHeader;
use crate::request::{Request, SignedRequest};
use crate::settings::ConfigError;
use crate::signature::{self, Encoding};
use crate::verdict::{Check, Refusal, Why};

/// A header that holds one HMAC.
pub(crate) struct HmacHeader {
    name: &'static str,
    algorithm: Algorithm,
    prefix: &'static str,
    encoding: Encoding,
    /// What its value should be, for the operator.
    expected: &'static str,
}

impl HmacHeader {
    /// HMAC-SHA256 in hex.
    pub(crate) const fn hex(name: &'static str) -> HmacHeader {
        let (algorithm, prefix, encoding) = (HMAC_SHA256, "", Encoding::Hex);
        HmacHeader { name, algorithm, prefix, encoding, expected: "hex digits" }
    }

    /// HMAC-SHA256 in base64.
    pub(crate) const fn base64(name: &'static str) -> HmacHeader {
        HmacHeader { encoding: Encoding::Base64, expected: "base64", ..HmacHeader::hex(name) }
    }

    /// `sha256=` and HMAC-SHA256 in hex.
    pub(crate) const fn sha256_hex(name: &'static str) -> HmacHeader {
        let expected = "sha256= and hex digits";
        HmacHeader { prefix: "sha256=", expected, ..HmacHeader::hex(name) }
    }

    /// `sha1=` and HMAC-SHA1 in hex.
    pub(crate) const fn sha1_hex(name: &'static str) -> HmacHeader {
        let (algorithm, expected) = (HMAC_SHA1_FOR_LEGACY_USE_ONLY, "sha1= and hex digits");
        HmacHeader { algorithm, prefix: "sha1=", expected, ..HmacHeader::hex(name) }
    }

    /// The header as a provider declares it.
    pub(crate) fn declared(&self) -> SignedHeader {
        let name = Cow::Owned(self.name.to_ascii_lowercase());
        SignedHeader { name, any_case: self.encoding == Encoding::Hex }
    }

    /// Which live secret gives the header's HMAC for these parts, one after another.
    pub(crate) fn verify(
        &self,
        request: &Request<'_>,
        check: &Check<'_>,
        parts: &[&[u8]],
    ) -> Result<usize, Refusal> {
        let given = header::one(request.headers, self.name)?
            .strip_prefix(self.prefix)
            .and_then(|text| self.encoding.decode(text))
            .ok_or_else(|| Why::malformed(self.name, self.expected))?;
        check.secret_that(|secret| {
            let tag = signature::hmac(self.algorithm, secret.as_bytes(), parts);
            Ok(signature::equal(tag.as_ref(), &given))
        })
    }

    /// Which live secret gives the header's HMAC for the body alone.
    pub(crate) fn verify_body(
        &self,
        request: &Request<'_>,
        check: &Check<'_>,
    ) -> Result<usize, Refusal> {
        self.verify(request, check, &[request.body])
    }

    /// The header's value for these parts.
    pub(crate) fn value(&self, secret: &str, parts: &[&[u8]]) -> String {
        let tag = signature::hmac(self.algorithm, secret.as_bytes(), parts);
        format!("{}{}", self.prefix, self.encoding.encode(tag.as_ref()))
    }

    /// Sets the header as a sender would that signs the body alone.
    pub(crate) fn sign_body(
        &self,
        request: &mut SignedRequest,
        secret: &str,
    ) -> Result<(), ConfigError> {
        let value = self.value(secret, &[&request.body]);
        request.set(self.name, &value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::NOW;
    use crate::{Facts, Settings};

    fn verdict(scheme: &HmacHeader, value: &str) -> Result<usize, Refusal> {
        let mut request = SignedRequest::post("https://hooks.example/", "Hello, World!");
        request.set(scheme.name, value).unwrap();
        let (settings, tolerance) = (Settings::new(), Facts::usual("").tolerance);
        let secrets = &["It's a Secret to Everybody"];
        let check = Check { secrets, settings: &settings, now: NOW, tolerance };
        scheme.verify_body(&request.as_request(), &check)
    }

    // openssl dgst -sha256 (-sha1) -hmac "It's a Secret to Everybody"
    const SHA256: &str = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    const SHA256_BASE64: &str = "dXEH6g6yUJ/CESIczphLijdXC211hsIsRvQ3nIsEPhc=";
    const SHA1: &str = "01dc10d0c83e72ed246219cdd91669667fe2ca59";

    #[test]
    fn each_form_is_accepted_and_no_other_form_of_the_same_signature() {
        let forms = [
            (HmacHeader::hex("X-Sig"), SHA256.to_owned()),
            (HmacHeader::base64("X-Sig"), SHA256_BASE64.to_owned()),
            (HmacHeader::sha256_hex("X-Sig"), format!("sha256={SHA256}")),
            (HmacHeader::sha1_hex("X-Sig"), format!("sha1={SHA1}")),
        ];
        for (scheme, own) in &forms {
            for (_, value) in &forms {
                assert_eq!(verdict(scheme, value).is_ok(), own == value, "{own} {value}");
            }
        }
    }

    #[test]
    fn a_part_of_the_signature_is_not_enough() {
        let half = Encoding::Base64.encode(&hex::decode(&SHA256[..32]).unwrap());
        let mismatch = Err(Refusal::Signature(Why::Mismatch));
        assert_eq!(verdict(&HmacHeader::hex("X-Sig"), &SHA256[..32]), mismatch);
        assert_eq!(verdict(&HmacHeader::hex("X-Sig"), &format!("{SHA256}00")), mismatch);
        assert_eq!(verdict(&HmacHeader::base64("X-Sig"), &half), mismatch);
    }

    #[test]
    fn a_malformed_value_says_what_was_expected() {
        let scheme = HmacHeader::sha256_hex("X-Sig");
        for bad in [SHA256, "sha256=", "sha256", "SHA256=00", "sha256= 00", "sha256=0"] {
            let refused = verdict(&scheme, bad).unwrap_err();
            assert_eq!(refused.to_string(), "X-Sig is not sha256= and hex digits", "{bad}");
        }
    }
}
