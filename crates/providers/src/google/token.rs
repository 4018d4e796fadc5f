//! An access token for a service account: a JWT signed with its key (RS256), exchanged at Google's token endpoint.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeyPair;
use aws_lc_rs::signature::RSA_PKCS1_SHA256;
use http::{HeaderMap, HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Value, json};
use wakepost_domain::Timestamp;

use crate::payload::text_at;
use crate::registration::{Answered, ApiCall};
use crate::settings::{self, ConfigError, Settings};
use crate::signature::{Encoding, decode_base64};

/// The setting that holds the key, as Google's console writes it to a file.
const SERVICE_ACCOUNT: &str = "service_account";

/// Where tokens are made, unless the key names another place.
const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

const GRANT_TYPE: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// The longest that Google allows.
const LIFETIME_SECS: i64 = 3600;

/// More than this is no key of Google's.
const KEY_BYTES_MAX: usize = 16 * 1024;

/// The call that fetches a token for this scope; it changes nothing at Google. Read its answer with [`token_of`].
pub(crate) fn token_call(
    settings: &Settings,
    scope: &str,
    now: Timestamp,
) -> Result<ApiCall, ConfigError> {
    let account = ServiceAccount::read(settings)?;
    let assertion = account.assertion(scope, now)?;
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", GRANT_TYPE).append_pair("assertion", &assertion);
    let content_type = HeaderValue::from_static("application/x-www-form-urlencoded");
    Ok(ApiCall {
        method: Method::POST,
        url: account.token_url().to_owned(),
        headers: HeaderMap::from_iter([(header::CONTENT_TYPE, content_type)]),
        body: form.finish().into_bytes(),
    })
}

/// The token in the answer, or what Google said instead.
pub(crate) fn token_of(answered: &Answered<'_>) -> Result<String, String> {
    let said: Value = serde_json::from_slice(answered.body).unwrap_or_default();
    let token = text_at(&said, "/access_token").filter(|_| answered.status.is_success());
    // What cannot stand in a header is no token.
    let token = token.filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
    token.map(str::to_owned).ok_or_else(|| {
        let said = text_at(&said, "/error_description").or_else(|| text_at(&said, "/error"));
        match said {
            Some(said) => format!("Google gave no token: {said}"),
            None => format!("Google gave no token: it answered {}", answered.status),
        }
    })
}

/// The part of the key file that a token needs.
#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
    token_uri: Option<String>,
}

impl ServiceAccount {
    fn read(settings: &Settings) -> Result<ServiceAccount, ConfigError> {
        let text = settings::text(settings, SERVICE_ACCOUNT)?;
        let text = text.ok_or_else(|| ConfigError::new(SERVICE_ACCOUNT, "is not set"))?;
        // The parser's own words might repeat a part of the key.
        let read = (text.len() <= KEY_BYTES_MAX).then(|| serde_json::from_str(text).ok());
        read.flatten().ok_or_else(|| {
            malformed(
                "must be the JSON key of a service account, with client_email and private_key",
            )
        })
    }

    fn token_url(&self) -> &str {
        self.token_uri.as_deref().filter(|url| !url.is_empty()).unwrap_or(TOKEN_URL)
    }

    /// The signed claim to be this account.
    fn assertion(&self, scope: &str, now: Timestamp) -> Result<String, ConfigError> {
        let mut head = json!({"alg": "RS256", "typ": "JWT"});
        if let Some(id) = &self.private_key_id {
            head["kid"] = id.as_str().into();
        }
        let claims = json!({
            "iss": self.client_email,
            "scope": scope,
            "aud": self.token_url(),
            "iat": now.as_secs(),
            "exp": now.as_secs() + LIFETIME_SECS,
        });
        let part = |value: Value| Encoding::Base64Url.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", part(head), part(claims));
        let key = self.key()?;
        let mut signature = vec![0; key.public_modulus_len()];
        // This kind of signature draws nothing from the source of chance: the same in, the same out.
        key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .map_err(|_| malformed("has a private_key that cannot sign"))?;
        Ok(format!("{signed}.{}", Encoding::Base64Url.encode(&signature)))
    }

