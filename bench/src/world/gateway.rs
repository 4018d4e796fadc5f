//! A gateway under measurement, or one of its ceilings, with a source to send to.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::process::Command;

use super::child::Child;
use super::usage;
use crate::api::Api;
use crate::bench::Bench;
use crate::load::connection::Connection;
use crate::load::requests::Events;

/// Known to every gateway under measurement; they listen on 127.0.0.1 only and are gone afterwards.
/// The key of an admin of all tenants.
pub const ADMIN_KEY: &str = "a-key-for-measurements-that-guards-nothing";
/// What events are signed with.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Where a gateway keeps its master key, in its data directory.
const KEY_FILE: &str = "master.key";

/// How long a server that listens may take until it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// What serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Reads the body, answers 202.
    Bare,
    /// The gateway without its commit.
    Ceiling,
    /// `wakepost serve` on SQLite.
    Sqlite,
    /// `wakepost serve` on PostgreSQL.
    Postgres,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Bare => "bare",
            Kind::Ceiling => "ceiling",
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "PostgreSQL",
        })
    }
}

/// A running server, ready to be sent to.
pub struct Gateway {
    /// What it is.
    pub kind: Kind,
    /// The process.
    pub child: Child,
    /// Where its SQLite lives, if it has one.
    pub data_dir: PathBuf,
    /// Its database on the server, if it has one.
    pub database: Option<String>,
    /// How many events were made for it so far: each has its own number.
    pub numbers: Arc<AtomicU64>,
    /// Where its database is reached, if it has one.
    pub url: Option<String>,
    source: String,
}

impl Gateway {
    /// Starts a server on an empty database and gives it a source.
    pub async fn start(bench: &Bench, kind: Kind) -> anyhow::Result<Gateway> {
        let data_dir = new_directory(bench.directory.path())?;
        let (mut database, mut url) = (None, None);
        if kind == Kind::Postgres {
            let postgres = bench.postgres.as_ref().context("there is no PostgreSQL")?;
            let made = postgres.create().await?;
            (database, url) = (Some(made.0), Some(made.1));
        }
        let child = Child::start(&mut command(bench, kind, &data_dir, url.as_deref())?).await?;
        let mut gateway = Gateway {
            kind,
            child,
            data_dir,
            database,
            numbers: Arc::default(),
            url,
            source: "src_none".to_owned(),
        };
        if kind != Kind::Bare {
            gateway.source = gateway.new_source().await?;
        }
        Ok(gateway)
    }

    /// Starts a server that was stopped, on the data it left; answers how long it took from the start of
    /// the process until it said that it is ready.
    pub async fn start_again(&mut self, bench: &Bench) -> anyhow::Result<Duration> {
        let began = Instant::now();
        let mut command = command(bench, self.kind, &self.data_dir, self.url.as_deref())?;
        self.child = Child::start(&mut command).await?;
        self.ready().await?;
        Ok(began.elapsed())
    }

