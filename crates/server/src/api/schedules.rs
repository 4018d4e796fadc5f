//! Schedules: jobs that are made again and again, by the wall clock of a time zone.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::executor::Executor;
use wakepost_domain::schedule::{InvalidSchedule, Recurrence, ScheduleSettings, UTC};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{ScheduleId, Timestamp};
use wakepost_store::moves::Schedule;
use wakepost_store::vault::{Sealed, Slot};

use super::call::{At, Call, Nothing, given};
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, listed};
use super::sources::check_executor;
use super::work::{check_attempts, check_document, check_key, check_name};
use crate::context::Context;
use crate::schedules::lane_key;
use crate::schema;
use crate::view::open_json;

/// How often a change is tried that meets a firing on its way.
const TRIES: usize = 8;

/// A schedule.
#[derive(Serialize, ToSchema)]
#[schema(as = Schedule)]
struct ScheduleView {
    /// Its id.
    #[schema(value_type = schema::ScheduleId)]
    id: ScheduleId,
    /// What people call it.
    #[schema(value_type = schema::Name)]
    name: String,
    /// The wall times: minute, hour, day of the month, month, day of the week.
    cron: String,
    /// Where these are the wall times.
    time_zone: String,
    /// The kind of its jobs.
    #[schema(value_type = schema::Name)]
    kind: String,
    /// Which queue they wait in.
    #[schema(value_type = schema::Priority)]
    priority: Priority,
    /// How they run; `null`: as the tenant says.
    #[schema(value_type = Option<schema::Executor>)]
    executor: Option<Executor>,
    /// What requests to its own http executor are signed with; only where that was made or changed just now.
    #[serde(skip_serializing_if = "Option::is_none")]
    executor_secret: Option<String>,
    /// What they run in order with: one that has not ended keeps the next waiting.
    order_key: Option<String>,
    /// What they are about: `provider:kind:id`.
    subject: Option<String>,
    /// Who asks for them.
    owner: Option<String>,
    /// How often each may be tried; `null`: as the tenant says.
    max_attempts: Option<u32>,
    /// Whether it fires.
    enabled: bool,
    /// When it fires next.
    #[schema(value_type = Option<schema::Timestamp>)]
    next_at: Option<Timestamp>,
    /// The last tick that it fired.
    #[schema(value_type = Option<schema::Timestamp>)]
    last_at: Option<Timestamp>,
    /// The job that made.
    #[schema(value_type = Option<schema::JobId>)]
    last_job_id: Option<String>,
    /// When it was made.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// What its jobs get; lists leave it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    input: Option<Box<RawValue>>,
}

fn shown(schedule: &Schedule) -> ScheduleView {
    let settings = schedule.settings.clone();
    ScheduleView {
        id: schedule.id,
        kind: lane_key(schedule).name,
        name: settings.name,
        cron: settings.cron,
        time_zone: settings.time_zone,
        priority: settings.priority.unwrap_or(Priority::Webhook),
        executor: settings.executor,
        executor_secret: None,
        order_key: settings.order_key,
        subject: settings.subject,
        owner: settings.owner,
        max_attempts: settings.max_attempts,
        enabled: settings.enabled,
        next_at: schedule.next_at,
        last_at: schedule.fired_at,
        last_job_id: schedule.last_job.map(|job| job.text(WorkKind::Job)),
        created_at: schedule.id.0.time(),
        input: None,
    }
}

/// What requests to its own http executor are signed with: the secret of its jobs' lane.
fn executor_secret(context: &Context, schedule: &Schedule) -> Option<String> {
    let posts = schedule.settings.executor.as_ref().is_some_and(Executor::posts);
    posts.then(|| context.tokens.executor_secret(&lane_key(schedule).text()))
}

/// A schedule to make, or what to change of one. `null` sets a field to what it is if left out of a new one.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ScheduleBody {
    /// What people call it.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Name>)]
    name: Option<Option<String>>,
    /// The wall times: minute, hour, day of the month, month, day of the week; with the second before them if there
    /// are six; or a word such as `@daily`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Cron>)]
    cron: Option<Option<String>>,
    /// Where these are the wall times, by its IANA name; `UTC` if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<String>)]
    time_zone: Option<Option<String>>,
    /// The kind of its jobs; `job` if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Name>)]
    kind: Option<Option<String>>,
    /// What its jobs get: any JSON, at most 1 MiB.
    #[serde(default, deserialize_with = "some")]
    #[schema(value_type = Value, required = false)]
    input: Option<Box<RawValue>>,
    /// Which queue they wait in; `webhook` if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Priority>)]
    priority: Option<Option<Priority>>,
    /// How they run; by default as the tenant says.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Executor>)]
    executor: Option<Option<Executor>>,
    /// What they run in order with: one that has not ended keeps the next waiting.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Key>)]
    order_key: Option<Option<String>>,
    /// What they are about: `provider:kind:id`.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Key>)]
    subject: Option<Option<String>>,
    /// Who asks for them.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Key>)]
    owner: Option<Option<String>>,
    /// How often each may be tried.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<schema::Attempts>)]
    max_attempts: Option<Option<u32>>,
    /// Whether it fires; `true` if left out.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<bool>)]
    enabled: Option<Option<bool>>,
}

