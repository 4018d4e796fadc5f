//! The only place that connects things.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use wakepost_domain::access::{Key, Reach, Role};
use wakepost_domain::ports::{Clock, Entropy};
use wakepost_domain::{AuditId, KeyId, Ulid, limits};
use wakepost_store::moves::{AuditEntry, KeyRecord, Ledger, Once};
use wakepost_store::postgres::{Postgres, PostgresOptions};
use wakepost_store::sqlite::{Drive, Durability, Sqlite};
use wakepost_store::vault::{KeyRing, Vault};
use wakepost_store::{Store, StoreError};

use crate::api::{self, KeptKeySet, KeptStats, hash_key, new_key};
use crate::config::{self, Config, MasterKeySource};
use crate::context::{self, Context};
use crate::dashboard;
use crate::directory::{Directory, MANY_NODES_TTL};
use crate::doors::{self, Door};
use crate::edge::{self, Faults, Rejections};
use crate::executors::Places;
use crate::fresh::Fresh;
use crate::hub::{Hub, NoHub, Word};
use crate::listener::{self, tls::Tls};
use crate::mcp;
use crate::outbound::{ClientSettings, GuardedClient, HttpClient, Mailer, SystemResolver};
use crate::queue::Queue;
use crate::rates::{Rates, Strangers};
use crate::reference;
use crate::self_webhook::SelfWebhook;
use crate::system::{SystemClock, SystemEntropy};
use crate::telemetry::metrics::Metrics;
use crate::telemetry::streaks::Streaks;
use crate::telemetry::tally::Tally;
use crate::telemetry::traces::Traces;
use crate::tokens::Tokens;
use crate::webhooks::{Circuits, Untold};
use crate::workers;
use crate::workers::rescue::Aside;

/// How often partitions are looked at. They are made weeks ahead.
const PARTITIONS_PERIOD: Duration = Duration::from_secs(6 * 3600);

/// What the server takes from the world around it. A simulation hands in its own.
pub struct Ports {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub entropy: Arc<dyn Entropy>,
    /// The database.
    pub store: Arc<dyn Store>,
    /// The way into it for events: the database itself, or something in front of it.
    pub ledger: Arc<dyn Ledger + Send + Sync>,
    /// The other nodes.
    pub hub: Arc<dyn Hub>,
    /// For how long settings are kept in memory that others may change; `None`: there are no others.
    pub settings_ttl: Option<Duration>,
    /// Requests that we send.
    pub client: Arc<dyn HttpClient>,
    /// Mails that we send.
    pub mailer: Mailer,
}

/// Where the server is reached.
pub struct Reached {
    /// From outside.
    pub address: SocketAddr,
    /// On this machine, where the API is.
    pub api_address: SocketAddr,
}

/// A server that is ready to serve.
pub struct App {
    /// Where it listens.
    pub address: SocketAddr,
    /// Where each further listener does, and what for.
    pub further: Vec<(&'static str, SocketAddr)>,
    /// The first admin key, if it was made just now: shown once.
    pub first_key: Option<String>,
    /// Where the master key came from.
    pub master_key: MasterKeySource,
    /// Its parts.
    pub context: Arc<Context>,
    doors: Vec<Door>,
    certificates: Vec<Arc<Tls>>,
    words: Option<mpsc::Receiver<String>>,
    postgres: Option<Postgres>,
}

impl App {
    /// Opens the store, brings it up to date, and binds the listener.
    pub async fn start(config: Config) -> anyhow::Result<App> {
        App::start_with(config, |store| store).await
    }

    /// As [`App::start`], with something in front of the ledger.
    pub async fn start_with(
        config: Config,
        intake: impl FnOnce(Arc<dyn Ledger + Send + Sync>) -> Arc<dyn Ledger + Send + Sync>,
    ) -> anyhow::Result<App> {
        make_data_dir(&config)?;
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let (keys, master_key) = config::master_keys(&config, entropy.as_ref()).await?;
        let (mut ports, words, postgres) = of_the_system(&config, entropy).await?;
        ports.ledger = intake(ports.ledger);
        let vault = open_vault(keys, &ports).await?;
        let first_key = first_key(&config, &ports).await?;
        let (doors, certificates) = doors::open(&config).await?;
        let address = doors[0].address;
        let api_address =
            doors.iter().find(|door| door.leads_to.has_api()).map(|door| door.address);
        let further = doors[1..].iter().map(|door| (door.leads_to.name(), door.address)).collect();
        let reached = Reached { address, api_address: api_address.unwrap_or(address) };
        let context = connect(config, ports, vault, reached).await?;
        Ok(App {
            address,
            further,
            first_key,
            master_key,
            context,
            doors,
            certificates,
            words,
            postgres,
        })
    }

