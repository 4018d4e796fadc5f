//! The rescuer: ends leases that ran out, and runs that were asked to stop and did not.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::backoff::Backoff;
use wakepost_domain::limits::CANCEL_PATIENCE;
use wakepost_domain::transition::Ending;
use wakepost_store::moves::{Evidence, Expired, Guard};
use wakepost_store::{Result, StoreError};

use super::settle::{decide, settle_decided};
use crate::context::Context;

/// How often it looks.
pub const PERIOD: Duration = Duration::from_secs(1);
/// How many it ends at a time.
const BATCH: u32 = 500;
/// How many times in a row, when there are very many.
const ROUNDS_MAX: usize = 20;

/// One look.
pub async fn tick(context: Arc<Context>) {
    if let Err(error) = rescue(&context).await {
        tracing::warn!(%error, "expired leases could not be rescued; it will be tried again");
    }
}

/// Ends what has expired, and says how many there were.
pub async fn rescue(context: &Context) -> Result<usize> {
    let mut rescued = 0;
    for _ in 0..ROUNDS_MAX {
        let expired = context.store.expired(CANCEL_PATIENCE, BATCH).await?;
        let full = expired.len() == BATCH as usize;
        rescued += end(context, expired).await;
        if !full {
            break;
        }
    }
    Ok(rescued)
}

/// Each row is changed only if it is still what was seen. One that cannot be is left for the next look.
async fn end(context: &Context, expired: Vec<Expired>) -> usize {
    let now = context.store.now().await.unwrap_or_else(|_| context.now());
    let batch = expired.into_iter().map(|row| {
        let over = row.lease_expires_at <= now;
        let (ending, guard, error) = match over {
            true => (Ending::Expired, Guard::ExpiredAt(row.lease_expires_at), "the lease ran out"),
            false => (
                Ending::Cancelled,
                Guard::CancelledBefore(now.before(CANCEL_PATIENCE)),
                "it was asked to stop and did not",
            ),
        };
        let error = Some(error.to_owned());
        decide(context, row.ticket, ending, &Backoff::default(), guard, error, Evidence::default())
    });
    let mut count = 0;
    for settled in settle_decided(context, batch.collect()).await {
        match settled {
            Ok(_) => count += 1,
            // Somebody else was quicker, or its worker came back in time.
            Err(StoreError::LeaseLost) => {}
            Err(error) => {
                tracing::warn!(%error, "a run could not be ended; it will be tried again")
            }
        }
    }
    context.metrics.rescued.inc_by(count as u64);
    count
}
