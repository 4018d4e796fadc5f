//! Capping: over many nodes, no more run at once than a tenant, a source or an order key allows, at every
//! state that anybody can see.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};
use wakepost_tests::{Api, Database, Gateway, Lease, Source, Worker, until};

const NODES: usize = 4;
const WORKERS: usize = 12;
const TENANT_CAP: i64 = 5;
const SOURCE_CAP: i64 = 2;
const OTHER_SOURCE_CAP: i64 = 3;
const EVENTS_EACH: usize = 40;
const RATE: i64 = 20;
const ORDER_KEYS: usize = 3;
const JOBS_EACH: usize = 8;
const PAUSE: Duration = Duration::from_millis(2);

/// One look, and so one snapshot: how many run of each, and how many counters differ from what they count.
const LOOK: &str = "
WITH running AS MATERIALIZED (
  SELECT t.slug, l.origin, w.order_key, w.caps
  FROM work w JOIN lanes l ON l.id = w.lane JOIN tenants t ON t.id = w.tenant WHERE w.state = 5)
SELECT (SELECT count(*) FROM running WHERE slug = 'acme'),
       (SELECT count(*) FROM running r JOIN sources s ON s.id = r.origin AND s.config LIKE '%narrow%'),
       (SELECT count(*) FROM running r JOIN sources s ON s.id = r.origin AND s.config LIKE '%wide%'),
       (SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM running WHERE order_key IS NOT NULL
                                         GROUP BY order_key) AS k),
       (SELECT count(*) FROM lane_caps c WHERE c.running <>
         (SELECT count(*) FROM running WHERE c.scope = ANY (string_to_array(caps, ' '))))";

/// How many starts had more after them within a quarter of a second than the rate and its burst allow.
fn too_fast() -> String {
    let most = RATE / 4 + RATE;
    format!(
        "WITH starts AS (
           SELECT a.started_at FROM attempts a JOIN tenants t ON t.id = a.tenant WHERE t.slug = 'initech'
           UNION ALL
           SELECT d.started_at FROM work_done d JOIN tenants t ON t.id = d.tenant
           WHERE t.slug = 'initech' AND d.state = 6)
         SELECT count(*) FROM (
           SELECT count(*) OVER (ORDER BY started_at RANGE BETWEEN CURRENT ROW AND 250 FOLLOWING) AS n
           FROM starts) AS w WHERE n > {most}"
    )
}

/// What the looks saw.
#[derive(Debug, Default)]
struct Seen {
    looks: usize,
    of_tenant: i64,
    of_source: i64,
    of_other_source: i64,
    of_order_key: i64,
    wrong_counters: i64,
}

/// Looks all the time, on a connection of its own, until it is told to stop.
async fn observe(client: Client, stop: Arc<AtomicBool>) -> Seen {
    let look = client.prepare(LOOK).await.expect("the question");
    let mut seen = Seen::default();
    while !stop.load(Ordering::Relaxed) {
        let row = client.query_one(&look, &[]).await.expect("a look");
        let most = |known: i64, column| known.max(row.get(column));
        seen = Seen {
            looks: seen.looks + 1,
            of_tenant: most(seen.of_tenant, 0),
            of_source: most(seen.of_source, 1),
            of_other_source: most(seen.of_other_source, 2),
            of_order_key: most(seen.of_order_key, 3),
            wrong_counters: most(seen.wrong_counters, 4),
        };
        tokio::time::sleep(PAUSE).await;
    }
    seen
}

