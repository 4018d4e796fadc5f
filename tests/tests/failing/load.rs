//! The load: a few events and jobs that pass every place, and what the clients were told of them.

use std::collections::HashMap;

use http::Method;
use serde_json::{Value, json};
use wakepost_tests::{Answer, Event, Lease, Source};

use crate::client::Client;

/// The effect of those who have one.
const EFFECT: &str = "charge";
/// Enough for every run that a fault costs.
const ATTEMPTS: u32 = 20;
/// What a server that may die is asked for: short, since a lease whose answer got lost must run out first.
pub const LEASE_S: u64 = 2;

/// What clients were told, and what was really done outside.
#[derive(Default)]
pub struct Told {
    /// Events by the sender's id: the id they were given.
    pub events: HashMap<String, String>,
    /// Every job there should be, and as what it ended, if somebody was told.
    pub jobs: HashMap<String, Option<&'static str>>,
    /// The last fence of each job.
    fences: HashMap<String, u64>,
    /// The run that was told to execute the effect of each job, unless it was said not to be done.
    begun: HashMap<String, u64>,
    /// How often the effect of each job was executed.
    pub executed: HashMap<String, u32>,
    /// The result of effects that were told to be committed.
    pub committed: HashMap<String, Value>,
    /// Runs that were left in the middle.
    pub ghosts: Vec<Lease>,
    failed_once: bool,
    replayed: bool,
}

/// The load, on its way.
pub struct Load {
    pub client: Client,
    pub source: Source,
    pub told: Told,
    /// The job that becomes a dead letter, and is replayed.
    pub hopeless: String,
}

impl Load {
    /// Does everything once, and then works until every job has ended.
    pub async fn drive(&mut self) {
        for id in ["e-1", "e-1", "e-2"] {
            self.send(id).await;
        }
        let ids = self.make_jobs().await;
        self.hopeless = ids["hopeless"].clone();
        self.cancel(&ids["unwanted"]).await;
        self.leave_some().await;
        self.drive_on().await;
    }

    /// Sends an event; every copy must be told the same id, and only the first may be new.
    pub async fn send(&mut self, id: &str) {
        let event = event(&self.source, id);
        let answer = self.client.send(&self.source, &event).await;
        assert!(matches!(answer.status, 200 | 202), "{}", answer.json());
        let (given, job) = (answer.text("event_id"), answer.text("job_id"));
        if let Some(before) = self.told.events.insert(id.to_owned(), given.clone()) {
            assert_eq!(before, given, "U1: {id} was told two ids");
            assert_eq!(answer.status, 200, "U1: {id} was accepted again");
        }
        self.told.jobs.entry(job).or_default();
    }

