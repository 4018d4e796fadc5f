//! What only PostgreSQL has: many nodes, partitions, notifications. Everything else is in the conformance
//! suite.

#![allow(clippy::unwrap_used, reason = "these are tests, helpers included")]

mod outbox;
mod publishing;
mod reviving;

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use wakepost_domain::backoff::Backoff;
use wakepost_domain::event::{Event, Route};
use wakepost_domain::lane::{LaneId, LaneKey};
use wakepost_domain::receipt::Verdict;
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{EventId, ReceiptId, SourceId, TenantId, Timestamp, Ulid, WorkId};
use wakepost_store::StoreError;
use wakepost_store::moves::{
    Accepted, Cap, CapScope, ClaimLane, ClaimRequest, Cursor, DedupKey, EventFilter, Evidence,
    Guard, Heartbeat, Ledger, NewEvent, NewJob, NewReceipt, NewWork, OrderKey, PruneBefore, Queue,
    Reading, Settings, Settle, Upkeep, WorkMeta, WorkMoves,
};
use wakepost_store::postgres::{Postgres, PostgresOptions, schema_version};
use wakepost_store::vault::Sealed;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A database of its own, which goes when the test is through.
struct Database {
    url: String,
    name: String,
    admin: Client,
}

impl Database {
    async fn new() -> Database {
        let url = std::env::var("WAKEPOST_TEST_DATABASE_URL").unwrap_or_else(|_| {
            panic!("WAKEPOST_TEST_DATABASE_URL is missing: run through cargo xtask test")
        });
        let admin = connect(&url).await;
        let name = format!("own_{}", Ulid::from_bytes(random()).to_string().to_lowercase());
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let (server, _) = url.rsplit_once('/').unwrap();
        Database { url: format!("{server}/{name}"), name, admin }
    }

    async fn node(&self) -> Postgres {
        Postgres::connect(&self.url, PostgresOptions::default()).await.unwrap()
    }

    /// A node on a finished schema.
    async fn store(&self) -> Postgres {
        let store = self.node().await;
        store.migrate().await.unwrap();
        store
    }

    async fn raw(&self) -> Client {
        connect(&self.url).await
    }

