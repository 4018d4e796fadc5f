//! A server's clock that is set forward or back by hours while it works.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use wakepost_tests::{Database, Gateway, now, on_both};

use crate::load::Load;

on_both!(
    a_step_of_the_servers_clock_moves_no_due_job_and_no_duplicate_is_taken_for_new,
    under_load_every_job_ends_once,
);

const HOUR_MS: i64 = 3_600_000;

/// The clock of all servers of a gateway; that of PostgreSQL stays as it is.
struct Clock {
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Clock {
    fn new() -> Clock {
        let directory = tempfile::tempdir().expect("a directory");
        Clock { file: directory.path().join("clock"), _directory: directory }
    }

    async fn gateway(&self, database: Database) -> Gateway {
        let file = self.file.to_str().expect("a plain path");
        Gateway::setup(database).setting("WAKEPOST_CLOCK_FILE", file).start().await
    }

    /// Sets it to this many hours from the real time.
    fn set(&self, hours: i64) {
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, (hours * HOUR_MS).to_string()).expect("a file");
        std::fs::rename(&draft, &self.file).expect("a file");
    }
}

async fn a_step_of_the_servers_clock_moves_no_due_job_and_no_duplicate_is_taken_for_new(
    database: Database,
) {
    let clock = Clock::new();
    let gateway = clock.gateway(database).await;
    let api = gateway.admin();
    let (source, dated) =
        (gateway.with_source("github").await, gateway.with_source("stripe").await);
    let event = source.event("e-1");
    let first = gateway.send(&source, &event).await.is(202).text("event_id");
    let taken = gateway.worker("w").wait_with(json!({"lease_s": 3600})).await;
    let mut later = vec![api.job_with(json!({"input": 1, "delay_s": 24 * 3600})).await];

    for hours in [2, -2, 5, 0] {
        clock.set(hours);
        let repeat = gateway.send(&source, &event).await.is(200);
        assert_eq!(repeat.text("event_id"), first, "a duplicate stays one");
        let id = format!("at-{hours}");
        gateway.send(&source, &source.event(&id)).await.is(202);
        // A sender's signed time is held against the server's.
        let answer = gateway.send(&dated, &dated.event(&id)).await;
        assert_eq!(answer.status, if hours == 0 { 202 } else { 403 });
        let at = now().after(Duration::from_secs(3600));
        let fields = json!({"kind": "later", "input": 1, "run_at": at.to_string()});
        if database == Database::Postgres {
            later.push(api.job_with(fields).await);
        }
        // What is due now, or soon, runs now.
        let soon = api.job_with(json!({"kind": "soon", "input": 1, "delay_s": 1})).await;
        let lease = gateway.worker("w").wait_with(json!({"kinds": ["soon"]})).await;
        assert_eq!(lease.id(), soon);
        lease.complete(json!(1)).await.is(200);
        for id in &later {
            let shown = api.show_job(id).await;
            assert_eq!(shown["status"], "scheduled", "not before its time: {shown}");
        }
        if database == Database::Postgres {
            // Leases go by the database's clock: nobody else's step ends one.
            taken.heartbeat().await.is(200);
        }
    }
    // What came while the clock was wrong is there, each once, in pages of any size.
    let ids = |rows: Vec<serde_json::Value>| {
        let mut ids: Vec<String> = rows.iter().map(|row| row["id"].to_string()).collect();
        ids.sort_unstable();
        ids
    };
    let whole = ids(api.list("/inbox").await);
    assert_eq!(whole.len(), 6);
    let mut paged = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = api.get(&format!("/inbox?limit=2{cursor}")).await.is(200).json();
        paged.extend(page["data"].as_array().expect("rows").iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(ids(paged), whole);
}

async fn under_load_every_job_ends_once(database: Database) {
    let clock = Clock::new();
    let first = clock.gateway(database).await;
    let (nodes, steps) = match database {
        // What waits at a step back waits until the clock is there again, which no test can.
        Database::Sqlite => (vec![first], vec![1, 2]),
        Database::Postgres => (vec![first.node().await, first], vec![1, 0, -1, 0]),
    };
    let load = Load::new(&nodes).await;
    load.through(async {
        for hours in steps {
            clock.set(hours);
            load.goes_on(&format!("{hours} hours from the time")).await;
        }
    })
    .await;
    clock.set(-1);
    let id = nodes[0].admin().job().await;
    let lease = nodes[0].worker("w").wait().await;
    assert_eq!(lease.id(), id, "what comes after a step back runs at once");
    lease.complete(json!(1)).await.is(200);
}
