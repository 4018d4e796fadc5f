//! Whether a source is ready, and registering it at its provider.

use std::time::Duration;

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::{SourceId, Timestamp};

use super::super::call::{At, Call, Nothing};
use super::super::describe::{Conflicting, Keyed, Missing, Tenant};
use super::super::error::ApiError;
use super::super::once;
use super::{find, save};
use crate::context::Context;
use crate::directory::LiveSource;
use crate::exchange::{self, Halt};
use crate::registering::{self, webhook_url};
use crate::schema;

/// How long a provider has to say how a source stands.
const STANDING_PATIENCE: Duration = Duration::from_secs(5);

/// Whether a source is ready.
#[derive(Serialize, ToSchema)]
#[schema(as = SourceStatus)]
struct StatusView {
    /// Its id.
    #[schema(value_type = schema::SourceId)]
    id: SourceId,
    /// Its provider.
    provider: &'static str,
    /// The provider's name for people.
    label: &'static str,
    /// Off: requests get 404 and nothing is stored.
    enabled: bool,
    /// Whether it can verify requests.
    configured: bool,
    /// What to enter at the provider.
    webhook_url: String,
    /// What it must still be told, to receive or to reply.
    missing_settings: Vec<String>,
    /// When its registration at the provider ends, where it does; the server renews it before.
    #[schema(value_type = Option<schema::Timestamp>)]
    expires_at: Option<Timestamp>,
    /// What is wrong with its set-up.
    error: Option<String>,
}

/// Says whether a source is ready, and what is missing.
#[utoipa::path(
    get, path = "/sources/{id}/status", operation_id = "get_source_status", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant),
    responses((status = 200, description = "How it stands.", body = StatusView), Keyed, Missing)
)]
pub async fn status(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    call.no_query()?;
    let view = StatusView {
        id: live.source.id,
        provider: live.provider.name(),
        label: live.facts.label,
        enabled: live.source.config.enabled,
        configured: live.can_verify(),
        webhook_url: webhook_url(&call.context, &live),
        missing_settings: live.missing(),
        expires_at: live.expires_at,
        error: trouble(&call.context, &live).await,
    };
    Ok(once::json(StatusCode::OK, &view))
}

/// What is wrong with a source's set-up, by the provider's word too where it can be asked.
pub async fn trouble(context: &Context, live: &LiveSource) -> Option<String> {
    if let Some(error) = set_up_error(context, live) {
        return Some(error);
    }
    let mut exchange = live.provider.standing(&live.settings)?;
    let asking = exchange::lead(context, live, exchange.as_mut());
    match tokio::time::timeout(STANDING_PATIENCE, asking).await {
        Ok(Ok(trouble)) => trouble,
        Ok(Err(halt)) => Some(format!("{} could not be asked: {halt}", live.facts.label)),
        Err(_) => Some(format!("{} did not answer in time", live.facts.label)),
    }
}

/// What is wrong with a source's set-up, although nothing is missing.
pub fn set_up_error(context: &Context, live: &LiveSource) -> Option<String> {
    if let Some(ended) = live.expires_at.filter(|ends| *ends <= context.now()) {
        return Some(format!(
            "its registration at {} ended at {ended} and could not be renewed: set it up again",
            live.facts.label
        ));
    }
    let unknown_address = live.facts.signs_url && context.config.public_url.is_none();
    unknown_address.then(|| {
        format!(
            "{} signs the public address of the webhook, and none is configured: set \
             WAKEPOST_PUBLIC_URL to what providers reach this server by. Until then requests must be \
             signed for {}",
            live.facts.label, context.base_url
        )
    })
}

/// What a set-up came to.
#[derive(Serialize, ToSchema)]
#[schema(as = SourceSetup)]
pub struct SetUpView {
    /// Its id.
    #[schema(value_type = schema::SourceId)]
    id: SourceId,
    /// `registered`, or `manual` where somebody must do the steps.
    status: &'static str,
    /// What to do at the provider.
    steps: Vec<String>,
    /// The secret that the provider sent: shown once, to be entered there.
    #[serde(skip_serializing_if = "Option::is_none")]
    verification_token: Option<String>,
}

/// Registers a source at its provider, where that has an API for it; else says what to do there.
#[utoipa::path(
    post, path = "/sources/{id}/setup", operation_id = "set_up_source", tag = "sources",
    params(("id" = schema::SourceId, Path), Tenant),
    responses(
        (status = 200, description = "What came of it.", body = SetUpView),
        (status = 502, description = "The provider refused, or could not be reached."),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn set_up(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Operate)?;
    let tenant = call.tenant().await?;
    let live = find(&call, tenant.id, &id).await?;
    call.body::<Nothing>()?;
    let webhook_url = webhook_url(&call.context, &live);
    Ok(once::json(StatusCode::OK, &register(&call, &live, webhook_url).await?))
}

/// Registers a source under this address, or says how.
pub async fn register(
    call: &Call,
    live: &LiveSource,
    webhook_url: String,
) -> Result<SetUpView, ApiError> {
    let refused = |halt: Halt| match halt {
        Halt::Address(why) => ApiError::field("settings.api_url", why),
        Halt::Failed { error, .. } => {
            let why = format!("{} did not take the registration: {error}", live.facts.label);
            ApiError::new(StatusCode::BAD_GATEWAY, "registration_failed", why)
        }
    };
    call.note(live.source.tenant, "source.setup", live.source.id.to_string(), None).await?;
    let registered = registering::register(&call.context, live, &webhook_url);
    let status = match registered.await.map_err(refused)? {
        true => "registered",
        false => "manual",
    };
    let steps = match status {
        "manual" => live.provider.steps(&webhook_url),
        _ => Vec::new(),
    };
    let id = live.source.id;
    let verification_token = match live.source.secrets.unseen.clone() {
        Some(secret) => {
            let mut source = live.source.clone();
            source.secrets.unseen = None;
            save(call, source, "source.secret_shown").await?;
            Some(secret)
        }
        None => None,
    };
    Ok(SetUpView { id, status, steps, verification_token })
}