    async fn close(self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.admin.batch_execute(&drop).await.unwrap();
    }
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

fn random() -> [u8; 16] {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

async fn count(client: &Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).await.unwrap().get(0)
}

async fn lane(store: &Postgres, name: &str) -> LaneId {
    let key = LaneKey {
        tenant: TenantId::DEFAULT,
        kind: WorkKind::Job,
        priority: Priority::Webhook,
        origin: None,
        name: name.to_owned(),
        executor: None,
    };
    store.lane(key).await.unwrap().id
}

fn id(at: Timestamp) -> Ulid {
    Ulid::from_parts(at, u128::from_be_bytes(random()))
}

fn event(lane: LaneId, at: Timestamp, keys: &[&str]) -> NewEvent {
    let source = SourceId(Ulid::from_bytes([7; 16]));
    let event = Event {
        id: EventId(id(at)),
        tenant: TenantId::DEFAULT,
        source,
        event_type: "test".to_owned(),
        dedup_key: keys.concat(),
        route: Route::Job,
        verified: true,
        subject: None,
        thread: None,
        occurred_at: None,
        received_at: at,
        payload_hash: [0; 32],
        duplicates: 0,
        remote_addr: None,
        latency_us: 1,
        part: None,
        trace: None,
        signature: None,
    };
    NewEvent {
        dedup: keys
            .iter()
            .map(|key| DedupKey::new(TenantId::DEFAULT, source, key.as_bytes()))
            .collect(),
        dedup_until: at.after(DAY),
        content: Some(Sealed::from_stored(event.id.to_string().into_bytes())),
        job: Some(NewJob {
            lane,
            max_attempts: 1,
            order: None,
            thread: None,
            coalesce: None,
            callback_lane: None,
            lineage: None,
        }),
        deliveries: Vec::new(),
        receipt: NewReceipt {
            id: ReceiptId(id(at)),
            tenant: TenantId::DEFAULT,
            source,
            remote_addr: None,
            verdict: Verdict::Accepted,
            latency_us: 1,
            detail: None,
        },
        retry: None,
        our_fault: None,
        event,
    }
}

fn claim_of(lane: LaneId, count: u32, caps: Vec<Cap>) -> ClaimRequest {
    let (lease, run_timeout) = (Duration::from_secs(60), Duration::from_secs(600));
    let lanes = vec![ClaimLane { lane, count, lease, run_timeout, caps }];
    ClaimRequest { worker: "ada".to_owned(), lanes }
}

fn end_of(ticket: wakepost_domain::lease::Ticket, ending: Ending) -> Settle {
    let settlement = transition::settle(ending, 1, 1, &Backoff::default(), 0.5);
    Settle {
        ticket,
        guard: Guard::Live,
        settlement,
        error: None,
        evidence: Evidence::default(),
        follow_up: None,
        expanded: None,
    }
}

#[tokio::test]
async fn many_nodes_may_migrate_at_once() {
    let database = Database::new().await;
    let first = database.node().await;
    assert_eq!(first.pending_migrations().await.unwrap().len(), schema_version() as usize);
    let mut nodes = Vec::new();
    for _ in 0..8 {
        let node = database.node().await;
        nodes.push(tokio::spawn(async move {
            node.migrate().await?;
            let now = node.now().await?;
            node.ensure_partitions(now).await
        }));
    }
    for node in nodes {
        node.await.unwrap().unwrap();
    }
    assert_eq!(first.pending_migrations().await.unwrap(), []);
    let raw = database.raw().await;
    let migrations = count(&raw, "SELECT count(*) FROM schema_migrations").await;
    assert_eq!(migrations, i64::from(schema_version()));
    assert_eq!(
        count(
            &raw,
            "SELECT count(*) FROM pg_class WHERE relname LIKE '%\\_w20______' AND relkind = 'r'"
        )
        .await,
        20
    );
    database.close().await;
}

#[tokio::test]
async fn a_migration_that_waits_for_a_table_keeps_nobody_else_waiting() {
    let database = Database::new().await;
    let store = database.store().await;
    let (mut dump, traffic) = (database.raw().await, database.raw().await);
    traffic
        .batch_execute(
            "ALTER TABLE sources DROP COLUMN secret_made_at; ALTER TABLE events DROP COLUMN trace;
             DELETE FROM schema_migrations WHERE version > 1; SET lock_timeout = '2s'",
        )
        .await
        .unwrap();
    let reads = dump.transaction().await.unwrap();
    reads.batch_execute("LOCK TABLE events IN ACCESS SHARE MODE").await.unwrap();
    let migrating = tokio::spawn(async move { store.migrate().await });
    // As an accept comes: behind whatever waits for the table.
    for _ in 0..30 {
        let write = "BEGIN; LOCK TABLE events IN ROW EXCLUSIVE MODE; COMMIT";
        traffic.batch_execute(write).await.expect("it writes on while the migration waits");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!migrating.is_finished(), "somebody reads the table");
    reads.rollback().await.unwrap();
    migrating.await.unwrap().unwrap();
    let version = "SELECT max(version)::bigint FROM schema_migrations";
    assert_eq!(count(&traffic, version).await, i64::from(schema_version()));
    traffic.batch_execute("SELECT trace FROM events").await.unwrap();
    database.close().await;
}

#[tokio::test]
async fn a_schema_from_a_newer_program_is_refused() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    raw.batch_execute("INSERT INTO schema_migrations (version, name) VALUES (9000, 'future')")
        .await
        .unwrap();
    for refused in [store.migrate().await, store.pending_migrations().await.map(|_| ())] {
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("9000") && error.contains("newer"), "{error}");
    }
    database.close().await;
}

#[tokio::test]
async fn a_weeks_rows_are_in_the_weeks_partition_and_bodies_are_not_compressed() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    store.ensure_partitions(now).await.unwrap();
    store.ensure_partitions(now).await.unwrap();
    let lane = lane(&store, "a").await;
    assert_eq!(
        store.accept(vec![event(lane, now, &["a"])]).await[0].as_ref().unwrap(),
        &Accepted::New
    );
    assert_eq!(count(&raw, "SELECT count(*) FROM events").await, 1);
    assert_eq!(count(&raw, "SELECT count(*) FROM events_rest").await, 0);
    assert_eq!(count(&raw, "SELECT count(*) FROM bodies_rest").await, 0);
    let plain = "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
                 WHERE c.relname LIKE 'bodies\\_%' AND c.relkind = 'r' AND a.attname = 'content'
                   AND a.attstorage <> 'e'";
    assert_eq!(count(&raw, plain).await, 0);
    database.close().await;
}

#[tokio::test]
async fn rows_in_the_default_partition_do_not_stop_the_making_of_others() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let lane = lane(&store, "a").await;
    store.accept(vec![event(lane, now, &["a"])]).await.remove(0).unwrap();
    store.ensure_partitions(now).await.unwrap();
    let weeks = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass";
    assert_eq!(count(&raw, weeks).await, 5, "four weeks ahead and the default one");
    store.accept(vec![event(lane, now, &["b"]), event(lane, now.after(7 * DAY), &["c"])]).await;
    assert_eq!(count(&raw, "SELECT count(*) FROM events_rest").await, 2);
    assert_eq!(count(&raw, "SELECT count(*) FROM events").await, 3);
    database.close().await;
}

