//! Settings: flags over environment over `wakepost.toml` over defaults, each with its origin.

mod alerts;
mod exec;
mod key;
mod load;
mod outbound;
mod retention;
mod traces;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use exec::ExecCommand;
pub use key::{
    KEY_FILES, KeyPlace, Keys, MasterKeySource, key_names, master_keys, one_key, previous_file,
    turn_file,
};
pub use load::{ConfigError, Flags, Origin, Setting, check_names, load, load_text};
pub use retention::Retention;

use rustls::pki_types::CertificateDer;
use wakepost_domain::alert::Thresholds;

use crate::listener::tls::TlsFiles;
use crate::outbound::AddressPolicy;
use crate::telemetry::traces::TraceSettings;

/// Everything an operator can set.
#[derive(Clone)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where the API and the dashboard listen, if not there.
    pub api_listen: Option<SocketAddr>,
    /// Where `/metrics` listens, without a key.
    pub metrics_listen: Option<SocketAddr>,
    /// Where the certificates are, if the listeners speak TLS.
    pub tls: Option<TlsFiles>,
    /// Where SQLite and the key file live.
    pub data_dir: PathBuf,
    /// PostgreSQL, if not SQLite.
    pub database_url: Option<String>,
    /// The address the outside world reaches us at. `None`: the listen address.
    pub public_url: Option<String>,
    /// The first admin key, if the operator chose it.
    pub admin_key: Option<String>,
    /// Where the master key is, if not in the data directory's file.
    pub master_key: Option<KeyPlace>,
    /// Where master keys are that may still have wrapped something.
    pub master_key_previous: Vec<KeyPlace>,
    /// What requests that we send may reach.
    pub addresses: AddressPolicy,
    /// Certificate authorities that requests we send trust beside the public ones.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<ipnet::IpNet>,
    /// How many pushed runs may be under way on this node.
    pub push_concurrency: usize,
    /// How many connections are served at once.
    pub connections_max: usize,
    /// How many calls in a second a key may make that has no limit of its own; 0: any number.
    pub key_rate_per_s: f64,
    /// How many agents may lead to a job before a person must let it go on.
    pub max_hops: u32,
    /// How long a job may wait before the sweep fires for it again.
    pub sweep_after: Duration,
    /// How long a stop waits for what is under way.
    pub shutdown_grace: Duration,
    /// How many tenants are named in the metrics.
    pub metrics_tenants_max: usize,
    /// How long history is kept.
    pub retention: Retention,
    /// From what on an alert fires.
    pub alerts: Thresholds,
    /// How often is looked for that.
    pub alerts_every: Duration,
    /// Where traces go, if anywhere.
    pub traces: Option<TraceSettings>,
    /// Commands that jobs may name.
    pub exec: BTreeMap<String, ExecCommand>,
    /// `pretty` or `json`.
    pub log_json: bool,
    /// What is logged.
    pub log_level: String,
    /// Where each setting came from, in the order it is shown.
    pub shown: Vec<Setting>,
}

impl std::fmt::Debug for Config {
    /// Only what may be shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.shown).finish()
    }
}

impl Config {
    /// The one base URL: for links and for whatever signs a URL. Without a slash at the end.
    pub fn base_url(&self, listening: SocketAddr) -> String {
        match &self.public_url {
            Some(url) => url.trim_end_matches('/').to_owned(),
            None => self.url_of(listening),
        }
    }

    /// The address of a listener as a URL.
    pub fn url_of(&self, listening: SocketAddr) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{listening}")
    }
}