impl ScheduleBody {
    /// Checks what was given, and sets it.
    fn apply(&self, settings: &mut ScheduleSettings, call: &Call) -> Result<(), ApiError> {
        if let Some(name) = needed("name", &self.name)? {
            check_name("name", name)?;
            settings.name.clone_from(name);
        }
        if let Some(cron) = needed("cron", &self.cron)? {
            settings.cron.clone_from(cron);
        }
        if let Some(zone) = &self.time_zone {
            settings.time_zone = zone.clone().unwrap_or_else(|| UTC.to_owned());
        }
        if let Some(enabled) = self.enabled {
            settings.enabled = enabled.unwrap_or(true);
        }
        if let Some(Some(kind)) = &self.kind {
            check_name("kind", kind)?;
        }
        for (field, value) in
            [("order_key", &self.order_key), ("subject", &self.subject), ("owner", &self.owner)]
        {
            if let Some(Some(value)) = value {
                check_key(field, value)?;
            }
        }
        check_attempts("max_attempts", self.max_attempts.flatten())?;
        check_document("input", self.input.as_deref())?;
        if let Some(executor) = &self.executor {
            let trusted = call.is_trusted();
            if let Some(executor) = executor {
                check_executor("executor", executor, &call.context.config, trusted)?;
            }
            settings.executor.clone_from(executor);
            settings.executor_trusted = trusted && executor.is_some();
        }
        set(&mut settings.kind, &self.kind);
        set(&mut settings.priority, &self.priority);
        set(&mut settings.order_key, &self.order_key);
        set(&mut settings.subject, &self.subject);
        set(&mut settings.owner, &self.owner);
        set(&mut settings.max_attempts, &self.max_attempts);
        let recurrence = Recurrence::parse(&settings.cron, &settings.time_zone).map_err(refused)?;
        settings.time_zone = recurrence.time_zone().to_owned();
        Ok(())
    }
}

/// A field that cannot be `null`, if it was given.
fn needed<'a, T>(field: &str, given: &'a Option<Option<T>>) -> Result<Option<&'a T>, ApiError> {
    match given {
        Some(None) => Err(ApiError::field(field, "is required")),
        given => Ok(given.as_ref().and_then(Option::as_ref)),
    }
}

/// `null` is an input like any other.
fn some<'de, D: Deserializer<'de>>(input: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(input).map(Some)
}

fn set<T: Clone>(value: &mut Option<T>, given: &Option<Option<T>>) {
    if let Some(given) = given {
        value.clone_from(given);
    }
}

fn refused(invalid: InvalidSchedule) -> ApiError {
    ApiError::field(invalid.field, invalid.message)
}

/// When it fires next. One that would never fire is a mistake.
fn next_at(
    settings: &ScheduleSettings,
    now: Timestamp,
    fired_at: Option<Timestamp>,
) -> Result<Option<Timestamp>, ApiError> {
    let enabled = ScheduleSettings { enabled: true, ..settings.clone() };
    let next = enabled.next_at(now, fired_at).map_err(refused)?;
    let next = next.ok_or_else(|| ApiError::field("cron", "never fires: there is no such day"))?;
    Ok(settings.enabled.then_some(next))
}

async fn seal(
    context: &Context,
    schedule: &Schedule,
    input: Option<&RawValue>,
) -> Result<Option<Sealed>, ApiError> {
    let Some(input) = input else { return Ok(None) };
    let key = context.vault.key(schedule.tenant).await?;
    Ok(Some(key.seal(Slot::ScheduleInput(schedule.id), input.get().as_bytes())))
}

