//! A PostgreSQL that is gone for good, and a standby that takes its place.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tokio_postgres::NoTls;
use wakepost_tests::{Database, Gateway, skipped, until};
use xtask::postgres::{Durability, Postgres};

use crate::load::Load;

/// How fast one node must hear of another's work: less than the look round that finds it without a word.
const HEARD: Duration = Duration::from_secs(5);

/// A server whose commits wait for a standby, the standby, and the URL of both.
async fn pair() -> (Postgres, Postgres, String) {
    let primary = Postgres::start(Durability::Fast).expect("a server");
    let standby = primary.standby().expect("a standby");
    let (client, connection) =
        tokio_postgres::connect(&primary.url(), NoTls).await.expect("a connection");
    let connection = tokio::spawn(connection);
    until("commits wait for the standby", || async {
        let waits = "SELECT 1 FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')";
        (!client.query(waits, &[]).await.expect("an answer").is_empty()).then_some(())
    })
    .await;
    connection.abort();
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres?target_session_attrs=read-write",
        primary.port(),
        standby.port()
    );
    (primary, standby, url)
}

#[tokio::test]
async fn a_promoted_standby_has_all_that_was_acknowledged_on_postgres() {
    if !Postgres::is_installed() {
        return skipped("there is no PostgreSQL on this machine");
    }
    let (mut primary, standby, url) = pair().await;
    let first = Gateway::setup(Database::Postgres).server(&url).start().await;
    let nodes = [first.node().await, first];
    let load = Load::new(&nodes).await;
    load.through(async {
        primary.kill().expect("it ends");
        load.is_refused().await;
        for node in &nodes {
            assert_eq!(node.fetch("/readyz").await.status, 503, "only a standby is there");
            node.fetch("/healthz").await.is(200);
        }
        standby.promote().expect("it is promoted");
        let promoted = Instant::now();
        load.goes_on("after the promotion").await;
        eprintln!("it went on {:?} after the promotion", promoted.elapsed());
    })
    .await;
    nodes_hear_of_each_other(&nodes).await;
    what_is_put_into_the_outbox_is_published(&nodes[0]).await;
}

/// The listening connections are at the new server.
async fn nodes_hear_of_each_other(nodes: &[Gateway; 2]) {
    for _ in 0..3 {
        let worker = nodes[1].worker("waiting");
        let waiting = worker.lease_many(json!({"wait_s": 30}));
        let making = async {
            // That it waits cannot be seen from outside.
            tokio::time::sleep(Duration::from_millis(100)).await;
            (nodes[0].admin().job().await, Instant::now())
        };
        let (leases, (made, at)) = tokio::join!(waiting, making);
        assert_eq!(leases[0].id(), made);
        assert!(at.elapsed() < HEARD, "heard of it after {:?}", at.elapsed());
        leases[0].complete(json!(1)).await.is(200);
    }
}

async fn what_is_put_into_the_outbox_is_published(gateway: &Gateway) {
    gateway.execute("SELECT wakepost_publish('default', 'order.paid', '{\"id\": 42}')").await;
    until("the outbox is taken into the ledger", || async {
        let taken = "SELECT count(*) FROM outbox";
        (gateway.count(taken).await == 0).then_some(())
    })
    .await;
    assert_eq!(gateway.admin().list("/events").await.len(), 1);
}
