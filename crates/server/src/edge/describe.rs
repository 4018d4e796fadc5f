//! What providers are answered, as the OpenAPI description shows it.

use std::collections::BTreeMap;

use utoipa::openapi::content::ContentBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::response::{Response, ResponseBuilder};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{Header, Ref, RefOr};
use utoipa::{IntoResponses, ToSchema};

use crate::schema;

/// What became of a request.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what edge/answer.rs writes")]
pub struct Received {
    /// `accepted`, `duplicate`, `ignored` or `unmapped`.
    status: String,
    /// The event; of a duplicate, the first one.
    #[schema(value_type = schema::EventId)]
    event_id: String,
    /// Its job, if it made one.
    #[schema(value_type = Option<schema::JobId>)]
    job_id: Option<String>,
}

/// A refusal. It says no more than its status: the reason is in the source's receipts.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes what edge/answer.rs writes")]
pub struct Refusal {
    /// Always `about:blank`.
    r#type: String,
    /// The status in words.
    title: String,
    /// The HTTP status.
    status: u16,
    /// The title as a stable word.
    code: String,
}

fn refusals(rows: &[(u16, &str)]) -> BTreeMap<String, RefOr<Response>> {
    let described = |(status, about): &(u16, &str)| {
        let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(Refusal::name())));
        let answer = ResponseBuilder::new()
            .description(*about)
            .content("application/problem+json", body.build());
        let answer = match status {
            429 | 503 => answer.header("Retry-After", seconds()),
            _ => answer,
        };
        (status.to_string(), answer.build().into())
    };
    rows.iter().map(described).collect()
}

fn seconds() -> Header {
    let whole = ObjectBuilder::new().schema_type(Type::Integer).build();
    HeaderBuilder::new().schema(Some(whole)).description(Some("Seconds to wait.")).build()
}

/// What any request can meet.
pub enum Refusals {}

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[
            (404, "There is no such source, it is disabled, or the sender's address is refused."),
            (415, "The body has a content encoding."),
            (429, "More requests in a second than the source takes."),
            (503, "Nothing could be stored, or the source cannot verify yet: come again."),
        ])
    }
}

/// What a request with a body can meet besides.
pub enum BodyRefused {}

impl IntoResponses for BodyRefused {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[
            (400, "The body was cut off."),
            (401, "The signature is wrong or missing."),
            (403, "The signed time is too far off."),
            (408, "The body did not arrive in time."),
            (413, "The body is larger than the source allows."),
        ])
    }
}

/// What a request without a handshake meets.
pub enum NoHandshake {}

impl IntoResponses for NoHandshake {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[(405, "The source's provider has no such handshake.")])
    }
}

/// What a request by a platform's name can meet besides.
pub enum Ambiguous {}

impl IntoResponses for Ambiguous {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        refusals(&[(409, "Several sources are of this platform.")])
    }
}