#[tokio::test]
async fn dropping_a_week_spares_the_bodies_of_live_work_and_of_dead_letters() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let long_ago = now.before(40 * DAY);
    store.ensure_partitions(long_ago).await.unwrap();
    store.ensure_partitions(now).await.unwrap();
    let lane = lane(&store, "a").await;
    let made = ["done", "dead", "live"].map(|key| event(lane, long_ago, &[key]));
    let ids: Vec<EventId> = made.iter().map(|new| new.event.id).collect();
    store
        .accept(made.to_vec())
        .await
        .into_iter()
        .for_each(|answer| assert_eq!(answer.unwrap(), Accepted::New));
    for claimed in store.claim(claim_of(lane, 3, vec![])).await.unwrap() {
        let ending = match ids.iter().position(|id| WorkId::first_of(*id) == claimed.ticket.work) {
            Some(0) => Ending::Succeeded,
            Some(1) => Ending::Failed { retryable: false, retry_after: None },
            _ => continue,
        };
        store.settle(vec![end_of(claimed.ticket, ending)]).await.remove(0).unwrap();
    }
    let cut = now.before(20 * DAY);
    let before = PruneBefore {
        bodies: cut,
        events: long_ago.before(DAY * 30),
        runs: long_ago.before(DAY * 30),
        dead_letters: long_ago.before(DAY * 30),
        receipts: cut,
        figures: cut,
    };
    let mut steps = 0;
    while store.prune(before).await.unwrap().more {
        steps += 1;
        assert!(steps < 50, "retention does not end");
    }
    let kept: Vec<EventId> =
        store.contents(ids.clone()).await.unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(kept, ids[1..]);
    let old = format!(
        "SELECT count(*) FROM pg_class WHERE relname LIKE 'bodies\\_w%' AND relkind = 'r'
                       AND relname < 'bodies_w{}'",
        cut.to_string()[..10].replace('-', "")
    );
    assert!(count(&raw, &old).await <= 1, "the week of the cut itself may stay");
    assert_eq!(
        store
            .events_by_id(ids.iter().map(|id| (TenantId::DEFAULT, *id)).collect())
            .await
            .unwrap()
            .len(),
        3
    );
    // They ended now, and stay. Had they ended then, everything goes, but for the runs of unfinished work.
    let all = PruneBefore {
        bodies: cut,
        events: cut,
        runs: cut,
        dead_letters: cut,
        receipts: cut,
        figures: cut,
    };
    while store.prune(all).await.unwrap().more {}
    assert_eq!(count(&raw, "SELECT count(*) FROM work_done").await, 2);
    let moved = format!("UPDATE work_done SET finished_at = {}", long_ago.as_millis());
    raw.batch_execute(&moved).await.unwrap();
    let before = PruneBefore {
        bodies: cut,
        events: cut,
        runs: cut,
        dead_letters: cut,
        receipts: cut,
        figures: cut,
    };
    // What dead letters kept goes after them.
    for _ in 0..2 {
        while store.prune(before).await.unwrap().more {}
    }
    assert_eq!(count(&raw, "SELECT count(*) FROM events").await, 1, "of the live work");
    assert_eq!(count(&raw, "SELECT count(*) FROM work_done").await, 0);
    assert_eq!(count(&raw, "SELECT count(*) FROM work").await, 1);
    assert_eq!(count(&raw, "SELECT count(*) FROM bodies").await, 1);
    database.close().await;
}

#[tokio::test]
async fn copies_with_two_keys_on_many_nodes_leave_whole_events_only() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let lane = lane(&store, "a").await;
    let mut tasks = Vec::new();
    for node in 0..4 {
        let node_store = database.node().await;
        for worker in 0..8 {
            let store = node_store.clone();
            tasks.push(tokio::spawn(async move {
                let mut new = 0;
                for round in 0..20 {
                    // Each has one key that is shared along one line and one along another.
                    let (a, b) = (
                        format!("a{round}:{}", worker % 3),
                        format!("b{round}:{}", (node + worker) % 3),
                    );
                    for answer in store
                        .accept(vec![event(lane, now, &[&a, &b]), event(lane, now, &[&b, &a])])
                        .await
                    {
                        new += usize::from(answer.unwrap() == Accepted::New);
                    }
                }
                new
            }));
        }
    }
    let mut new = 0;
    for task in tasks {
        new += task.await.unwrap() as i64;
    }
    assert_eq!(count(&raw, "SELECT count(*) FROM events").await, new);
    assert_eq!(count(&raw, "SELECT count(*) FROM bodies").await, new);
    assert_eq!(count(&raw, "SELECT count(*) FROM work").await, new);
    assert_eq!(count(&raw, "SELECT count(*) FROM dedup_keys").await, 2 * new);
    let repeats = 4 * 8 * 20 * 2 - new;
    assert_eq!(count(&raw, "SELECT sum(duplicates) FROM events").await, repeats);
    database.close().await;
}

