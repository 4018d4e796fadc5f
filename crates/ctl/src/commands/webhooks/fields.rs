//! The flags that set a webhook's fields, the same for a new webhook and a changed one.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::Map;
use wakepost_client::{CircuitSettings, WebhookAuth, WebhookFields};

use super::flags::{self, Header};
use crate::commands::input::{read_file, read_secret};
use crate::commands::sources::Setting;
use crate::exit::Usage;

#[derive(Args)]
pub struct FieldFlags {
    /// Which events it gets: order.created, 'order.*' or '*'; may be repeated
    #[arg(long = "event", value_name = "TYPE")]
    events: Vec<String>,
    /// What it is for
    #[arg(long)]
    description: Option<String>,
    /// What signs: a shared secret, or a key pair
    #[arg(long, value_parser = ["hmac", "ed25519"])]
    signature: Option<String>,
    /// A further header of each delivery; may be repeated
    #[arg(long = "header", value_name = "NAME: VALUE")]
    headers: Vec<Header>,
    /// Send this bearer token along; - reads it from standard input
    #[arg(long, value_name = "TOKEN", group = "auth")]
    auth_bearer: Option<String>,
    /// Send this user and password along; - reads them from standard input
    #[arg(long, value_name = "USER:PASSWORD", group = "auth")]
    auth_basic: Option<String>,
    /// Show this client certificate (PEM files)
    #[arg(long, value_names = ["CERT", "KEY"], num_args = 2, group = "auth")]
    auth_mtls: Vec<String>,
    /// How many deliveries may start in a second
    #[arg(long, value_name = "N")]
    rate_per_s: Option<f64>,
    /// Whether events that share an order key arrive in order
    #[arg(
        long,
        value_name = "true|false",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true"
    )]
    order: Option<bool>,
    /// How long one try may take
    #[arg(long, value_name = "SECONDS")]
    timeout_s: Option<u64>,
    /// How long to wait before each try, the first among them (0,10,30)
    #[arg(long, value_delimiter = ',', value_name = "SECONDS")]
    retry_s: Option<Vec<u64>>,
    /// When to spare a receiver that fails (failures=5,open_s=1800; off: never)
    #[arg(long, value_parser = flags::circuit, value_name = "SETTINGS")]
    circuit: Option<CircuitSettings>,
    /// A note of your own; may be repeated
    #[arg(long, value_name = "NAME=TEXT")]
    metadata: Vec<Setting>,
}

impl FieldFlags {
    /// As the API takes them.
    pub fn into_fields(self) -> anyhow::Result<WebhookFields> {
        let auth = self.auth()?;
        let headers: BTreeMap<_, _> =
            self.headers.into_iter().map(|header| (header.name, header.value)).collect();
        let metadata: Map<_, _> =
            self.metadata.into_iter().map(|note| (note.name, note.value)).collect();
        Ok(WebhookFields {
            url: None,
            mode: None,
            events: self.events,
            description: self.description,
            enabled: None,
            signature: self.signature,
            headers: (!headers.is_empty()).then_some(headers),
            auth,
            rate_per_s: self.rate_per_s,
            order: self.order,
            timeout_s: self.timeout_s,
            retry_s: self.retry_s,
            circuit_settings: self.circuit,
            metadata: (!metadata.is_empty()).then_some(metadata),
            other: Map::new(),
        })
    }

    fn auth(&self) -> anyhow::Result<Option<WebhookAuth>> {
        if let Some(token) = self.auth_bearer.clone() {
            return Ok(Some(WebhookAuth::Bearer { token: read_secret(token)? }));
        }
        if let Some(both) = self.auth_basic.clone() {
            let both = read_secret(both)?;
            let (username, password) = both
                .split_once(':')
                .ok_or_else(|| Usage("--auth-basic: write USER:PASSWORD".to_owned()))?;
            let (username, password) = (username.to_owned(), password.to_owned());
            return Ok(Some(WebhookAuth::Basic { username, password }));
        }
        match self.auth_mtls.as_slice() {
            [cert, key] => {
                let pem = |path: &String| {
                    read_file(path).map_err(|error| error.context(format!("--auth-mtls: {path}")))
                };
                Ok(Some(WebhookAuth::Mtls { cert: pem(cert)?, key: pem(key)? }))
            }
            _ => Ok(None),
        }
    }
}