    /// Serves until the context's `stop`, then lets what is under way end.
    pub async fn serve(self) {
        let context = self.context;
        let tracker = context.tasks.clone();
        workers::start(&context, &tracker);
        if let Some(words) = self.words {
            tracker.spawn(workers::hub::listen(context.clone(), words));
        }
        if let Some(postgres) = self.postgres {
            tracker.spawn(keep_partitions(context.clone(), postgres));
        }
        if !self.certificates.is_empty() {
            tracker.spawn(listener::tls::keep(self.certificates, context.stop.clone()));
        }
        let router = router(&context);
        let grace = context.config.shutdown_grace;
        let serving = self.doors.into_iter().map(|door| {
            let router = door.leads_to.router(&context, &router);
            listener::serve_with(
                door.listener,
                door.tls,
                router,
                context.config.connections_max,
                context.metrics.connections.clone(),
                context.stop.clone(),
                grace,
            )
        });
        futures_util::future::join_all(serving).await;
        tracker.close();
        // Pushed runs take their own grace, and then the time to end a command.
        if tokio::time::timeout(grace + Duration::from_secs(15), tracker.wait()).await.is_err() {
            tracing::warn!(
                "some work did not end within the grace period; its leases will run out"
            );
        }
        // The last runs have ended: what they counted is not lost by a stop.
        workers::series::flush(&context).await;
    }
}

/// The vault over a store; refused if the master key is not the one that the store was written with.
pub async fn open_vault(keys: impl KeyRing + 'static, ports: &Ports) -> anyhow::Result<Arc<Vault>> {
    let vault = Vault::new(Arc::new(keys), ports.store.clone(), ports.entropy.clone());
    vault.check().await?;
    Ok(Arc::new(vault))
}

/// Connects the parts, once. Nothing runs yet but the writer of refusals.
pub async fn connect(
    config: Config,
    ports: Ports,
    vault: Arc<Vault>,
    reached: Reached,
) -> anyhow::Result<Arc<Context>> {
    let Ports { clock, entropy, store, ledger, hub, settings_ttl, client, mailer } = ports;
    let root = vault.root().await?;
    let directory = Arc::new(Directory::new(store.clone(), vault.clone(), settings_ttl));
    let queue = Arc::new(Queue::new(store.clone(), directory.clone(), hub.clone()));
    let base_url = config.base_url(reached.address);
    let metrics = Metrics::default();
    Ok(Arc::new(Context {
        self_webhook: SelfWebhook::new(&base_url, &config),
        places: Arc::new(Places::new(&config)),
        tasks: TaskTracker::new(),
        base_url,
        rejections: Rejections::start(ledger.clone(), directory.clone()),
        rates: Rates::default(),
        key_rates: Rates::default(),
        strangers: Strangers::default(),
        faults: Faults::default(),
        local_url: local_url(&config, reached.api_address),
        tokens: Tokens::new(&root),
        ledger,
        client,
        mailer,
        fresh: Fresh::default(),
        streams: Arc::new(Semaphore::new(limits::STREAMS_MAX)),
        stats: KeptStats::default(),
        key_set: KeptKeySet::default(),
        links: Semaphore::new(limits::LINKS_AT_ONCE_MAX),
        traces: Traces::new(config.traces.is_some(), metrics.spans.clone()),
        metrics,
        streaks: Streaks::default(),
        tally: Tally::new(random_number(entropy.as_ref())),
        untold: Untold::default(),
        circuits: Circuits::default(),
        last_id: Mutex::new(context::last_id(store.as_ref(), clock.now(), entropy.as_ref()).await?),
        timers_seen: AtomicI64::new(0),
        aside: Aside::default(),
        used_keys: Mutex::new(HashMap::new()),
        stop: CancellationToken::new(),
        config,
        store,
        vault,
        clock,
        entropy,
        directory,
        queue,
        hub,
    }))
}

/// All routes.
pub fn router(context: &Arc<Context>) -> Router {
    let api = api::router(context.clone());
    let pages = dashboard::router(context.clone(), api.clone());
    let nowhere = dashboard::nowhere(context.clone(), api.clone());
    edge::router(context.clone())
        .merge(pages)
        .merge(mcp::router(context.clone(), api.clone()))
        .merge(reference::router(&context.base_url))
        .merge(api)
        .fallback_service(nowhere)
}

/// What tells this node from all others, those it was before a restart included.
fn random_number(entropy: &dyn Entropy) -> i64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    i64::from_be_bytes(bytes)
}

