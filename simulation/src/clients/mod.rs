//! Everybody outside: senders, makers of jobs, publishers, workers, operators. They know only the HTTP contract, and nobody tells them
//! when the server dies.

pub mod latecomer;
pub mod maker;
pub mod operator;
pub mod publisher;
pub mod replayer;
pub mod scheduler;
pub mod sender;
pub mod worker;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use serde_json::Value;
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::{Exchange, Said};
use wakepost_crash::told::Told;

use crate::faults::Season;
use crate::record::Record;
use crate::repeats::Repeats;
use crate::server::ADMIN_KEY;
use crate::world::{Sleep, World};

/// How often something is read while nobody answers, and the pauses in between.
const READ_TRIES: u32 = 100;
const READ_PAUSE: Duration = Duration::from_secs(1);

const PLAIN: &str = "a request of plain parts";

/// What went wrong before faults stopped is over by so much later.
const SETTLING: Duration = Duration::from_secs(20);

/// What the clients do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// They send and work, well or badly.
    Load,
    /// Faults have stopped: nothing new is made, and whoever works works well.
    Calm,
}

/// What every client shares.
#[derive(Clone)]
pub struct Desk {
    /// Where they live.
    pub world: Rc<World>,
    /// What they were told.
    pub told: Rc<Told>,
    /// What publishers and makers of jobs were told, and what receivers saw.
    pub record: Rc<Record>,
    /// What operators were told of what is made again.
    pub repeats: Rc<Repeats>,
    phase: Rc<Cell<Phase>>,
    /// When faults stopped.
    calm_since: Rc<Cell<Option<Duration>>>,
    /// Senders and their kind who have not gone home yet.
    busy: Rc<Cell<usize>>,
}

impl Desk {
    /// A desk in a world.
    pub fn new(world: Rc<World>) -> Desk {
        let phase = Rc::new(Cell::new(Phase::Load));
        let (told, record, repeats, calm_since, busy) = Default::default();
        Desk { world, told, record, repeats, phase, calm_since, busy }
    }

    /// What the clients do now.
    pub fn phase(&self) -> Phase {
        self.phase.get()
    }

    /// Faults have stopped.
    pub fn calm_down(&self) {
        self.world.note(format_args!("faults stop"));
        self.world.faults.turn(Season::Calm);
        self.phase.set(Phase::Calm);
        self.calm_since.set(Some(self.world.time.passed()));
    }

    /// Whether nothing goes wrong, and nothing did just now.
    pub fn is_calm(&self) -> bool {
        let passed = self.world.time.passed();
        self.calm_since.get().is_some_and(|since| passed >= since + SETTLING)
    }

    /// Whether besides the server is up, has been for a while, and stays up: the life in which faults stopped may end
    /// later than they did.
    pub fn is_calm_for_good(&self) -> bool {
        let lasts = self.world.faults.lasting_for().is_some_and(|lived| lived >= SETTLING);
        lasts && self.is_calm()
    }

    /// A client that the check waits for.
    pub fn spawn(&self, client: impl Future<Output = ()> + 'static) {
        let busy = self.busy.clone();
        busy.set(busy.get() + 1);
        self.world.spawn(async move {
            client.await;
            busy.set(busy.get() - 1);
        });
    }

    /// Whether somebody still has something to say.
    pub fn is_busy(&self) -> bool {
        self.busy.get() > 0
    }

    /// Sleeps.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.world.sleep(time)
    }

    /// Sleeps for any time between these, in milliseconds.
    pub fn nap(&self, chance: &mut Chance, low: u64, high: u64) -> Sleep {
        self.world.sleep(chance.millis(low, high))
    }

    /// Calls the API.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Exchange {
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        self.world.exchange(request(method, path).body(body).expect(PLAIN)).await
    }

    /// Asks for something once, however often that takes: each time under the same key.
    pub async fn ask(&self, method: Method, path: &str, body: &Value, key: &str) -> Said {
        loop {
            let request = request(method.clone(), path).header("idempotency-key", key);
            let request = request.body(Body::from(body.to_string())).expect(PLAIN);
            match self.world.exchange(request).await.said {
                Said::Nothing => self.sleep(READ_PAUSE).await,
                said => return said,
            }
        }
    }

    /// As [`Desk::ask`], for what is never refused: a field of its answer.
    pub async fn must(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        key: &str,
        field: &str,
    ) -> Option<String> {
        match self.ask(method, path, body, key).await {
            Said::Yes(_, answer) => answer[field].as_str().map(str::to_owned),
            refused => {
                let refused = format!("{path}: {body} was refused: {refused:?}");
                self.told.violation("contract", refused);
                None
            }
        }
    }

    /// `POST`
    pub async fn post(&self, path: &str, body: &Value) -> Exchange {
        self.call(Method::POST, path, Some(body)).await
    }

    /// Sends what a provider sends.
    pub async fn send(&self, path: &str, headers: HeaderMap, body: Vec<u8>) -> Exchange {
        let mut request = Request::post(path).body(Body::from(body)).expect("plain parts");
        *request.headers_mut() = headers;
        self.world.exchange(request).await
    }

    /// Reads something once faults have stopped; `None` if it is not there. The server may not be up again yet.
    pub async fn read(&self, path: &str) -> Option<Value> {
        for _ in 0..READ_TRIES {
            match self.call(Method::GET, path, None).await.said {
                Said::Yes(_, shown) => return Some(shown),
                Said::No(..) => return None,
                Said::Nothing => self.sleep(READ_PAUSE).await,
            }
        }
        self.told.violation("start", format!("{path} cannot be read"));
        None
    }

    /// Reads the bytes of something once faults have stopped; `None` if it is not there.
    pub async fn raw(&self, path: &str) -> Option<Bytes> {
        for _ in 0..READ_TRIES {
            let request = request(Method::GET, path).body(Body::empty()).expect(PLAIN);
            match self.world.call(request).await {
                Some((status, body)) if status.is_success() => return Some(body),
                Some((status, _)) if status != StatusCode::SERVICE_UNAVAILABLE => return None,
                _ => self.sleep(READ_PAUSE).await,
            }
        }
        self.told.violation("start", format!("{path} cannot be read"));
        None
    }

    /// Reads a whole list once faults have stopped.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut cursor = String::new();
        loop {
            let join = if path.contains('?') { '&' } else { '?' };
            let page = self.read(&format!("{path}{join}limit=500{cursor}")).await;
            let page = page.unwrap_or_default();
            rows.extend(page["data"].as_array().cloned().unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    }
}

fn request(method: Method, path: &str) -> http::request::Builder {
    Request::builder()
        .method(method)
        .uri(format!("/api/v1{path}"))
        .header(header::AUTHORIZATION, format!("Bearer {ADMIN_KEY}"))
        .header(header::CONTENT_TYPE, "application/json")
}
