//! What outlives the server: time, clients, their calls that are under way, and the trace.
//!
//! Clients are futures that the world polls itself, within whichever runtime the server lives in, so that a crash, which
//! drops that runtime, takes only the server. Their sleeps are the world's timers, and a call is a request that the world
//! hands to the server and an answer that may never come.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::FutureExt;

use futures_util::future::{Either, LocalBoxFuture, select};
use http::{Request, StatusCode};
use tokio::sync::oneshot;
use wakepost_crash::exchange::{Exchange, Said};
use wakepost_domain::ports::Clock;

use crate::faults::Faults;
use crate::time::Time;
use crate::trace::Trace;

/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// An answer as it came.
pub type Answer = (StatusCode, Bytes);

/// A call on its way to the server.
pub struct Calling {
    /// The request.
    pub request: Request<Body>,
    /// Where the answer goes. Nobody listens any more if the client has given up.
    pub answer: oneshot::Sender<Answer>,
}

/// The world.
pub struct World {
    /// Time.
    pub time: Arc<Time>,
    /// What goes wrong.
    pub faults: Rc<Faults>,
    /// What happened.
    pub trace: Rc<Trace>,
    calls: RefCell<VecDeque<Calling>>,
    newcomers: RefCell<Vec<LocalBoxFuture<'static, ()>>>,
    timers: RefCell<BTreeMap<(Duration, u64), Option<Waker>>>,
    made: Cell<u64>,
}

impl World {
    /// A world in which nothing has happened yet.
    pub fn new(time: Arc<Time>, faults: Rc<Faults>, trace: Rc<Trace>) -> World {
        let (calls, newcomers, timers) = Default::default();
        World { time, faults, trace, calls, newcomers, timers, made: Cell::new(0) }
    }

    /// Something happened that is worth a line.
    pub fn note(&self, what: fmt::Arguments<'_>) {
        self.trace.note(self.time.passed(), what);
    }

    /// Another client.
    pub fn spawn(&self, client: impl Future<Output = ()> + 'static) {
        self.newcomers.borrow_mut().push(client.boxed_local());
    }

    /// Clients that have come since the last look.
    pub fn newcomers(&self) -> Vec<LocalBoxFuture<'static, ()>> {
        self.newcomers.take()
    }

    /// Calls that have been made since the last look.
    pub fn calls(&self) -> VecDeque<Calling> {
        self.calls.take()
    }

    /// Sleeps, whatever the server does meanwhile.
    pub fn sleep(self: &Rc<Self>, time: Duration) -> Sleep {
        let number = self.made.get();
        self.made.set(number + 1);
        Sleep { world: self.clone(), key: (self.time.passed() + time, number) }
    }

    /// When the next sleeper wakes.
    pub fn next_timer(&self) -> Option<Duration> {
        self.timers.borrow().first_key_value().map(|((at, _), _)| *at)
    }

    /// Wakes those who have slept long enough.
    pub fn wake_sleepers(&self) {
        let now = self.time.passed();
        let mut timers = self.timers.borrow_mut();
        let due = timers.range_mut(..=(now, u64::MAX));
        due.filter_map(|(_, waker)| waker.take()).for_each(Waker::wake);
    }

    /// Makes a call, and waits for its answer as long as a client does. Some answers get lost on their way.
    pub async fn call(self: &Rc<Self>, request: Request<Body>) -> Option<Answer> {
        self.sleep(self.faults.latency()).await;
        let (sender, receiver) = oneshot::channel();
        self.calls.borrow_mut().push_back(Calling { request, answer: sender });
        let answer = match select(receiver, self.sleep(PATIENCE)).await {
            Either::Left((answer, _)) => answer.ok()?,
            Either::Right(_) => return None,
        };
        self.sleep(self.faults.latency()).await;
        (!self.faults.loses_answer()).then_some(answer)
    }

    /// As [`World::call`], as the rules for clients want to know it.
    pub async fn exchange(self: &Rc<Self>, request: Request<Body>) -> Exchange {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let sent = self.time.now().as_millis();
        let answer = self.call(request).await;
        let received = self.time.now().as_millis();
        match &answer {
            Some((status, body)) => {
                self.note(format_args!("{method} {path}: {}", status.as_u16()));
                if method != http::Method::GET {
                    self.trace.weigh(body);
                }
            }
            None => self.note(format_args!("{method} {path}: no answer")),
        }
        Exchange { said: said(answer), sent, received }
    }
}

/// What an answer says. What leaves open what happened is none.
fn said(answer: Option<Answer>) -> Said {
    let Some((status, body)) = answer else { return Said::Nothing };
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    match status {
        StatusCode::SERVICE_UNAVAILABLE => Said::Nothing,
        status if status.is_success() => Said::Yes(status.as_u16(), body),
        status => Said::No(status.as_u16(), body["code"].as_str().unwrap_or_default().to_owned()),
    }
}

/// A client that sleeps.
pub struct Sleep {
    world: Rc<World>,
    key: (Duration, u64),
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.world.time.passed() >= self.key.0 {
            return Poll::Ready(());
        }
        self.world.timers.borrow_mut().insert(self.key, Some(context.waker().clone()));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.world.timers.borrow_mut().remove(&self.key);
    }
}
