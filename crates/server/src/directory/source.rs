//! A source with everything at hand that its requests need.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::redaction::Redaction;
use wakepost_domain::source::{Source, SourceSecrets};
use wakepost_domain::thread::ThreadPolicy;
use wakepost_domain::work::Priority;
use wakepost_providers::{Facts, Need, Provider, Settings, Template, registry};
use wakepost_store::moves::{SourceRecord, SourceState};
use wakepost_store::vault::{Slot, TenantKey};
use wakepost_store::{Result, StoreError};

/// A source as it is stored, its secrets sealed.
pub fn sealed_record(source: &Source, key: &TenantKey) -> SourceRecord {
    let secrets = serde_json::to_vec(&source.secrets).expect("secrets are plain data");
    SourceRecord {
        id: source.id,
        tenant: source.tenant,
        provider: source.provider.clone(),
        config: source.config.clone(),
        secrets: key.seal(Slot::SourceSecrets(source.id), &secrets),
        secret_made_at: source.secret_made_at,
        created_at: source.created_at,
        updated_at: source.updated_at,
    }
}

/// A source, opened.
pub struct LiveSource {
    /// The source itself.
    pub source: Source,
    /// Its adapter.
    pub provider: &'static dyn Provider,
    /// What the adapter says about itself, with these settings.
    pub facts: Facts,
    /// The adapter's settings, secret ones included.
    pub settings: Settings,
    /// The tenant's key.
    pub key: Arc<TenantKey>,
    /// What its events are told apart by, in place of the provider's id.
    pub dedup_key: Option<Template>,
    /// What they are put in order by.
    pub order_by: Option<Template>,
    /// Their number among those of one order value.
    pub sequence_by: Option<Template>,
    /// What makes a newer one supersede a queued older one.
    pub coalesce_by: Option<Template>,
    /// What it hides of its payloads.
    pub redaction: Redaction,
    /// What is kept of its registration at the provider.
    pub registration: Option<Value>,
    /// When that ends unless it is renewed.
    pub expires_at: Option<Timestamp>,
    networks: Vec<ipnet::IpNet>,
}

impl std::fmt::Debug for LiveSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LiveSource({})", self.source.id)
    }
}

impl LiveSource {
    /// Opens a record; `secrets` is the sealed part, decrypted.
    pub fn new(record: SourceRecord, secrets: &[u8], key: Arc<TenantKey>) -> Result<LiveSource> {
        let damaged = |what: &str| StoreError::Corrupt(format!("source {}: {what}", record.id));
        let secrets: SourceSecrets =
            serde_json::from_slice(secrets).map_err(|_| damaged("its secrets cannot be read"))?;
        let provider = registry::find(&record.provider)
            .ok_or_else(|| damaged("its provider is not known here"))?;
        let networks = record.config.allow_from.iter().map(|text| text.parse());
        let networks = networks.collect::<std::result::Result<_, _>>();
        let networks = networks.map_err(|_| damaged("allow_from is not a list of networks"))?;
        let dedup_key = record.config.dedup_key.as_deref();
        let dedup_key = dedup_key.map(|text| Template::read("dedup_key", text)).transpose();
        let dedup_key = dedup_key.map_err(|_| damaged("dedup_key is not a template"))?;
        let pointer = |field: &str, text: &Option<String>| {
            let read = text.as_deref().map(|text| Template::pointer(field, text)).transpose();
            read.map_err(|_| damaged(&format!("{field} is not a pointer")))
        };
        let order_by = pointer("order_by", &record.config.order_by)?;
        let sequence_by = pointer("sequence_by", &record.config.sequence_by)?;
        let coalesce_by = pointer("coalesce_by", &record.config.coalesce_by)?;
        let redaction = Redaction::read(&record.config.redact)
            .map_err(|_| damaged("its redaction rules cannot be read"))?;
        let mut settings = record.config.settings.clone();
        settings.extend(secrets.settings.clone());
        Ok(LiveSource {
            facts: provider.facts_for(&settings),
            provider,
            settings,
            key,
            dedup_key,
            order_by,
            sequence_by,
            coalesce_by,
            redaction,
            registration: None,
            expires_at: None,
            networks,
            source: Source {
                id: record.id,
                tenant: record.tenant,
                provider: record.provider,
                config: record.config,
                secrets,
                secret_made_at: record.secret_made_at,
                created_at: record.created_at,
                updated_at: record.updated_at,
            },
        })
    }

