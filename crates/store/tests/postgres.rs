//! The promises of the store, kept by PostgreSQL.
//!
//! Every test has a database of its own, copied from a template that is migrated once for each state
//! of the migrations and each week, whichever process comes first. Two nodes share it, each with its own connections.

#![allow(clippy::unwrap_used, reason = "a harness is part of its tests")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use aws_lc_rs::digest::{Context, SHA256};
use tokio_postgres::{Client, Config, NoTls};
use wakepost_store::Store;
use wakepost_store::conformance::Harness;
use wakepost_store::moves::Upkeep;
use wakepost_store::postgres::{Postgres, PostgresOptions};

/// What a process holds while it makes the template: an arbitrary number.
const LOCK: i64 = 0x636f_6e66_6f72_6d73;

/// The database's clock, plus what a test moved it by.
const MOVABLE_CLOCK: &str = "
    CREATE TABLE moved_clock (by_ms bigint NOT NULL);
    INSERT INTO moved_clock VALUES (0);
    CREATE OR REPLACE FUNCTION wakepost_now() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
      $$ SELECT (extract(epoch FROM statement_timestamp()) * 1000)::bigint
                + (SELECT by_ms FROM moved_clock) $$;";

struct OnPostgres {
    nodes: [Arc<Postgres>; 2],
    clock: Client,
    server: Server,
    name: String,
}

#[async_trait]
impl Harness for OnPostgres {
    fn store(&self) -> Arc<dyn Store> {
        self.nodes[0].clone()
    }

    fn other_node(&self) -> Arc<dyn Store> {
        self.nodes[1].clone()
    }

    async fn advance(&self, by: Duration) {
        let by = by.as_millis() as i64;
        self.clock.execute("UPDATE moved_clock SET by_ms = by_ms + $1", &[&by]).await.unwrap();
    }

    async fn execute(&self, sql: &str) {
        self.clock.batch_execute(sql).await.unwrap();
    }

    async fn close(self) {
        drop((self.nodes, self.clock));
        self.server.run(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

async fn fresh() -> OnPostgres {
    let server = Server::given().await;
    let template = server.template().await;
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).unwrap();
    let name = format!("wakepost_test_{:016x}", u64::from_be_bytes(random));
    server.run(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
    let nodes = [server.node(&name).await, server.node(&name).await].map(Arc::new);
    OnPostgres { nodes, clock: server.client(&name).await, server, name }
}

/// The server that the tests make their databases on.
struct Server {
    url: String,
    admin: Client,
}

impl Server {
    async fn given() -> Server {
        let url = std::env::var("WAKEPOST_TEST_DATABASE_URL")
            .expect("WAKEPOST_TEST_DATABASE_URL is missing: run this through `cargo xtask test`");
        let config: Config = url.parse().expect("WAKEPOST_TEST_DATABASE_URL is an address");
        Server { admin: connect(&config).await, url }
    }

    async fn run(&self, sql: &str) {
        self.admin.batch_execute(sql).await.unwrap();
    }

    /// The address of another database on the same server.
    fn address(&self, database: &str) -> String {
        let (base, query) = match self.url.split_once('?') {
            Some((base, query)) => (base, format!("?{query}")),
            None => (self.url.as_str(), String::new()),
        };
        let (server, _) = base.rsplit_once('/').expect("the address names a database");
        format!("{server}/{database}{query}")
    }

    async fn client(&self, database: &str) -> Client {
        connect(&self.address(database).parse().unwrap()).await
    }

    async fn node(&self, database: &str) -> Postgres {
        Postgres::connect(&self.address(database), PostgresOptions::default()).await.unwrap()
    }

    /// The name of a database with the schema of today, made if it is not there.
    async fn template(&self) -> String {
        // Its partitions are those of this week and the next few.
        let week = UNIX_EPOCH.elapsed().unwrap().as_secs() / (7 * 24 * 3600);
        let name = format!("wakepost_template_{week}_{}", migrations_hash());
        let there = "SELECT 1 FROM pg_database WHERE datname = $1";
        self.admin.execute("SELECT pg_advisory_lock($1)", &[&LOCK]).await.unwrap();
        if self.admin.query_opt(there, &[&name]).await.unwrap().is_none() {
            self.make_template(&name).await;
        }
        self.admin.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await.unwrap();
        name
    }

    /// It gets its name only when it is complete: a process that dies half-way leaves no trap.
    async fn make_template(&self, name: &str) {
        const DRAFT: &str = "wakepost_template_draft";
        self.run(&format!("DROP DATABASE IF EXISTS {DRAFT} WITH (FORCE)")).await;
        self.run(&format!("CREATE DATABASE {DRAFT}")).await;
        let node = self.node(DRAFT).await;
        node.migrate().await.unwrap();
        node.ensure_partitions(node.now().await.unwrap()).await.unwrap();
        self.client(DRAFT).await.batch_execute(MOVABLE_CLOCK).await.unwrap();
        drop(node);
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1";
        self.admin.query(end, &[&DRAFT]).await.unwrap();
        self.run(&format!("ALTER DATABASE {DRAFT} RENAME TO {name}")).await;
    }
}

async fn connect(config: &Config) -> Client {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn migrations_hash() -> String {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut hash = Context::new(&SHA256);
    hash.update(MOVABLE_CLOCK.as_bytes());
    for file in files {
        hash.update(&std::fs::read(file).unwrap());
    }
    hash.finish().as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

wakepost_store::conformance::conformance!(fresh);
