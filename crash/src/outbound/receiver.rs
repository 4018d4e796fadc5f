//! Three subscribers on one port, each with its temper. They live through every kill, and log what came and what they
//! answered.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::hooks::{Hook, Hooks};
use super::record::Record;
use crate::chance::Chance;

/// The subscribers. They end when this is dropped.
pub struct Receiver {
    url: String,
    room: Arc<Room>,
    serving: JoinHandle<()>,
}

struct Room {
    record: Arc<Record>,
    chance: Mutex<Chance>,
    /// Empty while webhooks are made: pings are no deliveries.
    hooks: OnceLock<Arc<Hooks>>,
    calm: AtomicBool,
}

/// What a subscriber does with a request.
struct Mood {
    status: StatusCode,
    after: Duration,
}

impl Receiver {
    /// Starts them.
    pub async fn start(record: Arc<Record>, chance: Chance) -> anyhow::Result<Receiver> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let room = Arc::new(Room {
            record,
            chance: Mutex::new(chance),
            hooks: OnceLock::new(),
            calm: AtomicBool::new(false),
        });
        let serving = tokio::spawn(serve(listener, room.clone()));
        Ok(Receiver { url, room, serving })
    }

    /// Where one of them is.
    pub fn url(&self, hook: Hook) -> String {
        format!("{}{}", self.url, hook.path())
    }

    /// From now on what comes is a delivery.
    pub fn open(&self, hooks: Arc<Hooks>) {
        let _ = self.room.hooks.set(hooks);
    }

    /// From now on all are well.
    pub fn calm_down(&self) {
        self.room.calm.store(true, Ordering::Relaxed);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(listener: TcpListener, room: Arc<Room>) {
    while let Ok((stream, _)) = listener.accept().await {
        let room = room.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(room.clone(), request));
            // A connection that breaks off drops what is being answered on it: that was never answered.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    room: Arc<Room>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let hook = Hook::ALL.into_iter().find(|hook| hook.path() == parts.uri.path());
    let mut response = Response::new(Full::default());
    let (Some(hook), Ok(body)) = (hook, body.collect().await) else {
        // A request that was cut off was never received.
        *response.status_mut() = StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let Some(hooks) = room.hooks.get() else { return Ok(response) };
    let receipt = room.record.received(hooks, hook, &parts.headers, body.to_bytes());
    let mood = room.mood(hook);
    tokio::time::sleep(mood.after).await;
    room.record.answered(receipt, mood.status.as_u16());
    *response.status_mut() = mood.status;
    Ok(response)
}

impl Room {
    fn mood(&self, hook: Hook) -> Mood {
        let mut chance = self.chance.lock().expect("nobody panics while holding it");
        let well = |after| Mood { status: StatusCode::OK, after };
        if self.calm.load(Ordering::Relaxed) {
            return well(Duration::ZERO);
        }
        match (hook, chance.within(1, 100)) {
            (Hook::Moody, 1..=12) => {
                Mood { status: StatusCode::INTERNAL_SERVER_ERROR, after: Duration::ZERO }
            }
            // The server gives up before.
            (Hook::Moody, 13) => well(hook.timeout() + chance.millis(300, 1000)),
            (Hook::Slow, _) => well(chance.millis(20, 400)),
            _ => well(Duration::ZERO),
        }
    }
}
