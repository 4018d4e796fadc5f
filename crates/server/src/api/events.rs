//! Published events: published, listed, shown, with what became of them.

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakepost_domain::access::{Right, Role};
use wakepost_domain::event::{Event, status};
use wakepost_domain::publication::{
    DELIVER_AT_MAX_S, EVENT_BYTES_MAX, EVENTS_PER_CALL_MAX, about_job, publisher_of,
};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, Timestamp, WorkId, event_type};
use wakepost_store::moves::{EventFilter, EventRow};

use super::call::{At, Call, Nothing};
use super::deliveries::{DeliveryView, shown_deliveries};
use super::describe::{self, Chained, Conflicting, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, cut, listed};
use super::webhooks::may_read;
use super::work::check_key;
use crate::publishing::{self, Batch, Publication, Published};
use crate::view::Content;
use crate::{chains, schema};

/// An event to publish.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent)]
struct NewEvent {
    /// What happened: lower-case words joined by dots.
    #[serde(rename = "type")]
    #[schema(max_length = 128)]
    event_type: String,
    /// What it happened to: any JSON. It becomes `data.object` of what subscribers get.
    #[schema(value_type = Value)]
    data: Box<RawValue>,
    /// The version of the type; the newest registered one if left out.
    #[schema(max_length = 64)]
    api_version: Option<String>,
    /// What it was like before.
    #[schema(value_type = Option<Object>)]
    previous_attributes: Option<Box<RawValue>>,
    /// Whether it is about the real thing; `true` if left out.
    livemode: Option<bool>,
    /// A repeat within 30 days gets the first event.
    #[schema(value_type = Option<schema::Key>)]
    dedup_key: Option<String>,
    /// What it goes in order with, to webhooks that want that.
    #[schema(value_type = Option<schema::Key>)]
    order_key: Option<String>,
    /// Not before this moment, at most 90 days ahead.
    #[schema(value_type = Option<schema::Timestamp>)]
    deliver_at: Option<Timestamp>,
}

/// One event, or many.
#[derive(Deserialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what the handler reads by itself, for better refusals")]
enum NewEvents {
    One(NewEvent),
    Many(Vec<NewEvent>),
}

/// An event that was published.
#[derive(Serialize, ToSchema)]
struct PublishedView {
    /// Its id; of a repeat, the first one's.
    #[schema(value_type = schema::EventId)]
    id: EventId,
    /// What happened.
    #[serde(rename = "type")]
    event_type: String,
    /// `accepted`, or `duplicate` of the first.
    status: &'static str,
    /// How many webhooks get it.
    deliveries: usize,
}

/// Events that were published.
#[derive(Serialize, ToSchema)]
struct PublishedMany {
    /// In the order of the request.
    data: Vec<PublishedView>,
}

/// What publishing answers.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what the handler answers")]
enum PublishedAnswer {
    One(PublishedView),
    Many(PublishedMany),
}

/// Publishes one event, or many: all or none.
///
/// The answer comes after the commit. With `Idempotency-Key`, or a `dedup_key` in the event, a repeat within 30 days
/// gets the first one's id; another event under the same key is 409 `idempotency_mismatch`.
#[utoipa::path(
    post, path = "/events", operation_id = "publish_events", tag = "events",
    params(describe::Tenant, describe::Idempotent, Chained), request_body = NewEvents,
    responses(
        (status = 202, description = "The event, or `data` with all of them.", body = PublishedAnswer),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn publish(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Create)?;
    let tenant = call.tenant().await?;
    let (events, many) = call.bodies::<NewEvent>()?;
    if events.is_empty() || events.len() > EVENTS_PER_CALL_MAX {
        let text = format!("must be 1 to {EVENTS_PER_CALL_MAX} events");
        return Err(ApiError::field("body", text));
    }
    let now = call.context.now();
    let mut items = Vec::with_capacity(events.len());
    for (index, event) in events.into_iter().enumerate() {
        let at = |field: &str| if many { format!("{index}.{field}") } else { field.to_owned() };
        items.push(checked(&call, &tenant, event, now, at).await?);
    }
    let types: Vec<String> = items.iter().map(|item| item.event_type.clone()).collect();
    let origin = chains::origin(&call.context, tenant.id, &call.headers).await?;
    let call_key = call_key(&call)?;
    let batch = Batch { items, call_key, origin, id: None, by_hand: call.by_hand() };
    let published = publishing::publish(&call.context, &tenant, batch).await?;
    let again = call.is_idempotent() && published.iter().all(|published| published.repeated);
    let shown = |(published, event_type): (Published, String)| PublishedView {
        id: published.id,
        event_type,
        status: if published.repeated { "duplicate" } else { "accepted" },
        deliveries: published.deliveries,
    };
    let mut views: Vec<PublishedView> = published.into_iter().zip(types).map(shown).collect();
    let answer = match many {
        true => once::json(StatusCode::ACCEPTED, &PublishedMany { data: views }),
        false => {
            let view = views.pop().ok_or(wakepost_store::StoreError::Busy)?;
            once::json(StatusCode::ACCEPTED, &view)
        }
    };
    Ok(if again { once::replayed(answer) } else { answer })
}