#[tokio::test]
async fn a_week_with_much_to_keep_is_thinned_where_it_stands() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let long_ago = now.before(40 * DAY);
    store.ensure_partitions(long_ago).await.unwrap();
    let low = uuid::Uuid::from_bytes(Ulid::floor(long_ago).to_bytes());
    raw.batch_execute(&format!(
        "INSERT INTO bodies (id, tenant, content)
         SELECT ('{}' || lpad(to_hex(n), 20, '0'))::uuid, 1, '' FROM generate_series(1, 21000) n;
         INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                           scope)
         SELECT 1, id, 0, 1, 0, 0, 0, 1, 0, id, id FROM bodies ORDER BY id LIMIT 20500;",
        &low.simple().to_string()[..12]
    ))
    .await
    .unwrap();
    let cut = now.before(20 * DAY);
    let before = PruneBefore {
        bodies: cut,
        events: cut,
        runs: cut,
        dead_letters: cut,
        receipts: cut,
        figures: cut,
    };
    let mut steps = 0;
    while store.prune(before).await.unwrap().more {
        steps += 1;
        assert!(steps < 200, "retention does not end");
    }
    assert_eq!(count(&raw, "SELECT count(*) FROM bodies").await, 20_500);
    assert_eq!(count(&raw, "SELECT count(*) FROM bodies_rest").await, 0, "nothing was moved");
    database.close().await;
}

/// Another node has taken the second key, and has not committed yet.
#[tokio::test]
async fn an_event_that_loses_the_race_for_its_second_key_leaves_nothing() {
    let database = Database::new().await;
    let store = database.store().await;
    let (raw, other) = (database.raw().await, database.raw().await);
    let now = store.now().await.unwrap();
    let lane = lane(&store, "a").await;
    for (commits, first, second) in [(true, "a", "b"), (false, "c", "d")] {
        let new = event(lane, now, &[first, second]);
        let (own, rival) = (new.event.id, EventId(id(now)));
        let uuid = |bytes| uuid::Uuid::from_bytes(bytes);
        other.batch_execute("BEGIN").await.unwrap();
        let sql =
            "INSERT INTO dedup_keys (key, tenant, event_id, expires_at) VALUES ($1, 1, $2, $3)";
        let rival_key = new.dedup[1];
        other
            .execute(
                sql,
                &[&uuid(rival_key.0), &uuid(rival.to_bytes()), &now.after(DAY).as_millis()],
            )
            .await
            .unwrap();
        let accepting = tokio::spawn({
            let store = store.clone();
            async move { store.accept(vec![new]).await.remove(0).unwrap() }
        });
        while count(&raw, "SELECT count(*) FROM pg_locks WHERE NOT granted").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        other.batch_execute(if commits { "COMMIT" } else { "ROLLBACK" }).await.unwrap();
        let of =
            |event| format!("SELECT count(*) FROM dedup_keys WHERE event_id = '{}'", uuid(event));
        let accepted = accepting.await.unwrap();
        if commits {
            assert_eq!(
                accepted,
                Accepted::Duplicate { of: rival, job: Some(WorkId::first_of(rival)) }
            );
            assert_eq!(count(&raw, &of(own.to_bytes())).await, 0);
            assert_eq!(store.event(TenantId::DEFAULT, own).await.unwrap(), None);
        } else {
            assert_eq!(accepted, Accepted::New);
            assert_eq!(count(&raw, &of(own.to_bytes())).await, 2);
        }
    }
    database.close().await;
}

#[tokio::test]
async fn a_row_that_cannot_be_stored_fails_its_own_caller_only() {
    let database = Database::new().await;
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let lane = lane(&store, "a").await;
    let first = event(lane, now, &["a"]);
    store.accept(vec![first.clone()]).await.remove(0).unwrap();
    let mut impostor = event(lane, now, &["b"]);
    impostor.event.id = first.event.id;
    let answers =
        store.accept(vec![event(lane, now, &["c"]), impostor, event(lane, now, &["d"])]).await;
    assert!(matches!(answers[0], Ok(Accepted::New)));
    assert!(matches!(answers[1], Err(StoreError::Unavailable(_))), "{:?}", answers[1]);
    assert!(matches!(answers[2], Ok(Accepted::New)));
    database.close().await;
}

#[tokio::test]
async fn a_nul_in_a_text_does_not_make_an_event_unacceptable() {
    let database = Database::new().await;
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let mut new = event(lane(&store, "a").await, now, &["a"]);
    new.event.subject = Some("a\0b".to_owned());
    let id = new.event.id;
    store.accept(vec![new]).await.remove(0).unwrap();
    let stored = store.event(TenantId::DEFAULT, id).await.unwrap().unwrap();
    assert_eq!(stored.subject.as_deref(), Some("a\u{FFFD}b"));
    database.close().await;
}

