//! A stand-in for the server: answers as a test says, and remembers what it was sent.

#![allow(dead_code)]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

/// A request, as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// `GET /api/v1/inbox?limit=2`
    pub line: String,
    /// The `Authorization` header.
    pub authorization: String,
    /// The `Idempotency-Key` header.
    pub idempotency_key: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The body as JSON; null if it is not.
    pub body: Value,
    /// The body, byte for byte.
    pub bytes: Vec<u8>,
}

/// What to answer.
pub struct Answer(u16, &'static str, Vec<u8>);

/// JSON with a status.
pub fn json_answer(status: u16, body: Value) -> Answer {
    Answer(status, "application/json", body.to_string().into_bytes())
}

/// Bytes with a status.
pub fn bytes_answer(status: u16, body: &[u8]) -> Answer {
    Answer(status, "application/octet-stream", body.to_vec())
}

/// No answer, ever.
pub fn silence() -> Answer {
    Answer(0, "", Vec::new())
}

/// A refusal.
pub fn problem(status: u16, code: &str, detail: &str) -> Answer {
    let body = json!({"type": "about:blank", "title": "Refused", "status": status,
        "detail": detail, "code": code});
    Answer(status, "application/problem+json", body.to_string().into_bytes())
}

/// The server. It lives in a thread of its own until the test ends.
pub struct StandIn {
    /// Where it listens.
    pub url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl StandIn {
    /// Starts a server that answers every request with what `answer` makes of it.
    pub fn start(answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> StandIn {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("non-blocking");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, log) = (Arc::new(answer), seen.clone());
        std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(serve(listener, answer, log));
        });
        StandIn { url, seen }
    }

    /// What it was sent, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("the log").clone()
    }

    /// The request lines it was sent, in order.
    pub fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }
}

async fn serve<F>(listener: std::net::TcpListener, answer: Arc<F>, log: Arc<Mutex<Vec<Seen>>>)
where
    F: Fn(&Seen) -> Answer + Send + Sync + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
    while let Ok((stream, _)) = listener.accept().await {
        let (answer, log) = (answer.clone(), log.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let (answer, log) = (answer.clone(), log.clone());
                async move {
                    let seen = read(request).await;
                    log.lock().expect("the log").push(seen.clone());
                    let Answer(status, content_type, body) = answer(&seen);
                    if status == 0 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, Infallible>(
                        Response::builder()
                            .status(status)
                            .header("content-type", content_type)
                            .body(Full::new(Bytes::from(body)))
                            .expect("an answer"),
                    )
                }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn read(request: Request<Incoming>) -> Seen {
    let header = |name: &str| {
        let value = request.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let line = format!("{} {}", request.method(), request.uri());
    let (authorization, idempotency_key) = (header("authorization"), header("idempotency-key"));
    let headers = request.headers().clone();
    let bytes = request.into_body().collect().await.expect("a body").to_bytes().to_vec();
    Seen {
        line,
        authorization,
        idempotency_key,
        headers,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        bytes,
    }
}
