//! Administration: the sweep, for an outside cron.

use axum::response::Response;
use http::StatusCode;
use serde_json::json;
use wakepost_domain::access::{Reach, Right};

use super::call::Call;
use super::error::ApiError;
use super::once;
use crate::workers::{rescue, timers};

/// Rescues what is stuck, now.
pub async fn sweep(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    if call.caller.reach != Reach::All {
        return Err(ApiError::forbidden());
    }
    let rescued = rescue::rescue(&call.context).await?;
    let lanes = timers::resync(&call.context).await?;
    Ok(once::json(
        StatusCode::OK,
        &json!({"rescued": rescued, "lanes": lanes}),
    ))
}