    /// Waits until the server says that it is ready.
    async fn ready(&self) -> anyhow::Result<()> {
        let began = Instant::now();
        let request = format!("GET /readyz HTTP/1.1\r\nhost: {}\r\n\r\n", self.address());
        let mut connection = Connection::open(self.address()).await?;
        while connection.exchange(request.as_bytes()).await?.status != 200 {
            anyhow::ensure!(began.elapsed() < READY_TIMEOUT, "the server did not become ready");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Starts another node on the same PostgreSQL.
    pub async fn node(&self, bench: &Bench) -> anyhow::Result<Gateway> {
        anyhow::ensure!(self.database.is_some(), "on SQLite there is one node");
        let data_dir = new_directory(bench.directory.path())?;
        // Its key is all that a node on PostgreSQL keeps for itself.
        std::fs::copy(self.data_dir.join(KEY_FILE), data_dir.join(KEY_FILE))?;
        let (database, url) = (self.database.clone(), self.url.clone());
        self.twin(bench, data_dir, database, url).await
    }

    /// Starts a gateway on a copy of what this one stored. Its server must have been stopped.
    pub async fn copy(&self, bench: &Bench) -> anyhow::Result<Gateway> {
        let data_dir = new_directory(bench.directory.path())?;
        for entry in std::fs::read_dir(&self.data_dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), data_dir.join(entry.file_name()))?;
            }
        }
        let (database, url) = match (&bench.postgres, &self.database) {
            (Some(postgres), Some(name)) => {
                let (name, url) = postgres.copy(name).await?;
                (Some(name), Some(url))
            }
            _ => (None, None),
        };
        self.twin(bench, data_dir, database, url).await
    }

    /// Starts a server with the same source and numbers.
    async fn twin(
        &self,
        bench: &Bench,
        data_dir: PathBuf,
        database: Option<String>,
        url: Option<String>,
    ) -> anyhow::Result<Gateway> {
        let mut command = command(bench, self.kind, &data_dir, url.as_deref())?;
        let twin = Gateway {
            kind: self.kind,
            child: Child::start(&mut command).await?,
            data_dir,
            database,
            numbers: self.numbers.clone(),
            url,
            source: self.source.clone(),
        };
        twin.ready().await?;
        Ok(twin)
    }

    /// Removes what it stored. The server must have been stopped.
    pub async fn discard(self, bench: &Bench) -> anyhow::Result<()> {
        if let (Some(postgres), Some(name)) = (&bench.postgres, &self.database) {
            postgres.remove(name).await?;
        }
        std::fs::remove_dir_all(&self.data_dir)?;
        Ok(())
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.child.address
    }

    /// The memory it holds.
    pub fn resident_bytes(&self) -> u64 {
        usage::resident_bytes(self.child.pid).unwrap_or(0)
    }

    /// A connection for API calls.
    pub async fn api(&self) -> anyhow::Result<Api> {
        Api::connect(self.address(), ADMIN_KEY).await
    }

    /// Signed events for it, each with a number of its own.
    pub fn events(&self) -> anyhow::Result<Events> {
        Events::new(self.address(), &self.source, SECRET, self.numbers.clone())
    }

    /// Makes a webhook: where to, which type it gets, and further fields. Its circuit never opens.
    pub async fn webhook(
        &self,
        path: &str,
        url: &str,
        event_type: &str,
        further: &[(&str, Value)],
    ) -> anyhow::Result<()> {
        let never = json!({"failures": 0});
        let mut fields = json!({"url": url, "events": [event_type], "circuit_settings": never});
        for (name, value) in further {
            fields[*name] = value.clone();
        }
        let answer = self.api().await?.post(path, fields.to_string()).await?;
        let webhook: Value = serde_json::from_slice(&answer)?;
        let warning = &webhook["warning"];
        anyhow::ensure!(warning.is_null(), "a receiver that cannot be reached: {warning}");
        Ok(())
    }

    async fn new_source(&self) -> anyhow::Result<String> {
        let body = json!({"provider": "standard-webhooks", "name": "bench", "secret": SECRET});
        let answer = self.api().await?.post("/sources", body.to_string()).await?;
        let source: Value = serde_json::from_slice(&answer)?;
        let id = source["id"].as_str().context("a source without an id")?;
        Ok(id.to_owned())
    }
}

/// The program with its settings.
fn command(
    bench: &Bench,
    kind: Kind,
    data_dir: &Path,
    url: Option<&str>,
) -> anyhow::Result<Command> {
    let mut command = match kind {
        Kind::Bare | Kind::Ceiling => Command::new(std::env::current_exe()?),
        Kind::Sqlite | Kind::Postgres => Command::new(&bench.program),
    };
    match kind {
        Kind::Bare => command.arg("serve-bare"),
        Kind::Ceiling => command.arg("serve-ceiling").arg("--data-dir").arg(data_dir),
        Kind::Sqlite | Kind::Postgres => command
            .args(["serve", "--listen=127.0.0.1:0", "--log-level=warn"])
            .arg("--data-dir")
            .arg(data_dir),
    };
    command
        .env_remove("DATABASE_URL")
        .env_remove("WAKEPOST_DATABASE_URL")
        .env("WAKEPOST_ADMIN_KEY", ADMIN_KEY)
        // Receivers are on this machine.
        .env("WAKEPOST_ALLOW_HTTP", "true")
        .env("WAKEPOST_ALLOW_PRIVATE", "true")
        // Not where a wakepost.toml of the developer's may lie.
        .current_dir(data_dir);
    if let Some(url) = url {
        command.env("DATABASE_URL", url);
    }
    Ok(command)
}

fn new_directory(parent: &Path) -> anyhow::Result<PathBuf> {
    let directory = tempfile::Builder::new().prefix("data-").tempdir_in(parent)?;
    // Removed with its parent, after the server that uses it has gone.
    Ok(directory.keep())
}
