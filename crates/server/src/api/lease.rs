//! What workers call: lease, heartbeat, checkpoint, progress, complete, fail; one at a time or many.

use std::time::Duration;

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::lease::{LEASE_MAX, LEASE_MIN, Ticket};
use wakepost_domain::transition::Ending;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{SourceId, WorkId, limits};
use wakepost_store::StoreError;
use wakepost_store::moves::{Evidence, Heartbeat, HeartbeatAnswer, Progress};
use wakepost_store::vault::Slot;

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::work::check_name;
use crate::queue::Ask;
use crate::view;
use crate::workers::settle::{End, settle};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeaseBody {
    worker: String,
    max: Option<u32>,
    wait_s: Option<u64>,
    kinds: Option<Vec<String>>,
    sources: Option<Vec<SourceId>>,
    lease_s: Option<u64>,
}

/// Leases jobs, waiting for the first if asked to.
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
    let max = body.max.unwrap_or(1);
    if !(1..=limits::LEASE_MAX).contains(&max) {
        return Err(ApiError::field(
            "max",
            format!("must be from 1 to {}", limits::LEASE_MAX),
        ));
    }
    let wait = Duration::from_secs(body.wait_s.unwrap_or(0));
    if wait > limits::LEASE_WAIT_MAX {
        return Err(ApiError::field("wait_s", "must be from 0 to 30"));
    }
    let lease = seconds("lease_s", body.lease_s)?;
    let ask = Ask {
        worker: body.worker,
        max,
        wait,
        tenant,
        kinds: body.kinds,
        sources: body.sources,
        lease,
    };
    let claimed = call.context.queue.lease(&ask, &call.context.stop).await?;
    call.context.metrics.claimed.inc_by(claimed.len() as u64);
    let jobs = view::leased(&call.context, &claimed).await?;
    Ok(once::json(StatusCode::OK, &json!({"jobs": jobs})))
}

fn seconds(field: &str, value: Option<u64>) -> Result<Option<Duration>, ApiError> {
    let Some(duration) = value.map(Duration::from_secs) else {
        return Ok(None);
    };
    match (LEASE_MIN..=LEASE_MAX).contains(&duration) {
        true => Ok(Some(duration)),
        false => Err(ApiError::field(field, "must be from 1 to 3600")),
    }
}

