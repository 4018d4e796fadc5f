//! Fixtures: stored requests that are kept by name, and sent again to a source, freshly signed.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, Method, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::{EventId, Timestamp};
use wakepost_providers::SignedRequest;
use wakepost_store::moves::Fixture;
use wakepost_store::vault::Slot;

use super::call::{At, Call, Nothing};
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing};
use super::error::ApiError;
use super::page::{Listed, PageQuery, listed};
use super::sources::testing::{self, Tried};
use super::sources::{self, check_secret};
use super::{inbox, once};
use crate::context::Context;
use crate::directory::LiveSource;
use crate::registering::webhook_url;
use crate::schema;
use crate::view::Content;

/// The longest name.
pub const NAME_CHARS_MAX: usize = 100;

/// A request that was kept to be sent again.
#[derive(Serialize, ToSchema)]
#[schema(as = Fixture)]
struct FixtureView {
    /// Its name.
    #[schema(value_type = schema::FixtureName)]
    id: String,
    /// Its name.
    #[schema(value_type = schema::FixtureName)]
    name: String,
    /// Who sent the request.
    provider: String,
    /// What it told of.
    event_type: String,
    /// The event it was kept from, which may be gone.
    #[schema(value_type = schema::EventId)]
    event_id: EventId,
    /// How long its body is.
    body_bytes: i64,
    /// When it was kept.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
}

fn shown(fixture: Fixture) -> FixtureView {
    FixtureView {
        id: fixture.name.clone(),
        name: fixture.name,
        provider: fixture.provider,
        event_type: fixture.event_type,
        event_id: fixture.event,
        body_bytes: fixture.body_bytes,
        created_at: fixture.id.time(),
    }
}

/// What to keep a request as.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewFixture {
    /// A name that no other fixture of the tenant has.
    #[schema(value_type = schema::FixtureName)]
    name: String,
}

/// Keeps an event's request as a fixture: its headers and its body, until somebody deletes it.
///
/// 404 with the code `body_pruned` once the body is no longer kept.
#[utoipa::path(
    post, path = "/inbox/{event_id}/fixture", operation_id = "create_fixture", tag = "inbox",
    params(("event_id" = schema::EventId, Path), describe::Tenant, Idempotent),
    request_body = NewFixture,
    responses(
        (status = 201, description = "It is kept.", body = FixtureView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let event = inbox::find(&call, &tenant, &id).await?;
    let content = Content::of(&call.context, &event).await?.ok_or_else(inbox::pruned)?;
    let source = call.context.directory.source(event.source).await?;
    let source = source.ok_or_else(|| {
        ApiError::invalid_state("its source is gone, and with it who sent the request")
    })?;
    if content.body.is_empty() && content.fetched.is_some() {
        return Err(ApiError::invalid_state("nobody sent it: the server found it by itself"));
    }
    let NewFixture { name } = call.body()?;
    check_name(&name)?;
    let fixture = Fixture {
        id: call.context.new_id(),
        tenant: tenant.id,
        name,
        provider: source.source.provider.clone(),
        event_type: event.event_type,
        event: event.id,
        body_bytes: i64::try_from(content.body.len()).unwrap_or(i64::MAX),
    };
    let record = Content::encode(&content.headers, &[], &[], &content.body, None);
    let key = call.context.vault.key(tenant.id).await?;
    let record = key.seal(Slot::Fixture(fixture.id), &record);
    let view = shown(fixture.clone());
    let once = call.once(tenant.id, StatusCode::CREATED, &view).await?;
    let audit = call.audit(Some(tenant.id), "fixture.create", view.name.clone(), Some(id));
    let kept = call.context.store.keep_fixture(fixture, record, audit, once).await?;
    call.answer_once(tenant.id, kept, |()| once::json(StatusCode::CREATED, &view)).await
}

/// A name stands in addresses and on command lines.
fn check_name(name: &str) -> Result<(), ApiError> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    let first = name.chars().next().is_some_and(|first| first.is_ascii_alphanumeric());
    match first && name.len() <= NAME_CHARS_MAX && name.chars().all(fits) {
        true => Ok(()),
        false => Err(ApiError::field(
            "name",
            format!(
                "must be 1 to {NAME_CHARS_MAX} small letters, digits, dots, dashes and underscores, \
                 a letter or digit first"
            ),
        )),
    }
}