/// An address that means "all of mine" is reached through loopback. Behind TLS a certificate is for a name, and the one
/// that is known is the public URL's.
fn local_url(config: &Config, mut address: SocketAddr) -> String {
    if config.tls.is_some() && config.api_listen.is_none() && config.public_url.is_some() {
        return config.base_url(address);
    }
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    config.url_of(address)
}

fn make_data_dir(config: &Config) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(&config.data_dir)
        .with_context(|| format!("cannot make the data directory {}", config.data_dir.display()))
}

/// What a server is told by the others.
type Words = mpsc::Receiver<String>;

/// The real world, and what only a server on PostgreSQL needs besides.
async fn of_the_system(
    config: &Config,
    entropy: Arc<dyn Entropy>,
) -> anyhow::Result<(Ports, Option<Words>, Option<Postgres>)> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let settings = ClientSettings {
        policy: config.addresses.clone(),
        extra_roots: config.authorities.clone(),
        ..ClientSettings::default()
    };
    let resolver = Arc::new(SystemResolver::new());
    let mailer = Mailer::new(resolver.clone(), &settings)?;
    let client = Arc::new(GuardedClient::new(resolver, settings)?);
    let Some(url) = &config.database_url else {
        let store = Sqlite::open(&config.data_dir, clock.clone(), Durability::Full, Drive::Thread)?;
        let (store, hub, settings_ttl) = (Arc::new(store), Arc::new(NoHub), None);
        let ledger = store.clone();
        let ports = Ports { clock, entropy, store, ledger, hub, settings_ttl, client, mailer };
        return Ok((ports, None, None));
    };
    let postgres = Postgres::connect(url, PostgresOptions::default()).await?;
    postgres.migrate().await?;
    postgres.ensure_partitions(clock.now()).await?;
    let words = postgres.listen();
    let hub = Arc::new(PostgresHub(postgres.clone()));
    let (store, settings_ttl) = (Arc::new(postgres.clone()), Some(MANY_NODES_TTL));
    let ledger = store.clone();
    let ports = Ports { clock, entropy, store, ledger, hub, settings_ttl, client, mailer };
    Ok((ports, Some(words), Some(postgres)))
}

/// Makes the coming weeks' partitions in good time, for a server that runs for months.
async fn keep_partitions(context: Arc<Context>, postgres: Postgres) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(PARTITIONS_PERIOD) => {}
            () = context.stop.cancelled() => return,
        }
        if let Err(error) = postgres.ensure_partitions(context.now()).await {
            tracing::warn!(%error, "partitions could not be made; it will be tried again");
        }
    }
}

/// Tells the other nodes through the database.
struct PostgresHub(Postgres);

impl Hub for PostgresHub {
    fn tell(&self, word: Word) {
        self.0.notify(&word.to_string());
    }
}

/// Makes the first admin key, unless there is one or the operator chose it.
pub async fn first_key(config: &Config, ports: &Ports) -> anyhow::Result<Option<String>> {
    if let Some(secret) = &config.admin_key {
        add_admin(ports, secret, "from WAKEPOST_ADMIN_KEY").await?;
        return Ok(None);
    }
    if ports.store.count_keys(Role::Admin).await? > 0 {
        return Ok(None);
    }
    let everywhere = [Some(config.listen), config.api_listen, config.metrics_listen];
    if let Some(open) = everywhere.into_iter().flatten().find(|at| !at.ip().is_loopback()) {
        anyhow::bail!(
            "refusing to listen on {open} with a key that would have to be generated: set WAKEPOST_ADMIN_KEY \
             (at least 32 characters), or start once on 127.0.0.1"
        );
    }
    let secret = new_key(ports.entropy.as_ref());
    add_admin(ports, &secret, "first admin key").await?;
    Ok(Some(secret))
}

