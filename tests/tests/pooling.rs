//! Pooling: a PgBouncer in front of PostgreSQL changes nothing but how fast nodes hear of each other.
//!
//! In transaction mode it must know prepared statements, which it does since 1.21. Where the one that is installed is
//! older, it is tried in session mode. `WAKEPOST_TEST_PGBOUNCER` names another than that of the system.

use std::fmt::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio_postgres::config::Host;
use wakepost_tests::{Database, Gateway, Receiver, Reply, Source, skipped, until};

const PROGRAM: &str = "WAKEPOST_TEST_PGBOUNCER";
const SERVER: &str = "WAKEPOST_TEST_DATABASE_URL";
/// Fewer than two nodes have: transactions of one client go to many servers, and servers serve both.
const SERVERS: usize = 6;

struct Pooler {
    _process: Child,
    _directory: TempDir,
    port: u16,
    by_transaction: bool,
}

impl Pooler {
    /// Starts one in front of the server of all tests; none: there is none on this machine.
    async fn start() -> Option<Pooler> {
        let named = std::env::var_os(PROGRAM).map(PathBuf::from);
        let usual = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"].map(PathBuf::from);
        let program = named.or_else(|| usual.into_iter().find(|path| path.exists()))?;
        let by_transaction = version(&program).await >= (1, 21);
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let directory = tempfile::tempdir().expect("a directory");
        let settings = settings(port, by_transaction);
        let file = directory.path().join("pgbouncer.ini");
        std::fs::write(&file, settings).expect("a file");
        let mut command = Command::new(&program);
        // It does not run as root.
        if rustix::process::geteuid().is_root() {
            command.args(["--user", "nobody"]);
        }
        let process = command
            .arg(&file)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("pgbouncer starts");
        let pooler = Pooler { _process: process, _directory: directory, port, by_transaction };
        until("it listens", || async {
            tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok().map(drop)
        })
        .await;
        Some(pooler)
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

async fn version(program: &Path) -> (u32, u32) {
    let ran = Command::new(program).arg("--version").output().await.expect("it tells");
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let number = said.split_whitespace().nth(1).expect("a version");
    let mut parts = number.split('.').map(|part| part.parse().expect("a number"));
    (parts.next().expect("a first"), parts.next().expect("a second"))
}

fn settings(port: u16, by_transaction: bool) -> String {
    let server = std::env::var(SERVER).expect("run this through `cargo xtask test`");
    let server: tokio_postgres::Config = server.parse().expect("an address");
    let Some(Host::Tcp(host)) = server.get_hosts().first() else { panic!("a host") };
    let mut behind = format!("host={host} user={}", server.get_user().unwrap_or("postgres"));
    if let Some(port) = server.get_ports().first() {
        write!(behind, " port={port}").expect("a text");
    }
    if let Some(password) = server.get_password() {
        write!(behind, " password={}", String::from_utf8_lossy(password)).expect("a text");
    }
    let how = match by_transaction {
        true => format!(
            "pool_mode = transaction\nmax_prepared_statements = 200\ndefault_pool_size = {SERVERS}\n"
        ),
        false => "pool_mode = session\ndefault_pool_size = 60\n".to_owned(),
    };
    format!(
        "[databases]\n* = {behind}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
         unix_socket_dir =\nauth_type = any\nmax_client_conn = 200\n{how}"
    )
}

#[tokio::test]
async fn two_nodes_behind_a_pooler_do_all_they_do_without_one_on_postgres() {
    let Some(pooler) = Pooler::start().await else { return skipped("there is no PgBouncer") };
    let first = Gateway::setup(Database::Postgres)
        .server(&pooler.url())
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
        .start()
        .await;
    let nodes = [first.node().await, first];
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let hook = json!({"url": receiver.url("/hook"), "events": ["*"]});
    nodes[0].admin().post("/webhooks", hook).await.is(201);
    let source = nodes[0].with_source("github").await;
    // Many at once, so that the pooler has to share.
    let rounds = (0..8).map(|round| whole_way(&nodes, &source, round));
    futures_util::future::join_all(rounds).await;
    receiver.wait("/hook", 8 * EACH).await;
    nodes_find_each_others_work(&nodes, pooler.by_transaction).await;
    let said = nodes[0].run(&[], &["doctor", "--json"]).await.json();
    let ok = |name: &str| {
        let mut checks = said["checks"].as_array().expect("checks").iter();
        checks.any(|one| one["name"] == name && one["level"] == "ok")
    };
    assert!(ok("invariants") && ok("migrations"), "{said}");
}

/// How many events each sender sends.
const EACH: usize = 10;

/// Events are accepted once, claimed, have an effect, end, and lead to what is published and delivered.
async fn whole_way(nodes: &[Gateway; 2], source: &Source, sender: usize) {
    let (here, there) = (&nodes[sender % 2], &nodes[(sender + 1) % 2]);
    let worker = there.worker(&format!("w{sender}"));
    for turn in 0..EACH {
        let event = source.event(&format!("e-{sender}-{turn}"));
        let id = here.send(source, &event).await.is(202).text("event_id");
        assert_eq!(there.send(source, &event).await.is(200).text("event_id"), id);
        let lease = worker.wait().await;
        lease.heartbeat().await.is(200);
        lease.checkpoint(json!({"step": 1})).await.is(200);
        lease.begin("mail").await.is(200);
        lease.commit("mail", json!({"sent": turn})).await.is(200);
        lease.complete(json!(turn)).await.is(200);
        lease.heartbeat().await.refuses(409, "lease_lost");
        let order = json!({"type": "order.paid", "data": {"n": turn}});
        here.admin().post("/events", order).await.is(202);
    }
}

/// In session mode by a word; in transaction mode nobody can listen, and the look round finds it.
async fn nodes_find_each_others_work(nodes: &[Gateway; 2], by_transaction: bool) {
    let limit = Duration::from_secs(if by_transaction { 25 } else { 5 });
    let worker = nodes[1].worker("waiting");
    let waiting = async { worker.lease_many(json!({"wait_s": 30})).await };
    let making = async {
        // That it waits cannot be seen from outside.
        tokio::time::sleep(Duration::from_millis(200)).await;
        (nodes[0].admin().job().await, tokio::time::Instant::now())
    };
    let (leases, (made, at)) = tokio::join!(waiting, making);
    assert_eq!(leases[0].id(), made);
    assert!(at.elapsed() < limit, "found after {:?}", at.elapsed());
    leases[0].complete(json!(1)).await.is(200);
}
