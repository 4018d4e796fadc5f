//! Single-tenant use by the platform's name: how it stands, on and off, set-up.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::work::Priority;
use wakepost_domain::{SourceId, TenantId};
use wakepost_providers::{Provider, Settings, registry};

use super::call::{At, Call, Nothing};
use super::describe::{Conflicting, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::page::{Listed, listed};
use super::sources::setup::{self, SetUpView};
use super::sources::{opened, save, switched};
use super::work::Moved;
use crate::context::Context;
use crate::directory::LiveSource;

/// The platform that stands for whichever source receives mail.
const EMAIL: &str = "email";

/// How a platform stands.
#[derive(Serialize, ToSchema)]
#[schema(as = Integration)]
struct IntegrationView {
    /// Its name in addresses.
    platform: String,
    /// Its name for people.
    label: &'static str,
    /// Whether it takes requests.
    enabled: bool,
    /// Whether it can verify them.
    configured: bool,
    /// What to enter at the platform.
    webhook_url: String,
    /// What it must still be told.
    missing_settings: Vec<String>,
    /// What is wrong with its set-up.
    error: Option<String>,
    /// Whether this server reaches itself by its base URL.
    self_webhook: SelfWebhookView,
}

/// Whether this server reaches itself.
#[derive(Serialize, ToSchema, Clone)]
#[schema(as = SelfWebhook)]
struct SelfWebhookView {
    /// Where it would call itself.
    url: String,
    /// Whether this server, or another of its nodes, answers there.
    reachable: bool,
    /// Why not.
    error: Option<String>,
}

/// Lists the platforms that carry conversations, and all others that have a source.
#[utoipa::path(
    get, path = "/integrations/status", operation_id = "list_integrations", tag = "integrations",
    responses((status = 200, description = "All of them.", body = Listed<IntegrationView>), Keyed)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    permitted(&call)?;
    call.no_query()?;
    let context = &call.context;
    let own_address = reach_self(context).await;
    let mut rows = Vec::new();
    let mut names: Vec<&str> = registry::all().iter().map(|provider| provider.name()).collect();
    names.retain(|name| !name.starts_with("email-"));
    names.push(EMAIL);
    for name in names {
        let sources = context.directory.platform(name).await?;
        let talks = name == EMAIL || is_messaging(name);
        match &*sources {
            [] if !talks => {}
            [] => rows.push(absent(context, name, own_address.clone())),
            [only] => rows.push(shown(context, name, *only, own_address.clone()).await?),
            many => rows.push(IntegrationView {
                error: Some(ambiguous(many)),
                ..absent(context, name, own_address.clone())
            }),
        }
    }
    let limit = u32::try_from(rows.len() + 1).unwrap_or(u32::MAX);
    Ok(once::json(StatusCode::OK, &listed(rows, None, limit)))
}

