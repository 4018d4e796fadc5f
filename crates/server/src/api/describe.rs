//! What the descriptions of many routes share: the parameters of every call, and the refusals.

use std::collections::BTreeMap;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Ref, RefOr, Required};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use crate::schema;

/// The media type of every refusal.
pub const PROBLEM: &str = "application/problem+json";

/// `?tenant=`: whose data the call is about.
pub enum Tenant {}

impl IntoParams for Tenant {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let about = "The tenant to act on, for a key of all tenants; without it, `default`.";
        vec![
            ParameterBuilder::new()
                .name("tenant")
                .parameter_in(ParameterIn::Query)
                .required(Required::False)
                .description(Some(about))
                .schema(Some(Ref::from_schema_name(schema::Slug::name())))
                .build(),
        ]
    }
}

/// `wakepost-chain` and `traceparent`: on calls that an agent makes to have more done.
pub enum Chained {}

impl IntoParams for Chained {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let header = |name: &str, about: &str| {
            ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Header)
                .required(Required::False)
                .description(Some(about))
                .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
                .build()
        };
        let chain = "The `chain` that the calling agent's run was given: its job becomes the parent. What is not \
                     known is ignored.";
        let trace = "W3C Trace Context: the trace of a job makes that job the parent; any other is gone on with. \
                     An event goes on with both.";
        vec![header("wakepost-chain", chain), header("traceparent", trace)]
    }
}

/// `Idempotency-Key`: on every call that creates.
pub enum Idempotent {}

impl IntoParams for Idempotent {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let about = "A repeat with the same key and body within 24 hours gets the first answer again, \
                     less the secrets in it; another body is 409 `idempotency_mismatch`. One that comes \
                     while the first is under way is not refused: it gets that answer too.";
        vec![
            ParameterBuilder::new()
                .name("Idempotency-Key")
                .parameter_in(ParameterIn::Header)
                .required(Required::False)
                .description(Some(about))
                .schema(Some(Ref::from_schema_name(schema::Key::name())))
                .build(),
        ]
    }
}

/// A refusal: RFC 9457.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what api/error.rs writes")]
pub struct Problem {
    /// Always `about:blank`: the code says more.
    r#type: String,
    /// The status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// A sentence for people.
    detail: String,
    /// A stable word for programs.
    #[schema(pattern = "^[a-z_]+$")]
    code: String,
    /// What the log calls this request, if it is one of the API: also in `x-request-id`.
    request_id: Option<String>,
    /// With 422: what is wrong with which field.
    errors: Option<Vec<FieldProblem>>,
}

/// What is wrong with a field.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what api/error.rs writes")]
pub struct FieldProblem {
    /// The field, with its place: `jobs.3.input`.
    field: String,
    /// What is wrong with it.
    message: String,
}

/// Each refusal once: its status, its name, what it means.
const REFUSALS: [(u16, &str, &str); 11] = [
    (400, "Malformed", "The body is cut off (`malformed`) or not JSON (`malformed_json`)."),
    (401, "Unauthorized", "There is no key, or not a live one."),
    (403, "Forbidden", "The key's role, or its reach, does not allow it."),
    (404, "NotFound", "There is no such thing, or it is another tenant's."),
    (408, "TooSlow", "The body did not arrive in time."),
    (
        409,
        "Conflict",
        "Not possible now; the code says why: `invalid_state`, `lease_lost`, `cancel_requested`, \
         `proposal_changed`, `already_exists`, `limit_reached`, `idempotency_mismatch`.",
    ),
    (413, "TooLarge", "The body is too large."),
    (422, "Invalid", "A field or parameter is unknown, missing or wrong; `errors` names it."),
    (
        429,
        "RateLimited",
        "The key makes too many calls, or its address sent too many wrong keys (`rate_limited`).",
    ),
    (500, "Internal", "Stored data cannot be read; the log says more."),
    (503, "Unavailable", "The store is busy or cannot be reached: try again."),
];

/// The refusals by name, for the description's components.
pub fn refusals() -> BTreeMap<String, RefOr<Response>> {
    let described = |(status, name, about): (u16, &str, &str)| {
        let problem = ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name())));
        let response = ResponseBuilder::new().description(about).content(PROBLEM, problem.build());
        let response = match status {
            401 => response.header("WWW-Authenticate", header(Type::String, "`Bearer`.")),
            429 | 503 => response.header("Retry-After", header(Type::Integer, "Seconds to wait.")),
            _ => response,
        };
        (name.to_owned(), response.build().into())
    };
    REFUSALS.into_iter().map(described).collect()
}

/// A header of an answer.
pub fn header(kind: Type, about: &str) -> utoipa::openapi::Header {
    let schema = ObjectBuilder::new().schema_type(kind).build();
    HeaderBuilder::new().schema(Some(schema)).description(Some(about)).build()
}

fn refs(statuses: &[u16]) -> BTreeMap<String, RefOr<Response>> {
    REFUSALS
        .into_iter()
        .filter(|(status, ..)| statuses.contains(status))
        .map(|(status, name, _)| (status.to_string(), Ref::from_response_name(name).into()))
        .collect()
}

macro_rules! sets {
    ($($(#[$about:meta])* $name:ident: $statuses:expr;)*) => {$(
        $(#[$about])*
        pub enum $name {}

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                refs(&$statuses)
            }
        }
    )*};
}

sets! {
    /// What every call with a key can meet.
    Keyed: [400, 401, 403, 408, 413, 422, 429, 500, 503];
    /// What a call without a key, but with a token and a body, can meet.
    Bare: [400, 401, 408, 413, 422, 500, 503];
    /// What a call without a key and a body can meet.
    Unkeyed: [500, 503];
    /// The thing, or the tenant, may not be there.
    Missing: [404];
    /// The move may not be possible, or the name be taken.
    Conflicting: [409];
}
