//! Schedules: fires those whose tick is due. Every node looks; of each tick the database lets one make the job.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use wakepost_domain::Timestamp;
use wakepost_store::moves::Schedule;
use wakepost_store::{Result, failpoint};

use crate::context::Context;
use crate::schedules::fire;

/// How often it looks: a tick fires at most this late, and a moment.
pub const PERIOD: Duration = Duration::from_millis(250);
/// How many it sees in one look.
const BATCH: u32 = 100;
/// How many it fires at once: many have the same favourite hour.
const AT_ONCE: usize = 4;
/// How many times in a row, when very many are due at once.
const ROUNDS_MAX: usize = 20;

/// One look.
pub async fn tick(context: Arc<Context>) {
    for _ in 0..ROUNDS_MAX {
        match look(&context).await {
            Ok(true) if !context.stop.is_cancelled() => {}
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "schedules could not be looked at; it will be tried again");
                return;
            }
        }
    }
}

/// Fires what is due; answers whether there may be more.
async fn look(context: &Context) -> Result<bool> {
    let due = context.store.due_schedules(BATCH).await?;
    if due.is_empty() {
        return Ok(false);
    }
    failpoint::pass_async("cron.after_select").await?;
    let now = context.store.now().await?;
    let full = due.len() == BATCH as usize;
    let fired = stream::iter(due).map(|schedule| try_fire(context, schedule, now));
    let fired = fired.buffer_unordered(AT_ONCE).filter(|fired| std::future::ready(*fired)).count();
    // If none could be fired, the next look would see the same.
    Ok(fired.await > 0 && full)
}

/// Fires one; answers whether this node did. The others must not wait for one that cannot be fired.
async fn try_fire(context: &Context, schedule: Schedule, now: Timestamp) -> bool {
    let id = schedule.id;
    fire(context, schedule, now).await.unwrap_or_else(|error| {
        tracing::warn!(%error, schedule = %id, "a schedule could not be fired; it will be tried again");
        false
    })
}