/// Lists a tenant's fixtures.
#[utoipa::path(
    get, path = "/fixtures", operation_id = "list_fixtures", tag = "inbox",
    params(PageQuery, describe::Tenant),
    responses((status = 200, description = "A page.", body = Listed<FixtureView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (Nothing {}, page) = call.list()?;
    let rows = call.context.store.fixtures(tenant.id, page).await?;
    let last = rows.last().map(|fixture| fixture.id);
    let rows: Vec<FixtureView> = rows.into_iter().map(shown).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

/// Deletes a fixture. The event that it was kept from stays.
#[utoipa::path(
    delete, path = "/fixtures/{name}", operation_id = "delete_fixture", tag = "inbox",
    params(("name" = schema::FixtureName, Path), describe::Tenant),
    responses((status = 204, description = "It is gone."), Keyed, Missing)
)]
pub async fn remove(At(name): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let kept = call.context.store.fixture(tenant.id, name.clone()).await?;
    kept.ok_or_else(ApiError::not_found)?;
    call.no_query()?;
    let audit = call.audit(Some(tenant.id), "fixture.delete", name.clone(), None);
    call.context.store.delete_fixture(tenant.id, name, audit).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Where to send a fixture.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Sending {
    /// A source of the same provider.
    #[schema(value_type = schema::SourceId)]
    source: String,
    /// What to sign with in place of the source's own secret: the private key, where that is a public one.
    #[schema(min_length = 1, max_length = 4096)]
    secret: Option<String>,
}

/// Sends a source the kept request, freshly signed for it, and says what it answered.
///
/// The body is sent as it was received, unless the signature is in it. Where the event's id is in the body, a
/// source that has seen it answers `duplicate`.
#[utoipa::path(
    post, path = "/fixtures/{name}/send", operation_id = "send_fixture", tag = "inbox",
    params(("name" = schema::FixtureName, Path), describe::Tenant), request_body = Sending,
    responses(
        (status = 200, description = "What the source answered.", body = Tried),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn send(At(name): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let context = &call.context;
    let kept = context.store.fixture(tenant.id, name).await?;
    let (fixture, record) = kept.ok_or_else(ApiError::not_found)?;
    let Sending { source, secret } = call.body()?;
    check_secret(secret.as_deref())?;
    let live = sources::find(&call, tenant.id, &source).await;
    let live = live.map_err(|refusal| match refusal.status() {
        StatusCode::NOT_FOUND => ApiError::field("source", "there is no such source"),
        _ => refusal,
    })?;
    if live.source.provider != fixture.provider {
        let message =
            format!("must be a source of {}: this is one of its requests", fixture.provider);
        return Err(ApiError::field("source", message));
    }
    let record = context.vault.key(tenant.id).await?.open(Slot::Fixture(fixture.id), &record)?;
    let request = signed(context, &live, Content::decode(&record)?, secret)?;
    call.note(tenant.id, "fixture.send", fixture.name, Some(source)).await?;
    let answer = testing::send(context, &Arc::new(live), request).await;
    Ok(testing::tried(fixture.event_type, answer))
}

/// The kept request as the source's provider would send it now.
fn signed(
    context: &Context,
    live: &LiveSource,
    content: Content,
    secret: Option<String>,
) -> Result<SignedRequest, ApiError> {
    let mut request = SignedRequest {
        method: Method::POST,
        url: webhook_url(context, live),
        headers: fresh_headers(live, content.headers),
        body: content.body,
    };
    let (id, now) = (testing::sample_id(context), context.now());
    if live.source.config.unsigned {
        // Nobody looks at the signature, but with it comes an id of its own; a provider that cannot sign without
        // its settings is sent what there is.
        let keys = live.provider.sample_keys(&live.settings, context.entropy.as_ref());
        let mut whole = request.clone();
        let signed = live.provider.sign(&mut whole, &keys.signs, &live.settings, &id, now);
        return Ok(if signed.is_ok() { whole } else { request });
    }
    let secret = secret.or_else(|| live.source.secrets.current.clone());
    let secret = secret.ok_or_else(|| {
        ApiError::invalid_state("the source has no secret yet to sign the request with")
    })?;
    let signing = live.provider.sign(&mut request, &secret, &live.settings, &id, now);
    signing.map_err(|problem| {
        let why = "it cannot be signed with what the source has; where that is a public key, send it to a test \
                   source with a key pair of your own, and its private key as secret";
        ApiError::invalid_state(format!("{why}: {problem}"))
    })?;
    Ok(request)
}

/// What must not be sent again: what was true of the first connection, of the first signature, and that it was a
/// repeat.
fn fresh_headers(live: &LiveSource, mut headers: HeaderMap) -> HeaderMap {
    for name in [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::EXPECT] {
        headers.remove(name);
    }
    for name in [header::CONNECTION, header::FORWARDED] {
        headers.remove(name);
    }
    headers.remove("x-forwarded-for");
    for signed in live.provider.signed_headers(&live.settings) {
        headers.remove(signed.name.as_ref());
    }
    if let Some(retry) = live.facts.retry_header {
        headers.remove(retry);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_into_addresses() {
        for good in ["a", "first-issue", "0.9_beta", &"x".repeat(NAME_CHARS_MAX)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", ".", "..", "A", "a b", "a/b", "ü", &"x".repeat(NAME_CHARS_MAX + 1)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
