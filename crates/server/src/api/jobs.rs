//! Jobs: made, listed, shown, cancelled, released, replayed.

use std::time::Duration;

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use wakepost_domain::access::{Reach, Right, Role};
use wakepost_domain::executor::Executor;
use wakepost_domain::lane::{LaneKey, OwnExecutor};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::{Priority, State, WorkKind};
use wakepost_domain::{SourceId, Timestamp, WorkId, limits};
use wakepost_store::moves::{
    CancelOutcome, DedupKey, NewWork, Once, ReplayFrom, WorkFilter, WorkMeta, WorkRow,
};
use wakepost_store::vault::Slot;

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::page::{PageQuery, listed, number};
use super::sources::check_executor;
use super::work::{self, check_attempts, check_key, check_name, check_note, find_job};

/// How long a job's dedup key blocks a second one.
const DEDUP_WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);
/// The kind of a job that names none.
const DEFAULT_KIND: &str = "job";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewJob {
    kind: Option<String>,
    input: Option<Box<RawValue>>,
    priority: Option<Priority>,
    run_at: Option<Timestamp>,
    delay_s: Option<u64>,
    dedup_key: Option<String>,
    subject: Option<String>,
    owner: Option<String>,
    executor: Option<Executor>,
    max_attempts: Option<u32>,
}

/// Makes one job, or many: all or none.
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Create)?;
    let tenant = call.tenant().await?;
    let many = call.bytes().iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let jobs: Vec<NewJob> = if many {
        call.body()?
    } else {
        vec![call.body()?]
    };
    if jobs.is_empty() || jobs.len() > limits::JOBS_PER_CALL_MAX {
        let message = format!("must have 1 to {} jobs", limits::JOBS_PER_CALL_MAX);
        return Err(ApiError::field("body", message));
    }
    let mut items = Vec::with_capacity(jobs.len());
    for (index, job) in jobs.into_iter().enumerate() {
        let place = if many {
            format!("{index}.")
        } else {
            String::new()
        };
        items.push(prepare(&call, &tenant, job, &place).await?);
    }
    let views = new_views(&call, &tenant, &items).await?;
    let once = call
        .once(tenant.id, StatusCode::CREATED, &answer(views.clone(), many))
        .await?;
    let made = call.context.store.create_work(items.clone(), once).await?;
    let mut rows = views;
    let mut any_new = false;
    if let Once::Now(ids) = &made {
        hint(&call, &items, ids).await?;
        for (index, (item, id)) in items.iter().zip(ids).enumerate() {
            if item.id == *id {
                any_new = true;
            } else {
                rows[index] = first_view(&call, &tenant, *id).await?;
            }
        }
    }
    let status = if any_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    call.answer_once(tenant.id, made, |_| once::json(status, &answer(rows, many)))
        .await
}

fn answer(mut rows: Vec<Value>, many: bool) -> Value {
    match many {
        true => json!({"data": rows}),
        false => rows.pop().unwrap_or_default(),
    }
}

