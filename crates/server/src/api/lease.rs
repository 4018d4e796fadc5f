//! What workers call while they work: lease, heartbeat, checkpoint, progress.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;
use utoipa::ToSchema;
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::lease::{LEASE_MAX, LEASE_MIN, Ticket};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{RunId, SourceId, Timestamp, limits};
use wakepost_store::StoreError;
use wakepost_store::moves::{Heartbeat, Progress};
use wakepost_store::vault::Slot;

use super::call::{At, Call};
use super::describe::{Conflicting, Keyed, Missing, Tenant};
use super::error::ApiError;
use super::many::{Answers, Many, OneAnswer, refused};
use super::once;
use super::shapes::LeasedJob;
use super::taking::{Taker, taken};
use super::ticket::Leased;
use super::work::{Moved, check_cost, check_name};
use crate::context::Context;
use crate::executors::{UNREADABLE, preflight};
use crate::queue::{Ask, Pushed};
use crate::schema;
use crate::telemetry::story;
use crate::view;
use crate::workers::settle::{End, settle};

/// How often one call may claim jobs of which every one was kept back.
const ROUNDS_MAX: usize = 20;

/// How many kinds, or sources, one call may name: every lane is compared with them.
const NAMES_MAX: usize = 100;

/// A wish for work.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LeaseBody {
    /// Who asks.
    #[schema(value_type = schema::Name)]
    worker: String,
    /// How many jobs at most.
    #[schema(value_type = Option<schema::LeaseMax>)]
    max: Option<u32>,
    /// How long to wait for the first.
    #[schema(value_type = Option<schema::LeaseWait>)]
    wait_s: Option<u64>,
    /// Only jobs of these kinds.
    kinds: Option<Vec<String>>,
    /// Only jobs of these sources.
    #[schema(value_type = Option<Vec<schema::SourceId>>)]
    sources: Option<Vec<SourceId>>,
    /// How long the lease lasts; else as the source says.
    #[schema(value_type = Option<schema::LeaseSeconds>)]
    lease_s: Option<u64>,
}

/// Leased jobs.
#[derive(Serialize, ToSchema)]
struct LeasedJobs {
    /// They; none if there was no work.
    #[schema(value_type = Vec<LeasedJob>)]
    jobs: Vec<Value>,
}

/// Leases jobs, waiting for the first if asked to. A key of all tenants takes tenants in turn unless it names
/// one.
#[utoipa::path(
    post, path = "/jobs/lease", operation_id = "lease_jobs", tag = "leases", params(Tenant),
    request_body = LeaseBody,
    responses((status = 200, description = "The jobs.", body = LeasedJobs), Keyed, Missing)
)]
pub async fn lease(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    if call.caller.ticket.is_some() {
        return Err(ApiError::forbidden());
    }
    let tenant = match call.caller.reach == Reach::All && !call.names_tenant() {
        true => None,
        false => Some(call.tenant().await?.id),
    };
    let body: LeaseBody = call.body()?;
    check_name("worker", &body.worker)?;
    let LeaseWish { max, wait, lease } = LeaseWish::read(body.max, body.wait_s, body.lease_s)?;
    for (field, count) in [
        ("kinds", body.kinds.as_ref().map(Vec::len)),
        ("sources", body.sources.as_ref().map(Vec::len)),
    ] {
        if count.is_some_and(|count| count > NAMES_MAX) {
            return Err(ApiError::field(field, format!("must have at most {NAMES_MAX}")));
        }
    }
    let ask = Ask {
        kind: WorkKind::Job,
        worker: body.worker,
        max,
        wait,
        tenant,
        kinds: body.kinds,
        sources: body.sources,
        lease,
    };
    let context = call.context.clone();
    let jobs = taken(&call.context, |taker| claim(context, ask, taker)).await?;
    Ok(once::json(StatusCode::OK, &LeasedJobs { jobs }))
}

