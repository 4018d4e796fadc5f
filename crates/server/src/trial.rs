//! A server of a test: its parts on a database of its own, without a listener; and more nodes on that database.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Method, Request, header};
use http_body_util::BodyExt;
use serde_json::Value;
use tempfile::TempDir;
use tower::ServiceExt;
use wakepost_domain::ports::Clock;
use wakepost_store::vault::Vault;

use crate::app::{self, App, Ports, Reached};
use crate::config::{Flags, load};
use crate::context::Context;
use crate::outbound::{ClientSettings, Mailer, SystemResolver};

const ADMIN: &str = "an-admin-key-of-more-than-32-characters";

/// The first node, and where its database is.
pub struct Trial {
    pub context: Arc<Context>,
    _data: TempDir,
}

impl Trial {
    pub async fn start() -> Trial {
        let data = tempfile::tempdir().unwrap();
        let values = BTreeMap::from([
            ("listen", "127.0.0.1:0".to_owned()),
            ("data_dir", data.path().display().to_string()),
            ("admin_key", ADMIN.to_owned()),
        ]);
        let flags = Flags { file: None, values };
        let app = App::start(load(&flags, &|_| None).unwrap()).await.unwrap();
        Trial { context: app.context, _data: data }
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
        let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let reached = Reached { address, api_address: address };
        app::connect(config.clone(), ports, vault, reached).await.unwrap()
    }

    /// What the API answers an admin of all tenants; it must go well.
    pub async fn post(&self, path: &str, body: &Value) -> Value {
        let peer: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/api/v1{path}"))
            .header(header::AUTHORIZATION, format!("Bearer {ADMIN}"))
            .extension(ConnectInfo(peer))
            .body(Body::from(body.to_string()))
            .unwrap();
        let answer = app::router(&self.context).oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{path}: {status} {}", String::from_utf8_lossy(&body));
        serde_json::from_slice(&body).unwrap()
    }
}
