//! What a caller says of a webhook, and what may be said.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use utoipa::ToSchema;
use wakepost_domain::circuit::CircuitSettings;
use wakepost_domain::webhook::{
    Auth, EVENTS_MAX, HEADERS_MAX, METADATA_MAX, Mode, Signature, TIMEOUT_MAX_S, Webhook,
    is_reserved_header,
};
use wakepost_domain::{event_type, limits};

use super::super::call::given;
use super::super::error::ApiError;
use super::super::work::{check_rate, check_retries};
use crate::outbound::{AddressPolicy, Identity, Target};
use crate::schema;

/// The longest description.
const DESCRIPTION_CHARS_MAX: usize = 1000;
/// The longest value of a header or a piece of metadata.
const VALUE_BYTES_MAX: usize = 4096;

/// A webhook to make, or what to change of one. `null` sets a field to what it is if left out of a new one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = WebhookSettings)]
pub struct WebhookBody {
    /// Where deliveries go: HTTPS, a public host, port 443 or 8443.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 2048)]
    url: Option<Option<String>>,
    /// `push` if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::WebhookMode>)]
    mode: Option<Option<Mode>>,
    /// Which types it gets: exact (`order.created`), a beginning (`order.*`) or all (`*`).
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<String>>)]
    events: Option<Option<Vec<String>>>,
    /// A text for people.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>, max_length = 1000)]
    description: Option<Option<String>>,
    /// `true` if left out. `false` gives up what waits.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    enabled: Option<Option<bool>>,
    /// `hmac` if left out; cannot be changed.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::SignatureKind>)]
    signature: Option<Option<Signature>>,
    /// Headers that go with each delivery.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    headers: Option<Option<BTreeMap<String, String>>>,
    /// Credentials beside the signature; never shown again.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::WebhookAuth>)]
    auth: Option<Option<Auth>>,
    /// How many deliveries may start in a second.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<f64>, exclusive_minimum = 0, maximum = 1000000)]
    rate_per_s: Option<Option<f64>>,
    /// Whether deliveries with the same order key go one after the other.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    order: Option<Option<bool>>,
    /// How long its receiver has for an answer; 15 if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 30)]
    timeout_s: Option<Option<u64>>,
    /// How long each attempt waits, the first one included.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Vec<u64>>)]
    retry_s: Option<Option<Vec<u64>>>,
    /// When its circuit opens and closes; what is left out is as usual.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::CircuitSettings>)]
    circuit_settings: Option<Option<CircuitSettings>>,
    /// The caller's own notes.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<std::collections::HashMap<String, String>>)]
    metadata: Option<Option<BTreeMap<String, String>>>,
}

impl WebhookBody {
    /// Whether it shall get anything, if that was said.
    pub fn enabled(&self) -> Option<bool> {
        self.enabled.map(|enabled| enabled.unwrap_or(true))
    }

    /// Whether it shall get nothing.
    pub fn is_disabled(&self) -> bool {
        self.enabled() == Some(false)
    }