/// The caller's key for the whole call. Other callers' keys are theirs.
fn call_key(call: &Call) -> Result<Option<String>, ApiError> {
    let key = call.idempotency_key()?;
    Ok(key.map(|key| format!("{}\n{key}", call.caller.name)))
}

async fn checked(
    call: &Call,
    tenant: &Tenant,
    event: NewEvent,
    now: Timestamp,
    at: impl Fn(&str) -> String,
) -> Result<Publication, ApiError> {
    if let Some(key) = &event.dedup_key {
        check_key(&at("dedup_key"), key)?;
    }
    if let Some(key) = &event.order_key {
        check_key(&at("order_key"), key)?;
    }
    if event.api_version.as_deref().is_some_and(|version| !event_type::is_version(version)) {
        let text = "must be 1 to 64 letters, digits, dots, dashes and underscores";
        return Err(ApiError::field(at("api_version"), text));
    }
    if event.previous_attributes.as_ref().is_some_and(|text| !text.get().starts_with('{')) {
        return Err(ApiError::field(at("previous_attributes"), "must be an object"));
    }
    let latest = now.after(std::time::Duration::from_secs(DELIVER_AT_MAX_S));
    if event.deliver_at.is_some_and(|moment| moment > latest) {
        return Err(ApiError::field(at("deliver_at"), "must be at most 90 days ahead"));
    }
    let bytes = event.data.get().len()
        + event.previous_attributes.as_ref().map_or(0, |text| text.get().len());
    if bytes > EVENT_BYTES_MAX {
        let text = format!("must have at most {EVENT_BYTES_MAX} bytes");
        return Err(ApiError::field(at("data"), text));
    }
    let mut item = Publication {
        event_type: event.event_type,
        data: event.data,
        api_version: event.api_version,
        version: None,
        previous_attributes: event.previous_attributes,
        livemode: event.livemode.unwrap_or(true),
        dedup_key: event.dedup_key,
        order_key: event.order_key,
        deliver_at: event.deliver_at,
    };
    match publishing::check(&call.context, tenant, &item).await? {
        Ok(version) => item.version = version,
        Err(unfit) => return Err(ApiError::field(at(&unfit.field), unfit.message)),
    }
    Ok(item)
}

/// A published event.
#[derive(Serialize, ToSchema)]
#[schema(as = PublishedEvent)]
struct EventView {
    /// Its id.
    #[schema(value_type = schema::EventId)]
    id: EventId,
    /// What happened.
    #[serde(rename = "type")]
    event_type: String,
    /// Where its deliveries stand, all in all.
    #[schema(value_type = schema::State)]
    status: &'static str,
    /// When it was published.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// When it goes out, if not at once.
    #[schema(value_type = Option<schema::Timestamp>)]
    deliver_at: Option<Timestamp>,
    /// What made repeats of it duplicates.
    dedup_key: Option<String>,
    /// How many there were.
    duplicates: i32,
    /// The job whose agent published it.
    parent_id: Option<String>,
    /// The version it was made with: like the next two only in a single event, while it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    api_version: Option<String>,
    /// Whether it is about the real thing.
    #[serde(skip_serializing_if = "Option::is_none")]
    livemode: Option<bool>,
    /// What it happened to, as it was published.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    data: Option<Box<RawValue>>,
    /// What subscribers get: only in a single event, while it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Published>)]
    envelope: Option<Box<RawValue>>,
    /// Its deliveries: only in a single event.
    #[serde(skip_serializing_if = "Option::is_none")]
    deliveries: Option<Vec<DeliveryView>>,
}

fn shown(row: &EventRow) -> EventView {
    let Event { id, event_type, dedup_key, subject, .. } = &row.event;
    EventView {
        id: *id,
        event_type: event_type.clone(),
        status: status(row.event.route, row.work.iter().copied()),
        created_at: row.event.received_at,
        deliver_at: row.event.occurred_at,
        dedup_key: Some(dedup_key.clone()).filter(|key| *key != id.to_string()),
        duplicates: row.event.duplicates,
        parent_id: subject.as_deref().and_then(publisher_of).map(str::to_owned),
        api_version: None,
        livemode: None,
        data: None,
        envelope: None,
        deliveries: None,
    }
}

