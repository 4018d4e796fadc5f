//! PostgreSQL: one database for all sequences, emptied before each, and a crash cuts every connection.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::{Client, NoTls};
use wakepost_domain::{Timestamp, Ulid};
use wakepost_store::Store;
use wakepost_store::postgres::{Postgres, PostgresOptions};

use super::Database;
use crate::world::{BEGINNING, Party, settle_in};

/// A clock that stands still until it is moved.
const STILL_CLOCK: &str = "
    CREATE TABLE still_clock (at_ms bigint NOT NULL);
    INSERT INTO still_clock VALUES (0);
    CREATE OR REPLACE FUNCTION wakepost_now() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
      $$ SELECT at_ms FROM still_clock $$;";

/// Everything that moves write. Deleted, not truncated: a few rows are gone sooner than sixty files are made anew.
const EMPTY: &str = "
    DELETE FROM work; DELETE FROM work_done; DELETE FROM attempts; DELETE FROM events; DELETE FROM bodies;
    DELETE FROM dedup_keys; DELETE FROM joined; DELETE FROM threads; DELETE FROM receipts; DELETE FROM job_state; DELETE FROM effects;
    DELETE FROM progress; DELETE FROM lane_caps; DELETE FROM budgets; DELETE FROM costs;
    DELETE FROM schedules; ALTER TABLE audit DISABLE TRIGGER audit_append_only; DELETE FROM audit;
    ALTER TABLE audit ENABLE TRIGGER audit_append_only; UPDATE lanes SET shut_until = 0;
    UPDATE webhooks SET due_at = NULL, version = 0;";

/// How long what a dead node began may still go on.
const PATIENCE: Duration = Duration::from_secs(10);

const DAY: Duration = Duration::from_secs(24 * 3600);

pub struct OnPostgres {
    nodes: Vec<Arc<Postgres>>,
    url: String,
    name: String,
    own: Client,
    admin: Client,
    now: Timestamp,
    latest: Timestamp,
    parties: [Party; 2],
}

#[async_trait(?Send)]
impl Database for OnPostgres {
    const NAME: &'static str = "PostgreSQL";
    const CLAIMS_APART: bool = true;

    async fn open() -> OnPostgres {
        let given = std::env::var("WAKEPOST_TEST_DATABASE_URL")
            .expect("WAKEPOST_TEST_DATABASE_URL is missing: run this through `cargo xtask test`");
        let admin = connect(&given).await;
        let mut random = [0u8; 16];
        getrandom::fill(&mut random).unwrap();
        let name = format!("model_{}", Ulid::from_bytes(random).to_string().to_lowercase());
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (base, query) = given.split_once('?').unwrap_or((&given, ""));
        let (server, _) = base.rsplit_once('/').expect("the address names a database");
        let url = format!("{server}/{name}?{query}");
        let node = node(&url).await;
        node.migrate().await.unwrap();
        // Without weeks of their own all rows are in the default partitions, and each look is at one table.
        let own = connect(&url).await;
        own.batch_execute(STILL_CLOCK).await.unwrap();
        let parties = settle_in(&node).await;
        let (now, latest) = (BEGINNING, BEGINNING);
        OnPostgres { nodes: Vec::new(), url, name, own, admin, now, latest, parties }
    }

    fn parties(&self) -> [Party; 2] {
        self.parties
    }

    /// Each sequence begins on a later day than the one before it, so that the nodes can stay.
    async fn start_over(&mut self) -> Timestamp {
        self.own.batch_execute(EMPTY).await.unwrap();
        let days = self.latest.since(BEGINNING).as_secs() / DAY.as_secs() + 1;
        self.set_clock(BEGINNING.after(DAY * days as u32)).await;
        if self.nodes.is_empty() {
            self.connect().await;
        }
        self.now
    }

    fn node(&self, nth: usize) -> Arc<dyn Store> {
        self.nodes[nth].clone()
    }

    /// A node may look past what became due before the clock was set back, for some seconds that no test waits for:
    /// then the nodes are new ones.
    async fn set_clock(&mut self, at: Timestamp) {
        let set = "UPDATE still_clock SET at_ms = $1";
        self.own.execute(set, &[&at.as_millis()]).await.unwrap();
        if at < self.now {
            self.nodes.clear();
            self.connect().await;
        }
        self.now = at;
        self.latest = self.latest.max(at);
    }

    /// A refused call is answered before its transaction is rolled back, and until then a claim looks past the item
    /// that it locked. Whoever locks all items has waited for that.
    async fn calm(&mut self) {
        let all = "SELECT count(*) FROM (SELECT 1 FROM work FOR UPDATE) w";
        self.own.query_one(all, &[]).await.unwrap();
    }

    /// What was sent is done or is not, but it is so before anybody looks.
    async fn crash(&mut self) {
        self.nodes.clear();
        let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                      AND pid <> pg_backend_pid() AND backend_type = 'client backend'";
        let since = std::time::Instant::now();
        while self.own.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            assert!(since.elapsed() < PATIENCE, "a dead node still has a connection");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.connect().await;
    }

    async fn close(self) {
        drop((self.nodes, self.own));
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.admin.batch_execute(&drop).await.unwrap();
    }
}

impl OnPostgres {
    async fn connect(&mut self) {
        for _ in 0..2 {
            self.nodes.push(Arc::new(node(&self.url).await));
        }
    }
}

async fn node(url: &str) -> Postgres {
    let options = PostgresOptions { max_connections: 4, ..PostgresOptions::default() };
    Postgres::connect(url, options).await.unwrap()
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}
