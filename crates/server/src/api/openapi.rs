//! The OpenAPI description: collected from the routes themselves, so that what is served is what is described.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{StatusCode, header};
use serde_json::Value;
use utoipa::openapi::path::{Operation, Parameter, PathItem};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{OpenApi, RefOr, Required};
use utoipa::{Modify, OpenApi as _};

use super::describe::{self, FieldProblem, Problem};
use crate::{edge, mcp, schema};

/// What stands before the routes.
#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Wakepost",
        description = "A self-hosted webhook gateway for AI agents.\n\n\
            JSON in and out. Errors are RFC 9457 problems with a stable `code`. A field or parameter that is \
            not known is 422, never ignored. Refusals come in the order 401, 403, 404, 405, 409, 422. Lists are \
            newest first, with `next_cursor` for the next page. Every call with a key takes `?tenant=`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0")
    ),
    components(schemas(Problem, FieldProblem)),
    modifiers(&Shared),
    security(("bearer" = [])),
    tags(
        (name = "ingress", description = "Where providers send their events."),
        (name = "sources", description = "Integrations: one provider of one tenant each."),
        (name = "integrations", description = "Single-tenant use, by the platform's name."),
        (name = "inbox", description = "What was received, and what became of it."),
        (name = "jobs", description = "Work for agents, as those see it who make, watch and steer it."),
        (name = "leases", description = "What workers call: lease, heartbeat, checkpoint, progress, finish."),
        (name = "effects", description = "The side-effect ledger: ask before acting, say how it went."),
        (name = "schedules", description = "Jobs that are made again and again."),
        (name = "webhooks", description = "Who hears of published events, and the types of these."),
        (name = "events", description = "What was published, and what became of it."),
        (name = "deliveries", description = "Published events on their way to one webhook each."),
        (name = "dead letters", description = "What was given up after the last try."),
        (name = "keys", description = "API keys."),
        (name = "tenants", description = "Tenants, and the audit trail."),
        (name = "operations", description = "Health, metrics, upkeep and this description."),
    )
)]
struct Base;

struct Shared;

impl Modify for Shared {
    fn modify(&self, api: &mut OpenApi) {
        use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
        let bearer = HttpBuilder::new()
            .scheme(HttpAuthScheme::Bearer)
            .description(Some("An API key, the key a pushed job gets with its lease, or what a portal link ends with."));
        let components = api.components.get_or_insert_default();
        components.add_security_scheme("bearer", SecurityScheme::Http(bearer.build()));
        components.schemas.extend(schema::all());
        components.responses.extend(describe::refusals());
    }
}

/// The whole description.
pub fn document() -> OpenApi {
    let mut api = Base::openapi();
    api.merge(super::routes().into_openapi());
    api.merge(edge::description());
    api.merge(mcp::description());
    for item in api.paths.paths.values_mut() {
        operations(item).for_each(tell_replays);
    }
    let optional = optional_bodies(&api);
    for item in api.paths.paths.values_mut() {
        for operation in operations(item) {
            let named = operation.operation_id.as_ref().is_some_and(|id| optional.contains(id));
            if let Some(RefOr::T(body)) = operation.request_body.as_mut().filter(|_| named) {
                body.required = Some(Required::False);
            }
        }
    }
    api
}

/// The operations whose body may be left out: no body is read as `{}`, and an event may have none at all.
fn optional_bodies(api: &OpenApi) -> BTreeSet<String> {
    let described = serde_json::to_value(api).expect("a description is plain data");
    let paths = described["paths"].as_object().into_iter().flatten();
    let operations = paths.filter_map(|(_, item)| item.as_object()).flatten();
    operations
        .filter(|(_, about)| {
            let content = &about["requestBody"]["content"];
            !content["*/*"].is_null() || {
                let schema = &content["application/json"]["schema"];
                !schema.is_null() && takes_nothing(&described, schema)
            }
        })
        .filter_map(|(_, about)| about["operationId"].as_str().map(str::to_owned))
        .collect()
}

/// Whether `{}` is such a body.
fn takes_nothing(api: &Value, schema: &Value) -> bool {
    let place = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#'));
    let schema = place.and_then(|place| api.pointer(place)).unwrap_or(schema);
    let parts = |word: &str| schema[word].as_array().into_iter().flatten();
    let mut choices = parts("oneOf").peekable();
    parts("required").next().is_none()
        && schema["type"] != "array"
        && parts("allOf").all(|part| takes_nothing(api, part))
        && (choices.peek().is_none() || choices.any(|part| takes_nothing(api, part)))
}

fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let PathItem { get, put, post, delete, options, patch, .. } = item;
    [get, put, post, delete, options, patch].into_iter().flatten()
}

/// A call that takes an `Idempotency-Key` says in its answer whether it is the first one again.
fn tell_replays(operation: &mut Operation) {
    let named = |parameter: &RefOr<Parameter>| match parameter {
        RefOr::T(parameter) => parameter.name == "Idempotency-Key",
        RefOr::Ref(_) => false,
    };
    if !operation.parameters.iter().flatten().any(named) {
        return;
    }
    for (status, answer) in &mut operation.responses.responses {
        if let RefOr::T(answer) = answer
            && status.starts_with('2')
        {
            let about = "`true` if this is the first answer again.";
            let header = describe::header(Type::String, about);
            answer.headers.insert("Idempotency-Replayed".to_owned(), header.into());
        }
    }
}

static TEXT: LazyLock<Bytes> = LazyLock::new(|| {
    let text = document().to_json().expect("a description is plain data");
    text.into()
});

/// This description.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "operations", security(()),
    responses((status = 200, description = "OpenAPI 3.1.", body = Object))
)]
pub async fn show() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::OK, kind, TEXT.clone()).into_response()
}

#[cfg(test)]
mod tests;
