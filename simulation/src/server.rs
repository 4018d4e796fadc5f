//! The server that is simulated: all of it but its sockets, on inline SQLite, with the simulation's time, chance and
//! HTTP client.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use futures_util::future::{Either, select};
use http_body_util::BodyExt;
use tower::ServiceExt;
use wakepost_domain::ports::Entropy;
use wakepost_server::app::{self, Ports, Reached};
use wakepost_server::config::{Config, Flags, load};
use wakepost_server::hub::NoHub;
use wakepost_server::outbound::{ClientSettings, HttpClient, Mailer, SystemResolver};
use wakepost_server::workers;
use wakepost_store::sqlite::{Drive, Durability, Sqlite};
use wakepost_store::vault::{MasterKey, MasterKeys, rotate};

use crate::time::Time;
use crate::world::Calling;

/// The admin key of every simulation.
pub const ADMIN_KEY: &str = "wk_simulation_simulation_simulation_0";
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1);
/// The master keys. Each life knows both, and wraps what the other one wrapped anew by its own.
const MASTER_KEYS: [[u8; 32]; 2] = [[7; 32], [9; 32]];

/// What a server is made of, again and again.
#[derive(Clone)]
pub struct Making {
    /// Where its database is.
    pub directory: PathBuf,
    /// Its clock.
    pub time: Arc<Time>,
    /// Its chance.
    pub entropy: Arc<dyn Entropy>,
    /// Those it sends requests to.
    pub client: Arc<dyn HttpClient>,
    /// Which of the master keys is its own.
    pub key: usize,
}

/// A server that runs.
pub struct Server {
    router: Router,
}

impl Making {
    /// The same in another life, which has its own master key.
    pub fn with_key(&self, life: u32) -> Making {
        Making { key: life as usize % MASTER_KEYS.len(), ..self.clone() }
    }

    /// Starts it on whatever its last life left.
    pub async fn start(self) -> anyhow::Result<Server> {
        let config = config(&self.directory)?;
        let clock = self.time.clone();
        let store = Sqlite::open(&self.directory, clock.clone(), Durability::Full, Drive::Inline)?;
        let store = Arc::new(store);
        let ports = Ports {
            clock,
            entropy: self.entropy.clone(),
            store: store.clone(),
            ledger: store.clone(),
            hub: Arc::new(NoHub),
            settings_ttl: None,
            client: self.client,
            // No source of a simulation is told anything by mail.
            mailer: Mailer::new(Arc::new(SystemResolver::new()), &ClientSettings::default())?,
        };
        let [own, other] = [self.key, self.key + 1]
            .map(|key| MasterKey::new(MASTER_KEYS[key % MASTER_KEYS.len()]));
        let keys = MasterKeys::new(own, vec![other]);
        let vault = app::open_vault(keys.clone(), &ports).await?;
        app::first_key(&config, &ports).await?;
        let reached = Reached { address: ADDRESS, api_address: ADDRESS };
        let context = app::connect(config, ports, vault, reached).await?;
        workers::start(&context, &context.tasks);
        let entropy = self.entropy;
        // Whatever breaks it off, the next life goes on.
        tokio::spawn(async move { rotate(store.as_ref(), &keys, entropy.as_ref(), |_| ()).await });
        Ok(Server { router: app::router(&context) })
    }
}

impl Server {
    /// Serves a call, until it is answered or the client hangs up.
    pub fn serve(&self, calling: Calling) {
        let router = self.router.clone();
        let Calling { mut request, mut answer } = calling;
        request.extensions_mut().insert(ConnectInfo(ADDRESS));
        tokio::spawn(async move {
            let answering = Box::pin(answer_to(router, request));
            let answered = match select(answering, Box::pin(answer.closed())).await {
                Either::Left((answered, _)) => answered,
                Either::Right(_) => None,
            };
            // Whoever hung up meanwhile does not want it.
            if let Some(answered) = answered {
                let _ = answer.send(answered);
            }
        });
    }
}

async fn answer_to(router: Router, request: http::Request<Body>) -> Option<crate::world::Answer> {
    let Ok(response) = router.oneshot(request).await;
    let status = response.status();
    let body = response.into_body().collect().await.ok()?;
    Some((status, body.to_bytes()))
}

fn config(directory: &Path) -> anyhow::Result<Config> {
    let values = BTreeMap::from([
        ("data_dir", directory.display().to_string()),
        ("admin_key", ADMIN_KEY.to_owned()),
        ("public_url", "https://hooks.example".to_owned()),
        ("key_rate_per_s", "0".to_owned()),
    ]);
    let file = directory.join("wakepost.toml");
    std::fs::write(&file, "")?;
    Ok(load(&Flags { file: Some(file), values }, &|_| None)?)
}
