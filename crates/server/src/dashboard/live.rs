//! What happens as it happens, for the pages' script: the API's own streams, in the name of whoever signed in.

use axum::extract::Path;
use axum::response::Response;

use super::desk::Desk;
use crate::within::{Refused, part};

/// For how long a page listens.
const FOR_S: &str = "for_s";
/// What the inbox filters by.
const FILTERS: [&str; 8] =
    ["source", "provider", "type", "status", "subject", "q", "thread", FOR_S];

/// Events as they arrive.
pub async fn inbox(desk: Desk) -> Result<Response, Refused> {
    let filters: Vec<(&str, &str)> =
        FILTERS.iter().map(|name| (*name, desk.parameter(name))).collect();
    desk.api.open("/inbox/stream", &filters).await
}

/// A job, a reply or a callback as it goes on.
pub async fn job(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/jobs/{}/events", part(&id));
    desk.api.open(&path, &[(FOR_S, desk.parameter(FOR_S))]).await
}
