//! Types of published events: registered with their schemas, and shown to subscribers.

mod catalogue;
mod check;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use wakepost_domain::TenantId;
use wakepost_domain::access::Right;
use wakepost_domain::event_type::{EventType, EventTypeSpec, Version};
use wakepost_domain::tenant::Tenant;
use wakepost_store::Store;
use wakepost_store::moves::{AuditEntry, Idempotency, Once};

use super::call::{At, Call};
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, listed_by_name};
use crate::directory::Catalogue;
use crate::hub::Setting;
use crate::{publishing, schema};

/// From how many bytes of types on a page is full.
const PAGE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The media type of an OpenAPI description.
const OPENAPI: &str = "application/vnd.oai.openapi+json";

/// A type of event.
#[derive(Serialize, ToSchema)]
#[schema(as = EventType)]
struct EventTypeView {
    /// Its name.
    #[schema(value_type = schema::EventTypeName)]
    id: String,
    /// Its name.
    #[schema(value_type = schema::EventTypeName)]
    name: String,
    /// What happened, for those who subscribe.
    description: String,
    /// Its versions, by `api_version`; publishing without one takes the last.
    #[schema(value_type = BTreeMap<String, EventTypeVersion>)]
    versions: BTreeMap<String, Version>,
    /// Whether it is one of the tenant `default`, whose types apply to all tenants.
    shared: bool,
    /// What should make one think twice about its schemas; only in the answers that register it.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
}

/// One version of a type of event.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes a type of the domain")]
struct EventTypeVersion {
    /// What `data` must look like when it is published: a JSON Schema, by default of the draft 2020-12. Left out:
    /// anything goes.
    schema: Option<Value>,
    /// An example of `data`, which must fit the schema.
    example: Option<Value>,
    /// What changed since the version before.
    change: Option<String>,
}

fn shown(event_type: &EventType, shared: bool) -> EventTypeView {
    let EventTypeSpec { description, versions } = event_type.spec.clone();
    EventTypeView {
        id: event_type.name.clone(),
        name: event_type.name.clone(),
        description,
        versions,
        shared,
        warnings: None,
    }
}

/// A type to register.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewEventType {
    /// A name that no other type of the tenant has.
    #[schema(value_type = schema::EventTypeName)]
    name: String,
    /// What happened, for those who subscribe.
    #[serde(default)]
    #[schema(required = false)]
    description: Option<String>,
    /// Its versions, by `api_version`: names of 1 to 64 letters, digits, dots, dashes and underscores that sort by
    /// age, such as dates. At most 50.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, EventTypeVersion>, required = false)]
    versions: BTreeMap<String, Version>,
}

/// What a type is to be: all of it, in place of what was there.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct EventTypeBody {
    /// What happened, for those who subscribe.
    #[serde(default)]
    #[schema(required = false)]
    description: Option<String>,
    /// Its versions, by `api_version`, as in a new one.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, EventTypeVersion>, required = false)]
    versions: BTreeMap<String, Version>,
}

/// How to show the catalogue.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Shape {
    /// `json` if left out. `openapi`: one OpenAPI 3.1 document with all types as `webhooks`, without pages.
    #[param(inline)]
    format: Option<Format>,
}

#[derive(Deserialize, ToSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Format {
    Json,
    Openapi,
}

/// What a tenant may publish: its own types, and those of the default tenant that it has no own of.
struct Known {
    own: Arc<Catalogue>,
    shared: Option<Arc<Catalogue>>,
    is_default: bool,
}

impl Known {
    async fn of(call: &Call, tenant: TenantId) -> Result<Known, ApiError> {
        let (own, shared) = publishing::catalogues(&call.context, tenant).await?;
        Ok(Known { own, shared, is_default: tenant == TenantId::DEFAULT })
    }

    /// All of them by name, and whether they apply to all tenants.
    fn all(&self) -> Vec<(&EventType, bool)> {
        let own = self.own.all().into_iter().map(|known| (known, self.is_default));
        let shared = self.shared.iter().flat_map(|catalogue| catalogue.all());
        let shared = shared.filter(|known| self.own.get(&known.name).is_none());
        let mut all: Vec<_> = own.chain(shared.map(|known| (known, true))).collect();
        all.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        all
    }

