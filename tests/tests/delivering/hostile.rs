//! Receivers that mean harm, or are merely broken: what becomes of a delivery to them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use wakepost_tests::{Database, on_both};

use crate::subscriber::*;

on_both!(whatever_a_receiver_does_each_try_ends_and_is_judged);

/// The one deadline that a try has here.
const TIMEOUT_S: u64 = 2;
/// What a busy machine may need beyond it.
const MARGIN: Duration = Duration::from_secs(8);
/// What the server may need beyond what it needs anyway.
const MEMORY_KB_MAX: u64 = 300 * 1024;

/// A receiver that does what its path names.
struct Villain {
    address: SocketAddr,
    tries: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Villain {
    async fn start() -> Villain {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let tries = Arc::new(AtomicUsize::new(0));
        let counted = tries.clone();
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, counted.clone()));
            }
        });
        Villain { address, tries, serving }
    }
}

impl Drop for Villain {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Reads one request, takes it if it is a ping, and is itself otherwise.
async fn serve(mut stream: TcpStream, tries: Arc<AtomicUsize>) -> Option<()> {
    let mut request = Vec::new();
    let whole = |request: &[u8]| {
        let text = String::from_utf8_lossy(request).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
        (body.len() >= length.parse().ok()?).then_some((head.to_owned(), body.to_owned()))
    };
    let (head, body) = loop {
        if let Some(whole) = whole(&request) {
            break whole;
        }
        let mut part = [0; 4096];
        match stream.read(&mut part).await.ok()? {
            0 => return None,
            count => request.extend(&part[..count]),
        }
    };
    if body.contains("webhook.ping") {
        stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await.ok()?;
        return stream.shutdown().await.ok();
    }
    tries.fetch_add(1, Ordering::SeqCst);
    let path = head.split(' ').nth(1)?;
    misbehave(&mut stream, path).await
}

async fn misbehave(stream: &mut TcpStream, path: &str) -> Option<()> {
    match path {
        "/hangs" => {
            let mut rest = [0; 64];
            while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
        }
        "/drips-its-head" => {
            drip(stream, b"HTTP/1.1 200 OK\r\nx: ").await?;
        }
        "/drips-its-body" => {
            drip(stream, b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n").await?;
        }
        "/is-endless" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
            pour(stream, &[b'x'; 64 * 1024]).await;
        }
        "/is-endless-and-refuses" => {
            stream.write_all(b"HTTP/1.1 400 No\r\n\r\n").await.ok()?;
            pour(stream, &[b'x'; 64 * 1024]).await;
        }
        "/is-a-bomb" => {
            let bomb = bomb();
            let length = bomb.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await.ok()?;
            stream.write_all(&bomb).await.ok()?;
        }
        "/has-many-headers" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await.ok()?;
            let line = format!("x-{}: {}\r\n", "n".repeat(20), "v".repeat(1000));
            for _ in 0..10 * 1024 {
                stream.write_all(line.as_bytes()).await.ok()?;
            }
            stream.write_all(b"\r\n").await.ok()?;
        }
        "/informs-for-ever" => {
            pour(stream, b"HTTP/1.1 102 Processing\r\n\r\n".repeat(100).as_slice()).await;
        }
        "/closes-early" => {
            let half = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf";
            stream.write_all(half).await.ok()?;
            stream.shutdown().await.ok()?;
        }
        "/closes-at-once" => {}
        "/speaks-nonsense" => stream.write_all(b"220 mail.example ESMTP\r\n").await.ok()?,
        _ => {}
    }
    Some(())
}

async fn drip(stream: &mut TcpStream, head: &[u8]) -> Option<()> {
    stream.write_all(head).await.ok()?;
    loop {
        stream.write_all(b"x").await.ok()?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn pour(stream: &mut TcpStream, bytes: &[u8]) {
    while stream.write_all(bytes).await.is_ok() {}
}

/// What calls itself gzip. Whoever looked into it would find that it is not even sound.
fn bomb() -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xec, 0xc1];
    bytes.resize(64 * 1024, 0);
    bytes
}

