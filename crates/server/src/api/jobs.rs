//! Jobs: made, listed, shown, cancelled, released, replayed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::approval::Mode;
use wakepost_domain::callback::OwnCallback;
use wakepost_domain::executor::Executor;
use wakepost_domain::lane::{LaneId, LaneKey, OwnExecutor};
use wakepost_domain::source::DEDUP_WINDOW;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::transition::Move;
use wakepost_domain::work::{HeldReason, Priority, State, WorkKind};
use wakepost_domain::{SourceId, Timestamp, WorkId, limits, thread};
use wakepost_store::moves::{
    AuditEntry, CancelOutcome, DedupKey, Idempotency, Lineage, NewWork, Once, OrderKey, ReplayFrom,
    WorkFilter, WorkMeta, WorkRow,
};
use wakepost_store::vault::Slot;
use wakepost_store::{Result as Stored, StoreError};

use super::call::{At, Call};
use super::cancelling::{CancelOn, check_cancel_on};
use super::describe::{self, Chained, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, listed};
use super::shapes::{MadeJobs, Work, WorkWhole};
use super::sources::{check_executor, check_url};
use super::work::{
    self, Moved, ReplayBody, Replayed, check_attempts, check_document, check_key, check_name,
    check_note, find, or_conflict,
};
use crate::context::Context;
use crate::schedules::DEFAULT_KIND;
use crate::to_the_end::ToTheEnd;
use crate::{callbacks, chains, schema};

/// The longest delay; a longer one is as good as this.
const DELAY_MAX_S: u64 = 10 * 366 * 24 * 3600;

/// A job to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewJob {
    /// A free name; `job` if left out.
    #[schema(value_type = Option<schema::Name>)]
    kind: Option<String>,
    /// What the agent gets: any JSON, at most 1 MiB.
    #[schema(value_type = Value)]
    input: Box<RawValue>,
    /// Which queue it waits in; `webhook` if left out.
    #[schema(value_type = Option<schema::Priority>)]
    priority: Option<Priority>,
    /// Not before this moment.
    #[schema(value_type = Option<schema::Timestamp>)]
    run_at: Option<Timestamp>,
    /// Not before this many seconds from now; instead of `run_at`.
    delay_s: Option<u64>,
    /// A repeat within 30 days gets the first job.
    #[schema(value_type = Option<schema::Key>)]
    dedup_key: Option<String>,
    /// Jobs of the tenant that share it run one at a time, in the order they were made.
    #[schema(value_type = Option<schema::Key>)]
    order_key: Option<String>,
    /// What it is about: `provider:kind:id`.
    #[schema(value_type = Option<schema::Key>)]
    subject: Option<String>,
    /// Who asks for it.
    #[schema(value_type = Option<schema::Key>)]
    owner: Option<String>,
    /// An event that cancels it, if it has the same subject.
    cancel_on: Option<CancelOn>,
    /// Where its outcome goes, as a signed webhook.
    #[schema(max_length = 2048)]
    callback_url: Option<String>,
    /// How it runs; by default as the tenant says.
    #[schema(value_type = Option<schema::Executor>)]
    executor: Option<Executor>,
    /// How often it may be tried.
    #[schema(value_type = Option<schema::Attempts>)]
    max_attempts: Option<u32>,
    /// `draft`: a person must agree before it acts; `auto` if left out.
    #[schema(value_type = Option<schema::Mode>)]
    mode: Option<Mode>,
}

/// One job, or up to 1,000.
#[derive(ToSchema)]
#[serde(untagged)]
#[expect(
    dead_code,
    clippy::large_enum_variant,
    reason = "it is only described: the handler tells them apart by their first byte"
)]
enum NewJobs {
    One(NewJob),
    Many(Vec<NewJob>),
}