    fn get(&self, name: &str) -> Option<(&EventType, bool)> {
        let own = self.own.get(name).map(|known| (&known.event_type, self.is_default));
        let shared = || self.shared.as_ref().and_then(|catalogue| catalogue.get(name));
        own.or_else(|| shared().map(|known| (&known.event_type, true)))
    }
}

/// Lists a tenant's types by name: its own, and those of the tenant `default` that it has no own of. Open to portal
/// links too.
#[utoipa::path(
    get, path = "/event-types", operation_id = "list_event_types", tag = "webhooks",
    params(Shape, PageQuery, describe::Tenant),
    responses(
        (status = 200, description = "A page; or with `format=openapi` the whole catalogue.", content(
            (Listed<EventTypeView> = "application/json"),
            (Object = "application/vnd.oai.openapi+json"),
        )),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need_any(&[Right::Read, Right::Subscribe])?;
    let tenant = call.tenant().await?;
    let of_page = |name: &str| name == "limit" || name == "cursor";
    let (shape, page) = call.two::<Shape, PageQuery>(of_page)?;
    let known = Known::of(&call, tenant.id).await?;
    if shape.format == Some(Format::Openapi) {
        return whole(&tenant, &known, &page);
    }
    let (limit, after) = page.page_by_name()?;
    let all = known.all();
    let is_past = |name: &str| after.as_deref().is_none_or(|after| name > after);
    let mut left = all.into_iter().filter(|(known, _)| is_past(&known.name)).peekable();
    let (mut rows, mut bytes) = (Vec::new(), 0);
    while rows.len() < limit
        && let Some((known, shared)) = left.next()
    {
        bytes += known.spec.bytes();
        rows.push(shown(known, shared));
        if bytes >= PAGE_BYTES_MAX {
            break;
        }
    }
    let last = rows.last().map(|row| row.name.clone()).filter(|_| left.peek().is_some());
    Ok(once::json(StatusCode::OK, &listed_by_name(rows, last.as_deref())))
}

/// All types as one document for other programs.
fn whole(tenant: &Tenant, known: &Known, page: &PageQuery) -> Result<Response, ApiError> {
    for (field, given) in [("limit", page.limit.is_some()), ("cursor", page.cursor.is_some())] {
        if given {
            return Err(ApiError::field(field, "the document with all types has no pages"));
        }
    }
    let all = known.all();
    let room = all
        .iter()
        .try_fold(catalogue::BYTES_MAX, |room, (known, _)| room.checked_sub(known.spec.bytes()));
    if room.is_none() {
        let text = "the catalogue is too large for one document: read it page by page";
        return Err(ApiError::new(StatusCode::CONFLICT, "limit_reached", text));
    }
    let document = catalogue::document(tenant, all.into_iter().map(|(known, _)| known));
    let kind = [(header::CONTENT_TYPE, OPENAPI)];
    Ok((StatusCode::OK, kind, document.to_string()).into_response())
}