/// How much memory a process has, in kilobytes.
fn memory_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("its status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

async fn whatever_a_receiver_does_each_try_ends_and_is_judged(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let villain = Villain::start().await;
    let cases = [
        ("/hangs", "dead_letter", "timeout"),
        ("/drips-its-head", "dead_letter", "timeout"),
        ("/drips-its-body", "dead_letter", "timeout"),
        // An answer was given, and what follows it is not read.
        ("/is-endless", "succeeded", ""),
        ("/is-endless-and-refuses", "dead_letter", ""),
        ("/is-a-bomb", "succeeded", ""),
        ("/has-many-headers", "dead_letter", "protocol"),
        ("/informs-for-ever", "dead_letter", "any"),
        ("/closes-early", "dead_letter", "protocol"),
        ("/closes-at-once", "dead_letter", "protocol"),
        ("/speaks-nonsense", "dead_letter", "protocol"),
    ];
    let mut subscribers = Vec::new();
    for (path, ..) in &cases {
        let url = format!("http://{}{path}", villain.address);
        let fields = json!({"url": url, "events": ["order.*"], "timeout_s": TIMEOUT_S,
            "retry_s": [0, 0]});
        subscribers.push(Subscriber::with(&api, fields).await);
    }
    // One that speaks no TLS, a port where nobody is, and a name that there is not.
    let plain = taker().await;
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("it");
    for (url, class) in [
        (plain.url("/").replace("http:", "https:"), "tls"),
        (format!("http://{nobody}/"), "connect"),
        ("http://no-such-name.invalid/".to_owned(), "resolve"),
    ] {
        let fields = json!({"url": url, "events": ["tls.*"], "timeout_s": TIMEOUT_S,
            "retry_s": [0, 0]});
        let subscriber = Subscriber::with(&api, fields).await;
        assert!(subscriber.made["warning"].is_string(), "{class}");
        let event = publish(&api, "tls.tried", json!({})).await;
        let delivery = subscriber.delivery(&event, "dead_letter").await;
        assert_eq!(delivery["attempt_count"], 2, "{class}: {delivery}");
        assert_eq!(tries(&delivery)[1]["error_class"], class, "{delivery}");
    }
    let event = publish(&api, "order.created", json!({"n": 1})).await;
    for ((path, ends, class), subscriber) in cases.iter().zip(&subscribers) {
        let delivery = subscriber.delivery(&event, ends).await;
        let retried = !class.is_empty();
        assert_eq!(delivery["attempt_count"], if retried { 2 } else { 1 }, "{path}: {delivery}");
        for one in tries(&delivery) {
            of_one_try(path, one);
            if retried && *class != "any" {
                assert_eq!(one["error_class"], *class, "{path}: {one}");
            }
        }
    }
    assert!(villain.tries.load(Ordering::SeqCst) >= cases.len());
    assert!(memory_kb(gateway.pid()) < MEMORY_KB_MAX);
}

fn of_one_try(path: &str, one: &Value) {
    let took = moment(&one["ended_at"]).since(moment(&one["started_at"]));
    assert!(took < Duration::from_secs(TIMEOUT_S) + MARGIN, "{path}: {took:?}");
    // Bytes that are no text are shown as such, which takes three for one.
    let body = one["body"].as_str().unwrap_or_default();
    assert!(body.chars().count() <= 4096, "{path}");
    if path == "/is-a-bomb" {
        assert!(body.starts_with('\u{1f}'), "it was not inflated: {body:.40}");
        assert_eq!(one["response_headers"]["content-encoding"], "gzip");
    }
    if path.starts_with("/is-endless") {
        assert_eq!((body.len(), &one["truncated"]), (4096, &json!(true)), "{path}");
    }
}
