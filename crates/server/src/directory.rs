//! Settings, cached: sources with their secrets opened, tenants, keys, lanes.
//!
//! What is kept here is only ever a copy. Alone on SQLite, every change goes through this process and
//! drops the copy at once. On many nodes a change is told to all of them, and a copy is never older than
//! [`MANY_NODES_TTL`].

mod approval;
mod cache;
mod policy;
mod source;
mod webhook;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use wakepost_domain::access::Key;
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::webhook::Webhook;
use wakepost_domain::{SourceId, TenantId, limits};
use wakepost_store::moves::{Page, SourceRecord};
use wakepost_store::vault::{Slot, Vault};
use wakepost_store::{Result, Store, StoreError};

use cache::Cache;
pub use policy::{Policy, Preflight, Secret};
pub use source::{LiveSource, sealed_record};
pub use webhook::{Catalogue, KnownType, misfit, schema, sealed_webhook};

/// How old a copy may be where other nodes change settings too.
pub const MANY_NODES_TTL: Duration = Duration::from_secs(1);

/// How many sources are looked at for one of the same provider.
const KIN_MAX: u32 = 50;

/// How many of a tenant's sources may be meant at once: one query names them all.
const SOURCES_FOUND_MAX: usize = 10_000;

/// How many lanes are remembered, by key and by number.
const LANES_KEPT: usize = 100_000;

/// The cached settings.
pub struct Directory {
    store: Arc<dyn Store>,
    vault: Arc<Vault>,
    sources: Cache<SourceId, Option<Arc<LiveSource>>>,
    platforms: Cache<String, Arc<[SourceId]>>,
    keys: Cache<[u8; 32], Option<Key>>,
    tenants: Cache<(), Arc<Tenants>>,
    webhooks: Cache<TenantId, Arc<[Arc<Webhook>]>>,
    catalogues: Cache<TenantId, Arc<Catalogue>>,
    /// Held by whoever reads all tenants, so that the others wait for that and do not read them too.
    reading_tenants: tokio::sync::Mutex<()>,
    /// Whether others change settings too.
    many_nodes: bool,
    lanes: RwLock<HashMap<LaneKey, Arc<Lane>>>,
    lanes_by_id: RwLock<HashMap<LaneId, Arc<Lane>>>,
}

/// All tenants.
#[derive(Debug, Default)]
pub struct Tenants {
    by_id: HashMap<TenantId, Arc<Tenant>>,
    by_slug: HashMap<String, Arc<Tenant>>,
}

impl Directory {
    /// A directory over a store. `ttl`: how old a copy may be; none where nobody else changes settings.
    pub fn new(store: Arc<dyn Store>, vault: Arc<Vault>, ttl: Option<Duration>) -> Directory {
        Directory {
            store,
            vault,
            sources: Cache::new(ttl),
            platforms: Cache::new(ttl),
            keys: Cache::new(ttl),
            tenants: Cache::new(ttl),
            webhooks: Cache::new(ttl),
            catalogues: Cache::new(ttl),
            reading_tenants: tokio::sync::Mutex::default(),
            many_nodes: ttl.is_some(),
            lanes: RwLock::default(),
            lanes_by_id: RwLock::default(),
        }
    }

    /// A source, ready to verify with. `None`: there is none.
    pub async fn source(&self, id: SourceId) -> Result<Option<Arc<LiveSource>>> {
        if let Some(found) = self.sources.get(&id) {
            return Ok(found);
        }
        let seen = self.sources.generation();
        let found = match self.store.source(id).await? {
            None => None,
            Some(record) => Some(Arc::new(self.open(record).await?)),
        };
        self.sources.put(seen, id, found.clone());
        Ok(found)
    }

    /// A source as it is stored, opened, with what the server itself keeps of it.
    pub async fn open(&self, record: SourceRecord) -> Result<LiveSource> {
        let (tenant, id) = (record.tenant, record.id);
        let key = self.vault.key(tenant).await?;
        let secrets = key.open(Slot::SourceSecrets(id), &record.secrets)?;
        let live = LiveSource::new(record, &secrets, key)?;
        if !live.provider.keeps_registration() {
            return Ok(live);
        }
        live.with_state(&self.store.source_state(tenant, id).await?)
    }

    /// The default tenant's sources of a platform; `email` means all that receive mail.
    pub async fn platform(&self, name: &str) -> Result<Arc<[SourceId]>> {
        if let Some(found) = self.platforms.get(&name.to_owned()) {
            return Ok(found);
        }
        let seen = self.platforms.generation();
        let is_it =
            |provider: &str| provider == name || name == "email" && provider.starts_with("email-");
        let found = self.sources_where(TenantId::DEFAULT, |record| is_it(&record.provider)).await?;
        let found: Arc<[SourceId]> = found.iter().map(|record| record.id).collect();
        self.platforms.put(seen, name.to_owned(), found.clone());
        Ok(found)
    }