async fn add_admin(ports: &Ports, secret: &str, name: &str) -> anyhow::Result<()> {
    let (now, entropy) = (ports.clock.now(), ports.entropy.as_ref());
    let key = Key {
        id: KeyId(Ulid::new(now, entropy)),
        name: name.to_owned(),
        role: Role::Admin,
        reach: Reach::All,
        created_at: now,
        expires_at: None,
        last_used_at: None,
        rate_per_s: None,
    };
    let audit = AuditEntry {
        id: AuditId(Ulid::new(now, entropy)),
        tenant: None,
        actor: "wakepost".to_owned(),
        action: "key.create".to_owned(),
        target: key.id.to_string(),
        note: Some(name.to_owned()),
    };
    let record = KeyRecord { hash: hash_key(secret), key };
    match ports.store.create_key(record, audit, None).await {
        Ok(Once::Now(()) | Once::Before(_)) => Ok(()),
        // The same key from the environment, on another start or another node.
        Err(StoreError::Exists(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use http::Request;
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::ServiceExt;
    use wakepost_store::Result;
    use wakepost_store::moves::{Accepted, AuditEntry, NewEvent, NewReceipt, Received, SharedBody};

    use super::*;
    use crate::config::{Flags, load};

    const KEY: &str = "a-key-of-more-than-thirty-two-characters";

    /// As a log in front of the database may be: late, and sure to hand on each thing at least once.
    struct Log {
        to: Arc<dyn Ledger + Send + Sync>,
        seconds: Arc<Mutex<Vec<Accepted>>>,
    }

    #[async_trait]
    impl Ledger for Log {
        async fn accept(&self, batch: Vec<NewEvent>) -> Vec<Received> {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let first = self.to.accept(batch.clone()).await;
            let second = self.to.accept(batch).await;
            self.seconds.lock().extend(second.into_iter().map(|answer| answer.unwrap()));
            first
        }

        async fn accept_together(
            &self,
            body: SharedBody,
            events: Vec<NewEvent>,
        ) -> Result<Vec<Accepted>> {
            self.to.accept_together(body, events).await
        }

        async fn publish(
            &self,
            events: Vec<NewEvent>,
            audit: Option<AuditEntry>,
        ) -> Result<Vec<Accepted>> {
            self.to.publish(events, audit).await
        }

        async fn keep_rejections(&self, batch: Vec<NewReceipt>) -> Result<()> {
            self.to.keep_rejections(batch).await
        }
    }

    async fn ask(app: &App, method: &str, path: &str, body: Value) -> Value {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {KEY}"))
            .header("content-type", "application/json")
            .body(Body::from(if body.is_null() { String::new() } else { body.to_string() }))
            .unwrap();
        request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 9))));
        let answer = router(&app.context).oneshot(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{path}: {status} {body:?}");
        serde_json::from_slice(&body).unwrap()
    }

    /// The seam stands before any database.
    #[tokio::test]
    async fn what_an_intake_hands_on_late_and_twice_is_one_event_with_one_job() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("wakepost.toml");
        std::fs::write(&file, "").unwrap();
        let values = [
            ("data_dir", directory.path().display().to_string()),
            ("listen", "127.0.0.1:0".to_owned()),
            ("admin_key", KEY.to_owned()),
        ];
        let flags = Flags { file: Some(file), values: values.into() };
        let seconds = Arc::<Mutex<Vec<Accepted>>>::default();
        let seen = seconds.clone();
        let app = App::start_with(load(&flags, &|_| None).unwrap(), |to| {
            Arc::new(Log { to, seconds: seen })
        })
        .await
        .unwrap();
        let source = json!({"provider": "generic", "unsigned": true});
        let source = ask(&app, "POST", "/api/v1/sources", source).await;
        let inbound = format!("/in/{}", source["id"].as_str().unwrap());
        let sent = ask(&app, "POST", &inbound, json!({"id": "e-1", "type": "a.b"})).await;
        assert_eq!(sent["status"], "accepted");

        let events = ask(&app, "GET", "/api/v1/inbox", Value::Null).await;
        let jobs = ask(&app, "GET", "/api/v1/jobs", Value::Null).await;
        let only = |list: &Value| match list["data"].as_array().unwrap().as_slice() {
            [one] => one["id"].clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            (only(&events), only(&jobs)),
            (sent["event_id"].clone(), sent["job_id"].clone())
        );
        // It has the same id, so it is no duplicate of itself: the answer is the first one's.
        let seconds = seconds.lock();
        assert!(matches!(seconds[..], [Accepted::New]), "{seconds:?}");
    }
}