/// Makes one job, or many: all or none.
#[utoipa::path(
    post, path = "/jobs", operation_id = "create_jobs", tag = "jobs",
    params(describe::Tenant, Idempotent, Chained), request_body = NewJobs,
    responses(
        (status = 201, description = "At least one was made.", body = MadeJobs),
        (status = 200, description = "All of them had been made before.", body = MadeJobs),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Create)?;
    let tenant = call.tenant().await?;
    let (jobs, many) = call.bodies::<NewJob>()?;
    if jobs.is_empty() || jobs.len() > limits::JOBS_PER_CALL_MAX {
        let message = format!("must have 1 to {} jobs", limits::JOBS_PER_CALL_MAX);
        return Err(ApiError::field("body", message));
    }
    let has_key = |job: &NewJob| job.dedup_key.is_some();
    if let Some(index) = jobs.iter().position(has_key).filter(|_| many && call.is_idempotent()) {
        // A repeat would need the answer with the first jobs' ids, known only after the commit.
        let message = "stands beside Idempotency-Key: in an array, choose one";
        return Err(ApiError::field(format!("{index}.dedup_key"), message));
    }
    let lineage = chains::lineage(&call.context, tenant.id, &call.headers).await?;
    // When a job is due is for the store's clock to say, which is not always this node's.
    let now = match jobs.iter().any(|job| job.run_at.is_some() || job.delay_s.is_some()) {
        true => call.context.store.now().await?,
        false => call.context.now(),
    };
    let mut items = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.into_iter().enumerate() {
        let place = if many { format!("{index}.") } else { String::new() };
        items.push(prepare(&call, &tenant, job, &place, lineage.clone(), now).await?);
    }
    let views = new_views(&call, &tenant, &items, now).await?;
    let once = call.once(tenant.id, StatusCode::CREATED, &answer(views.clone(), many)).await?;
    // A caller that hangs up must not keep the queue from hearing of the commit.
    let made = ToTheEnd::of(commit(call.context.clone(), items.clone(), once)).await?;
    let mut rows = views;
    add_secrets(&call, &items, &mut rows).await?;
    let mut any_new = false;
    if let Once::Now(ids) = &made {
        for (index, (item, id)) in items.iter().zip(ids).enumerate() {
            if item.id == *id {
                any_new = true;
            } else {
                rows[index] = first_view(&call, &tenant, *id).await?;
            }
        }
    }
    let status = if any_new { StatusCode::CREATED } else { StatusCode::OK };
    call.answer_once(tenant.id, made, |_| once::json(status, &answer(rows, many))).await
}

fn answer(mut rows: Vec<Value>, many: bool) -> Value {
    match many {
        true => json!({"data": rows}),
        false => rows.pop().unwrap_or_default(),
    }
}

/// Requests to a job's own http executor, and its callback, are signed with secrets that are shown here and nowhere
/// else.
async fn add_secrets(call: &Call, items: &[NewWork], rows: &mut [Value]) -> Result<(), ApiError> {
    let ids: Vec<_> = items.iter().map(|item| item.lane).collect();
    let lanes = call.context.directory.lanes(&ids).await?;
    for (item, row) in items.iter().zip(rows) {
        let Some(lane) = lanes.iter().find(|lane| lane.id == item.lane) else { continue };
        let own = lane.key.own_executor().map(|own| own.executor);
        if own.is_some_and(|executor| executor.posts()) {
            row["executor_secret"] = call.context.tokens.executor_secret(&lane.key.text()).into();
        }
        if let Some(own) = &item.meta.callback {
            let secret = callbacks::own_secret(&call.context, item.tenant, &own.url);
            row["callback_secret"] = secret.into();
        }
    }
    Ok(())
}

/// Jobs as they will be once they are committed.
async fn new_views(
    call: &Call,
    tenant: &Tenant,
    items: &[NewWork],
    now: Timestamp,
) -> Result<Vec<Value>, ApiError> {
    let rows = items.iter().map(|item| WorkRow::new(item, now)).collect();
    let views = work::views(&call.context, tenant, rows).await?;
    Ok(views
        .into_iter()
        .map(|view| serde_json::to_value(view).expect("a view is plain data"))
        .collect())
}