    /// Checks what was given, and sets it.
    pub fn apply(&self, webhook: &mut Webhook, addresses: &AddressPolicy) -> Result<(), ApiError> {
        let config = &mut webhook.config;
        if let Some(url) = &self.url {
            if let Some(url) = url {
                Target::parse(url, addresses)
                    .map_err(|refusal| ApiError::field("url", refusal.to_string()))?;
            }
            config.url.clone_from(url);
            config.warning = None;
        }
        if let Some(mode) = self.mode {
            config.mode = mode.unwrap_or_default();
        }
        if let Some(events) = &self.events {
            config.events = events.clone().unwrap_or_default();
            check_events(&config.events)?;
        }
        if let Some(text) = &self.description {
            config.description = text.clone().unwrap_or_default();
            if config.description.chars().count() > DESCRIPTION_CHARS_MAX {
                let text = format!("must have at most {DESCRIPTION_CHARS_MAX} characters");
                return Err(ApiError::field("description", text));
            }
        }
        if let Some(signature) = self.signature {
            config.signature = signature.unwrap_or_default();
        }
        if let Some(rate) = self.rate_per_s {
            check_rate("rate_per_s", rate)?;
            config.rate_per_s = rate;
        }
        if let Some(order) = self.order {
            config.order = order.unwrap_or(false);
        }
        if let Some(timeout) = self.timeout_s {
            if timeout.is_some_and(|secs| !(1..=TIMEOUT_MAX_S).contains(&secs)) {
                let text = format!("must be from 1 to {TIMEOUT_MAX_S}");
                return Err(ApiError::field("timeout_s", text));
            }
            config.timeout_s = timeout;
        }
        if let Some(retry) = &self.retry_s {
            check_retries("retry_s", retry.as_deref())?;
            config.retry_s.clone_from(retry);
        }
        if let Some(settings) = self.circuit_settings {
            config.circuit = settings.unwrap_or_default();
            if let Some((field, why)) = config.circuit.problem() {
                return Err(ApiError::field(format!("circuit_settings.{field}"), why));
            }
        }
        if let Some(metadata) = &self.metadata {
            config.metadata = metadata.clone().unwrap_or_default();
            check_metadata(&config.metadata)?;
        }
        if let Some(auth) = &self.auth {
            auth.as_ref().map(check_auth).transpose()?;
            config.auth = auth.as_ref().map(Auth::kind);
            webhook.secrets.auth.clone_from(auth);
        }
        if let Some(headers) = &self.headers {
            let headers = headers.clone().unwrap_or_default();
            check_headers(&headers)?;
            webhook.secrets.headers = headers
                .into_iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value))
                .collect();
        }
        Ok(())
    }

    /// Checks what must fit together.
    pub fn check_whole(&self, webhook: &Webhook) -> Result<(), ApiError> {
        let config = &webhook.config;
        if config.events.is_empty() {
            return Err(ApiError::field("events", "is required: at least one type, or *"));
        }
        match (config.mode, &config.url) {
            (Mode::Push, None) => Err(ApiError::field("url", "is required")),
            (Mode::Pull, Some(_)) => {
                Err(ApiError::field("url", "has no meaning where deliveries are pulled"))
            }
            _ => Ok(()),
        }
    }
}

fn check_events(events: &[String]) -> Result<(), ApiError> {
    if events.len() > EVENTS_MAX {
        return Err(ApiError::field("events", format!("must have at most {EVENTS_MAX}")));
    }
    match events.iter().position(|pattern| !event_type::is_pattern(pattern)) {
        None => Ok(()),
        Some(index) => Err(ApiError::field(
            format!("events.{index}"),
            "must be a type (order.created), the beginning of one (order.*) or *",
        )),
    }
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let fits = |(key, value): (&String, &String)| {
        (1..=limits::NAME_CHARS_MAX).contains(&key.len()) && value.len() <= VALUE_BYTES_MAX
    };
    match metadata.len() <= METADATA_MAX && metadata.iter().all(fits) {
        true => Ok(()),
        false => Err(ApiError::field(
            "metadata",
            format!(
                "must have at most {METADATA_MAX} short keys with values of {VALUE_BYTES_MAX} bytes"
            ),
        )),
    }
}

fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), ApiError> {
    if headers.len() > HEADERS_MAX {
        return Err(ApiError::field("headers", format!("must have at most {HEADERS_MAX}")));
    }
    for (name, value) in headers {
        let field = format!("headers.{name}");
        if HeaderName::from_bytes(name.as_bytes()).is_err() {
            return Err(ApiError::field(field, "is not a header's name"));
        }
        if is_reserved_header(name) {
            return Err(ApiError::field(field, "is a header that Wakepost sets itself"));
        }
        if value.len() > VALUE_BYTES_MAX || HeaderValue::from_str(value).is_err() {
            return Err(ApiError::field(field, "must be one short line of plain text"));
        }
    }
    Ok(())
}

fn check_auth(auth: &Auth) -> Result<(), ApiError> {
    let plain = |field: &str, text: &str| match HeaderValue::from_str(text) {
        Ok(_) if !text.is_empty() && text.len() <= VALUE_BYTES_MAX => Ok(()),
        _ => Err(ApiError::field(format!("auth.{field}"), "must be one short line of plain text")),
    };
    match auth {
        Auth::Bearer { token } => plain("token", token),
        Auth::Basic { username, password } => {
            plain("username", username)?;
            if username.contains(':') {
                return Err(ApiError::field("auth.username", "must not have a colon"));
            }
            plain("password", password)
        }
        Auth::Mtls { cert, key } => Identity::read(cert, key)
            .map(drop)
            .map_err(|(field, why)| ApiError::field(format!("auth.{field}"), why)),
    }
}
