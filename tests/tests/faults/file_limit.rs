//! A server that may open no more files, while many connect.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tokio::net::TcpStream;
use wakepost_tests::{Database, Gateway, on_both, raw_exchange, until};

on_both!(connections_over_the_limit_wait_and_nothing_is_lost);

/// How many files more than it has the server may open.
const ROOM: usize = 12;
/// How many connect beside each other: more than there is room for.
const STRANGERS: usize = 80;

async fn connections_over_the_limit_wait_and_nothing_is_lost(database: Database) {
    let gateway = Gateway::start(database).await;
    let source = gateway.with_source("stripe").await;
    let mut told = Vec::new();
    told.push(gateway.send(&source, &source.event("before")).await.is(202).text("event_id"));
    let lease = gateway.worker("w").wait().await;
    limit_files(&gateway, open_files(&gateway) + ROOM);

    let address = gateway.url().trim_start_matches("http://").to_owned();
    let mut strangers = Vec::new();
    for _ in 0..STRANGERS {
        // The kernel takes them; the server does not yet.
        strangers.push(TcpStream::connect(&address).await.expect("a place to wait in"));
    }
    until("no file is left", || async { gateway.logged().contains("cannot accept").then_some(()) })
        .await;
    // Those who were there before are served on: the test's own client keeps its connection.
    for number in 0..20 {
        let answer = gateway.send(&source, &source.event(&format!("while-{number}"))).await;
        told.push(answer.is(202).text("event_id"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    lease.heartbeat().await.is(200);
    let said = gateway.logged().matches("cannot accept").count();
    assert_eq!(said, 1, "it is said once");

    drop(strangers);
    // A connection of its own, which waits until the server has seen the others go.
    let asked = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = raw_exchange(gateway.url(), asked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    limit_files(&gateway, 1024);
    lease.complete(json!(1)).await.is(200);
    let api = gateway.admin();
    for id in &told {
        api.get(&format!("/inbox/{id}/raw")).await.is(200);
    }
    assert_eq!(api.list("/inbox").await.len(), told.len());
}

fn open_files(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("its files").count()
}

fn limit_files(gateway: &Gateway, limit: usize) {
    let ran = Command::new("prlimit")
        .args(["--pid", &gateway.pid().to_string(), &format!("--nofile={limit}:")])
        .output()
        .expect("prlimit");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}