#[tokio::test]
async fn caps_hold_on_many_nodes_and_are_given_back_exactly() {
    let database = Database::new().await;
    let store = database.store().await;
    let raw = database.raw().await;
    let now = store.now().await.unwrap();
    let (one, two) = (lane(&store, "one").await, lane(&store, "two").await);
    let made = (0..200).map(|n| event(if n % 2 == 0 { one } else { two }, now, &[&n.to_string()]));
    store.accept(made.collect()).await;
    let cap = Cap::running(CapScope::Tenant(TenantId::DEFAULT), 7);
    let mut tasks = Vec::new();
    for node in 0..3 {
        let node_store = database.node().await;
        for worker in 0..4 {
            let store = node_store.clone();
            tasks.push(tokio::spawn(async move {
                let lane = if (node + worker) % 2 == 0 { one } else { two };
                let mut done = 0;
                for _ in 0..60 {
                    let claimed = store.claim(claim_of(lane, 5, vec![cap])).await.unwrap();
                    done += claimed.len();
                    let ends =
                        claimed.iter().map(|item| end_of(item.ticket, Ending::Succeeded)).collect();
                    for answer in store.settle(ends).await {
                        assert!(answer.unwrap().freed_cap);
                    }
                }
                done
            }));
        }
    }
    let watcher = tokio::spawn(async move {
        let mut most = 0;
        for _ in 0..300 {
            most = most.max(count(&raw, "SELECT count(*) FROM work WHERE state = 5").await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        (most, raw)
    });
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    let (most, raw) = watcher.await.unwrap();
    assert!(most <= 7, "{most} ran at once");
    assert!(done > 7);
    assert_eq!(count(&raw, "SELECT running::bigint FROM lane_caps").await, 0);
    assert_eq!(count(&raw, "SELECT count(*) FROM work_done").await as usize, done);
    database.close().await;
}

/// What a node looks for every moment.
async fn looks(store: &Postgres) {
    store.due_lanes(Duration::from_secs(5)).await.unwrap();
    store.waiting_lanes().await.unwrap();
    store.expired(Duration::from_secs(30), 100).await.unwrap();
}

/// Some jobs from their events to their ends, with all that is done on the way and beside it.
async fn some_jobs(store: &Postgres, lane: LaneId, count: u32, name: &str) {
    let now = store.now().await.unwrap();
    let new: Vec<NewEvent> =
        (0..count).map(|n| event(lane, now, &[&format!("{name} {n}")])).collect();
    let ids: Vec<EventId> = new.iter().map(|new| new.event.id).collect();
    assert!(store.accept(new.clone()).await.into_iter().all(|new| new.unwrap() == Accepted::New));
    for _ in 0..2 {
        let again = new.iter().map(|new| {
            let event = Event { id: EventId(id(now)), ..new.event.clone() };
            let receipt = NewReceipt { id: ReceiptId(id(now)), ..new.receipt.clone() };
            NewEvent { event, receipt, ..new.clone() }
        });
        for (answer, of) in store.accept(again.collect()).await.into_iter().zip(&ids) {
            assert_eq!(
                answer.unwrap(),
                Accepted::Duplicate { of: *of, job: Some(WorkId::first_of(*of)) }
            );
        }
    }
    looks(store).await;
    let claimed = store.claim(claim_of(lane, count, vec![])).await.unwrap();
    assert_eq!(claimed.len(), count as usize);
    store.contents(ids.clone()).await.unwrap();
    store.events_by_id(ids.iter().map(|id| (TenantId::DEFAULT, *id)).collect()).await.unwrap();
    store.job_states(claimed.iter().map(|item| item.ticket.work).collect()).await.unwrap();
    let extend = Duration::from_secs(60);
    let beats = claimed.iter().map(|item| Heartbeat { ticket: item.ticket, extend, cost: None });
    assert!(store.heartbeat(beats.collect()).await.iter().all(Result::is_ok));
    let ends = claimed.iter().map(|item| end_of(item.ticket, Ending::Succeeded));
    assert!(store.settle(ends.collect()).await.iter().all(Result::is_ok));
    in_order(store, lane).await;
}

/// Two jobs of one order key, one after the other.
async fn in_order(store: &Postgres, lane: LaneId) {
    let now = store.now().await.unwrap();
    let order = Some(OrderKey(random()));
    let new = || NewWork {
        id: WorkId(id(now)),
        tenant: TenantId::DEFAULT,
        kind: WorkKind::Job,
        lane,
        run_at: None,
        max_attempts: 1,
        event: None,
        scope: None,
        subject: None,
        order,
        meta: WorkMeta::default(),
        input: None,
        dedup: None,
    };
    store.create_work(vec![new(), new()], None).await.unwrap();
    for next in [Some(lane), None] {
        let claimed = store.claim(claim_of(lane, 2, vec![])).await.unwrap();
        assert_eq!(claimed.len(), 1, "one at a time");
        let ended = store.settle(vec![end_of(claimed[0].ticket, Ending::Succeeded)]).await;
        assert_eq!(ended[0].as_ref().unwrap().next_in_order, next);
    }
}

/// How many rows and index entries of each table were read.
type Reads = HashMap<String, i64>;

/// What was read so far. A session says so at the end of a transaction, but once a second at most, and else when it was
/// idle for ten: so each of both pools is used once more after a second. With more than one connection in a pool what
/// was read before may count as read since.
async fn read_so_far(store: &Postgres, raw: &Client) -> Reads {
    tokio::time::sleep(Duration::from_millis(1200)).await;
    store.waiting_lanes().await.unwrap();
    store.look().await.unwrap();
    reads(raw).await
}

/// The tables of which a node read at least `much` since then. It ends with this.
async fn read_since(before: &Reads, store: Postgres, raw: &Client, much: i64) -> Reads {
    drop(store);
    let others = "SELECT count(*) FROM pg_stat_activity
                  WHERE datname = current_database() AND pid <> pg_backend_pid()
                    AND backend_type = 'client backend'";
    while count(raw, others).await > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut reads = reads(raw).await;
    for (table, rows) in &mut reads {
        *rows -= before.get(table).copied().unwrap_or(0);
    }
    reads.retain(|_, rows| *rows >= much);
    reads
}

async fn reads(raw: &Client) -> Reads {
    let read = "SELECT t.relname::text, t.seq_tup_read + coalesce(sum(i.idx_tup_read), 0)::bigint
                FROM pg_stat_user_tables t LEFT JOIN pg_stat_user_indexes i USING (relid)
                WHERE t.schemaname = 'public' GROUP BY 1, t.seq_tup_read";
    raw.query(read, &[]).await.unwrap().iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn the_look_for_timers_does_not_walk_along_the_backlog_even_if_it_was_planned_before_it() {
    const BACKLOG: i64 = 20_000;
    let database = Database::new().await;
    let options = PostgresOptions { max_connections: 2, ..PostgresOptions::default() };
    let store = Postgres::connect(&database.url, options).await.unwrap();
    store.migrate().await.unwrap();
    let raw = database.raw().await;
    let look = || async { store.due_lanes(Duration::from_secs(60)).await.unwrap().1 };
    // The sixth is planned for good.
    for _ in 0..10 {
        look().await;
    }
    raw.batch_execute(&format!(
        "INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope)
         SELECT 1, gen_random_uuid(), 0, 1, 0, wakepost_now(), 0, 1, 0, gen_random_uuid()
         FROM generate_series(1, {BACKLOG})"
    ))
    .await
    .unwrap();
    let before = read_so_far(&store, &raw).await;
    for _ in 0..5 {
        assert!(look().await.is_empty());
    }
    let much = read_since(&before, store, &raw, BACKLOG).await;
    assert!(much.is_empty(), "rows that were read for 5 looks: {much:?}");
    database.close().await;
}

#[tokio::test]
async fn the_cost_of_a_job_does_not_grow_with_the_backlog_even_if_plans_were_made_before_it() {
    const BACKLOG: i64 = 20_000;
    const COUNT: u32 = 20;
    let database = Database::new().await;
    // One connection for the queue: it has met every statement before.
    let options = PostgresOptions { max_connections: 2, ..PostgresOptions::default() };
    let store = Postgres::connect(&database.url, options).await.unwrap();
    store.migrate().await.unwrap();
    let raw = database.raw().await;
    store.ensure_partitions(store.now().await.unwrap()).await.unwrap();
    let (one, two) = (lane(&store, "one").await, lane(&store, "two").await);
    // Plans are made, and kept, while there is nothing: as on a new server's first day.
    for _ in 0..10 {
        looks(&store).await;
    }
    for n in 0..10 {
        some_jobs(&store, one, COUNT, &format!("first {n}")).await;
    }
    // A queue is mostly empty, and that is what the planner believes of it.
    raw.batch_execute("VACUUM (ANALYZE, TRUNCATE false) work").await.unwrap();
    for n in 0..10 {
        some_jobs(&store, one, COUNT, &format!("second {n}")).await;
    }
    raw.batch_execute(&format!(
        "CREATE TEMP TABLE new AS SELECT n, lpad(to_hex(wakepost_now() - n), 12, '0') AS ms,
                                         gen_random_uuid() AS chance FROM generate_series(1, {BACKLOG}) n;
         CREATE TEMP TABLE rows AS SELECT n, (ms || substr(replace(chance::text, '-', ''), 13))::uuid AS id FROM new;
         INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id, scope)
         SELECT 1, id, 0, {}, 0, wakepost_now(), 0, 1, 0, id, id FROM rows;
         INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                                scope, finished_at)
         SELECT 2, id, 0, {}, 6, n, 1, 1, 1, id, id, n FROM rows;
         INSERT INTO attempts (work_id, fence, tenant, attempt, worker, started_at, ended_at, outcome)
         SELECT id, 1, 2, 1, 'w', n, n, 0 FROM rows;
         INSERT INTO dedup_keys (key, tenant, event_id, expires_at)
         SELECT gen_random_uuid(), 1, id, wakepost_now() + 1000000 FROM rows;
         INSERT INTO bodies (id, tenant, content) SELECT id, 1, '' FROM rows;
         INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash, duplicates, latency_us)
         SELECT 1, id, id, 't', 'k', 0, true, '', 0, 1 FROM rows;
         INSERT INTO receipts (id, tenant, source, event_id, verdict, latency_us)
         SELECT id, 1, id, id, 0, 1 FROM rows",
        two.0, two.0
    ))
    .await
    .unwrap();
    let before = read_so_far(&store, &raw).await;
    for n in 0..10 {
        some_jobs(&store, one, COUNT, &format!("then {n}")).await;
    }
    let much = read_since(&before, store, &raw, BACKLOG).await;
    assert!(much.is_empty(), "rows that were read for 200 jobs: {much:?}");
    database.close().await;
}