    fn key(&self) -> Result<KeyPair, ConfigError> {
        let within = self.private_key.split("-----BEGIN PRIVATE KEY-----").nth(1);
        let within = within.and_then(|rest| rest.split_once("-----END PRIVATE KEY-----"));
        let base64: Option<String> = within.map(|(text, _)| text.split_whitespace().collect());
        let der = base64.and_then(|base64| decode_base64(&base64));
        let key = der.and_then(|der| KeyPair::from_pkcs8(&der).ok());
        key.ok_or_else(|| malformed("has a private_key that is no RSA key in PEM (PKCS #8)"))
    }
}

fn malformed(message: &str) -> ConfigError {
    ConfigError::new(SERVICE_ACCOUNT, message)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::OnceLock;

    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::rsa::KeySize;
    use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use http::StatusCode;

    use super::*;
    use crate::testing::{NOW, settings};

    /// A key made for these tests: in PEM as Google writes it, and its public half.
    fn key() -> &'static (String, Vec<u8>) {
        static KEY: OnceLock<(String, Vec<u8>)> = OnceLock::new();
        KEY.get_or_init(|| {
            let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
            let text = Encoding::Base64.encode(pair.as_der().unwrap().as_ref());
            let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
            let pem = lines.join("\n");
            let pem = format!("-----BEGIN PRIVATE KEY-----\n{pem}\n-----END PRIVATE KEY-----\n");
            (pem, pair.public_key().as_ref().to_vec())
        })
    }

    /// The key file of an account whose tokens are made here.
    pub(crate) fn service_account(token_url: &str) -> String {
        json!({"type": "service_account", "client_email": "agent@acme.iam.gserviceaccount.com",
            "private_key": key().0, "private_key_id": "k1", "token_uri": token_url})
        .to_string()
    }

    fn answered(status: u16, body: &str) -> Result<String, String> {
        let (status, headers) = (StatusCode::from_u16(status).unwrap(), HeaderMap::new());
        token_of(&Answered { status, headers: &headers, body: body.as_bytes() })
    }

    #[test]
    fn the_assertion_says_who_asks_for_what_and_is_signed() {
        let account = service_account("https://token.example/t");
        let settings = settings(&[("service_account", &account)]);
        let call = token_call(&settings, "https://scope.example/a b", NOW).unwrap();
        assert_eq!((call.method.as_str(), call.url.as_str()), ("POST", "https://token.example/t"));
        let fields: Vec<_> = form_urlencoded::parse(&call.body).into_owned().collect();
        assert_eq!(fields[0].1, GRANT_TYPE);
        let (signed, signature) = fields[1].1.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &key().1);
        assert!(public.verify(signed.as_bytes(), &signature).is_ok());
        let part = |text: &str| -> Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap()
        };
        let (head, claims) = signed.split_once('.').unwrap();
        assert_eq!(part(head), json!({"alg": "RS256", "typ": "JWT", "kid": "k1"}));
        assert_eq!(
            part(claims),
            json!({"iss": "agent@acme.iam.gserviceaccount.com", "scope": "https://scope.example/a b",
                "aud": "https://token.example/t", "iat": 1_700_000_000, "exp": 1_700_003_600})
        );
    }

    #[test]
    fn a_malformed_key_is_an_error_that_does_not_repeat_it() {
        let no_pem = json!({"client_email": "a@b", "private_key": "SECRET"}).to_string();
        let no_key = json!({"client_email": "a@b",
            "private_key": "-----BEGIN PRIVATE KEY-----\nU0VDUkVU\n-----END PRIVATE KEY-----"});
        let long = format!(r#"{{"SECRET":"{}"}}"#, "x".repeat(KEY_BYTES_MAX));
        for text in ["SECRET", r#"{"SECRET":1}"#, &no_pem, &no_key.to_string(), &long, ""] {
            let settings = settings(&[("service_account", text)]);
            let error = token_call(&settings, "s", NOW).unwrap_err();
            assert_eq!(error.field, "service_account");
            assert!(!error.to_string().contains("SECRET"));
        }
    }

    #[test]
    fn the_token_or_what_google_said_is_read() {
        assert_eq!(answered(200, r#"{"access_token":"ya29.a"}"#), Ok("ya29.a".to_owned()));
        for (status, body, said) in [
            (400, r#"{"error":"invalid_grant","error_description":"No."}"#, "No."),
            (400, r#"{"error":"invalid_grant"}"#, "invalid_grant"),
            (500, "oops", "500"),
            (200, r#"{"access_token":"a\r\nb"}"#, "200"),
            (403, r#"{"access_token":"a"}"#, "403"),
        ] {
            assert!(answered(status, body).unwrap_err().contains(said), "{body}");
        }
    }
}