/// Claims jobs until there are some to hand out, or the wait is over.
async fn claim(context: Arc<Context>, mut ask: Ask, taker: Taker<Value>) -> Result<(), ApiError> {
    let asked = Instant::now();
    let until = asked + ask.wait;
    // Pre-flights that say no are no reason to keep a worker waiting for long that did not mean to wait.
    let last_round = until.max(asked + preflight::PATIENCE);
    for _ in 0..ROUNDS_MAX {
        ask.wait = until.saturating_duration_since(Instant::now());
        let claimed = context.queue.lease(&ask, &taker.stop).await?;
        context.metrics.started(claimed.iter().map(|item| &item.0));
        story::leased(&context, claimed.iter().map(|item| &item.0)).await;
        let none = claimed.is_empty();
        let tickets: Vec<Ticket> = claimed.iter().map(|item| item.0.ticket).collect();
        let gone = taker.is_gone();
        // Nobody is asked about jobs that nobody takes.
        let jobs = match gone {
            true => Vec::new(),
            false => handed_out(&context, claimed).await?,
        };
        if none || gone || !jobs.is_empty() || Instant::now() >= last_round {
            taker.give(&context, jobs, tickets).await;
            break;
        }
    }
    Ok(())
}

/// Claimed jobs as their worker gets them, less those that nobody can read, those that cannot be read now, and those that a
/// pre-flight kept back. What is not handed out has ended: nobody waits for its lease to run out.
async fn handed_out(context: &Context, claimed: Vec<Pushed>) -> Result<Vec<Value>, ApiError> {
    let jobs = view::leased(context, &claimed).await;
    let (mut readable, mut ends, mut away) = (Vec::with_capacity(jobs.len()), Vec::new(), None);
    for (item, job) in claimed.into_iter().zip(jobs) {
        let ticket = item.0.ticket;
        match job {
            Ok(job) => readable.push((item, job)),
            Err(error @ StoreError::Corrupt(_)) => {
                tracing::warn!(%error, run_id = %ticket.run_id(), "a job could not be read");
                let ending = Ending::Failed { retryable: true, retry_after: None };
                ends.push(End::plain(ticket, ending, Some(UNREADABLE.to_owned())));
            }
            Err(error) => {
                ends.push(End::plain(ticket, Ending::HandedBack, None));
                away = Some(error);
            }
        }
    }
    settle(context, ends).await;
    match away {
        Some(error) if readable.is_empty() => return Err(error.into()),
        Some(error) => tracing::warn!(%error, "jobs that cannot be read now were handed back"),
        None => {}
    }
    let plain = |((item, _, policy), _): &(Pushed, Value)| {
        policy.preflight.is_none() && item.meta.superseded_by.is_none()
    };
    match readable.iter().all(plain) {
        true => Ok(readable.into_iter().map(|(_, job)| job).collect()),
        false => Ok(preflight::hand_out(context, readable).await),
    }
}

/// How many, how long to wait for the first, and for how long.
pub struct LeaseWish {
    /// How many at most.
    pub max: u32,
    /// How long to wait.
    pub wait: Duration,
    /// How long the leases last, if that was said.
    pub lease: Option<Duration>,
}

impl LeaseWish {
    /// Checks what was asked for.
    pub fn read(
        max: Option<u32>,
        wait_s: Option<u64>,
        lease_s: Option<u64>,
    ) -> Result<LeaseWish, ApiError> {
        let max = max.unwrap_or(1);
        if !(1..=limits::LEASE_MAX).contains(&max) {
            return Err(ApiError::field("max", format!("must be from 1 to {}", limits::LEASE_MAX)));
        }
        let wait = Duration::from_secs(wait_s.unwrap_or(0));
        if wait > limits::LEASE_WAIT_MAX {
            return Err(ApiError::field("wait_s", "must be from 0 to 30"));
        }
        Ok(LeaseWish { max, wait, lease: seconds("lease_s", lease_s)? })
    }
}

/// How long a lease shall last.
pub fn seconds(field: &str, value: Option<u64>) -> Result<Option<Duration>, ApiError> {
    let Some(duration) = value.map(Duration::from_secs) else {
        return Ok(None);
    };
    match (LEASE_MIN..=LEASE_MAX).contains(&duration) {
        true => Ok(Some(duration)),
        false => Err(ApiError::field(field, "must be from 1 to 3600")),
    }
}