impl Call {
    /// What a lease token says, if it is about this job and this caller may use it.
    pub fn ticket(&self, id: &str, token: &str) -> Result<Ticket, ApiError> {
        let id = WorkId::parse(id, WorkKind::Job).map_err(|_| ApiError::not_found())?;
        // A token that is not ours is as good as a stale one: the worker must stop.
        let ticket = self
            .context
            .tokens
            .read_lease(token)
            .ok_or(StoreError::LeaseLost)?;
        if !self.caller.reaches(ticket.tenant) {
            return Err(ApiError::not_found());
        }
        let own = self
            .caller
            .ticket
            .is_none_or(|own| own.work == ticket.work && own.fence == ticket.fence);
        if ticket.work != id || !own {
            return Err(StoreError::LeaseLost.into());
        }
        Ok(ticket)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeartbeatBody {
    lease_token: String,
    extend_s: Option<u64>,
    cost: Option<f64>,
}

fn beat(ticket: Ticket, extend_s: Option<u64>, cost: Option<f64>) -> Result<Heartbeat, ApiError> {
    let usual = Duration::from_secs(ticket.lease_s.max(1) as u64);
    Ok(Heartbeat {
        ticket,
        extend: seconds("extend_s", extend_s)?.unwrap_or(usual),
        cost,
    })
}

/// Extends a lease.
pub async fn heartbeat(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: HeartbeatBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    let beats = vec![beat(ticket, body.extend_s, body.cost)?];
    let answer = call
        .context
        .store
        .heartbeat(beats)
        .await
        .pop()
        .unwrap_or(Err(StoreError::Busy))?;
    Ok(once::json(StatusCode::OK, &shown(answer)))
}

fn shown(answer: HeartbeatAnswer) -> Value {
    json!({"lease_expires_at": answer.lease_expires_at, "cancel_requested": answer.cancel_requested})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Many<T> {
    jobs: Vec<T>,
}

impl<T> Many<T> {
    fn bounded(self) -> Result<Vec<T>, ApiError> {
        match self.jobs.len() <= limits::JOBS_PER_CALL_MAX {
            true => Ok(self.jobs),
            false => Err(ApiError::field(
                "jobs",
                format!("must be at most {}", limits::JOBS_PER_CALL_MAX),
            )),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HeartbeatRow {
    id: String,
    lease_token: String,
    extend_s: Option<u64>,
    cost: Option<f64>,
}

/// Extends many leases. Each has its own answer.
pub async fn heartbeat_many(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let rows = call.body::<Many<HeartbeatRow>>()?.bounded()?;
    let mut answers = vec![Value::Null; rows.len()];
    let (mut places, mut beats) = (Vec::new(), Vec::new());
    for (index, row) in rows.iter().enumerate() {
        let ticket = call.ticket(&row.id, &row.lease_token);
        match ticket.and_then(|ticket| beat(ticket, row.extend_s, row.cost)) {
            Ok(one) => {
                places.push(index);
                beats.push(one);
            }
            Err(error) => answers[index] = refused(&row.id, &error),
        }
    }
    let made = if beats.is_empty() {
        Vec::new()
    } else {
        call.context.store.heartbeat(beats).await
    };
    for (index, answer) in places.into_iter().zip(made) {
        answers[index] = match answer {
            Ok(answer) => {
                let mut row = shown(answer);
                row["id"] = rows[index].id.clone().into();
                row["ok"] = true.into();
                row
            }
            Err(error) => refused(&rows[index].id, &error.into()),
        };
    }
    Ok(once::json(StatusCode::OK, &json!({"jobs": answers})))
}

fn refused(id: &str, error: &ApiError) -> Value {
    json!({"id": id, "ok": false, "code": error.code()})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointBody {
    lease_token: String,
    state: Box<RawValue>,
}

/// Replaces the agent's own state.
pub async fn checkpoint(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: CheckpointBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    let state = body.state.get();
    if state.len() > limits::CHECKPOINT_BYTES_MAX {
        let message = format!("must have at most {} bytes", limits::CHECKPOINT_BYTES_MAX);
        return Err(ApiError::field("state", message));
    }
    let key = call.context.vault.key(ticket.tenant).await?;
    let sealed = key.seal(Slot::Checkpoint(ticket.work), state.as_bytes());
    call.context.store.checkpoint(ticket, sealed).await?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "status": "running"}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressBody {
    lease_token: String,
    message: Option<String>,
    percent: Option<f64>,
    step: Option<String>,
    data: Option<Value>,
}

/// Tells how far the run is.
pub async fn progress(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: ProgressBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    if body
        .percent
        .is_some_and(|percent| !(0.0..=100.0).contains(&percent))
    {
        return Err(ApiError::field("percent", "must be from 0 to 100"));
    }
    let content = json!({
        "message": body.message, "percent": body.percent, "step": body.step, "data": body.data,
    })
    .to_string();
    if content.len() > limits::ERROR_BYTES_MAX * 4 {
        return Err(ApiError::field("message", "the progress is too large"));
    }
    let key = call.context.vault.key(ticket.tenant).await?;
    let content = key.seal(Slot::Progress(ticket.work), content.as_bytes());
    call.context
        .store
        .progress(Progress { ticket, content })
        .await?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "status": "running"}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteBody {
    lease_token: String,
    result: Option<Box<RawValue>>,
    reply: Option<String>,
    cost: Option<f64>,
}

/// The work is done.
pub async fn complete(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: CompleteBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    let end = completed(&call, ticket, body.result, body.reply, body.cost).await?;
    finish_one(&call, id, end).await
}

async fn completed(
    call: &Call,
    ticket: Ticket,
    result: Option<Box<RawValue>>,
    reply: Option<String>,
    cost: Option<f64>,
) -> Result<End, ApiError> {
    let too_large = |field: &str| {
        ApiError::field(
            field,
            format!("must have at most {} bytes", limits::DOCUMENT_BYTES_MAX),
        )
    };
    if result
        .as_ref()
        .is_some_and(|result| result.get().len() > limits::DOCUMENT_BYTES_MAX)
    {
        return Err(too_large("result"));
    }
    if reply
        .as_ref()
        .is_some_and(|reply| reply.len() > limits::DOCUMENT_BYTES_MAX)
    {
        return Err(too_large("reply"));
    }
    let key = call.context.vault.key(ticket.tenant).await?;
    let evidence = Evidence {
        result: result
            .map(|result| key.seal(Slot::JobResult(ticket.work), result.get().as_bytes())),
        reply: reply.map(|reply| key.seal(Slot::Reply(ticket.work), reply.as_bytes())),
        cost,
    };
    Ok(End {
        ticket,
        ending: Ending::Succeeded,
        error: None,
        evidence,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FailBody {
    lease_token: String,
    error: String,
    retryable: Option<bool>,
    retry_after_s: Option<u64>,
    cost: Option<f64>,
}

fn failed(
    ticket: Ticket,
    error: &str,
    retryable: Option<bool>,
    retry_after_s: Option<u64>,
    cost: Option<f64>,
) -> End {
    End {
        ticket,
        ending: Ending::Failed {
            retryable: retryable.unwrap_or(true),
            retry_after: retry_after_s.map(Duration::from_secs),
        },
        error: Some(limits::truncate(error, limits::ERROR_BYTES_MAX).to_owned()),
        evidence: Evidence {
            cost,
            ..Evidence::default()
        },
    }
}

/// The run failed.
pub async fn fail(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let body: FailBody = call.body()?;
    let ticket = call.ticket(&id, &body.lease_token)?;
    let end = failed(
        ticket,
        &body.error,
        body.retryable,
        body.retry_after_s,
        body.cost,
    );
    finish_one(&call, id, end).await
}

async fn finish_one(call: &Call, id: String, end: End) -> Result<Response, ApiError> {
    let settled = settle(&call.context, vec![end])
        .await
        .pop()
        .unwrap_or(Err(StoreError::Busy))?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "status": settled.state}),
    ))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FinishRow {
    id: String,
    lease_token: String,
    outcome: Outcome,
    result: Option<Box<RawValue>>,
    reply: Option<String>,
    cost: Option<f64>,
    error: Option<String>,
    retryable: Option<bool>,
    retry_after_s: Option<u64>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Complete,
    Fail,
}

/// Ends many runs. Each has its own answer.
pub async fn finish_many(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let rows = call.body::<Many<FinishRow>>()?.bounded()?;
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let mut answers = vec![Value::Null; rows.len()];
    let (mut places, mut ends) = (Vec::new(), Vec::new());
    for (index, row) in rows.into_iter().enumerate() {
        match finish_row(&call, row).await {
            Ok(end) => {
                places.push(index);
                ends.push(end);
            }
            Err(error) => answers[index] = refused(&ids[index], &error),
        }
    }
    for (index, settled) in places.into_iter().zip(settle(&call.context, ends).await) {
        answers[index] = match settled {
            Ok(settled) => json!({"id": ids[index], "ok": true, "status": settled.state}),
            Err(error) => refused(&ids[index], &error.into()),
        };
    }
    Ok(once::json(StatusCode::OK, &json!({"jobs": answers})))
}

async fn finish_row(call: &Call, row: FinishRow) -> Result<End, ApiError> {
    let ticket = call.ticket(&row.id, &row.lease_token)?;
    match row.outcome {
        Outcome::Complete => completed(call, ticket, row.result, row.reply, row.cost).await,
        Outcome::Fail => {
            let error = row
                .error
                .ok_or_else(|| ApiError::field("error", "is required"))?;
            Ok(failed(
                ticket,
                &error,
                row.retryable,
                row.retry_after_s,
                row.cost,
            ))
        }
    }
}
