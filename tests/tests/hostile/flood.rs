//! A thousand peers that take their time. The listener stands before any database.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wakepost_tests::{Database, Gateway, within};

const DRIBBLING_HEADERS: usize = 450;
const DRIBBLING_BODIES: usize = 450;
const NOT_READING: usize = 100;
/// What those who do not read ask for, again and again: the largest answer that needs no key.
const LARGE: &str = "/openapi.json";
const ASKS: usize = 200;
/// What a thousand connections may add to the server's memory: a debug build, with all its buffers.
const GROWTH_KIB_MAX: u64 = 150 * 1024;
/// Thirty seconds by the promise, and some for a busy machine.
const BODY_LIMIT: Duration = Duration::from_secs(45);

fn address(gateway: &Gateway) -> SocketAddr {
    gateway.url().trim_start_matches("http://").parse().expect("an address")
}

/// Sends a beginning, then a byte now and then; answers what it was told when it was cut.
fn dribble(address: SocketAddr, beginning: String) -> JoinHandle<(String, Duration)> {
    tokio::spawn(async move {
        let stream = TcpStream::connect(address).await.expect("a connection");
        let started = Instant::now();
        let (mut reading, mut writing) = stream.into_split();
        let writer = tokio::spawn(async move {
            let mut sent = writing.write_all(beginning.as_bytes()).await;
            while sent.is_ok() {
                tokio::time::sleep(Duration::from_secs(1)).await;
                sent = writing.write_all(b"x").await;
            }
        });
        let mut answer = Vec::new();
        let _ = reading.read_to_end(&mut answer).await;
        let took = started.elapsed();
        writer.abort();
        (String::from_utf8_lossy(&answer).into_owned(), took)
    })
}

/// Asks for much, far more than the buffers between us hold, and reads nothing.
fn ask_and_not_read(address: SocketAddr) -> JoinHandle<()> {
    tokio::spawn(async move {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4096).expect("a small buffer");
        let mut stream = socket.connect(address).await.expect("a connection");
        let ask = format!("GET {LARGE} HTTP/1.1\r\nHost: x\r\n\r\n");
        let _ = stream.write_all(ask.repeat(ASKS).as_bytes()).await;
        std::future::pending::<()>().await;
    })
}

fn sockets(gateway: &Gateway) -> usize {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).expect("its files");
    let links = fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

fn memory_kib(gateway: &Gateway) -> u64 {
    let path = format!("/proc/{}/status", gateway.pid());
    let status = std::fs::read_to_string(path).expect("its status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("its memory");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[tokio::test]
async fn a_thousand_slow_peers_are_cut_and_others_are_served_in_bounded_memory() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let source = gateway.with_source("github").await;
    gateway.send(&source, &source.event("before")).await.is(202);
    let answer = gateway.fetch(LARGE).await.is(200).body.len();
    assert!(answer * ASKS > 10 << 20, "{answer} bytes, {ASKS} times, fit into buffers");
    let (usual, before) = (sockets(&gateway), memory_kib(&gateway));
    let to = address(&gateway);
    let path = source.sign(&source.event("never")).url;

    let started = Instant::now();
    let headers = (0..DRIBBLING_HEADERS)
        .map(|_| dribble(to, format!("POST {path} HTTP/1.1\r\nHost: x\r\nX-Slow: ")));
    let headers: Vec<_> = headers.collect();
    let bodies = (0..DRIBBLING_BODIES).map(|_| {
        let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
        dribble(to, head + &"x".repeat(1000))
    });
    let bodies: Vec<_> = bodies.collect();
    let silent: Vec<_> = (0..NOT_READING).map(|_| ask_and_not_read(to)).collect();
    let (mut served, mut most, mut connected) = (0, 0, 0);
    while started.elapsed() < Duration::from_secs(9) {
        let asked = Instant::now();
        gateway.send(&source, &source.event(&format!("e-{served}"))).await.is(202);
        assert!(asked.elapsed() < Duration::from_secs(3), "served after {:?}", asked.elapsed());
        served += 1;
        most = most.max(memory_kib(&gateway));
        connected = connected.max(sockets(&gateway));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let all = DRIBBLING_HEADERS + DRIBBLING_BODIES + NOT_READING;
    assert!(connected >= usual + all, "{connected} connections at once");
    let growth = most.saturating_sub(before);
    assert!(growth < GROWTH_KIB_MAX, "memory grew by {growth} KiB");

    for cut in join_all(headers).await {
        let (_, took) = cut.expect("a connection");
        assert!(took < Duration::from_secs(20), "headers were cut after {took:?}");
    }
    let left = sockets(&gateway);
    assert!(
        left >= usual + DRIBBLING_BODIES + NOT_READING,
        "the others have time: {left} are left"
    );
    for cut in join_all(bodies).await {
        let (answer, took) = cut.expect("a connection");
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer:?}");
        assert!(took < BODY_LIMIT, "a body was cut after {took:?}");
    }
    within(Duration::from_secs(20), "those who do not read are cut", || async {
        (sockets(&gateway) <= usual + 5).then_some(())
    })
    .await;
    silent.iter().for_each(JoinHandle::abort);
    assert_eq!(gateway.admin().list("/inbox").await.len(), served + 1);
}
