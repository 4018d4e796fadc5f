//! Calls from outside: to whichever node is up, with whatever becomes of them.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use serde_json::Value;
use wakepost_tests::{Answer, Api, Http, now};

use crate::chance::Chance;
pub use crate::exchange::{Exchange, Said};

/// How long a client waits for an answer; the server gives up on a commit after 2.5 s.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long a client waits for a node to be up before it counts as no answer.
const DOOR_PATIENCE: Duration = Duration::from_secs(3);
const DOOR_PAUSE: Duration = Duration::from_millis(10);
/// How often something is read before it is a failure.
const READ_TRIES: u32 = 20;
const READ_PAUSE: Duration = Duration::from_millis(300);

/// Where the nodes listen now.
#[derive(Debug, Default)]
pub struct Doors(RwLock<Vec<Option<String>>>);

impl Doors {
    /// A node listens.
    pub fn open(&self, node: usize, url: &str) {
        let mut doors = self.0.write().expect("nobody panics while holding it");
        if doors.len() <= node {
            doors.resize(node + 1, None);
        }
        doors[node] = Some(url.to_owned());
    }

    /// A node is gone.
    pub fn close(&self, node: usize) {
        if let Some(door) = self.0.write().expect("nobody panics while holding it").get_mut(node) {
            *door = None;
        }
    }

    fn any(&self, chance: &mut Chance) -> Option<String> {
        let doors = self.0.read().expect("nobody panics while holding it");
        let open: Vec<&String> = doors.iter().flatten().collect();
        chance.pick(&open).map(|url| (*url).clone())
    }
}

/// A client with a key.
#[derive(Clone)]
pub struct Caller {
    http: Http,
    doors: Arc<Doors>,
    key: String,
}

impl Caller {
    /// A client with this key.
    pub fn new(doors: Arc<Doors>, key: &str) -> Caller {
        Caller { http: Http::default(), doors, key: key.to_owned() }
    }

    /// Calls the API of any node.
    pub async fn call(
        &self,
        chance: &mut Chance,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Exchange {
        let door = self.door(chance).await;
        let sent = now().as_millis();
        let Some(url) = door else {
            return Exchange { said: Said::Nothing, sent, received: sent };
        };
        let api = Api::new(self.http.clone(), &url, Some(&self.key));
        let call = api.try_call(method, path, HeaderMap::new(), body);
        let said = said(tokio::time::timeout(PATIENCE, call).await.ok().and_then(Result::ok));
        Exchange { said, sent, received: now().as_millis() }
    }

    /// `POST`
    pub async fn post(&self, chance: &mut Chance, path: &str, body: &Value) -> Exchange {
        self.call(chance, Method::POST, path, Some(body)).await
    }

    /// Sends a provider's request to any node.
    pub async fn send(
        &self,
        chance: &mut Chance,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Exchange {
        let door = self.door(chance).await;
        let sent = now().as_millis();
        let Some(url) = door else {
            return Exchange { said: Said::Nothing, sent, received: sent };
        };
        let url = format!("{url}{path}");
        let call = self.http.try_send(Method::POST, &url, headers, body);
        let said = said(tokio::time::timeout(PATIENCE, call).await.ok().and_then(Result::ok));
        Exchange { said, sent, received: now().as_millis() }
    }

    /// Reads something once faults have stopped: `None` if it is not there. A server that was just started,
    /// or whose database was, may need a moment.
    pub async fn read(&self, path: &str) -> anyhow::Result<Option<Bytes>> {
        let mut chance = Chance::new(0, 0);
        let mut problem = String::new();
        for _ in 0..READ_TRIES {
            let Some(url) = self.door(&mut chance).await else { continue };
            let api = Api::new(self.http.clone(), &url, Some(&self.key));
            match api.try_call(Method::GET, path, HeaderMap::new(), None).await {
                Ok(answer) if answer.status == 200 => return Ok(Some(answer.body)),
                Ok(answer) if answer.status == 404 => return Ok(None),
                Ok(answer) => {
                    problem =
                        format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body));
                }
                Err(error) => problem = error,
            }
            tokio::time::sleep(READ_PAUSE).await;
        }
        anyhow::bail!("GET {path} was not answered {READ_TRIES} times: {problem}")
    }

    /// Every row of a list.
    pub async fn list(&self, path: &str) -> anyhow::Result<Vec<Value>> {
        let mut rows = Vec::new();
        let mut cursor = String::new();
        let mark = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self.read(&format!("{path}{mark}limit=500{cursor}")).await?;
            let page: Value = serde_json::from_slice(&page.unwrap_or_default())?;
            rows.extend(page["data"].as_array().into_iter().flatten().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(rows),
            }
        }
    }

    async fn door(&self, chance: &mut Chance) -> Option<String> {
        let deadline = tokio::time::Instant::now() + DOOR_PATIENCE;
        loop {
            if let Some(url) = self.doors.any(chance) {
                return Some(url);
            }
            if tokio::time::Instant::now() >= deadline {
                return None;
            }
            tokio::time::sleep(DOOR_PAUSE).await;
        }
    }
}

fn said(answer: Option<Answer>) -> Said {
    let Some(answer) = answer else { return Said::Nothing };
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    match answer.status {
        200..300 => Said::Yes(answer.status, body),
        // Whether it was done is unknown: a commit may arrive after the answer.
        503 => Said::Nothing,
        status => Said::No(status, body["code"].as_str().unwrap_or_default().to_owned()),
    }
}