    /// Those of a tenant's sources that fit, the latest first. All are looked at, page by page; more than can be dealt with
    /// at once is an error, so that none is left out unnoticed.
    pub async fn sources_where(
        &self,
        tenant: TenantId,
        fits: impl Fn(&SourceRecord) -> bool,
    ) -> Result<Vec<SourceRecord>> {
        let mut found = Vec::new();
        let mut page = Page { before: None, limit: limits::PAGE_MAX };
        loop {
            let records = self.store.sources(tenant, page).await?;
            let is_last = records.len() < limits::PAGE_MAX as usize;
            page.before = records.last().map(|record| record.id);
            found.extend(records.into_iter().filter(&fits));
            if found.len() > SOURCES_FOUND_MAX {
                let text =
                    format!("more than {SOURCES_FOUND_MAX} of the tenant's sources are meant");
                return Err(StoreError::Limit(text));
            }
            if is_last {
                return Ok(found);
            }
        }
    }

    /// The tenant's other sources of the same provider, the latest few.
    pub async fn kin(&self, live: &LiveSource) -> Result<Vec<Arc<LiveSource>>> {
        let page = Page { before: None, limit: KIN_MAX };
        let mut kin = Vec::new();
        for record in self.store.sources(live.source.tenant, page).await? {
            if record.provider == live.source.provider && record.id != live.source.id {
                kin.extend(self.source(record.id).await?);
            }
        }
        Ok(kin)
    }

    /// The live key with this hash.
    pub async fn key(&self, hash: [u8; 32]) -> Result<Option<Key>> {
        if let Some(found) = self.keys.get(&hash) {
            return Ok(found);
        }
        let seen = self.keys.generation();
        let found = self.store.key_by_hash(hash).await?;
        self.keys.put(seen, hash, found.clone());
        Ok(found)
    }

    /// A tenant by its number.
    pub async fn tenant(&self, id: TenantId) -> Result<Option<Arc<Tenant>>> {
        self.known(|all| all.by_id.get(&id)).await
    }

    /// A tenant by its slug.
    pub async fn tenant_by_slug(&self, slug: &str) -> Result<Option<Arc<Tenant>>> {
        self.known(|all| all.by_slug.get(slug)).await
    }

    /// A tenant that another node made a moment ago is looked for where it is: its key may be here before the word of it.
    async fn known(
        &self,
        find: impl Fn(&Tenants) -> Option<&Arc<Tenant>>,
    ) -> Result<Option<Arc<Tenant>>> {
        if let Some(found) = find(&*self.tenants().await?) {
            return Ok(Some(found.clone()));
        }
        if !self.many_nodes {
            return Ok(None);
        }
        self.forget_tenants();
        Ok(find(&*self.tenants().await?).cloned())
    }

    /// All tenants.
    pub async fn all_tenants(&self) -> Result<Vec<Arc<Tenant>>> {
        Ok(self.tenants().await?.by_id.values().cloned().collect())
    }

    async fn tenants(&self) -> Result<Arc<Tenants>> {
        if let Some(found) = self.tenants.get(&()) {
            return Ok(found);
        }
        let _reading = self.reading_tenants.lock().await;
        if let Some(found) = self.tenants.get(&()) {
            return Ok(found);
        }
        let seen = self.tenants.generation();
        let mut all = Tenants::default();
        for tenant in self.store.tenants().await?.into_iter().map(Arc::new) {
            all.by_id.insert(tenant.id, tenant.clone());
            all.by_slug.insert(tenant.slug.clone(), tenant);
        }
        let all = Arc::new(all);
        self.tenants.put(seen, (), all.clone());
        Ok(all)
    }

    /// The lane of a key, made if need be. A tenant with very many names of jobs shares one lane for the
    /// rest of them. Jobs with executors of their own cannot share one: past twice as many lanes those are refused.
    pub async fn lane(&self, key: LaneKey) -> Result<Arc<Lane>> {
        if let Some(found) = self.lanes.read().get(&key) {
            return Ok(found.clone());
        }
        let count = self.store.count_lanes(key.tenant).await?;
        let stored = match count < limits::LANES_PER_TENANT_MAX as i64 {
            true => key.clone(),
            false => LaneKey { name: String::new(), ..key.clone() },
        };
        if stored.executor.is_some() && count >= 2 * limits::LANES_PER_TENANT_MAX as i64 {
            let text = "the tenant has too many different executors, kinds and sources of jobs";
            return Err(StoreError::Limit(text.to_owned()));
        }
        let lane = Arc::new(self.store.lane(stored).await?);
        let mut lanes = self.lanes.write();
        // Names of jobs are the callers' to choose, and many may share a lane.
        if lanes.len() >= LANES_KEPT {
            lanes.clear();
        }
        lanes.insert(key, lane.clone());
        drop(lanes);
        self.keep_lane(&lane);
        Ok(lane)
    }