/// Registers a type.
#[utoipa::path(
    post, path = "/event-types", operation_id = "create_event_type", tag = "webhooks",
    params(describe::Tenant, Idempotent), request_body = NewEventType,
    responses(
        (status = 201, description = "The type.", body = EventTypeView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    let NewEventType { name, description, versions } = call.body()?;
    check::name(&name)?;
    let spec = EventTypeSpec { description: description.unwrap_or_default(), versions };
    let (new, view) = checked(&tenant, name, spec).await?;
    let once = call.once(tenant.id, StatusCode::CREATED, &view).await?;
    let audit = call.audit(Some(tenant.id), "event_type.create", view.name.clone(), None);
    let made = register(&call, tenant.id, new, true, audit, once).await?;
    call.answer_once(tenant.id, made, |()| once::json(StatusCode::CREATED, &view)).await
}

/// Stores a type, and refuses one that is there if it must be new.
async fn register(
    call: &Call,
    tenant: TenantId,
    of_type: EventType,
    only_new: bool,
    audit: AuditEntry,
    once: Option<Idempotency>,
) -> Result<Once<()>, ApiError> {
    let put = |store: Arc<dyn Store>| async move {
        store.put_event_type(tenant, of_type, only_new, audit, once).await
    };
    Ok(call.context.change(Setting::Webhooks(tenant), put).await?)
}

/// What was said of a type, checked, with what is doubtful about it.
async fn checked(
    tenant: &Tenant,
    name: String,
    spec: EventTypeSpec,
) -> Result<(EventType, EventTypeView), ApiError> {
    let of_type = EventType { name, spec };
    // A large schema takes its time to compile.
    let checking = tokio::task::spawn_blocking(move || {
        let warnings = check::spec(&of_type.spec)?;
        Ok::<_, ApiError>((of_type, warnings))
    });
    let (of_type, warnings) = checking.await.map_err(|error| {
        tracing::error!(%error, "a schema could not be checked");
        ApiError::field("versions", "cannot be checked")
    })??;
    let mut view = shown(&of_type, tenant.id == TenantId::DEFAULT);
    view.warnings = Some(warnings);
    Ok((of_type, view))
}

/// Shows a type: the tenant's own of that name, else that of the tenant `default`. Open to portal links too.
#[utoipa::path(
    get, path = "/event-types/{name}", operation_id = "get_event_type", tag = "webhooks",
    params(("name" = schema::EventTypeName, Path), describe::Tenant),
    responses((status = 200, description = "The type.", body = EventTypeView), Keyed, Missing)
)]
pub async fn show(At(name): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need_any(&[Right::Read, Right::Subscribe])?;
    let tenant = call.tenant().await?;
    let known = Known::of(&call, tenant.id).await?;
    let (of_type, shared) = known.get(&name).ok_or_else(ApiError::not_found)?;
    call.no_query()?;
    Ok(once::json(StatusCode::OK, &shown(of_type, shared)))
}

/// Registers a type of this name, or puts this in the place of what the tenant's own was.
///
/// Events that are published keep the version they were made with.
#[utoipa::path(
    put, path = "/event-types/{name}", operation_id = "put_event_type", tag = "webhooks",
    params(("name" = schema::EventTypeName, Path), describe::Tenant), request_body = EventTypeBody,
    responses(
        (status = 200, description = "The type, which was there before.", body = EventTypeView),
        (status = 201, description = "The type, which is new.", body = EventTypeView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn put(At(name): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    check::name(&name)?;
    let EventTypeBody { description, versions } = call.body()?;
    let spec = EventTypeSpec { description: description.unwrap_or_default(), versions };
    let (new, view) = checked(&tenant, name, spec).await?;
    let was_there = call.context.directory.catalogue(tenant.id).await?.get(&new.name).is_some();
    let (status, action) = match was_there {
        true => (StatusCode::OK, "event_type.update"),
        false => (StatusCode::CREATED, "event_type.create"),
    };
    let audit = call.audit(Some(tenant.id), action, view.name.clone(), None);
    match register(&call, tenant.id, new, false, audit, None).await? {
        Once::Now(()) | Once::Before(_) => Ok(once::json(status, &view)),
    }
}

/// Deletes a type of the tenant. Events of it stay, and may still be published unless the tenant is strict about types.
#[utoipa::path(
    delete, path = "/event-types/{name}", operation_id = "delete_event_type", tag = "webhooks",
    params(("name" = schema::EventTypeName, Path), describe::Tenant),
    responses((status = 204, description = "It is gone."), Keyed, Missing)
)]
pub async fn remove(At(name): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let tenant = call.tenant().await?;
    // Another node may have made it a moment ago: what this one remembers is not asked.
    let own = call.context.store.event_types(tenant.id).await?;
    if !own.iter().any(|known| known.name == name) {
        return Err(ApiError::not_found());
    }
    call.no_query()?;
    let audit = call.audit(Some(tenant.id), "event_type.delete", name.clone(), None);
    let of = tenant.id;
    let delete =
        |store: Arc<dyn Store>| async move { store.delete_event_type(of, name, audit).await };
    call.context.change(Setting::Webhooks(of), delete).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
