//! The HTTP server that all stand-ins share but the mail server.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

use super::call::{Call, Response};
use super::fault::{Fault, Script};
use super::violations::{self, Violations};
use crate::waiting::until;

/// The longest body that is read.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The most calls that are kept: a loop gone wild shows without filling the memory.
const CALLS_MAX: usize = 10_000;

/// A platform's API: what it holds, and what it does with a call.
pub trait StandIn: Send + 'static {
    /// Does what a call asks for, and answers it.
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response;

    /// How it says that something broke.
    fn broken(&self) -> Response;

    /// How it says that there were too many calls.
    fn rate_limited(&self, retry_after_s: u32) -> Response;
}

/// A platform that listens. It ends with the test, and fails it if it was sent anything wrong.
pub struct Platform<T: StandIn> {
    url: String,
    shared: Arc<Mutex<Shared<T>>>,
    serving: JoinHandle<()>,
}

struct Shared<T> {
    stand_in: T,
    calls: Vec<Call>,
    script: Script,
    violations: Violations,
}

impl<T: StandIn> Platform<T> {
    pub(super) async fn start(make: impl FnOnce(&str) -> T) -> Platform<T> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Mutex::new(Shared {
            stand_in: make(&url),
            calls: Vec::new(),
            script: Script::default(),
            violations: Violations::default(),
        }));
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Platform { url, shared, serving }
    }

    /// An address on it.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Looks at what it holds, or changes it behind its back.
    pub fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.lock().stand_in)
    }

    /// Lets the next call go wrong.
    pub fn next(&self, fault: Fault) {
        self.next_to("", fault);
    }

    /// Lets the next call go wrong whose method and path hold this text; several wait their turns.
    pub fn next_to(&self, fragment: &str, fault: Fault) {
        self.lock().script.add(fragment, fault);
    }

    /// Whether every fault has happened.
    pub fn script_is_over(&self) -> bool {
        self.lock().script.is_over()
    }

    /// The calls so far whose method and path hold this text.
    pub fn calls(&self, fragment: &str) -> Vec<Call> {
        self.lock().calls.iter().filter(|call| call.is_to(fragment)).cloned().collect()
    }

    /// Waits until as many such calls came.
    pub async fn wait_for_calls(&self, fragment: &str, count: usize) -> Vec<Call> {
        let what = format!("{count} calls to {fragment}");
        until(&what, || async { Some(self.calls(fragment)).filter(|calls| calls.len() >= count) })
            .await
    }

    /// Waits until there is something to see in what it holds.
    pub async fn wait_for<R>(&self, what: &str, mut look: impl FnMut(&mut T) -> Option<R>) -> R {
        until(what, || {
            let seen = self.with(&mut look);
            async { seen }
        })
        .await
    }

    /// What it found wrong so far.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.listed().to_vec()
    }

    /// Panics unless it found just this wrong, each named by a part of it; then it is forgotten.
    #[track_caller]
    pub fn expect_violations(&self, expected: &[&str]) {
        let found = self.lock().violations.take();
        violations::expect(&found, expected);
    }

    fn lock(&self) -> MutexGuard<'_, Shared<T>> {
        self.shared.lock().expect("no stand-in panics")
    }
}

impl<T: StandIn> Drop for Platform<T> {
    fn drop(&mut self) {
        self.serving.abort();
        if !std::thread::panicking() {
            violations::expect(&self.violations(), &[]);
        }
    }
}

