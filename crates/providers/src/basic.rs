//! Basic authentication (RFC 7617), where the secret is `user:password`.

use std::borrow::Cow;

use http::HeaderMap;
use wakepost_domain::ports::Entropy;

use crate::header;
use crate::provider::SignedHeader;
use crate::settings::ConfigError;
use crate::signature::{self, Encoding};
use crate::verdict::Why;

/// Where the name and the password stand.
pub(crate) const HEADER: &str = "Authorization";

/// The same for those who ask which headers are the proof; the word Basic may be written in any case.
pub(crate) const SIGNED: SignedHeader =
    SignedHeader { name: Cow::Borrowed("authorization"), any_case: true };

/// `user:password` from a header's value.
pub(crate) fn pair(given: &str) -> Option<Vec<u8>> {
    let (scheme, text) = given.split_once(' ')?;
    scheme.eq_ignore_ascii_case("basic").then(|| signature::decode_base64(text)).flatten()
}

/// `user:password` of a request, if it has any.
pub(crate) fn given(headers: &HeaderMap) -> Result<Option<Vec<u8>>, Why> {
    let Some(value) = header::optional(headers, HEADER)? else {
        return Ok(None);
    };
    pair(value).map(Some).ok_or_else(|| Why::malformed(HEADER, "Basic and canonical base64"))
}

/// What a sender writes.
pub(crate) fn value(secret: &str) -> String {
    format!("Basic {}", Encoding::Base64.encode(secret.as_bytes()))
}

/// Refuses a secret that no sender could give.
pub(crate) fn check_secret(secret: &str) -> Result<(), ConfigError> {
    match secret.split_once(':') {
        Some((user, password)) if !user.is_empty() && !password.is_empty() => Ok(()),
        _ => Err(ConfigError::new("secret", "must be user:password")),
    }
}

/// A new name and password that can stand in a URL as they are.
pub(crate) fn generate_secret(entropy: &dyn Entropy) -> String {
    format!("wakepost:{}", hex::encode(signature::random_key(entropy)))
}

/// How an operator registers an address whose name and password stand in it.
pub(crate) fn step(label: &str, place: &str, webhook_url: &str) -> String {
    format!(
        "At {label}, open {place} and enter the address {webhook_url} with the source's secret and an @ before the \
         host: https://NAME:PASSWORD@…"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_specification_is_read_and_written() {
        let value = value("Aladdin:open sesame");
        assert_eq!(value, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(pair(&value).as_deref(), Some(&b"Aladdin:open sesame"[..]));
        assert_eq!(pair("bAsIc QTpi").as_deref(), Some(&b"A:b"[..]));
        for bad in ["", "Basic", "Basic ", "Bearer QTpi", "Basic QTpi=", "Basic  QTpi", "QTpi"] {
            assert!(pair(bad).is_none_or(|pair| pair.is_empty()), "{bad:?}");
        }
    }

    #[test]
    fn a_secret_has_a_name_and_a_password() {
        assert_eq!(check_secret("a:b:c"), Ok(()));
        for bad in ["a", ":b", "a:", ":", ""] {
            assert!(check_secret(bad).is_err(), "{bad:?}");
        }
    }
}