/// The first job with the same dedup key; if it is too old to be kept, its id is all there is.
async fn first_view(call: &Call, tenant: &Tenant, id: WorkId) -> Result<Value, ApiError> {
    let mut view = match call.context.store.work(tenant.id, id).await? {
        None => json!({"id": id.text(WorkKind::Job)}),
        Some(row) => {
            let view = work::views(&call.context, tenant, vec![row]).await?.pop();
            serde_json::to_value(view).expect("a view is plain data")
        }
    };
    view["duplicate"] = true.into();
    Ok(view)
}

/// Stores jobs, and tells the queue of those that may run now.
async fn commit(
    context: Arc<Context>,
    items: Vec<NewWork>,
    once: Option<Idempotency>,
) -> Stored<Once<Vec<WorkId>>> {
    let due = items.iter().filter(|item| item.run_at.is_none());
    let due: Vec<(WorkId, LaneId)> = due.map(|item| (item.id, item.lane)).collect();
    let made = context.store.create_work(items, once).await;
    let new: HashSet<WorkId> = match &made {
        Ok(Once::Now(ids)) => ids.iter().copied().collect(),
        Err(error) if error.is_unknown() => due.iter().map(|(id, _)| *id).collect(),
        Ok(Once::Before(_)) | Err(_) => HashSet::new(),
    };
    let mut counts: HashMap<LaneId, usize> = HashMap::new();
    for (_, lane) in due.into_iter().filter(|(id, _)| new.contains(id)) {
        *counts.entry(lane).or_default() += 1;
    }
    let lanes: Vec<LaneId> = counts.keys().copied().collect();
    // What cannot be told now is found by the resync: the jobs are there.
    for lane in context.directory.lanes(&lanes).await.unwrap_or_default() {
        context.queue.hint(&lane, counts[&lane.id]).await;
    }
    made
}

async fn prepare(
    call: &Call,
    tenant: &Tenant,
    job: NewJob,
    place: &str,
    lineage: Option<Lineage>,
    now: Timestamp,
) -> Result<NewWork, ApiError> {
    let context = &call.context;
    let at = |field: &str| format!("{place}{field}");
    let name = job.kind.unwrap_or_else(|| DEFAULT_KIND.to_owned());
    check_name(&at("kind"), &name)?;
    for (field, value) in [
        ("dedup_key", &job.dedup_key),
        ("order_key", &job.order_key),
        ("subject", &job.subject),
        ("owner", &job.owner),
    ] {
        if let Some(value) = value {
            check_key(&at(field), value)?;
        }
    }
    check_attempts(&at("max_attempts"), job.max_attempts)?;
    check_cancel_on(&at, job.cancel_on.as_ref(), job.subject.as_deref())?;
    let trusted = call.is_trusted();
    if let Some(executor) = &job.executor {
        check_executor(&at("executor"), executor, &context.config, trusted)?;
    }
    let (callback, callback_lane) = match job.callback_url {
        Some(url) => {
            let target = check_url(&at("callback_url"), &url, &context.config, trusted)?;
            let lane = callbacks::lane_of_job(context, tenant.id, &target).await?;
            (Some(OwnCallback { url, trusted }), Some(lane))
        }
        None => (None, None),
    };
    let run_at = match (job.run_at, job.delay_s) {
        (Some(_), Some(_)) => {
            return Err(ApiError::field(at("delay_s"), "stands beside run_at: choose one"));
        }
        (Some(at), None) => Some(at),
        (None, Some(delay)) => Some(now.after(Duration::from_secs(delay.min(DELAY_MAX_S)))),
        (None, None) => None,
    };
    let id = WorkId(context.new_id());
    let key = context.vault.key(tenant.id).await?;
    let input = job.input.get();
    check_document(&at("input"), Some(&job.input))?;
    let lane = context
        .directory
        .lane(LaneKey {
            tenant: tenant.id,
            kind: WorkKind::Job,
            priority: job.priority.unwrap_or(Priority::Webhook),
            origin: None,
            name: name.clone(),
            executor: job.executor.clone().map(|executor| OwnExecutor { executor, trusted }.key()),
        })
        .await?;
    Ok(NewWork {
        id,
        tenant: tenant.id,
        kind: WorkKind::Job,
        lane: lane.id,
        run_at: run_at.filter(|at| *at > now),
        max_attempts: context.directory.max_attempts(&lane, job.max_attempts).await?,
        event: None,
        scope: None,
        subject: job.subject,
        order: job.order_key.as_ref().map(|text| OrderKey::of_job(tenant.id, text.as_bytes())),
        meta: WorkMeta {
            name: lane.key.name.is_empty().then_some(name),
            owner: job.owner,
            order_key: job.order_key,
            cancel_on: job.cancel_on.map(|event| event.event_type),
            callback,
            callback_lane,
            mode: job.mode,
            ..WorkMeta::default()
        }
        .led_to_by(lineage),
        input: Some(key.seal(Slot::Input(id), input.as_bytes())),
        dedup: job
            .dedup_key
            .map(|text| (DedupKey::of_job(tenant.id, text.as_bytes()), now.after(DEDUP_WINDOW))),
    })
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// In this state.
    #[param(value_type = Option<schema::State>)]
    status: Option<State>,
    /// Of this source.
    #[param(value_type = Option<schema::SourceId>)]
    source: Option<SourceId>,
    /// Of this kind.
    kind: Option<String>,
    /// About this: `provider:kind:id`.
    subject: Option<String>,
    /// Of this conversation: the `thread_id` of its messages.
    thread: Option<String>,
}

