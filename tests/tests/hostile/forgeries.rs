//! A flood of badly signed requests leaves a few receipts and nothing else, and keeps nobody out.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use wakepost_domain::limits::REJECTIONS_KEPT;
use wakepost_tests::{Database, Gateway, on_both, until};

on_both!(a_flood_of_forgeries_leaves_bounded_receipts_and_keeps_nobody_out);

/// Who floods, each as fast as it is answered.
const FORGERS: usize = 32;
/// Far more than are kept, and than may wait to be written at once.
const FORGERIES: usize = 4000;
/// Good events beside the flood, at least.
const GOOD_MIN: usize = 20;

/// Rows that events leave, and rows of anything else that may grow.
const OF_EVENTS: [&str; 4] = ["events", "bodies", "work", "dedup_keys"];
const OF_OTHERS: [&str; 8] =
    ["work_done", "attempts", "job_state", "effects", "progress", "idempotency", "audit", "lanes"];

async fn rows(gateway: &Gateway, tables: &[&str]) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in tables {
        counts.push(gateway.count(&format!("SELECT count(*) FROM {table}")).await);
    }
    counts
}

async fn a_flood_of_forgeries_leaves_bounded_receipts_and_keeps_nobody_out(database: Database) {
    let gateway = Arc::new(Gateway::start(database).await);
    let api = gateway.admin();
    let source = api.source("github").await;
    let forger = source.with_secret("a secret that somebody made up");
    gateway.send(&source, &source.event("good-0")).await.is(202);
    let (each, others) = (rows(&gateway, &OF_EVENTS).await, rows(&gateway, &OF_OTHERS).await);

    let left = Arc::new(AtomicUsize::new(FORGERS));
    let flood = (0..FORGERS).map(|number| {
        let (gateway, forger, left) = (gateway.clone(), forger.clone(), left.clone());
        tokio::spawn(async move {
            for count in 0..FORGERIES / FORGERS {
                let forged = forger.event(&format!("forged-{number}-{count}"));
                gateway.send(&forger, &forged).await.refuses(401, "unauthorized");
            }
            left.fetch_sub(1, Ordering::Relaxed);
        })
    });
    let flood: Vec<_> = flood.collect();
    let mut good = 1;
    while left.load(Ordering::Relaxed) > 0 || good < GOOD_MIN {
        assert!(good < FORGERIES, "the flood does not end");
        gateway.send(&source, &source.event(&format!("good-{good}"))).await.is(202);
        good += 1;
    }
    for forger in join_all(flood).await {
        forger.expect("every forgery is refused");
    }

    // As many receipts as may be kept, however long the writer goes on.
    let rejections = "SELECT count(*) FROM receipts WHERE event_id IS NULL";
    until("the latest refusals are kept", async || {
        let kept = gateway.count(rejections).await;
        assert!(kept <= REJECTIONS_KEPT, "{kept} receipts of refused requests");
        (kept == REJECTIONS_KEPT).then_some(())
    })
    .await;
    let stored = i64::try_from(good).expect("a small number");
    let expected: Vec<i64> = each.iter().map(|rows| rows * stored).collect();
    assert_eq!(rows(&gateway, &OF_EVENTS).await, expected, "of {good} good events, {OF_EVENTS:?}");
    assert_eq!(rows(&gateway, &OF_OTHERS).await, others, "{OF_OTHERS:?}");
    assert_eq!(api.list("/inbox").await.len(), good);
    let shown = api.list(&format!("/sources/{}/receipts", source.id)).await;
    let refused = shown.iter().filter(|row| row["verdict"] == "bad_signature").count();
    assert!(refused > 0 && refused == shown.len(), "{refused} of {}", shown.len());
}
