//! The providers this program knows, and what each must be told.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::{Timestamp, Ulid};
use wakepost_providers::{Need, Provider, SecretNeed, registry};

use super::call::{Call, Nothing};
use super::describe::Keyed;
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, cut, listed};

/// A kind of sender.
#[derive(Serialize, ToSchema)]
#[schema(as = Provider)]
struct ProviderView {
    /// What a source calls it.
    name: &'static str,
    /// Its name for people.
    label: &'static str,
    /// Whether its signature covers the body.
    signs_body: bool,
    /// How far a signed time may be off, either way.
    tolerance_s: u64,
    /// The largest body it sends.
    max_body_bytes: usize,
    /// Whether Wakepost may make the secret.
    makes_secret: bool,
    /// What it must be told, besides the secret.
    settings: Vec<SettingView>,
    /// The events there are samples of.
    samples: Vec<&'static str>,
}

/// Something a provider must be told.
#[derive(Serialize, ToSchema)]
#[schema(as = ProviderSetting)]
struct SettingView {
    /// Its name in `settings`.
    name: &'static str,
    /// Its name for people.
    label: &'static str,
    /// Whether nothing can be received without it.
    required: bool,
    /// Whether nothing can be answered without it.
    for_replies: bool,
    /// Whether it is never shown again.
    secret: bool,
    /// What it is for.
    help: &'static str,
    /// What it may look like.
    #[serde(skip_serializing_if = "str::is_empty")]
    example: &'static str,
}

/// Lists the providers this program knows.
#[utoipa::path(
    get, path = "/providers", operation_id = "list_providers", tag = "sources", params(PageQuery),
    responses((status = 200, description = "A page.", body = Listed<ProviderView>), Keyed)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let (Nothing {}, page) = call.list()?;
    let all = registry::all().iter().rev().enumerate().collect();
    let place =
        |(number, _): &(usize, _)| Ulid::from_parts(Timestamp::from_millis(0), *number as u128);
    let (rows, last) = cut(all, place, page);
    let rows: Vec<_> = rows.into_iter().map(|(_, provider)| shown(*provider)).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

fn shown(provider: &dyn Provider) -> ProviderView {
    let facts = provider.facts();
    let settings = provider.settings().iter().map(|setting| SettingView {
        name: setting.name,
        label: setting.label,
        required: setting.need == Need::Receiving,
        for_replies: setting.need == Need::Replying,
        secret: setting.secret,
        help: setting.help,
        example: setting.example,
    });
    ProviderView {
        name: provider.name(),
        label: facts.label,
        signs_body: facts.signs_body,
        tolerance_s: facts.tolerance.as_secs(),
        max_body_bytes: facts.body_bytes_max,
        makes_secret: facts.secret == SecretNeed::Generated,
        settings: settings.collect(),
        samples: provider.samples().iter().map(|sample| sample.event_type).collect(),
    }
}