/// Lists jobs.
#[utoipa::path(
    get, path = "/jobs", operation_id = "list_jobs", tag = "jobs",
    params(Filter, PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<Work>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (filter, page) = call.list::<Filter>()?;
    let wanted = WorkFilter {
        kind: Some(WorkKind::Job),
        state: filter.status,
        source: filter.source,
        name: filter.kind,
        subject: filter.subject,
        thread: filter.thread.as_deref().map(thread::searched),
        ..WorkFilter::default()
    };
    let rows = call.context.store.work_list(tenant.id, wanted, page).await?;
    let last = rows.last().map(|row| row.id.0);
    let views = work::views(&call.context, &tenant, rows).await?;
    Ok(once::json(StatusCode::OK, &listed(views, last, page.limit)))
}

/// Shows one job. A worker may read a job while it is leased.
#[utoipa::path(
    get, path = "/jobs/{id}", operation_id = "get_job", tag = "jobs",
    params(("id" = schema::WorkId, Path), describe::Tenant),
    responses((status = 200, description = "The job.", body = WorkWhole), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    let (tenant, row) = readable(&call, &id).await?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &work::detail(&call.context, &tenant, row).await?))
}

/// A job that the caller may read: any of its tenant's, or for a worker one that is leased.
pub async fn readable(call: &Call, id: &str) -> Result<(Arc<Tenant>, WorkRow), ApiError> {
    let is_worker = call.is_worker();
    call.need(if is_worker { Right::Work } else { Right::Read })?;
    let tenant = call.tenant().await?;
    let row = find(&call.context, tenant.id, id).await?;
    let own =
        call.caller.ticket.is_none_or(|ticket| ticket.work == row.id && ticket.fence == row.fence);
    if is_worker && (row.state != State::Running || !own) {
        return Err(ApiError::not_found());
    }
    Ok((tenant, row))
}

/// Why a job is given up.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CancelBody {
    /// Who, and why.
    #[schema(value_type = Option<schema::Note>)]
    note: Option<String>,
}

fn cancel_note(call: &Call) -> Result<Option<String>, ApiError> {
    let CancelBody { note } = call.body()?;
    note.as_deref().map(check_note).transpose()?;
    Ok(note)
}

