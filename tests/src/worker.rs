//! A pull worker that does nothing by itself: every call is the test's.

use http::{HeaderMap, Method};
use serde_json::{Value, json};

use crate::api::Api;
use crate::http::Answer;
use crate::waiting::until;

/// A worker.
#[derive(Clone)]
pub struct Worker {
    api: Api,
    name: String,
}

/// A job that was leased, and the token that proves it.
#[derive(Clone)]
pub struct Lease {
    /// The job as the lease answer shows it.
    pub job: Value,
    api: Api,
}

impl Worker {
    /// A worker with the key of a caller.
    pub fn new(api: &Api, name: &str) -> Worker {
        Worker { api: api.clone(), name: name.to_owned() }
    }

    /// Asks with these fields besides the name; whatever the answer is.
    pub async fn ask(&self, mut fields: Value) -> Answer {
        fields["worker"] = self.name.clone().into();
        self.api.post("/jobs/lease", fields).await
    }

    /// As [`Worker::ask`]; an error is what a worker sees when the server dies.
    pub async fn try_ask(&self, mut fields: Value) -> Result<Answer, String> {
        fields["worker"] = self.name.clone().into();
        self.api.try_call(Method::POST, "/jobs/lease", HeaderMap::new(), Some(&fields)).await
    }

    /// Asks with these fields, and takes what there is.
    pub async fn lease_many(&self, fields: Value) -> Vec<Lease> {
        let answer = self.ask(fields).await.is(200).json();
        let jobs = answer["jobs"].as_array().expect("jobs").iter();
        jobs.map(|job| Lease { job: job.clone(), api: self.api.clone() }).collect()
    }

    /// Takes one job if there is one now.
    pub async fn lease(&self) -> Option<Lease> {
        self.lease_many(json!({})).await.pop()
    }

    /// Takes one job, waiting for it as long as it may take.
    pub async fn wait(&self) -> Lease {
        self.wait_with(json!({})).await
    }

    /// As [`Worker::wait`], with further fields.
    pub async fn wait_with(&self, mut fields: Value) -> Lease {
        fields["wait_s"] = 5.into();
        until("a job is leased", || async { self.lease_many(fields.clone()).await.pop() }).await
    }
}

impl Lease {
    /// A job as a lease answer shows it, in the hands of a caller.
    pub fn new(api: &Api, job: Value) -> Lease {
        Lease { job, api: api.clone() }
    }

    /// The job's id.
    pub fn id(&self) -> &str {
        self.job["id"].as_str().expect("an id")
    }

    /// The lease token.
    pub fn token(&self) -> &str {
        self.job["lease_token"].as_str().expect("a lease token")
    }

    /// Which try this is.
    pub fn attempt(&self) -> u64 {
        self.job["attempt"].as_u64().expect("an attempt")
    }

    /// The growing number.
    pub fn fence(&self) -> u64 {
        self.job["fence"].as_u64().expect("a fence")
    }

    /// The same lease, used by another caller: of another node, or with another key.
    pub fn through(&self, api: &Api) -> Lease {
        Lease { job: self.job.clone(), api: api.clone() }
    }

    /// Makes a call about the job, with the token.
    pub async fn post(&self, path: &str, mut fields: Value) -> Answer {
        fields["lease_token"] = self.token().into();
        let path = format!("/jobs/{}/{path}", self.id());
        self.api.post(&path, fields).await
    }

    /// Extends the lease.
    pub async fn heartbeat(&self) -> Answer {
        self.post("heartbeat", json!({})).await
    }

    /// Saves the agent's state.
    pub async fn checkpoint(&self, state: Value) -> Answer {
        let fields = json!({"lease_token": self.token(), "state": state});
        let path = format!("/jobs/{}/checkpoint", self.id());
        self.api.put(&path, fields).await
    }

    /// Tells how far it is.
    pub async fn progress(&self, message: &str) -> Answer {
        self.post("progress", json!({"message": message})).await
    }

    /// Asks to act.
    pub async fn begin(&self, key: &str) -> Answer {
        self.post("effects", json!({"key": key})).await
    }

    /// Says that it acted.
    pub async fn commit(&self, key: &str, result: Value) -> Answer {
        let path = format!("effects/{key}/commit");
        self.post(&path, json!({"result": result})).await
    }

    /// Says that it certainly did not act.
    pub async fn abort(&self, key: &str, error: &str) -> Answer {
        let path = format!("effects/{key}/abort");
        self.post(&path, json!({"error": error})).await
    }

    /// The work is done.
    pub async fn complete(&self, result: Value) -> Answer {
        self.post("complete", json!({"result": result})).await
    }

    /// The run failed.
    pub async fn fail(&self, error: &str) -> Answer {
        self.post("fail", json!({"error": error})).await
    }
}
