//! Administration: the sweep, for an outside cron.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;

use super::call::{Call, Nothing};
use super::describe::Keyed;
use super::error::ApiError;
use super::once;
use crate::workers::{fire, rescue, timers};

/// What a sweep did.
#[derive(Serialize, ToSchema)]
struct Swept {
    /// How many lost leases were taken back.
    rescued: usize,
    /// How many lanes were looked at.
    lanes: usize,
    /// For how many of them the self-webhook is fired again.
    fired: usize,
}

/// Rescues what is stuck, now. Only for an admin key of all tenants.
#[utoipa::path(
    post, path = "/admin/sweep", operation_id = "sweep", tag = "operations",
    responses((status = 200, description = "Done.", body = Swept), Keyed)
)]
pub async fn sweep(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    call.need_all_tenants()?;
    call.body::<Nothing>()?;
    let rescued = rescue::rescue(&call.context).await?;
    let lanes = timers::resync(&call.context).await?;
    let fired = fire::sweep(&call.context).await?;
    Ok(once::json(StatusCode::OK, &Swept { rescued, lanes, fired }))
}