/// What cancelling came to.
#[derive(Serialize, ToSchema)]
struct Cancelled {
    /// The job.
    id: String,
    /// `cancelled`, or `running` until its worker has heard of it.
    #[schema(value_type = schema::State)]
    status: State,
    /// Whether its worker was asked to stop.
    cancel_requested: bool,
}

/// Gives a job up. A running one learns of it on its next heartbeat.
#[utoipa::path(
    post, path = "/jobs/{id}/cancel", operation_id = "cancel_job", tag = "jobs",
    params(("id" = schema::WorkId, Path), describe::Tenant), request_body = CancelBody,
    responses(
        (status = 200, description = "Cancelled, or asked to stop.", body = Cancelled),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn cancel(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find(&call.context, tenant.id, &id).await?;
    let note = cancel_note(&call).map_err(|refusal| match row.state {
        State::Running => refusal,
        _ => or_conflict(&row, Move::Cancel, refusal),
    })?;
    let audit = call.audit(Some(tenant.id), "job.cancel", id.clone(), note);
    let context = call.context.clone();
    let cancelled = ToTheEnd::of(async move {
        let outcome = context.store.cancel(tenant.id, row.id, audit).await?;
        context.queue.hint_all_nodes(outcome.next_in_order().as_slice()).await?;
        Stored::Ok(outcome)
    });
    let status = match cancelled.await? {
        CancelOutcome::Cancelled { .. } => State::Cancelled,
        CancelOutcome::Requested => State::Running,
    };
    let cancel_requested = status == State::Running;
    Ok(once::json(StatusCode::OK, &Cancelled { id, status, cancel_requested }))
}

/// Why an operator lets a job go on.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReleaseBody {
    /// Who, and why.
    #[schema(value_type = schema::Note)]
    note: String,
}

fn release_note(call: &Call) -> Result<String, ApiError> {
    let ReleaseBody { note } = call.body()?;
    check_note(&note)?;
    Ok(note)
}

/// Lets a held job go on.
#[utoipa::path(
    post, path = "/jobs/{id}/release", operation_id = "release_job", tag = "jobs",
    params(("id" = schema::WorkId, Path), describe::Tenant), request_body = ReleaseBody,
    responses((status = 200, description = "`pending`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn release(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find(&call.context, tenant.id, &id).await?;
    let note = release_note(&call).map_err(|refusal| or_conflict(&row, Move::Release, refusal))?;
    let audit = call.audit(Some(tenant.id), "job.release", id.clone(), Some(note));
    let context = call.context.clone();
    let released = ToTheEnd::of(async move {
        let lane = match row.held {
            Some(HeldReason::Budget) => let_go(&context, &row, audit).await?,
            _ => context.store.release(tenant.id, row.id, audit).await?,
        };
        context.queue.hint_all_nodes(&[lane]).await
    });
    released.await?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: State::Pending.as_str() }))
}

/// Lets a job go on whose source's budget is spent, in a lane that the budget does not bind.
async fn let_go(context: &Context, row: &WorkRow, audit: AuditEntry) -> Stored<LaneId> {
    let lane = context.directory.lanes(&[row.lane]).await?.pop().ok_or(StoreError::NotFound)?;
    let free = context.directory.lane(lane.key.clone().let_go()).await?;
    context.store.release_into(row.tenant, row.id, free.id, audit).await?;
    Ok(free.id)
}

/// Runs a finished job once more, as a new job.
#[utoipa::path(
    post, path = "/jobs/{id}/replay", operation_id = "replay_job", tag = "jobs",
    params(("id" = schema::WorkId, Path), describe::Tenant, Idempotent),
    request_body = ReplayBody,
    responses(
        (status = 202, description = "The new job waits.", body = Replayed),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn replay(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find(&call.context, tenant.id, &id).await?;
    work::replay(&call, &tenant, ReplayFrom::Work(row.id), id).await
}
