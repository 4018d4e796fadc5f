//! A worker that leases jobs over HTTP and finishes them at once.

use std::fmt::Write;

use serde::Deserialize;
use serde_json::json;

use crate::api::Api;

/// One call creates at most this many.
pub const JOBS_PER_CALL: usize = 1000;

#[derive(Deserialize)]
struct Leased<'a> {
    #[serde(borrow)]
    jobs: Vec<Job<'a>>,
}

/// A leased job, as far as a worker that does nothing reads it.
#[derive(Deserialize)]
pub struct Job<'a> {
    /// Its id.
    pub id: &'a str,
    /// Whose it is.
    pub tenant: &'a str,
    /// What it was made with.
    pub input: Option<Input>,
    lease_token: &'a str,
}

/// What the bench gives its jobs.
#[derive(Deserialize)]
pub struct Input {
    /// Which of them it is.
    pub number: usize,
}

#[derive(Deserialize)]
struct Finished {
    jobs: Vec<Answer>,
}

#[derive(Deserialize)]
struct Answer {
    ok: bool,
}

/// Makes no-op jobs.
pub async fn create(api: &mut Api, count: usize) -> anyhow::Result<()> {
    for first in (0..count).step_by(JOBS_PER_CALL) {
        let jobs: Vec<_> = (first..count.min(first + JOBS_PER_CALL))
            .map(|number| json!({"kind": "bench", "input": {"number": number}}))
            .collect();
        api.post("/jobs", serde_json::to_vec(&jobs)?).await?;
    }
    Ok(())
}

/// One worker with a connection of its own.
pub struct Worker {
    api: Api,
    path: String,
    lease: String,
}

impl Worker {
    /// A worker that leases up to `max` at once and waits up to `wait_s` for the first.
    pub fn new(api: Api, name: usize, max: usize, wait_s: u64) -> Worker {
        let lease = json!({"worker": format!("bench-{name}"), "max": max, "wait_s": wait_s});
        Worker { api, path: "/jobs/lease".to_owned(), lease: lease.to_string() }
    }

    /// The same, for jobs of one tenant only.
    pub fn of_tenant(mut self, slug: &str) -> Worker {
        self.path = format!("/jobs/lease?tenant={slug}");
        self
    }

    /// Leases and finishes once. `received` is told of each job before any is finished.
    pub async fn turn(&mut self, received: impl FnMut(&Job<'_>)) -> anyhow::Result<usize> {
        let answer = self.api.post(&self.path, &self.lease).await?;
        let leased: Leased<'_> = serde_json::from_slice(&answer)?;
        if leased.jobs.is_empty() {
            return Ok(0);
        }
        leased.jobs.iter().for_each(received);
        let answer = self.api.post("/jobs/finish", finish(&leased.jobs)?).await?;
        let finished: Finished = serde_json::from_slice(&answer)?;
        let all = finished.jobs.len() == leased.jobs.len();
        anyhow::ensure!(
            all && finished.jobs.iter().all(|job| job.ok),
            "a leased job could not be finished"
        );
        Ok(leased.jobs.len())
    }
}

fn finish(jobs: &[Job<'_>]) -> anyhow::Result<String> {
    let mut body = String::with_capacity(jobs.len() * 200);
    body.push_str("{\"jobs\":[");
    for (place, job) in jobs.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(
            body,
            "{comma}{{\"id\":\"{}\",\"lease_token\":\"{}\",\"outcome\":\"complete\"}}",
            job.id, job.lease_token
        )?;
    }
    body.push_str("]}");
    Ok(body)
}