fn start_observing(gateway: &Gateway, stop: Arc<AtomicBool>) -> JoinHandle<Seen> {
    let url = gateway.database_url().expect("PostgreSQL").to_owned();
    tokio::spawn(async move {
        let (client, connection) =
            tokio_postgres::connect(&url, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        observe(client, stop).await
    })
}

/// Leases until there is nothing left to do, and ends its leases in every way: some succeed, some through
/// another node, some fail at first, some are left to expire.
async fn work(worker: Worker, other: Api, number: usize, left: Arc<AtomicUsize>) {
    let mut asks = number;
    while left.load(Ordering::Relaxed) > 0 {
        asks += 1;
        let lost = asks.is_multiple_of(8);
        let lease_s = if lost { 1 } else { 30 };
        let fields = json!({"max": 4, "wait_s": 1, "lease_s": lease_s});
        for (place, lease) in worker.lease_many(fields).await.into_iter().enumerate() {
            end(lease, &other, lost, asks + place, &left).await;
        }
    }
}

async fn end(lease: Lease, other: &Api, lost: bool, way: usize, left: &AtomicUsize) {
    if lost && lease.attempt() == 1 {
        return;
    }
    if lost {
        // Its second run: the lease is short, but long enough for this.
        lease.heartbeat().await;
    }
    let answer = match way % 3 {
        0 if lease.attempt() == 1 => {
            let failure = json!({"error": "try again", "retry_after_s": 0});
            lease.post("fail", failure).await.is(200);
            return;
        }
        1 => lease.through(other).complete(json!(1)).await,
        _ => lease.complete(json!(1)).await,
    };
    // A short lease may have run out on a busy machine: the job then runs once more.
    if answer.status == 200 {
        left.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn send(nodes: &[Gateway], source: &Source) {
    for n in 0..EVENTS_EACH {
        nodes[n % NODES].send(source, &source.event(&format!("{}-{n}", source.id))).await.is(202);
    }
}

#[tokio::test]
async fn caps_hold_at_every_committed_state_over_four_nodes() {
    let mut nodes = vec![Gateway::start(Database::Postgres).await];
    while nodes.len() < NODES {
        nodes.push(nodes[0].node().await);
    }
    let admin = nodes[0].admin();
    let (acme, globex) = (admin.tenant("acme").await, admin.tenant("globex").await);
    admin.patch("/tenants/acme", json!({"concurrency": TENANT_CAP})).await.is(200);
    // What one tenant may start in a second, and its larger share, bound nothing of the others'.
    let initech = admin.tenant("initech").await;
    let fields = json!({"rate_per_s": RATE, "weight": 3});
    admin.patch("/tenants/initech", fields).await.is(200);
    let narrow = json!({"name": "narrow", "concurrency": SOURCE_CAP});
    let wide = json!({"name": "wide", "concurrency": OTHER_SOURCE_CAP});
    let sources = [
        acme.source_with("stripe", narrow).await,
        acme.source("stripe").await,
        globex.source_with("stripe", wide).await,
        globex.source("stripe").await,
        initech.source("stripe").await,
    ];
    // Every node has heard of the cap before there is anything to run.
    for node in &nodes {
        until("the cap is known", || async {
            let tenant = node.admin().get("/tenants/acme").await.is(200).json();
            let other = node.admin().get("/tenants/initech").await.is(200).json();
            (tenant["concurrency"] == TENANT_CAP && other["weight"] == 3).then_some(())
        })
        .await;
    }

    let stop = Arc::new(AtomicBool::new(false));
    let observed = start_observing(&nodes[0], stop.clone());
    let all = sources.len() * EVENTS_EACH + ORDER_KEYS * JOBS_EACH;
    let left = Arc::new(AtomicUsize::new(all));
    let workers: Vec<JoinHandle<()>> = (0..WORKERS)
        .map(|n| {
            let worker = nodes[n % NODES].worker(&format!("w{n}"));
            tokio::spawn(work(worker, nodes[(n + 1) % NODES].admin(), n, left.clone()))
        })
        .collect();
    let ordered: Vec<Value> = (0..ORDER_KEYS * JOBS_EACH)
        .map(|n| json!({"input": n, "order_key": format!("customer {}", n % ORDER_KEYS)}))
        .collect();
    let acme_there = nodes[1].admin().of_tenant("acme");
    let posted = async { acme_there.post("/jobs", ordered.into()).await.is(201) };
    tokio::join!(posted, join_all(sources.iter().map(|source| send(&nodes, source))));
    for worker in workers {
        worker.await.expect("a worker");
    }
    stop.store(true, Ordering::Relaxed);
    let seen = observed.await.expect("the observer");

    // As many as may: a look that never sees a cap reached would show nothing.
    assert_eq!(seen.of_tenant, TENANT_CAP, "{seen:?}");
    assert_eq!(seen.of_source, SOURCE_CAP, "{seen:?}");
    assert_eq!(seen.of_other_source, OTHER_SOURCE_CAP, "{seen:?}");
    assert_eq!(seen.of_order_key, 1, "{seen:?}");
    assert_eq!(seen.wrong_counters, 0, "{seen:?}");
    assert!(seen.looks >= 100, "{seen:?}");
    let node = &nodes[NODES - 1];
    assert_eq!(node.count(&too_fast()).await, 0, "more started than may in a quarter of a second");
    assert_eq!(node.count("SELECT count(*) FROM work").await, 0, "work is left");
    let ended = node.count("SELECT count(*) FROM work_done WHERE state = 6").await;
    assert_eq!(ended, i64::try_from(all).expect("few"));
    assert!(node.count("SELECT count(*) FROM lane_caps").await >= 3);
    assert_eq!(node.count("SELECT count(*) FROM lane_caps WHERE running <> 0").await, 0);
    let expired = node.count("SELECT count(*) FROM attempts WHERE outcome = 2").await;
    let failed = node.count("SELECT count(*) FROM attempts WHERE outcome = 1").await;
    assert!(expired > 0 && failed > 0, "{expired} expired, {failed} failed");
}