    /// The same with what the server itself keeps of it.
    pub fn with_state(mut self, state: &SourceState) -> Result<LiveSource> {
        let id = self.source.id;
        if let Some(sealed) = &state.registration {
            let plain = self.key.open(Slot::Registration(id), sealed)?;
            let kept: Value = serde_json::from_slice(&plain).map_err(|_| {
                StoreError::Corrupt(format!("source {id}: its registration is not JSON"))
            })?;
            self.settings.extend(self.provider.registered_settings(&kept));
            self.registration = Some(kept);
        }
        self.expires_at = state.expires_at;
        Ok(self)
    }

    /// Where its requests go, on this server.
    pub fn ingest_path(&self) -> String {
        format!("/in/{}", self.source.id)
    }

    /// Whether a sender at this address is welcome.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.networks.is_empty() || self.networks.iter().any(|network| network.contains(&address))
    }

    /// An address from which a request is welcome.
    pub fn welcome_address(&self) -> IpAddr {
        let first = self.networks.first().map(ipnet::IpNet::network);
        first.unwrap_or(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST))
    }

    /// What must not be stored with a request: where nothing is signed, the secret itself is in it.
    pub fn hidden(&self, now: Timestamp) -> Vec<&str> {
        match self.facts.signs_body {
            true => Vec::new(),
            false => self.source.secrets.live(now).collect(),
        }
    }

    /// The largest body.
    pub fn body_bytes_max(&self) -> usize {
        self.source.config.max_body_bytes.unwrap_or(self.facts.body_bytes_max)
    }

    /// How far a signed time may be off.
    pub fn tolerance(&self) -> Duration {
        self.source.config.tolerance_s.map_or(self.facts.tolerance, Duration::from_secs)
    }

    /// Whether the body's hash is a second dedup key: by default where the id is outside what is signed, so
    /// that a captured body cannot come back under a new id.
    pub fn dedups_body(&self) -> bool {
        self.source.config.dedup_body.unwrap_or(!self.facts.id_is_signed && self.facts.signs_body)
    }

    /// Which queue its jobs wait in.
    pub fn priority(&self) -> Priority {
        self.source.config.priority.unwrap_or(self.facts.priority)
    }

    /// What a message does while its thread is busy. By default messages are merged where people wait for an
    /// answer, and queued where they wait for one to each, unless the source puts its events in order by something
    /// else.
    pub fn thread_policy(&self) -> ThreadPolicy {
        let config = &self.source.config;
        let talks = self.facts.priority == Priority::Interactive;
        let usual = match talks && config.order_by.is_none() && config.coalesce_by.is_none() {
            true if self.facts.answers_each => ThreadPolicy::Queue,
            true => ThreadPolicy::Merge,
            false => ThreadPolicy::Off,
        };
        config.thread_policy.unwrap_or(usual)
    }

    /// How old its secret is, in days; none if it has none. A public key is no secret.
    pub fn secret_days(&self, now: Timestamp) -> Option<u64> {
        let secret = self.source.secrets.current.as_deref()?;
        let is_public = self.provider.is_public(secret, &self.settings);
        (!is_public).then(|| now.since(self.source.secret_made_at).as_secs() / 86_400)
    }

    /// Whether it can verify a request.
    pub fn can_verify(&self) -> bool {
        let only_replies = |name: &String| {
            let mut settings = self.provider.settings().iter();
            settings.any(|setting| setting.name == name && setting.need == Need::Replying)
        };
        self.missing().iter().all(only_replies)
    }

    /// Settings that are still missing, to receive or to reply.
    pub fn missing(&self) -> Vec<String> {
        if self.source.config.unsigned {
            return Vec::new();
        }
        self.provider
            .check_config(self.source.secrets.current.as_deref(), &self.settings)
            .unwrap_or_else(|problem| vec![problem.field])
    }
}