/// A sign of life.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct HeartbeatBody {
    /// The lease.
    lease_token: String,
    /// How long from now; left out, as long as it was asked to last.
    #[schema(value_type = Option<schema::LeaseSeconds>)]
    extend_s: Option<u64>,
    /// What the run has cost so far, in all.
    #[schema(minimum = 0, maximum = 1000000000000_f64)]
    cost: Option<f64>,
}

impl Leased for HeartbeatBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        check_cost(self.cost)?;
        seconds("extend_s", self.extend_s).map(|_| ())
    }
}

fn beat(ticket: Ticket, extend_s: Option<u64>, cost: Option<f64>) -> Result<Heartbeat, ApiError> {
    check_cost(cost)?;
    let usual = Duration::from_secs(ticket.lease_s.max(1) as u64);
    Ok(Heartbeat { ticket, extend: seconds("extend_s", extend_s)?.unwrap_or(usual), cost })
}

/// How the lease stands.
#[derive(Serialize, ToSchema)]
struct Beaten {
    /// When it ends now.
    #[schema(value_type = schema::Timestamp)]
    lease_expires_at: Timestamp,
    /// Whether the worker is asked to stop.
    cancel_requested: bool,
}

/// Extends a lease.
#[utoipa::path(
    post, path = "/jobs/{id}/heartbeat", operation_id = "heartbeat_job", tag = "leases",
    params(("id" = schema::JobId, Path)), request_body = HeartbeatBody,
    responses(
        (status = 200, description = "It lives on.", body = Beaten),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn heartbeat(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<HeartbeatBody>(&id).await?;
    let beats = vec![beat(ticket, body.extend_s, body.cost)?];
    let answers = call.context.store.heartbeat(beats).await.pop();
    let answer = answers.unwrap_or(Err(StoreError::Busy))?;
    let beaten = Beaten {
        lease_expires_at: answer.lease_expires_at,
        cancel_requested: answer.cancel_requested,
    };
    Ok(once::json(StatusCode::OK, &beaten))
}

/// A sign of life of one of many.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct HeartbeatRow {
    /// The job; what is none is told in its row of the answer.
    id: String,
    /// The lease.
    lease_token: String,
    /// How long from now; left out, as long as it was asked to last.
    #[schema(value_type = Option<schema::LeaseSeconds>)]
    extend_s: Option<u64>,
    /// What the run has cost so far, in all.
    #[schema(minimum = 0, maximum = 1000000000000_f64)]
    cost: Option<f64>,
}

/// Extends many leases. Each has its own answer.
#[utoipa::path(
    post, path = "/jobs/heartbeat", operation_id = "heartbeat_jobs", tag = "leases",
    request_body = Many<HeartbeatRow>,
    responses((status = 200, description = "An answer for each.", body = Answers), Keyed)
)]
pub async fn heartbeat_many(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let rows = call.body::<Many<HeartbeatRow>>()?.bounded()?;
    let mut jobs = vec![OneAnswer::default(); rows.len()];
    let (mut places, mut beats) = (Vec::new(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        let ticket = call.ticket(&row.id, &row.lease_token);
        match ticket.and_then(|ticket| beat(ticket, row.extend_s, row.cost)) {
            Ok(one) => {
                places.push(index);
                beats.push(one);
            }
            Err(error) => jobs[index] = refused(&row.id, &error),
        }
    }
    let made =
        if beats.is_empty() { Vec::new() } else { call.context.store.heartbeat(beats).await };
    for (index, answer) in places.into_iter().zip(made) {
        let id = rows[index].id.clone();
        jobs[index] = match answer {
            Ok(answer) => OneAnswer {
                id,
                ok: true,
                lease_expires_at: Some(answer.lease_expires_at),
                cancel_requested: Some(answer.cancel_requested),
                ..OneAnswer::default()
            },
            Err(error) => refused(&id, &error.into()),
        };
    }
    Ok(once::json(StatusCode::OK, &Answers { jobs }))
}

/// The agent's own state.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CheckpointBody {
    /// The lease.
    lease_token: String,
    /// Any JSON, at most 1 MiB. The next run gets it.
    #[schema(value_type = Value)]
    state: Box<RawValue>,
}