    async fn make_jobs(&mut self) -> HashMap<&'static str, String> {
        let mut ids = HashMap::new();
        for kind in ["plain", "flaky", "hopeless", "vanishing", "doubtful", "later", "unwanted"] {
            let delay = match kind {
                "later" => 1,
                "unwanted" => 3600,
                _ => 0,
            };
            let mut job = json!({"kind": kind, "input": 1, "max_attempts": ATTEMPTS});
            if delay > 0 {
                job["delay_s"] = delay.into();
            }
            let made = match kind {
                // Both ways to make a creating call safe to repeat.
                "plain" => self.client.post_once("/jobs", "plain", job).await,
                _ => {
                    job["dedup_key"] = kind.into();
                    self.client.post("/jobs", job).await
                }
            };
            assert!(matches!(made.status, 200 | 201), "{}", made.json());
            self.told.jobs.insert(made.text("id"), None);
            ids.insert(kind, made.text("id"));
        }
        ids
    }

    async fn cancel(&mut self, id: &str) {
        let answer = self.client.post(&format!("/jobs/{id}/cancel"), json!({})).await;
        // Refused: it was cancelled by the try whose answer got lost.
        assert!(matches!(answer.status, 200 | 409), "{}", answer.json());
        self.told.jobs.insert(id.to_owned(), Some("cancelled"));
    }

    /// A worker that vanishes with two jobs, in one of them after it began to act.
    async fn leave_some(&mut self) {
        let ask = json!({"worker": "ghost", "max": 2, "wait_s": 1, "lease_s": 1,
            "kinds": ["vanishing", "doubtful"]});
        for lease in self.lease(ask).await {
            if lease.job["kind"] == "doubtful" {
                let begun = self.call(&lease, "effects", json!({"key": EFFECT})).await;
                if begun.is_some_and(|begun| begun.json()["decision"] == "execute") {
                    self.told.begun.insert(lease.id().to_owned(), lease.fence());
                }
            }
            self.told.ghosts.push(lease);
        }
    }

    async fn lease(&mut self, ask: Value) -> Vec<Lease> {
        let answer = self.client.post("/jobs/lease", ask).await.is(200).json();
        let api = self.client.gateway.admin();
        let jobs = answer["jobs"].as_array().expect("jobs");
        jobs.iter().map(|job| self.leased(Lease::new(&api, job.clone()))).collect()
    }

    fn leased(&mut self, lease: Lease) -> Lease {
        let id = lease.id().to_owned();
        let ended = self.told.jobs.get(&id).copied().flatten();
        assert_eq!(ended, None, "L5: {id} was given out after its end");
        assert!(lease.attempt() <= u64::from(ATTEMPTS), "L6: {id}");
        let before = self.told.fences.insert(id.clone(), lease.fence());
        assert!(before.is_none_or(|before| before < lease.fence()), "L1: the fence of {id}");
        lease
    }

    /// Works until every job has ended.
    pub async fn drive_on(&mut self) {
        while self.told.jobs.values().any(Option::is_none) {
            self.client.in_time("L7: every job ends");
            let ask = json!({"worker": "w", "max": 4, "wait_s": 1, "lease_s": LEASE_S});
            for lease in self.lease(ask).await {
                self.run(&lease).await;
            }
            self.decide_doubts().await;
            let hopeless = self.told.jobs.get(&self.hopeless).copied().flatten();
            if hopeless == Some("dead_letter") && !self.told.replayed {
                self.replay().await;
            }
        }
    }

    async fn run(&mut self, lease: &Lease) {
        let kind = lease.job["kind"].as_str().expect("a kind");
        match kind {
            "flaky" if !self.told.failed_once => {
                let failure = json!({"error": "not yet", "retry_after_s": 0});
                self.told.failed_once = self.call(lease, "fail", failure).await.is_some();
            }
            "hopeless" if lease.id() == self.hopeless => {
                let failure = json!({"error": "never", "retryable": false});
                self.ended(lease, "fail", failure, "dead_letter").await;
            }
            "invoice.paid" | "doubtful" => {
                if self.act(lease).await.is_some() {
                    self.ended(lease, "complete", json!({"result": 1}), "succeeded").await;
                }
            }
            _ => self.ended(lease, "complete", json!({"result": 1}), "succeeded").await,
        }
    }

    /// Acts outside, once. `None`: the lease is lost, or the job held.
    async fn act(&mut self, lease: &Lease) -> Option<()> {
        self.call(lease, "heartbeat", json!({})).await?;
        let state = json!({"lease_token": lease.token(), "state": {"at": "charge"}});
        let path = format!("/jobs/{}/checkpoint", lease.id());
        allowed(self.client.call(Method::PUT, &path, Some(&state)).await)?;
        let begun = self.call(lease, "effects", json!({"key": EFFECT})).await?.json();
        let known = self.told.committed.get(lease.id());
        match begun["decision"].as_str() {
            Some("execute") => {
                assert_eq!(known, None, "E1: executed after it was committed");
                let before = self.told.begun.insert(lease.id().to_owned(), lease.fence());
                let same = before.is_none_or(|before| before == lease.fence());
                assert!(same, "E2: two runs of {} were told to execute", lease.id());
                let count = self.told.executed.entry(lease.id().to_owned()).or_default();
                *count += 1;
                assert_eq!(*count, 1, "E2: {} executed again", lease.id());
            }
            Some("skip") => {
                assert!(known.is_none_or(|result| begun["result"] == *result), "{begun}");
                assert_eq!(self.told.executed.get(lease.id()), Some(&1), "E1: nobody did it");
                return Some(());
            }
            _ => return None,
        }
        let result = json!({"receipt": lease.fence()});
        let path = format!("effects/{EFFECT}/commit");
        self.call(lease, &path, json!({"result": result})).await?;
        self.told.committed.insert(lease.id().to_owned(), result);
        Some(())
    }

    async fn ended(&mut self, lease: &Lease, path: &str, fields: Value, status: &'static str) {
        if let Some(answer) = self.call(lease, path, fields).await {
            assert_eq!(answer.text("status"), status);
            self.told.jobs.insert(lease.id().to_owned(), Some(status));
        }
    }

    /// Makes a call with a lease's token. `None`: the lease is lost.
    async fn call(&mut self, lease: &Lease, path: &str, mut fields: Value) -> Option<Answer> {
        fields["lease_token"] = lease.token().into();
        allowed(self.client.post(&format!("/jobs/{}/{path}", lease.id()), fields).await)
    }

    /// An operator says of each effect in doubt whether it was really done.
    async fn decide_doubts(&mut self) {
        let held = self.client.get("/jobs?status=held").await.is(200).json();
        for job in held["data"].as_array().expect("rows") {
            let id = job["id"].as_str().expect("an id");
            let done = self.told.executed.contains_key(id);
            let outcome = if done { "committed" } else { "not_done" };
            if !done {
                self.told.begun.remove(id);
            }
            let word = json!({"outcome": outcome, "note": "looked it up"});
            let path = format!("/jobs/{id}/effects/{EFFECT}/resolve");
            let answer = self.client.post(&path, word).await;
            // Refused: it was decided by the try whose answer got lost.
            assert!(matches!(answer.status, 200 | 409), "{}", answer.json());
        }
    }

    async fn replay(&mut self) {
        let path = format!("/jobs/{}/replay", self.hopeless);
        let answer = self.client.post_once(&path, "replay", json!({"note": "again"})).await;
        self.told.jobs.insert(answer.is(202).text("job_id"), None);
        self.told.replayed = true;
    }
}

/// An event of the load. Its body is the same whenever it is sent.
pub fn event(source: &Source, id: &str) -> Event {
    let body = json!({"id": id, "type": "invoice.paid", "data": {"object": {"id": id}}});
    source.event(id).with_body(body.to_string())
}

/// `None`: refused because the lease is lost.
#[track_caller]
fn allowed(answer: Answer) -> Option<Answer> {
    match answer.status {
        200 => Some(answer),
        _ => {
            answer.refuses(409, "lease_lost");
            None
        }
    }
}