/// Makes a schedule: from then on, a job at each of its ticks.
#[utoipa::path(
    post, path = "/schedules", operation_id = "create_schedule", tag = "schedules",
    params(describe::Tenant, Idempotent), request_body = ScheduleBody,
    responses(
        (status = 201, description = "The schedule.", body = ScheduleView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let body: ScheduleBody = call.body()?;
    let given = [("name", body.name.is_some()), ("cron", body.cron.is_some())];
    for (field, given) in given.into_iter().chain([("input", body.input.is_some())]) {
        if !given {
            return Err(ApiError::field(field, "is required"));
        }
    }
    let context = &call.context;
    let mut settings = ScheduleSettings {
        time_zone: UTC.to_owned(),
        enabled: true,
        ..ScheduleSettings::default()
    };
    body.apply(&mut settings, &call)?;
    let schedule = Schedule {
        id: ScheduleId(context.new_id()),
        tenant: tenant.id,
        next_at: next_at(&settings, context.store.now().await?, None)?,
        settings,
        fired_at: None,
        last_job: None,
        version: 0,
    };
    let input = seal(context, &schedule, body.input.as_deref()).await?;
    let input = input.ok_or_else(|| ApiError::field("input", "is required"))?;
    let mut view = ScheduleView { input: body.input, ..shown(&schedule) };
    let once = call.once(tenant.id, StatusCode::CREATED, &view).await?;
    let audit = call.audit(Some(tenant.id), "schedule.create", schedule.id.to_string(), None);
    view.executor_secret = executor_secret(context, &schedule);
    let made = context.store.create_schedule(schedule, input, audit, once).await?;
    call.answer_once(tenant.id, made, |()| once::json(StatusCode::CREATED, &view)).await
}

/// Lists a tenant's schedules.
#[utoipa::path(
    get, path = "/schedules", operation_id = "list_schedules", tag = "schedules",
    params(PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<ScheduleView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (Nothing {}, page) = call.list()?;
    let rows = call.context.store.schedules(tenant.id, page).await?;
    let last = rows.last().map(|schedule| schedule.id.0);
    let rows: Vec<ScheduleView> = rows.iter().map(shown).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// Shows one schedule.
#[utoipa::path(
    get, path = "/schedules/{id}", operation_id = "get_schedule", tag = "schedules",
    params(("id" = schema::ScheduleId, Path), describe::Tenant),
    responses((status = 200, description = "The schedule.", body = ScheduleView), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (schedule, input) = find(&call, &tenant, &id).await?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &whole(&call.context, &schedule, &input).await?))
}

async fn find(call: &Call, tenant: &Tenant, id: &str) -> Result<(Schedule, Sealed), ApiError> {
    let id: ScheduleId = id.parse().map_err(|_| ApiError::not_found())?;
    let found = call.context.store.schedule(tenant.id, id).await?;
    found.ok_or_else(ApiError::not_found)
}

async fn whole(
    context: &Context,
    schedule: &Schedule,
    input: &Sealed,
) -> Result<ScheduleView, ApiError> {
    let key = context.vault.key(schedule.tenant).await?;
    let input = open_json(&key, Slot::ScheduleInput(schedule.id), input)?;
    Ok(ScheduleView { input: Some(input), ..shown(schedule) })
}

/// Changes a schedule. New times, or one that is enabled again, begin with the next tick from now on.
#[utoipa::path(
    patch, path = "/schedules/{id}", operation_id = "update_schedule", tag = "schedules",
    params(("id" = schema::ScheduleId, Path), describe::Tenant), request_body = ScheduleBody,
    responses(
        (status = 200, description = "The schedule.", body = ScheduleView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn update(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    // A tick that fires meanwhile changes the schedule too.
    for _ in 0..TRIES {
        let (mut schedule, before) = find(&call, &tenant, &id).await?;
        let body: ScheduleBody = call.body()?;
        let old = schedule.clone();
        body.apply(&mut schedule.settings, &call)?;
        let times = |of: &ScheduleSettings| (of.cron.clone(), of.time_zone.clone(), of.enabled);
        if times(&old.settings) != times(&schedule.settings) {
            let now = call.context.store.now().await?;
            schedule.next_at = next_at(&schedule.settings, now, schedule.fired_at)?;
        }
        let input = seal(&call.context, &schedule, body.input.as_deref()).await?;
        let mut view = whole(&call.context, &schedule, input.as_ref().unwrap_or(&before)).await?;
        // It follows from all that its jobs' lane is known by, the kind included.
        let secret = executor_secret(&call.context, &schedule);
        if secret != executor_secret(&call.context, &old) {
            view.executor_secret = secret;
        }
        let audit = call.audit(Some(tenant.id), "schedule.update", id.clone(), None);
        if call.context.store.update_schedule(schedule, input, audit).await? {
            return Ok(once::json(StatusCode::OK, &view));
        }
    }
    Err(ApiError::invalid_state("somebody else changes it: try again"))
}

/// Deletes a schedule. Its jobs stay.
#[utoipa::path(
    delete, path = "/schedules/{id}", operation_id = "delete_schedule", tag = "schedules",
    params(("id" = schema::ScheduleId, Path), describe::Tenant),
    responses((status = 204, description = "It is gone."), Keyed, Missing)
)]
pub async fn remove(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let (schedule, _) = find(&call, &tenant, &id).await?;
    call.no_query()?;
    let audit = call.audit(Some(tenant.id), "schedule.delete", id, None);
    call.context.store.delete_schedule(tenant.id, schedule.id, audit).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