/// Vacuum can take nothing away that an old snapshot may still see: every claim that began at the index's beginning
/// would read past all that was claimed since.
#[tokio::test]
async fn under_an_old_snapshot_a_claim_does_not_read_past_all_that_ended_since() {
    const JOBS: u32 = 20_000;
    const BATCH: u32 = 100;
    /// After so long a claim looks at everything, once.
    const TRUST_S: u64 = 10;
    let database = Database::new().await;
    let (store, raw) = (database.store().await, database.raw().await);
    let lane = lane(&store, "a").await;
    raw.batch_execute(&format!(
        "INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope)
         SELECT 1, gen_random_uuid(), 0, {}, 0, wakepost_now() - 3600000 + n, 0, 1, 0, gen_random_uuid()
         FROM generate_series(1, {JOBS}) AS n",
        lane.0
    ))
    .await
    .unwrap();
    let old = database.raw().await;
    let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM work";
    old.batch_execute(snapshot).await.unwrap();
    let read = "SELECT coalesce(sum(idx_tup_read), 0)::bigint FROM pg_stat_user_indexes
                WHERE indexrelname = 'work_ready'";
    let before = read_so_far(&store, &raw).await;
    let entries_before = count(&raw, read).await;
    let began = std::time::Instant::now();
    for _ in 0..JOBS / BATCH {
        let claimed = store.claim(claim_of(lane, BATCH, vec![])).await.unwrap();
        assert_eq!(claimed.len(), BATCH as usize);
        let ends = claimed.iter().map(|item| end_of(item.ticket, Ending::Succeeded)).collect();
        assert!(store.settle(ends).await.iter().all(Result::is_ok));
    }
    let looks = began.elapsed().as_secs() / TRUST_S + 1;
    assert_eq!(count(&old, "SELECT count(*) FROM work").await, i64::from(JOBS), "it is held");
    drop(old);
    read_since(&before, store, &raw, 0).await;
    let entries = count(&raw, read).await - entries_before;
    // Its own, those of the batch before, and now and then all of them.
    let bound = i64::from(JOBS) * (3 + looks as i64);
    assert!(entries > 0 && entries <= bound, "{entries} entries were read, of at most {bound}");
    database.close().await;
}