impl Leased for CheckpointBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        match self.state.get().len() <= limits::CHECKPOINT_BYTES_MAX {
            true => Ok(()),
            false => Err(ApiError::field(
                "state",
                format!("must have at most {} bytes", limits::CHECKPOINT_BYTES_MAX),
            )),
        }
    }
}

/// Replaces the agent's own state.
#[utoipa::path(
    put, path = "/jobs/{id}/checkpoint", operation_id = "checkpoint_job", tag = "leases",
    params(("id" = schema::JobId, Path)), request_body = CheckpointBody,
    responses((status = 200, description = "`running`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn checkpoint(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<CheckpointBody>(&id).await?;
    let key = call.context.vault.key(ticket.tenant).await?;
    let sealed = key.seal(Slot::Checkpoint(ticket.work), body.state.get().as_bytes());
    call.context.store.checkpoint(ticket, sealed).await?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: State::Running.as_str() }))
}

/// How far the run is.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ProgressBody {
    /// The lease.
    lease_token: String,
    /// For people.
    message: Option<String>,
    /// How much is done.
    #[schema(minimum = 0, maximum = 100)]
    percent: Option<f64>,
    /// Which step it is at.
    step: Option<String>,
    /// Anything else. All of it together has at most 16 KiB.
    data: Option<Value>,
}

impl ProgressBody {
    fn content(&self, run: Option<RunId>) -> String {
        let ProgressBody { message, percent, step, data, .. } = self;
        json!({"message": message, "percent": percent, "step": step, "data": data, "run_id": run})
            .to_string()
    }
}

impl Leased for ProgressBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        if self.percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
            return Err(ApiError::field("percent", "must be from 0 to 100"));
        }
        if self.content(None).len() > limits::ERROR_BYTES_MAX * 4 {
            return Err(ApiError::field("message", "the progress is too large"));
        }
        Ok(())
    }
}

/// Tells how far the run is.
#[utoipa::path(
    post, path = "/jobs/{id}/progress", operation_id = "tell_progress", tag = "leases",
    params(("id" = schema::JobId, Path)), request_body = ProgressBody,
    responses((status = 200, description = "`running`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn progress(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<ProgressBody>(&id).await?;
    let key = call.context.vault.key(ticket.tenant).await?;
    let content =
        key.seal(Slot::Progress(ticket.work), body.content(Some(ticket.run_id())).as_bytes());
    call.context.store.progress(Progress { ticket, content }).await?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: State::Running.as_str() }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use http::Method;

    use super::*;
    use crate::trial::{ADMIN, Trial, ask};
    use crate::workers::timers;

    #[tokio::test]
    async fn a_node_that_lacks_the_master_key_hands_jobs_back_at_once_and_counts_no_attempt() {
        let trial = Trial::start().await;
        for number in 0..3 {
            trial.post("/jobs", &json!({"input": number})).await;
        }
        let (node, is_lost) = trial.forgetful_node().await;
        timers::resync(&node).await.unwrap();
        let lease = async || {
            let wish = json!({"worker": "w", "max": 3});
            ask(&node, ADMIN, Method::POST, "/api/v1/jobs/lease", &wish).await
        };
        is_lost.store(true, Ordering::Relaxed);
        assert_eq!(lease().await.0, StatusCode::SERVICE_UNAVAILABLE);
        is_lost.store(false, Ordering::Relaxed);
        let (status, leased) = lease().await;
        let attempts: Vec<_> =
            leased["jobs"].as_array().unwrap().iter().map(|job| &job["attempt"]).collect();
        assert_eq!((status, attempts), (StatusCode::OK, vec![&json!(1); 3]));
    }
}
