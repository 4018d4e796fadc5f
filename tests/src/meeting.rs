//! Where agents meet the test: a real server that counts what they do, and holds them where the test wants them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::waiting::until;

/// The server. It ends with the test.
pub struct Meeting {
    url: String,
    room: Arc<Room>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Room {
    state: Mutex<State>,
    opened: Notify,
}

#[derive(Default)]
struct State {
    /// What came, by path.
    came: HashMap<String, Vec<Came>>,
    /// The places where nobody is held any more.
    open: HashSet<String>,
    /// The statuses of the next answers, by path; then 200.
    answers: HashMap<String, VecDeque<u16>>,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Came {
    /// Its body.
    pub body: Value,
    /// The idempotency key that it carried.
    pub idempotency_key: Option<String>,
}

impl Meeting {
    /// Starts the server.
    pub async fn start() -> Meeting {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let room = Arc::new(Room::default());
        let serving = tokio::spawn(serve(listener, room.clone()));
        Meeting { url, room, serving }
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What came to a path so far.
    pub fn came(&self, path: &str) -> Vec<Came> {
        let state = self.room.state.lock().expect("the room");
        state.came.get(path).cloned().unwrap_or_default()
    }

    /// Waits until as many stood, or stand, at a place.
    pub async fn wait_at(&self, place: &str, count: usize) -> Vec<Came> {
        let path = format!("/at/{place}");
        until("an agent comes to its place", || async {
            Some(self.came(&path)).filter(|came| came.len() >= count)
        })
        .await
    }

    /// Lets those at a place go on, and all who come there later.
    pub fn open(&self, place: &str) {
        self.room.state.lock().expect("the room").open.insert(format!("/at/{place}"));
        self.room.opened.notify_waiters();
    }

    /// What the next requests to a path are answered with, before 200.
    pub fn answers(&self, path: &str, statuses: &[u16]) {
        let mut state = self.room.state.lock().expect("the room");
        state.answers.entry(path.to_owned()).or_default().extend(statuses);
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, room: Arc<Room>) {
    while let Ok((stream, _)) = listener.accept().await {
        let room = room.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(room.clone(), request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    room: Arc<Room>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let key = parts.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let came = Came {
        body: serde_json::from_slice(&body).unwrap_or_default(),
        idempotency_key: key.map(str::to_owned),
    };
    let (status, count) = {
        let mut state = room.state.lock().expect("the room");
        let all = state.came.entry(path.clone()).or_default();
        all.push(came);
        let count = all.len();
        (state.answers.get_mut(&path).and_then(VecDeque::pop_front).unwrap_or(200), count)
    };
    while path.starts_with("/at/") {
        let opened = room.opened.notified();
        if room.state.lock().expect("the room").open.contains(&path) {
            break;
        }
        opened.await;
    }
    let answer = Response::builder().status(status).header("content-type", "application/json");
    let text = json!({"count": count}).to_string();
    Ok(answer.body(Full::from(text)).expect("an answer"))
}
