//! Receivers of deliveries in this process, which notes when each came. One of them can be made to hang.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wakepost_server::listener;

use super::timed::{Heard, Receipts, Request};

/// How long the one that hangs does.
const HANGING: Duration = Duration::from_secs(30);
/// The receiver that may hang.
pub const HANGS: usize = 0;

/// The receivers. They end when this is dropped.
pub struct Hooks {
    url: String,
    hall: Arc<Hall>,
    _serving: JoinSet<()>,
}

/// What the receivers share.
struct Hall {
    heard: Mutex<Option<Heard>>,
    hanging: watch::Sender<bool>,
    /// How many came to the one that may hang.
    hung: watch::Sender<u64>,
}

/// A delivery, as far as it is read. A ping has no number.
#[derive(Deserialize)]
struct Delivered {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    number: Option<usize>,
}

impl Hooks {
    /// Starts them.
    pub async fn start() -> anyhow::Result<Hooks> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let hall = Arc::new(Hall {
            heard: Mutex::default(),
            hanging: watch::Sender::new(false),
            hung: watch::Sender::new(0),
        });
        let router =
            Router::new().route("/{hook}", axum::routing::post(receive)).with_state(hall.clone());
        let mut serving = JoinSet::new();
        let stop = CancellationToken::new();
        let grace = Duration::from_millis(100);
        serving.spawn(listener::serve(listener, router, 10_000, stop, grace));
        Ok(Hooks { url, hall, _serving: serving })
    }

    /// Where one of them is.
    pub fn url(&self, hook: usize) -> String {
        format!("{}/{hook}", self.url)
    }

    /// What comes from now on.
    pub fn receipts(&self) -> Receipts {
        let (heard, receipts) = mpsc::unbounded_channel();
        *self.hall.heard.lock().expect("nobody panics while holding it") = Some(heard);
        receipts
    }

    /// Lets the one hang that may, or lets go of what it holds.
    pub fn hang(&self, hangs: bool) {
        self.hall.hanging.send_replace(hangs);
    }

    /// How many came to the one that may hang, pings included.
    pub fn hung(&self) -> watch::Receiver<u64> {
        self.hall.hung.subscribe()
    }
}

async fn receive(
    State(hall): State<Arc<Hall>>,
    Path(hook): Path<usize>,
    Json(delivered): Json<Delivered>,
) -> StatusCode {
    let at = Instant::now();
    if hook == HANGS {
        hall.hung.send_modify(|count| *count += 1);
        let mut hanging = hall.hanging.subscribe();
        let _ = tokio::time::timeout(HANGING, hanging.wait_for(|hangs| !hangs)).await;
        return StatusCode::OK;
    }
    if let Some(number) = delivered.data.object.number
        && let Some(heard) = &*hall.heard.lock().expect("nobody panics while holding it")
    {
        // The measure may be over already.
        let _ = heard.send((number, at));
    }
    StatusCode::OK
}

/// An event with a number, to be published.
pub fn event(path: &str, event_type: &str, number: usize) -> Request {
    let body = json!({"type": event_type, "data": {"number": number}});
    Request { path: path.to_owned(), body: body.to_string() }
}