#[tokio::test]
async fn a_page_of_events_by_their_status_reads_no_whole_table() {
    const EVENTS: i64 = 100_000;
    let database = Database::new().await;
    let options = PostgresOptions { max_connections: 2, ..PostgresOptions::default() };
    let store = Postgres::connect(&database.url, options).await.unwrap();
    store.migrate().await.unwrap();
    let raw = database.raw().await;
    store.ensure_partitions(store.now().await.unwrap()).await.unwrap();
    let lane = lane(&store, "one").await;
    raw.batch_execute(&format!(
        "CREATE TEMP TABLE rows AS
           SELECT n, (lpad(to_hex(wakepost_now() - n), 12, '0') || substr(md5(n::text), 13))::uuid AS id
           FROM generate_series(1, {EVENTS}) n;
         INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, payload_hash, duplicates, latency_us)
         SELECT 1, id, id, 't', 'k', 0, true, sha256(''), 0, 1 FROM rows;
         INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                                scope, finished_at)
         SELECT 1, id, 0, {lane}, 6, n, 1, 1, 1, id, id, n FROM rows;
         INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope)
         SELECT 1, gen_random_uuid(), 0, {lane}, 0, n, 0, 1, 0, gen_random_uuid() FROM rows;
         ANALYZE",
        lane = lane.0
    ))
    .await
    .unwrap();
    let before = read_so_far(&store, &raw).await;
    let filter = EventFilter { status: Some("succeeded".to_owned()), ..EventFilter::default() };
    let page = Cursor { before: None, limit: 50 };
    assert_eq!(store.events(TenantId::DEFAULT, filter, page).await.unwrap().len(), 50);
    let much = read_since(&before, store, &raw, EVENTS).await;
    assert!(much.is_empty(), "rows that were read for a page: {much:?}");
    database.close().await;
}

