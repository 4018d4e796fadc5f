//! The PostgreSQL server: one scratch database for each gateway.

use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context;
use tokio_postgres::{Client, NoTls};

use super::usage;

const COPIES_TRIED_MAX: u32 = 50;
const COPY_AGAIN: Duration = Duration::from_millis(100);

/// A connection to the server, and the databases made through it.
pub struct Postgres {
    url: url::Url,
    client: Client,
    made: Mutex<Vec<String>>,
    /// The server's first process, if the server runs on this machine.
    postmaster: Option<u32>,
}

impl Postgres {
    /// Connects as a superuser.
    pub async fn connect(address: &str) -> anyhow::Result<Postgres> {
        let url: url::Url = address.parse().context("the database's address")?;
        let client = connect(&url).await?;
        let backend: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.try_get(0)?;
        let local = matches!(url.host_str(), Some("127.0.0.1" | "localhost"));
        let postmaster = u32::try_from(backend).ok().and_then(usage::parent);
        Ok(Postgres {
            url,
            client,
            made: Mutex::default(),
            postmaster: postmaster.filter(|_| local),
        })
    }

    /// Its version and the settings that decide what a commit is worth.
    pub async fn describe(&self) -> anyhow::Result<String> {
        let mut parts = Vec::new();
        for name in [
            "server_version",
            "fsync",
            "synchronous_commit",
            "full_page_writes",
            "shared_buffers",
            "max_wal_size",
        ] {
            let row = self.client.query_one("SELECT current_setting($1)", &[&name]).await?;
            let value: String = row.try_get(0)?;
            parts.push(match name {
                "server_version" => format!("PostgreSQL {value}"),
                _ => format!("{name}={value}"),
            });
        }
        Ok(parts.join(", "))
    }

    /// Makes an empty database and answers its name and address.
    pub async fn create(&self) -> anyhow::Result<(String, String)> {
        let name = self.new_name();
        self.client.batch_execute(&format!("CREATE DATABASE {name}")).await?;
        Ok(self.named(name))
    }

    /// Makes a copy of a database that nobody uses any more, and answers its name and address.
    pub async fn copy(&self, template: &str) -> anyhow::Result<(String, String)> {
        let name = self.new_name();
        // As files: through the log, which is the default, a large one takes several times as long.
        let statement = format!("CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy");
        let mut tried = 0;
        // A connection that was closed is gone a little later.
        while let Err(error) = self.client.batch_execute(&statement).await {
            tried += 1;
            anyhow::ensure!(tried < COPIES_TRIED_MAX, "copying a database: {error}");
            tokio::time::sleep(COPY_AGAIN).await;
        }
        Ok(self.named(name))
    }

    fn new_name(&self) -> String {
        let mut made = self.made.lock().expect("nobody panics while holding it");
        let name = format!("wakepost_bench_{}_{}", std::process::id(), made.len());
        made.push(name.clone());
        name
    }

    fn named(&self, name: String) -> (String, String) {
        let mut url = self.url.clone();
        url.set_path(&name);
        (name, url.to_string())
    }

    /// How large a database is.
    pub async fn bytes(&self, name: &str) -> anyhow::Result<u64> {
        let row =
            self.client.query_one("SELECT pg_database_size($1::text::name)", &[&name]).await?;
        let bytes: i64 = row.try_get(0)?;
        Ok(u64::try_from(bytes)?)
    }

    /// Where it keeps its data, if that is on this machine.
    pub async fn directory(&self) -> anyhow::Result<Option<std::path::PathBuf>> {
        let row = self.client.query_one("SELECT current_setting('data_directory')", &[]).await?;
        let directory = std::path::PathBuf::from(row.try_get::<_, String>(0)?);
        Ok(self.postmaster.is_some().then_some(directory))
    }

    /// Removes a database that was made.
    pub async fn remove(&self, name: &str) -> anyhow::Result<()> {
        self.client.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await?;
        let mut made = self.made.lock().expect("nobody panics while holding it");
        // Its number stays taken.
        made.iter_mut().filter(|known| *known == name).for_each(String::clear);
        Ok(())
    }

    /// Writes everything that it still has to write.
    pub async fn rest(&self) -> anyhow::Result<()> {
        Ok(self.client.batch_execute("CHECKPOINT").await?)
    }

    /// Runs a statement in a database.
    pub async fn run(&self, name: &str, statement: &str) -> anyhow::Result<()> {
        let mut url = self.url.clone();
        url.set_path(name);
        connect(&url).await?.batch_execute(statement).await?;
        Ok(())
    }

    /// The one number that a query answers in a database.
    pub async fn number(&self, name: &str, query: &str) -> anyhow::Result<i64> {
        let mut url = self.url.clone();
        url.set_path(name);
        Ok(connect(&url).await?.query_one(query, &[]).await?.try_get(0)?)
    }

    /// The CPU time of the whole server so far; zero if it runs elsewhere.
    pub fn cpu(&self) -> Duration {
        self.postmaster.map_or(Duration::ZERO, usage::family_cpu)
    }

    /// Removes the databases that were made.
    pub async fn clean_up(&self) {
        let made = std::mem::take(&mut *self.made.lock().expect("nobody panics while holding it"));
        for name in made.iter().filter(|name| !name.is_empty()) {
            let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
            if let Err(error) = self.client.batch_execute(&drop).await {
                eprintln!("the database {name} could not be removed: {error}");
            }
        }
    }
}

/// A connection of its own.
pub async fn connect(url: &url::Url) -> anyhow::Result<Client> {
    let (client, connection) =
        tokio_postgres::connect(url.as_str(), NoTls).await.context("connecting to PostgreSQL")?;
    tokio::spawn(connection);
    Ok(client)
}
