//! A client that does what a careful one does: it asks again after a 503 and after no answer.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::Value;
use tokio::time::Instant;
use wakepost_tests::{Answer, Event, Gateway, Source};

/// How long everything may take until it is answered: a lost hint alone may cost a resync, of 20 s.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A gateway that may die, and is then started again without failpoints.
pub struct Client {
    pub gateway: Gateway,
    /// How often it ended by itself.
    pub deaths: u32,
    deadline: Instant,
}

impl Client {
    pub fn new(gateway: Gateway) -> Client {
        Client { gateway, deaths: 0, deadline: Instant::now() + PATIENCE }
    }

    /// Panics if all of it has taken too long.
    #[track_caller]
    pub fn in_time(&self, what: &str) {
        assert!(Instant::now() < self.deadline, "not within {PATIENCE:?}: {what}");
    }

    /// Makes a call of the API until it is answered.
    pub async fn call(&mut self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        self.call_with(method, path, HeaderMap::new(), body).await
    }

    pub async fn post(&mut self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, Some(&body)).await
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.call(Method::GET, path, None).await
    }

    /// As [`Client::post`], with an idempotency key: a repeat gets the first answer.
    pub async fn post_once(&mut self, path: &str, key: &'static str, body: Value) -> Answer {
        let name = "idempotency-key".parse().expect("a name");
        let headers = [(name, HeaderValue::from_static(key))].into_iter().collect();
        self.call_with(Method::POST, path, headers, Some(&body)).await
    }

    async fn call_with(
        &mut self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<&Value>,
    ) -> Answer {
        loop {
            self.in_time(path);
            let api = self.gateway.admin();
            let said = api.try_call(method.clone(), path, headers.clone(), body).await;
            if let Some(answer) = self.heard(said).await {
                return answer;
            }
        }
    }

    /// Sends an event until it is answered.
    pub async fn send(&mut self, source: &Source, event: &Event) -> Answer {
        loop {
            self.in_time("an event is answered");
            let said = self.gateway.try_send(source, event).await;
            if let Some(answer) = self.heard(said).await {
                return answer;
            }
        }
    }

    /// `None`: nobody knows; ask again.
    async fn heard(&mut self, said: Result<Answer, String>) -> Option<Answer> {
        match said {
            Ok(answer) if answer.status != 503 => return Some(answer),
            Ok(answer) => assert_eq!(answer.header("retry-after"), "1", "a 503 says when"),
            Err(_) => self.revive().await,
        }
        tokio::time::sleep(PAUSE).await;
        None
    }

    /// Starts the server again if it has died.
    async fn revive(&mut self) {
        if self.gateway.has_ended() {
            self.deaths += 1;
            self.gateway.restart().await;
        }
    }

    /// Waits until a server that dies of a failpoint has died, and starts it again.
    pub async fn dies(&mut self) {
        while self.deaths == 0 {
            self.in_time("the server dies");
            self.revive().await;
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until the log says that a place acted.
    pub async fn acted(&self, place: &str) {
        let line = format!("failpoint {place} acts");
        while !self.gateway.logged().contains(&line) {
            self.in_time(&line);
            tokio::time::sleep(PAUSE).await;
        }
    }
}