#[tokio::test]
async fn a_run_ends_once_if_its_lease_is_extended_while_its_end_waits() {
    let database = Database::new().await;
    let store = database.store().await;
    let mut raw = database.raw().await;
    let watch = database.raw().await;
    let lane = lane(&store, "one").await;
    store.accept(vec![event(lane, store.now().await.unwrap(), &["a"])]).await;
    let claimed = store.claim(claim_of(lane, 1, vec![])).await.unwrap();
    // A heartbeat of another node has the row, and moves it.
    let beat = raw.transaction().await.unwrap();
    beat.execute("UPDATE work SET lease_expires_at = lease_expires_at + 1000", &[]).await.unwrap();
    let end = end_of(claimed[0].ticket, Ending::Succeeded);
    let ending = tokio::spawn({
        let store = store.clone();
        async move { store.settle(vec![end]).await }
    });
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    while count(&watch, waiting).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    beat.commit().await.unwrap();
    assert!(ending.await.unwrap()[0].is_ok());
    assert_eq!(count(&watch, "SELECT count(*) FROM work").await, 0);
    assert_eq!(count(&watch, "SELECT count(*) FROM work_done").await, 1);
    assert_eq!(store.runs(TenantId::DEFAULT, claimed[0].ticket.work).await.unwrap().len(), 1);
    database.close().await;
}

#[tokio::test]
async fn words_said_together_reach_every_node_in_few_notifications() {
    let database = Database::new().await;
    let store = database.store().await;
    let other = database.node().await;
    let mut words = other.listen();
    assert_eq!(heard(&mut words).await, "resync", "it listens now");
    store.notify("first");
    assert_eq!(heard(&mut words).await, "first");
    let watched = database.raw().await;
    let before = commits(&watched).await;
    for number in 0..2000 {
        store.notify(&format!("lane:{number} lane:{number}"));
    }
    for number in 0..2000 {
        assert_eq!(heard(&mut words).await, format!("lane:{number}"));
    }
    let sent = commits(&watched).await - before;
    assert!(sent < 100, "{sent} transactions for 2,000 words");
    database.close().await;
}

#[tokio::test]
async fn a_listener_that_lost_its_connection_says_so() {
    let database = Database::new().await;
    let store = database.store().await;
    let mut words = store.listen();
    assert_eq!(heard(&mut words).await, "resync");
    let raw = database.raw().await;
    raw.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND query LIKE 'LISTEN%'",
        &[],
    )
    .await
    .unwrap();
    assert_eq!(heard(&mut words).await, "resync");
    store.notify("again");
    assert_eq!(heard(&mut words).await, "again");
    database.close().await;
}

#[tokio::test]
async fn a_lost_connection_is_unavailable_and_the_next_move_succeeds() {
    let database = Database::new().await;
    let store = database.store().await;
    let now = store.now().await.unwrap();
    let lane = lane(&store, "a").await;
    store.accept(vec![event(lane, now, &["a"])]).await.remove(0).unwrap();
    let raw = database.raw().await;
    raw.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid()",
        &[],
    )
    .await
    .unwrap();
    let mut tries = 0;
    while let Err(error) = store.accept(vec![event(lane, now, &["b"])]).await.remove(0) {
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        tries += 1;
        assert!(tries < 20, "{error}");
    }
    database.close().await;
}

#[tokio::test]
async fn no_error_tells_the_password() {
    for url in [
        "postgres://u:hunter2@127.0.0.1:1/d",
        "postgres://u:hunter2@256.0.0.1/d",
        "postgres://u:hunter2@[/d",
    ] {
        let error = Postgres::connect(url, PostgresOptions::default()).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)));
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

async fn heard(words: &mut tokio::sync::mpsc::Receiver<String>) -> String {
    tokio::time::timeout(Duration::from_secs(10), words.recv())
        .await
        .expect("a word in time")
        .unwrap()
}

async fn commits(client: &Client) -> i64 {
    // The statistics of a session are reported when it is idle.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    count(client, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        .await
}
