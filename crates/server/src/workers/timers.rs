//! Timers and resyncs: lanes whose work fell due, and the net under every lost hint.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::lane::LaneId;
use wakepost_store::{Result, failpoint};

use crate::context::Context;

/// How often timers are looked at: what is due starts at most this late, and a moment.
pub const PERIOD: Duration = Duration::from_millis(200);
/// How far back a look goes, so that what was committed late by another node is not missed.
const WINDOW: Duration = Duration::from_secs(5);
/// How often all lanes are looked at.
pub const RESYNC_PERIOD: Duration = Duration::from_secs(20);

/// One look at the timers.
pub async fn tick(context: Arc<Context>) {
    if let Err(error) = look(&context).await {
        tracing::debug!(%error, "timers could not be looked at; it will be tried again");
    }
}

async fn look(context: &Context) -> Result<()> {
    let due = context.store.due_lanes(WINDOW).await?;
    if due.is_empty() {
        return Ok(());
    }
    failpoint::pass_async("scheduler.after_select").await?;
    context.queue.hint_lanes(&due).await
}

/// One look at all lanes.
pub async fn resync_tick(context: Arc<Context>) {
    if let Err(error) = resync(&context).await {
        tracing::debug!(%error, "lanes could not be looked at; it will be tried again");
    }
}

/// Hints every lane that has ready work, and says how many there are.
pub async fn resync(context: &Context) -> Result<usize> {
    let now = context.store.now().await?;
    let waiting = context.store.waiting_lanes().await?;
    let ready: Vec<LaneId> =
        waiting.into_iter().filter(|lane| lane.run_at <= now).map(|lane| lane.lane).collect();
    context.queue.overhear(&ready).await?;
    Ok(ready.len())
}
