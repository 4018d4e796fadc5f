//! Upgrading many nodes: the old ones work on while the first new one changes the schema under them.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use wakepost_tests::{Database, Gateway, until};

/// All tables but the one that has the schema's number.
const TABLES: &str =
    "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace
  AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'schema_migrations'";

/// What a newer program leaves in the database's record of its schema.
const NEWER: &str = "CREATE TABLE newer (id uuid PRIMARY KEY);
  INSERT INTO schema_migrations (version, name) VALUES (9000, 'future')";

/// How much must happen before the change, and again after it.
const ENOUGH: usize = 30;

#[tokio::test]
async fn a_node_that_runs_works_on_when_a_newer_one_has_migrated() {
    let gateway = Gateway::start(Database::Postgres).await;
    let source = gateway.with_source("github").await;
    let worker = gateway.worker("w");
    let (done, enough) = (AtomicUsize::new(0), AtomicUsize::new(ENOUGH));
    let is_over = || done.load(Ordering::Relaxed) >= enough.load(Ordering::Relaxed);
    let api = gateway.admin();
    api.post("/webhooks", json!({"mode": "pull", "events": ["*"]})).await.is(201);
    let send = async {
        for turn in 0.. {
            if is_over() {
                return;
            }
            gateway.send(&source, &source.event(&format!("e-{turn}"))).await.is(202);
            gateway.send(&source, &source.event(&format!("e-{turn}"))).await.is(200);
            api.post("/events", json!({"type": "order.made", "data": turn})).await.is(202);
        }
    };
    let work = async {
        while !is_over() {
            for lease in worker.lease_many(json!({"wait_s": 1, "max": 5})).await {
                lease.checkpoint(json!({"page": 1})).await.is(200);
                lease.begin("mail").await.is(200);
                lease.commit("mail", json!(1)).await.is(200);
                lease.complete(json!("done")).await.is(200);
                done.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let upgrade = async {
        until("there is a load", async || {
            (done.load(Ordering::Relaxed) > ENOUGH / 2).then_some(())
        })
        .await;
        enough.store(usize::MAX, Ordering::Relaxed);
        // One by one: whoever holds locks on many tables may meet somebody who wants them in another order, and one of
        // the two has to begin again.
        for table in gateway.texts(TABLES).await {
            gateway.execute(&format!("ALTER TABLE {table} ADD COLUMN newer text")).await;
        }
        gateway.execute(NEWER).await;
        enough.store(done.load(Ordering::Relaxed) + ENOUGH, Ordering::Relaxed);
    };
    tokio::join!(send, work, upgrade);
    gateway.fetch("/readyz").await.is(200);
    // What stopped meanwhile does not come back: it is the newer program's turn.
    let again = gateway.run(&[], &["serve", "--listen", "127.0.0.1:0"]).await.ends_with(1);
    assert!(again.stderr.contains("made by a newer wakepost"), "{}", again.stderr);
}
