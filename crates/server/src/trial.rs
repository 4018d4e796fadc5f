//! A server of a test: its parts on a database of its own, without a listener; and more nodes on that database. All of it
//! runs on the thread of the test.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;
use wakepost_domain::ports::Clock;
use wakepost_store::sqlite::{Drive, Durability, Sqlite};
use wakepost_store::vault::{KeyRing, MasterKey, MasterKeys, Vault};

use crate::app::{self, Ports, Reached};
use crate::config::{Config, Flags, load};
use crate::context::Context;
use crate::hub::NoHub;
use crate::outbound::{ClientSettings, GuardedClient, Mailer, SystemResolver};
use crate::system::{SystemClock, SystemEntropy};

/// The key of an admin of all tenants.
pub const ADMIN: &str = "an-admin-key-of-more-than-32-characters";

const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);

/// The first node, and where its database is.
pub struct Trial {
    pub context: Arc<Context>,
    keys: MasterKeys,
    _data: TempDir,
}

/// Master keys that can be lost.
struct Ring {
    keys: MasterKeys,
    is_lost: Arc<AtomicBool>,
}

impl KeyRing for Ring {
    fn keys(&self) -> MasterKeys {
        match self.is_lost.load(Ordering::Relaxed) {
            true => MasterKeys::new(MasterKey::new([9; 32]), Vec::new()),
            false => self.keys.clone(),
        }
    }
}

impl Trial {
    pub async fn start() -> Trial {
        let data = tempfile::tempdir().unwrap();
        let values = BTreeMap::from([
            ("listen", "127.0.0.1:0".to_owned()),
            ("data_dir", data.path().display().to_string()),
            ("admin_key", ADMIN.to_owned()),
        ]);
        let config = load(&Flags { file: None, values }, &|_| None).unwrap();
        let clock = Arc::new(SystemClock);
        let store = Sqlite::open(data.path(), clock.clone(), Durability::Full, Drive::Inline);
        let store = Arc::new(store.unwrap());
        let resolver = Arc::new(SystemResolver::new());
        let client = GuardedClient::new(resolver.clone(), ClientSettings::default()).unwrap();
        let ports = Ports {
            clock,
            entropy: Arc::new(SystemEntropy),
            store: store.clone(),
            ledger: store,
            hub: Arc::new(NoHub),
            settings_ttl: None,
            client: Arc::new(client),
            mailer: Mailer::new(resolver, &ClientSettings::default()).unwrap(),
        };
        let keys = MasterKeys::new(MasterKey::new([7; 32]), Vec::new());
        let vault = app::open_vault(keys.clone(), &ports).await.unwrap();
        app::first_key(&config, &ports).await.unwrap();
        Trial { context: connect(config, ports, vault).await, keys, _data: data }
    }

    /// Another node on the same database, with a clock and a vault of its own.
    pub async fn node(&self, clock: Arc<dyn Clock>, vault: Arc<Vault>) -> Arc<Context> {
        let Context { entropy, store, ledger, hub, client, config, .. } = self.context.as_ref();
        let resolver = Arc::new(SystemResolver::new());
        let ports = Ports {
            clock,
            entropy: entropy.clone(),
            store: store.clone(),
            ledger: ledger.clone(),
            hub: hub.clone(),
            settings_ttl: None,
            client: client.clone(),
            mailer: Mailer::new(resolver, &ClientSettings::default()).unwrap(),
        };
        connect(config.clone(), ports, vault).await
    }

    /// Another node on the same database, and whether it lacks the master key from now on.
    pub async fn forgetful_node(&self) -> (Arc<Context>, Arc<AtomicBool>) {
        let is_lost = Arc::new(AtomicBool::new(false));
        let ring = Arc::new(Ring { keys: self.keys.clone(), is_lost: is_lost.clone() });
        let Context { store, entropy, .. } = self.context.as_ref();
        let vault = Arc::new(Vault::new(ring, store.clone(), entropy.clone()));
        (self.node(Arc::new(SystemClock), vault).await, is_lost)
    }

    /// What the API answers an admin of all tenants; it must go well.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let path = format!("/api/v1{path}");
        let (status, answer) = ask(&self.context, ADMIN, Method::POST, &path, body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }
}

async fn connect(config: Config, ports: Ports, vault: Arc<Vault>) -> Arc<Context> {
    let reached = Reached { address: ADDRESS, api_address: ADDRESS };
    app::connect(config, ports, vault, reached).await.unwrap()
}

/// What a node answers whoever has this key. An answer without a body is `null`.
pub async fn ask(
    node: &Arc<Context>,
    key: &str,
    method: Method,
    path: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::AUTHORIZATION, format!("Bearer {key}"))
        .extension(ConnectInfo(ADDRESS))
        .body(Body::from(if body.is_null() { String::new() } else { body.to_string() }))
        .unwrap();
    let answer = app::router(node).oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap_or_default())
}
