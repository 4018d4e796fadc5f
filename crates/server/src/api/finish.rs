//! The end of a run: complete or fail, one at a time or many.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::lease::Ticket;
use wakepost_domain::limits;
use wakepost_domain::transition::Ending;
use wakepost_store::StoreError;
use wakepost_store::moves::Evidence;
use wakepost_store::vault::Slot;

use super::call::{At, Call};
use super::describe::{Conflicting, Keyed, Missing};
use super::error::ApiError;
use super::many::{Answers, Many, OneAnswer, refused};
use super::once;
use super::ticket::Leased;
use super::work::{Moved, check_cost, check_document};
use crate::replies;
use crate::schema;
use crate::workers::settle::{End, settle_to_the_end};

/// What came of the work.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CompleteBody {
    /// The lease.
    lease_token: String,
    /// Any JSON, at most 1 MiB.
    #[schema(value_type = Value, required = false)]
    result: Option<Box<RawValue>>,
    /// What to reply on the event's thread.
    reply: Option<String>,
    /// What the run cost in all.
    #[schema(minimum = 0, maximum = 1000000000000_f64)]
    cost: Option<f64>,
}

impl Leased for CompleteBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        check_cost(self.cost)?;
        check_outcome(self.result.as_deref(), self.reply.as_deref())
    }
}

fn check_outcome(result: Option<&RawValue>, reply: Option<&str>) -> Result<(), ApiError> {
    check_document("result", result)?;
    match reply {
        Some(reply) if reply.len() > limits::DOCUMENT_BYTES_MAX => Err(ApiError::field(
            "reply",
            format!("must have at most {} bytes", limits::DOCUMENT_BYTES_MAX),
        )),
        _ => Ok(()),
    }
}

/// Says that the work is done.
#[utoipa::path(
    post, path = "/jobs/{id}/complete", operation_id = "complete_job", tag = "leases",
    params(("id" = schema::JobId, Path)), request_body = CompleteBody,
    responses(
        (status = 200, description = "Where the job stands now.", body = Moved),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn complete(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<CompleteBody>(&id).await?;
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
    let key = call.context.vault.key(ticket.tenant).await?;
    let follow_up = match &reply {
        Some(text) => replies::last_word(&call.context, &ticket, text).await?,
        None => None,
    };
    let evidence = Evidence {
        result: result
            .map(|result| key.seal(Slot::JobResult(ticket.work), result.get().as_bytes())),
        reply: reply.map(|reply| key.seal(Slot::Reply(ticket.work), reply.as_bytes())),
        cost,
        detail: None,
    };
    let follow_up = follow_up.map(Box::new);
    Ok(End { ticket, ending: Ending::Succeeded, error: None, evidence, follow_up, expanded: None })
}

/// Why the run failed.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FailBody {
    /// The lease.
    lease_token: String,
    /// What went wrong. What is over 4 KiB is cut off.
    error: String,
    /// Whether another try makes sense; yes if left out.
    retryable: Option<bool>,
    /// When to try again, if the worker knows better; more than a week is a week.
    #[schema(value_type = Option<schema::Seconds>)]
    retry_after_s: Option<u64>,
    /// What the run cost in all.
    #[schema(minimum = 0, maximum = 1000000000000_f64)]
    cost: Option<f64>,
    /// `true`: nothing went wrong, the worker stops. Another gets the job at once, and no attempt is counted.
    #[serde(default)]
    #[schema(required = false)]
    hand_back: bool,
}

impl Leased for FailBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        check_hand_back(self.hand_back, self.retryable, self.retry_after_s)?;
        check_cost(self.cost)
    }
}

fn check_hand_back(
    hand_back: bool,
    retryable: Option<bool>,
    retry_after_s: Option<u64>,
) -> Result<(), ApiError> {
    match hand_back && (retryable.is_some() || retry_after_s.is_some()) {
        false => Ok(()),
        true => Err(ApiError::field(
            "hand_back",
            "stands beside retryable or retry_after_s: what is handed back did not fail",
        )),
    }
}

/// What a worker says of a run that did not succeed.
struct Failure {
    error: String,
    retryable: Option<bool>,
    retry_after_s: Option<u64>,
    cost: Option<f64>,
    hand_back: bool,
}

impl Failure {
    fn end(self, ticket: Ticket) -> End {
        let ending = match self.hand_back {
            false => Ending::Failed {
                retryable: self.retryable.unwrap_or(true),
                retry_after: self.retry_after_s.map(Duration::from_secs),
            },
            true => Ending::HandedBack,
        };
        End {
            ticket,
            ending,
            error: Some(limits::truncate(&self.error, limits::ERROR_BYTES_MAX).to_owned()),
            evidence: Evidence { cost: self.cost, ..Evidence::default() },
            follow_up: None,
            expanded: None,
        }
    }
}

