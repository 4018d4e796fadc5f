//! The providers this program knows, and what each must be told.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use wakepost_domain::access::Right;
use wakepost_providers::{SecretNeed, registry};

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::page::listed;

/// All providers.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let rows = registry::all().iter().map(|provider| {
        let facts = provider.facts();
        let settings: Vec<Value> = provider
            .settings()
            .iter()
            .map(|setting| {
                json!({
                    "name": setting.name,
                    "label": setting.label,
                    "required": setting.required,
                    "secret": setting.secret,
                    "help": setting.help,
                })
            })
            .collect();
        json!({
            "name": provider.name(),
            "label": facts.label,
            "signs_body": facts.signs_body,
            "tolerance_s": facts.tolerance.as_secs(),
            "max_body_bytes": facts.body_bytes_max,
            "makes_secret": facts.secret == SecretNeed::Generated,
            "settings": settings,
        })
    });
    Ok(once::json(
        StatusCode::OK,
        &listed(rows.collect(), None, u32::MAX),
    ))
}
