//! The self-webhook's other end: a job is claimed and run within the request that asks for it.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::WorkId;
use wakepost_domain::executor::Executor;
use wakepost_domain::work::WorkKind;
use wakepost_store::moves::{Item, WorkRow};

use super::auth::bearer;
use super::call::{read, read_json};
use super::describe::{Bare, Missing};
use super::error::ApiError;
use super::once;
use crate::context::Context;
use crate::self_webhook::{PROBE, REACHED};
use crate::telemetry::story;
use crate::workers::push::worker_name;
use crate::{executors, schema};

/// Which job to run.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Task {
    /// The job.
    #[schema(value_type = schema::JobId)]
    task_id: String,
}

/// What became of it.
#[derive(Serialize, ToSchema)]
struct Processed {
    /// The job.
    #[schema(value_type = schema::JobId)]
    id: String,
    /// Where it stands now.
    status: &'static str,
    /// Whether it was run within this request.
    ran: bool,
}

/// Claims a job and runs it within this request. The server calls this itself.
///
/// `Authorization: Bearer` carries a token that only the server makes, for one job and a minute. A job that is not
/// ready, or that another request has, is left alone: the answer says where it stands.
#[utoipa::path(
    post, path = "/integrations/_process-task", operation_id = "process_task",
    tag = "integrations", security(()), request_body = Task,
    responses(
        (status = 200, description = "Where the job stands now.", body = Processed),
        Bare, Missing,
    )
)]
pub async fn process(
    State(context): State<Arc<Context>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let token = bearer(&parts.headers).ok_or_else(not_ours)?;
    let item = context.tokens.read_task(token, context.now()).ok_or_else(not_ours)?;
    let Task { task_id } = read_json(&read(body, &parts.headers).await?)?;
    if WorkId::parse(&task_id, WorkKind::Job) != Ok(item.work) {
        return Err(not_ours());
    }
    let (status, ran) = match item {
        PROBE => (REACHED, false),
        item => {
            let row = find(&context, item).await?;
            let ran = run(&context, item, row).await?;
            (find(&context, item).await?.state.as_str(), ran)
        }
    };
    Ok(once::json(StatusCode::OK, &Processed { id: task_id, status, ran }))
}

fn not_ours() -> ApiError {
    let detail =
        "this route is the server's own: the token is missing, not good for this job, or over";
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
}

async fn find(context: &Context, item: Item) -> Result<WorkRow, ApiError> {
    let row = context.store.work(item.tenant, item.work).await?;
    row.filter(|row| row.kind == WorkKind::Job).ok_or_else(ApiError::not_found)
}

/// Runs the job to its end, and says whether it could be claimed.
async fn run(context: &Arc<Context>, item: Item, row: WorkRow) -> Result<bool, ApiError> {
    let lane = context.directory.lanes(&[row.lane]).await?.pop();
    let lane = lane.ok_or_else(ApiError::not_found)?;
    let policy = context.directory.policy(&lane).await?;
    // The source may have got another executor since the call was made.
    if !row.state.is_claimable() || !matches!(policy.executor, Executor::SelfWebhook { .. }) {
        return Ok(false);
    }
    let place = context.places.take(policy.executor.runner(), None);
    let place = place.filter(|_| !context.stop.is_cancelled()).ok_or_else(no_place)?;
    let Some(claimed) = context.queue.claim_one(worker_name(), item, lane, policy).await? else {
        return Ok(false);
    };
    context.metrics.started(std::iter::once(&claimed.0));
    story::leased(context, std::iter::once(&claimed.0)).await;
    let context = context.clone();
    // A caller that hangs up does not end the run, and a stop waits for it.
    let running = context.tasks.clone().spawn(async move {
        executors::run(&context, claimed, None).await;
        drop(place);
    });
    // A run that panicked leaves its lease to the rescuer.
    let _ = running.await;
    Ok(true)
}

fn no_place() -> ApiError {
    let detail = "this node cannot run it now: try again";
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", detail)
}