/// Says how a platform stands.
#[utoipa::path(
    get, path = "/integrations/{platform}/status", operation_id = "get_integration",
    tag = "integrations", params(("platform" = String, Path)),
    responses(
        (status = 200, description = "How it stands.", body = IntegrationView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn status(At(platform): At<String>, call: Call) -> Result<Response, ApiError> {
    permitted(&call)?;
    let context = &call.context;
    let only = only(&call, &platform).await?;
    call.no_query()?;
    let own_address = reach_self(context).await;
    let mut view = match only {
        Some(id) => shown(context, &platform, id, own_address).await?,
        None => absent(context, &platform, own_address),
    };
    if let Some(live) = find_live(context, only).await? {
        view.error = setup::trouble(context, &live).await;
    }
    Ok(once::json(StatusCode::OK, &view))
}

/// Lets a platform's source accept requests again.
#[utoipa::path(
    post, path = "/integrations/{platform}/enable", operation_id = "enable_integration",
    tag = "integrations", params(("platform" = String, Path)),
    responses((status = 200, description = "`enabled`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn enable(At(platform): At<String>, call: Call) -> Result<Response, ApiError> {
    switch(platform, call, true).await
}

/// Lets a platform's source answer 404 from now on.
#[utoipa::path(
    post, path = "/integrations/{platform}/disable", operation_id = "disable_integration",
    tag = "integrations", params(("platform" = String, Path)),
    responses((status = 200, description = "`disabled`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn disable(At(platform): At<String>, call: Call) -> Result<Response, ApiError> {
    switch(platform, call, false).await
}

async fn switch(platform: String, call: Call, enabled: bool) -> Result<Response, ApiError> {
    permitted(&call)?;
    let mut source = found(&call, &platform).await?.source;
    call.body::<Nothing>()?;
    let id = source.id.to_string();
    source.config.enabled = enabled;
    save(&call, source, if enabled { "source.enable" } else { "source.disable" }).await?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: switched(enabled) }))
}

/// Registers a platform's webhook, where it has an API for it; else says what to do there.
#[utoipa::path(
    post, path = "/integrations/{platform}/setup", operation_id = "set_up_integration",
    tag = "integrations", params(("platform" = String, Path)),
    responses(
        (status = 200, description = "What came of it.", body = SetUpView),
        (status = 502, description = "The platform refused, or could not be reached."),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn set_up(At(platform): At<String>, call: Call) -> Result<Response, ApiError> {
    permitted(&call)?;
    let live = found(&call, &platform).await?;
    call.body::<Nothing>()?;
    let webhook_url = webhook_url(&call.context, &platform);
    Ok(once::json(StatusCode::OK, &setup::register(&call, &live, webhook_url).await?))
}

/// Operators of the default tenant.
fn permitted(call: &Call) -> Result<(), ApiError> {
    call.need(Right::Operate)?;
    match call.caller.reach {
        Reach::All | Reach::Tenant(TenantId::DEFAULT) => Ok(()),
        Reach::Tenant(_) => Err(ApiError::forbidden()),
    }
}

/// The one source of a platform, if there is one.
async fn only(call: &Call, platform: &str) -> Result<Option<SourceId>, ApiError> {
    if platform != EMAIL && registry::find(platform).is_none() {
        return Err(ApiError::not_found());
    }
    match &*call.context.directory.platform(platform).await? {
        [] => Ok(None),
        [only] => Ok(Some(*only)),
        many => Err(ApiError::new(StatusCode::CONFLICT, "ambiguous_platform", ambiguous(many))),
    }
}

fn ambiguous(sources: &[SourceId]) -> String {
    let ids: Vec<String> = sources.iter().map(ToString::to_string).collect();
    format!("several sources are of this platform: {}", ids.join(", "))
}

async fn found(call: &Call, platform: &str) -> Result<LiveSource, ApiError> {
    let id = only(call, platform).await?.ok_or_else(ApiError::not_found)?;
    let record = call.context.store.source(id).await?.ok_or_else(ApiError::not_found)?;
    opened(&call.context, record).await
}

fn is_messaging(name: &str) -> bool {
    let facts = registry::find(name).map(Provider::facts);
    facts.is_some_and(|facts| facts.priority == Priority::Interactive)
}

fn webhook_url(context: &Context, platform: &str) -> String {
    format!("{}/integrations/{platform}/webhook", context.base_url)
}

async fn shown(
    context: &Context,
    platform: &str,
    id: SourceId,
    self_webhook: SelfWebhookView,
) -> Result<IntegrationView, ApiError> {
    let live: Arc<LiveSource> =
        context.directory.source(id).await?.ok_or_else(ApiError::not_found)?;
    Ok(IntegrationView {
        platform: platform.to_owned(),
        label: live.facts.label,
        enabled: live.source.config.enabled,
        configured: live.can_verify(),
        webhook_url: webhook_url(context, platform),
        missing_settings: live.missing(),
        error: setup::set_up_error(context, &live),
        self_webhook,
    })
}

async fn find_live(
    context: &Context,
    id: Option<SourceId>,
) -> Result<Option<Arc<LiveSource>>, ApiError> {
    match id {
        Some(id) => Ok(context.directory.source(id).await?),
        None => Ok(None),
    }
}

/// A platform without a source.
fn absent(context: &Context, platform: &str, self_webhook: SelfWebhookView) -> IntegrationView {
    let provider = registry::find(platform);
    let missing = provider.and_then(|provider| provider.check_config(None, &Settings::new()).ok());
    IntegrationView {
        platform: platform.to_owned(),
        label: provider.map_or("Email", |provider| provider.facts().label),
        enabled: false,
        configured: false,
        webhook_url: webhook_url(context, platform),
        missing_settings: missing.unwrap_or_else(|| vec!["secret".to_owned()]),
        error: None,
        self_webhook,
    }
}

/// Whether this server reaches itself, as the last look found it.
async fn reach_self(context: &Context) -> SelfWebhookView {
    let error = context.self_webhook.unreachable(context).await;
    let url = context.self_webhook.url().to_owned();
    SelfWebhookView { url, reachable: error.is_none(), error }
}