/// Jobs as they will be once they are committed.
async fn new_views(
    call: &Call,
    tenant: &Tenant,
    items: &[NewWork],
) -> Result<Vec<Value>, ApiError> {
    let rows = items
        .iter()
        .map(|item| WorkRow::new(item, call.context.now()))
        .collect();
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

async fn hint(call: &Call, items: &[NewWork], ids: &[WorkId]) -> Result<(), ApiError> {
    let mut counts = std::collections::HashMap::new();
    for (item, id) in items
        .iter()
        .zip(ids)
        .filter(|(item, id)| item.id == **id && item.run_at.is_none())
    {
        debug_assert_eq!(item.id, *id);
        *counts.entry(item.lane).or_insert(0usize) += 1;
    }
    let lanes: Vec<_> = counts.keys().copied().collect();
    for lane in call.context.directory.lanes(&lanes).await? {
        call.context.queue.hint(&lane, counts[&lane.id]).await;
    }
    Ok(())
}

async fn prepare(
    call: &Call,
    tenant: &Tenant,
    job: NewJob,
    place: &str,
) -> Result<NewWork, ApiError> {
    let context = &call.context;
    let at = |field: &str| format!("{place}{field}");
    let name = job.kind.unwrap_or_else(|| DEFAULT_KIND.to_owned());
    check_name(&at("kind"), &name)?;
    for (field, value) in [
        ("dedup_key", &job.dedup_key),
        ("subject", &job.subject),
        ("owner", &job.owner),
    ] {
        if let Some(value) = value {
            check_key(&at(field), value)?;
        }
    }
    check_attempts(job.max_attempts)?;
    let all_tenants = call.caller.reach == Reach::All;
    if let Some(executor) = &job.executor {
        check_executor(executor, &context.config, all_tenants)?;
    }
    let now = context.now();
    let run_at = match (job.run_at, job.delay_s) {
        (Some(_), Some(_)) => {
            return Err(ApiError::field(
                at("delay_s"),
                "stands beside run_at: choose one",
            ));
        }
        (Some(at), None) => Some(at),
        (None, Some(delay)) => {
            Some(now.after(Duration::from_secs(delay.min(10 * 366 * 24 * 3600))))
        }
        (None, None) => None,
    };
    let id = WorkId(context.new_id());
    let key = context.vault.key(tenant.id).await?;
    let input = job.input.map(|input| input.get().to_owned());
    if input
        .as_ref()
        .is_some_and(|input| input.len() > limits::DOCUMENT_BYTES_MAX)
    {
        return Err(ApiError::field(
            at("input"),
            format!("must have at most {} bytes", limits::DOCUMENT_BYTES_MAX),
        ));
    }
    let lane = context
        .directory
        .lane(LaneKey {
            tenant: tenant.id,
            kind: WorkKind::Job,
            priority: job.priority.unwrap_or(Priority::Webhook),
            origin: None,
            name: name.clone(),
            executor: job.executor.clone().map(|executor| OwnExecutor { executor, trusted: all_tenants }.key()),
        })
        .await?;
    Ok(NewWork {
        id,
        tenant: tenant.id,
        kind: WorkKind::Job,
        lane: lane.id,
        run_at: run_at.filter(|at| *at > now),
        max_attempts: context
            .directory
            .max_attempts(&lane, job.max_attempts)
            .await?,
        event: None,
        scope: None,
        subject: job.subject,
        meta: WorkMeta {
            name: lane.key.name.is_empty().then_some(name),
            owner: job.owner,
            ..WorkMeta::default()
        },
        input: input.map(|input| key.seal(Slot::Input(id), input.as_bytes())),
        dedup: job.dedup_key.map(|text| {
            (
                DedupKey::of_job(tenant.id, text.as_bytes()),
                now.after(DEDUP_WINDOW),
            )
        }),
    })
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Filter {
    status: Option<State>,
    source: Option<SourceId>,
    kind: Option<String>,
    subject: Option<String>,
    #[serde(deserialize_with = "number")]
    limit: Option<u32>,
    cursor: Option<String>,
}

/// Jobs, newest first.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let filter: Filter = call.query()?;
    let page = PageQuery {
        limit: filter.limit,
        cursor: filter.cursor.clone(),
    }
    .page()?;
    let wanted = WorkFilter {
        kind: Some(WorkKind::Job),
        state: filter.status,
        source: filter.source,
        name: filter.kind,
        subject: filter.subject,
        ..WorkFilter::default()
    };
    let rows = call
        .context
        .store
        .work_list(tenant.id, wanted, page)
        .await?;
    let last = rows.last().map(|row| row.id.0);
    let views = work::views(&call.context, &tenant, rows).await?;
    let shown = views
        .into_iter()
        .map(|view| serde_json::to_value(view).expect("a view is plain data"));
    Ok(once::json(
        StatusCode::OK,
        &listed(shown.collect(), last, page.limit),
    ))
}

/// One job. A worker may read a job while it is leased.
pub async fn show(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    let is_worker = call.caller.role == Role::Worker;
    call.need(if is_worker { Right::Work } else { Right::Read })?;
    let tenant = call.tenant().await?;
    let row = find_job(&call.context, tenant.id, &id).await?;
    let own = call
        .caller
        .ticket
        .is_none_or(|ticket| ticket.work == row.id && ticket.fence == row.fence);
    if is_worker && (row.state != State::Running || !own) {
        return Err(ApiError::not_found());
    }
    Ok(once::json(
        StatusCode::OK,
        &work::detail(&call.context, &tenant, row).await?,
    ))
}

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Note {
    note: Option<String>,
}

/// Gives a job up. A running one learns of it on its next heartbeat.
pub async fn cancel(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find_job(&call.context, tenant.id, &id).await?;
    let body: Note = call.body()?;
    let audit = call.audit(Some(tenant.id), "job.cancel", id.clone(), body.note);
    let status = match call.context.store.cancel(tenant.id, row.id, audit).await? {
        CancelOutcome::Cancelled => State::Cancelled,
        CancelOutcome::Requested => State::Running,
    };
    let requested = status == State::Running;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "status": status, "cancel_requested": requested}),
    ))
}

/// Lets a held job go on.
pub async fn release(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find_job(&call.context, tenant.id, &id).await?;
    let note = check_note(call.body::<Note>()?.note)?;
    let audit = call.audit(Some(tenant.id), "job.release", id.clone(), Some(note));
    let lane = call.context.store.release(tenant.id, row.id, audit).await?;
    call.context.queue.hint_all_nodes(&[lane]).await?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"id": id, "status": State::Pending}),
    ))
}

/// Runs a finished job once more, as a new job.
pub async fn replay(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let row = find_job(&call.context, tenant.id, &id).await?;
    work::replay(&call, &tenant, ReplayFrom::Work(row.id), id).await
}