/// What an envelope says, as far as it is shown by itself.
#[derive(Deserialize)]
struct Said {
    api_version: Option<String>,
    livemode: bool,
    data: SaidOf,
}

#[derive(Deserialize)]
struct SaidOf {
    object: Box<RawValue>,
}

/// Which events.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Filter {
    /// Of this type, or with this beginning if it ends with `*`.
    #[serde(rename = "type")]
    event_type: Option<String>,
    /// With this dedup key.
    dedup_key: Option<String>,
    /// That this job's agent published, by its chain or its trace.
    #[param(value_type = Option<schema::JobId>)]
    parent: Option<String>,
    /// Not before.
    #[param(value_type = Option<schema::Timestamp>)]
    since: Option<Timestamp>,
    /// Before.
    #[param(value_type = Option<schema::Timestamp>)]
    until: Option<Timestamp>,
}

/// Refuses a caller who may not read published events. Who publishes may read what was published.
fn may_read_events(call: &Call) -> Result<(), ApiError> {
    match call.caller.role {
        Role::Publisher => Ok(()),
        _ => call.need(Right::Read),
    }
}

/// Refuses a caller who may read neither published events nor their deliveries.
fn may_read_deliveries(call: &Call) -> Result<(), ApiError> {
    may_read_events(call).or_else(|_| may_read(call))
}

/// Lists published events.
#[utoipa::path(
    get, path = "/events", operation_id = "list_events", tag = "events",
    params(Filter, PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<EventView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    may_read_events(&call)?;
    let tenant = call.tenant().await?;
    let (filter, page) = call.list::<Filter>()?;
    let filter = EventFilter {
        published: true,
        event_type: filter.event_type,
        dedup_key: filter.dedup_key,
        thread: filter.parent.as_deref().map(thread_of).transpose()?,
        since: filter.since,
        until: filter.until,
        ..EventFilter::default()
    };
    let rows = call.context.store.events(tenant.id, filter, page).await?;
    let last = rows.last().map(|row| row.event.id.0);
    let rows: Vec<EventView> = rows.iter().map(shown).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// The thread that has what a job's agent published.
fn thread_of(parent: &str) -> Result<String, ApiError> {
    let job = WorkId::parse(parent, WorkKind::Job)
        .map_err(|_| ApiError::field("parent", "is not the id of a job"))?;
    Ok(about_job(&job.text(WorkKind::Job)))
}

async fn find(call: &Call, tenant: &Tenant, id: &str) -> Result<Event, ApiError> {
    let id: EventId = id.parse().map_err(|_| ApiError::not_found())?;
    let found = call.context.store.event(tenant.id, id).await?;
    let found = found.filter(|event| event.route == wakepost_domain::event::Route::Published);
    found.ok_or_else(ApiError::not_found)
}

/// Shows one published event, with what subscribers get and how its deliveries stand.
#[utoipa::path(
    get, path = "/events/{id}", operation_id = "get_published_event", tag = "events",
    params(("id" = schema::EventId, Path), describe::Tenant),
    responses((status = 200, description = "The event.", body = EventView), Keyed, Missing)
)]
pub async fn show(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_read_events(&call)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    call.no_query()?;
    let work = call.context.store.work_of_event(tenant.id, event.id).await?;
    let states = work.iter().filter(|row| row.replayed_as.is_none()).map(|row| row.state).collect();
    let content = Content::of(&call.context, &event).await?;
    let envelope = content
        .and_then(|content| RawValue::from_string(String::from_utf8(content.body).ok()?).ok());
    let mut view = shown(&EventRow { event, work: states });
    if let Some(said) =
        envelope.as_ref().and_then(|text| serde_json::from_str::<Said>(text.get()).ok())
    {
        view.api_version = said.api_version;
        view.livemode = Some(said.livemode);
        view.data = Some(said.data.object);
    }
    view.envelope = envelope;
    view.deliveries = Some(shown_deliveries(&call.context, &tenant, work).await?);
    Ok(once::json(StatusCode::OK, &view))
}

/// Lists the deliveries of a published event.
#[utoipa::path(
    get, path = "/events/{id}/deliveries", operation_id = "list_event_deliveries", tag = "events",
    params(("id" = schema::EventId, Path), PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<DeliveryView>), Keyed, Missing)
)]
pub async fn deliveries(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_read_deliveries(&call)?;
    let tenant = call.tenant().await?;
    let event = find(&call, &tenant, &id).await?;
    let (Nothing {}, page) = call.list()?;
    let mut work = call.context.store.work_of_event(tenant.id, event.id).await?;
    work.retain(|row| row.kind == WorkKind::Delivery);
    let (work, last) = cut(work, |row| row.id.0, page);
    let rows = shown_deliveries(&call.context, &tenant, work).await?;
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}