async fn serve<T: StandIn>(listener: TcpListener, shared: Arc<Mutex<Shared<T>>>) {
    // They end with this task, even those that hang.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let shared = shared.clone();
        connections.spawn(async move {
            let service = service_fn(move |request| exchange(request, shared.clone()));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// An error closes the connection without an answer.
fn closed() -> io::Error {
    io::Error::other("closed on purpose")
}

async fn exchange<T: StandIn>(
    request: Request<Incoming>,
    shared: Arc<Mutex<Shared<T>>>,
) -> io::Result<http::Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, BODY_BYTES_MAX).collect().await.map_err(|_| closed())?;
    let call = Call::new(parts.method, &parts.uri, parts.headers, body.to_bytes());
    let (fault, response) = shared.lock().expect("no stand-in panics").take(call);
    if matches!(fault, Fault::Hangs | Fault::HangsAfter) {
        pending::<()>().await;
    }
    let response = response.ok_or_else(closed)?;
    let mut built = http::Response::builder().status(response.status);
    for (name, value) in response.headers {
        built = built.header(name, value);
    }
    Ok(built.body(Full::from(response.body)).expect("an answer"))
}

impl<T: StandIn> Shared<T> {
    /// Does what the script or else the stand-in wants; the answer is what is sent, if anything is.
    fn take(&mut self, call: Call) -> (Fault, Option<Response>) {
        let fault = self.script.take(|fragment| call.is_to(fragment));
        let answer = match fault {
            Fault::Nothing => Some(self.stand_in.answer(&call, &mut self.violations)),
            Fault::Fails => Some(self.stand_in.broken()),
            Fault::RateLimits { retry_after_s } => Some(self.stand_in.rate_limited(retry_after_s)),
            Fault::Hangs | Fault::ClosesBefore => None,
            Fault::HangsAfter | Fault::ClosesAfter => {
                self.stand_in.answer(&call, &mut self.violations);
                None
            }
        };
        if self.calls.len() < CALLS_MAX {
            self.calls.push(call);
        }
        (fault, answer)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};
    use serde_json::json;

    use super::*;
    use crate::http::{Answer, Http};

    /// A platform that counts.
    struct Counter(usize);

    impl StandIn for Counter {
        fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
            if call.path == "/wrong" {
                violations.note("that is wrong");
            }
            self.0 += 1;
            Response::json(200, json!({"count": self.0}))
        }

        fn broken(&self) -> Response {
            Response::empty(500)
        }

        fn rate_limited(&self, retry_after_s: u32) -> Response {
            Response::empty(429).with_header("retry-after", retry_after_s)
        }
    }

    async fn post(counter: &Platform<Counter>, path: &str) -> Result<Answer, String> {
        let http = Http::default();
        http.try_send(Method::POST, &counter.url(path), HeaderMap::new(), "").await
    }

    #[tokio::test]
    async fn each_fault_happens_to_the_call_it_is_meant_for_and_once() {
        let counter = Platform::start(|_| Counter(0)).await;
        counter.next_to("/b", Fault::Fails);
        counter.next_to("/b", Fault::Nothing);
        counter.next_to("/b", Fault::RateLimits { retry_after_s: 7 });
        assert_eq!(post(&counter, "/a").await.expect("an answer").status, 200);
        assert_eq!(post(&counter, "/b").await.expect("an answer").status, 500);
        assert_eq!(post(&counter, "/b").await.expect("an answer").status, 200);
        assert!(!counter.script_is_over());
        let limited = post(&counter, "/b").await.expect("an answer");
        assert_eq!((limited.status, limited.header("retry-after")), (429, "7"));
        assert!(counter.script_is_over());
        assert_eq!(counter.with(|counter| counter.0), 2);
        assert_eq!(counter.wait_for_calls("POST /b", 3).await.len(), 3);
    }

    #[tokio::test]
    async fn a_connection_is_closed_before_or_after_the_deed() {
        let counter = Platform::start(|_| Counter(0)).await;
        counter.next(Fault::ClosesBefore);
        post(&counter, "/").await.expect_err("no answer");
        assert_eq!(counter.with(|counter| counter.0), 0);
        counter.next(Fault::ClosesAfter);
        post(&counter, "/").await.expect_err("no answer");
        assert_eq!(counter.with(|counter| counter.0), 1);
    }

    #[tokio::test]
    async fn a_call_hangs_before_or_after_the_deed() {
        let counter = Platform::start(|_| Counter(0)).await;
        counter.next(Fault::Hangs);
        counter.next(Fault::HangsAfter);
        for (calls, deeds) in [(1, 0), (2, 1)] {
            let hanging = post(&counter, "/");
            tokio::select! {
                answer = hanging => panic!("it answered: {answer:?}"),
                _ = counter.wait_for_calls("/", calls) => {}
            }
            assert_eq!(counter.with(|counter| counter.0), deeds);
        }
    }

    #[tokio::test]
    #[should_panic(expected = "that is wrong")]
    async fn what_is_wrong_and_not_expected_fails_the_test() {
        let counter = Platform::start(|_| Counter(0)).await;
        post(&counter, "/wrong").await.expect("an answer");
    }

    #[tokio::test]
    async fn what_is_wrong_can_be_expected() {
        let counter = Platform::start(|_| Counter(0)).await;
        post(&counter, "/wrong").await.expect("an answer");
        counter.expect_violations(&["wrong"]);
    }
}
