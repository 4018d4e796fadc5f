//! The inbox as it fills, for the page's script.

use axum::response::Response;

use super::desk::Desk;
use crate::within::Refused;

/// What the page filters by, and for how long it listens.
const FILTERS: [&str; 8] =
    ["source", "provider", "type", "status", "subject", "q", "thread", "for_s"];

/// Events as they arrive: the API's own stream, in the name of whoever signed in.
pub async fn inbox(desk: Desk) -> Result<Response, Refused> {
    let filters: Vec<(&str, &str)> =
        FILTERS.iter().map(|name| (*name, desk.parameter(name))).collect();
    desk.api.open("/inbox/stream", &filters).await
}