/// Says that the run failed.
#[utoipa::path(
    post, path = "/jobs/{id}/fail", operation_id = "fail_job", tag = "leases",
    params(("id" = schema::JobId, Path)), request_body = FailBody,
    responses(
        (status = 200, description = "Where the job stands now.", body = Moved),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn fail(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<FailBody>(&id).await?;
    let FailBody { error, retryable, retry_after_s, cost, hand_back, .. } = body;
    let failure = Failure { error, retryable, retry_after_s, cost, hand_back };
    finish_one(&call, id, failure.end(ticket)).await
}

async fn finish_one(call: &Call, id: String, end: End) -> Result<Response, ApiError> {
    let settled = settle_to_the_end(&call.context, vec![end]).await.pop();
    let settled = settled.unwrap_or(Err(StoreError::Busy))?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: settled.state.as_str() }))
}

/// The end of one of many runs: with `complete` that call's fields, with `fail` that call's.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct FinishRow {
    /// The job; what is none is told in its row of the answer.
    id: String,
    /// The lease.
    lease_token: String,
    /// How it ended.
    outcome: Outcome,
    /// With `complete`: any JSON, at most 1 MiB.
    #[schema(value_type = Value, required = false)]
    result: Option<Box<RawValue>>,
    /// With `complete`: what to reply on the event's thread.
    reply: Option<String>,
    /// What the run cost in all.
    #[schema(minimum = 0, maximum = 1000000000000_f64)]
    cost: Option<f64>,
    /// With `fail`, and required there: what went wrong.
    error: Option<String>,
    /// With `fail`: whether another try makes sense.
    retryable: Option<bool>,
    /// With `fail`: when to try again; more than a week is a week.
    #[schema(value_type = Option<schema::Seconds>)]
    retry_after_s: Option<u64>,
    /// With `fail`: the worker stops, and nothing went wrong.
    #[serde(default)]
    #[schema(required = false)]
    hand_back: bool,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// The work is done.
    Complete,
    /// The run failed.
    Fail,
}

/// Ends many runs. Each has its own answer.
#[utoipa::path(
    post, path = "/jobs/finish", operation_id = "finish_jobs", tag = "leases",
    request_body = Many<FinishRow>,
    responses((status = 200, description = "An answer for each.", body = Answers), Keyed)
)]
pub async fn finish_many(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let rows = call.body::<Many<FinishRow>>()?.bounded()?;
    let ids: Vec<String> = rows.iter().map(|row| row.id.clone()).collect();
    let mut jobs = vec![OneAnswer::default(); rows.len()];
    let (mut places, mut ends) = (Vec::new(), Vec::new());
    for (index, row) in rows.into_iter().enumerate() {
        match finish_row(&call, row).await {
            Ok(end) => {
                places.push(index);
                ends.push(end);
            }
            Err(error) => jobs[index] = refused(&ids[index], &error),
        }
    }
    let settled = settle_to_the_end(&call.context, ends).await;
    for (index, settled) in places.into_iter().zip(settled) {
        let id = ids[index].clone();
        jobs[index] = match settled {
            Ok(settled) => {
                OneAnswer { id, ok: true, status: Some(settled.state), ..OneAnswer::default() }
            }
            Err(error) => refused(&id, &error.into()),
        };
    }
    Ok(once::json(StatusCode::OK, &Answers { jobs }))
}

async fn finish_row(call: &Call, row: FinishRow) -> Result<End, ApiError> {
    let ticket = call.ticket(&row.id, &row.lease_token)?;
    check_cost(row.cost)?;
    let foreign = |field: &str| ApiError::field(field, "is not a field of this outcome");
    match row.outcome {
        Outcome::Complete => {
            if row.error.is_some() || row.retryable.is_some() || row.retry_after_s.is_some() {
                return Err(foreign("error"));
            }
            if row.hand_back {
                return Err(foreign("hand_back"));
            }
            check_outcome(row.result.as_deref(), row.reply.as_deref())?;
            completed(call, ticket, row.result, row.reply, row.cost).await
        }
        Outcome::Fail => {
            if row.result.is_some() || row.reply.is_some() {
                return Err(foreign("result"));
            }
            let error = row.error.ok_or_else(|| ApiError::field("error", "is required"))?;
            let FinishRow { retryable, retry_after_s, cost, hand_back, .. } = row;
            check_hand_back(hand_back, retryable, retry_after_s)?;
            Ok(Failure { error, retryable, retry_after_s, cost, hand_back }.end(ticket))
        }
    }
}
