//! Schedules: fires those whose tick is due. Every node looks; of each tick the database lets one make the job.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use wakepost_domain::{ScheduleId, Timestamp};
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

/// The tick and the schedule that a look saw last.
type Seen = (Timestamp, ScheduleId);

/// One look, along all that are due: those that cannot be fired must not keep the others from it.
pub async fn tick(context: Arc<Context>) {
    let mut seen = None;
    for _ in 0..ROUNDS_MAX {
        match look(&context, seen).await {
            Ok(Some(last)) if !context.stop.is_cancelled() => seen = Some(last),
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "schedules could not be looked at; it will be tried again");
                return;
            }
        }
    }
}

/// Fires what is due after what was seen; answers how far it saw if there may be more.
async fn look(context: &Context, seen: Option<Seen>) -> Result<Option<Seen>> {
    let due = context.store.due_schedules(seen, BATCH).await?;
    let Some(last) = due.last().and_then(|last| Some((last.next_at?, last.id))) else {
        return Ok(None);
    };
    failpoint::pass_async("cron.after_select").await?;
    let now = context.store.now().await?;
    let full = due.len() == BATCH as usize;
    stream::iter(due)
        .map(|schedule| try_fire(context, schedule, now))
        .buffer_unordered(AT_ONCE)
        .count()
        .await;
    Ok(full.then_some(last))
}

/// Fires one, if no other node does.
async fn try_fire(context: &Context, schedule: Schedule, now: Timestamp) {
    let id = schedule.id;
    if let Err(error) = fire(context, schedule, now).await {
        tracing::warn!(%error, schedule = %id, "a schedule could not be fired; it will be tried again");
    }
}