    fn keep_lane(&self, lane: &Arc<Lane>) {
        let mut lanes = self.lanes_by_id.write();
        if lanes.len() >= LANES_KEPT {
            lanes.clear();
        }
        lanes.insert(lane.id, lane.clone());
    }

    /// Lanes by number; unknown ones are missing. Lanes never change.
    pub async fn lanes(&self, ids: &[LaneId]) -> Result<Vec<Arc<Lane>>> {
        let mut found = Vec::with_capacity(ids.len());
        let mut missing = Vec::new();
        {
            let known = self.lanes_by_id.read();
            for id in ids {
                match known.get(id) {
                    Some(lane) => found.push(lane.clone()),
                    None => missing.push(*id),
                }
            }
        }
        if !missing.is_empty() {
            for lane in self.store.lanes(missing).await?.into_iter().map(Arc::new) {
                self.keep_lane(&lane);
                found.push(lane);
            }
        }
        Ok(found)
    }

    /// A source changed.
    pub fn forget_source(&self, id: SourceId) {
        self.sources.forget(&id);
        self.platforms.forget_all();
    }

    /// A key changed.
    pub fn forget_keys(&self) {
        self.keys.forget_all();
    }

    /// A tenant changed.
    pub fn forget_tenants(&self) {
        self.tenants.forget_all();
    }
}

#[cfg(test)]
mod tests {
    use http::{Method, StatusCode};
    use serde_json::{Value, json};
    use wakepost_domain::tenant::TenantSettings;
    use wakepost_domain::{AuditId, Ulid};
    use wakepost_store::moves::{AuditEntry, Once, Settings};
    use wakepost_store::sqlite::{Drive, Durability, Sqlite};
    use wakepost_store::vault::MasterKey;

    use super::*;
    use crate::system::{SystemClock, SystemEntropy};
    use crate::trial::{ADMIN, Trial, ask};

    #[tokio::test]
    async fn however_many_sources_a_tenant_has_none_that_fits_is_left_out() {
        let trial = Trial::start().await;
        let source =
            |provider: &str| json!({"provider": provider, "unsigned": true, "concurrency": 1});
        for _ in 0..2 {
            trial.post("/sources", &source("github")).await;
        }
        for _ in 0..limits::PAGE_MAX {
            trial.post("/sources", &json!({"provider": "generic", "unsigned": true})).await;
        }
        trial.post("/sources", &source("github")).await;
        let of_github = |record: &SourceRecord| record.provider == "github";
        let directory = &trial.context.directory;
        let found = directory.sources_where(TenantId::DEFAULT, of_github).await.unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(directory.platform("github").await.unwrap().len(), 3);
        let (status, stats) =
            ask(&trial.context, ADMIN, Method::GET, "/api/v1/stats", &Value::Null).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(stats["sources"].as_array().unwrap().len(), 3, "those with bounds");
    }

    /// The word of it is on its way to this node, and its key is here.
    #[tokio::test]
    async fn a_tenant_that_another_node_just_made_is_known() {
        let place = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock);
        let store = Sqlite::open(place.path(), clock, Durability::Full, Drive::Inline).unwrap();
        let store = Arc::new(store);
        let ring = Arc::new(MasterKey::new([7; 32]));
        let vault = Arc::new(Vault::new(ring, store.clone(), Arc::new(SystemEntropy)));
        let directory = Directory::new(store.clone(), vault, Some(Duration::from_secs(3600)));
        assert_eq!(directory.all_tenants().await.unwrap().len(), 1);
        let audit = AuditEntry {
            id: AuditId(Ulid::MIN),
            tenant: None,
            actor: "another node".to_owned(),
            action: "tenant.create".to_owned(),
            target: "acme".to_owned(),
            note: None,
        };
        let made = store.create_tenant("acme".to_owned(), TenantSettings::default(), audit, None);
        let Once::Now(made) = made.await.unwrap() else { panic!("it was there before") };
        assert!(directory.tenant(made.id).await.unwrap().is_some());
        assert!(directory.tenant_by_slug("acme").await.unwrap().is_some());
        assert!(directory.tenant_by_slug("nobody").await.unwrap().is_none());
    }
}
