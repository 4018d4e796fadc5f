//! Timers and resyncs: lanes whose work fell due, and the net under every lost hint.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use wakepost_domain::lane::LaneId;
use wakepost_store::{Result, failpoint};

use crate::context::Context;

/// How often timers are looked at: what is due starts at most this late, and a moment.
pub const PERIOD: Duration = Duration::from_millis(200);
/// How far back a look goes, so that what was committed late by another node is not missed.
const WINDOW: Duration = Duration::from_secs(5);
/// How much work of unknown kinds one look holds.
const HELD_AT_ONCE: u32 = 1000;
/// How often all lanes are looked at.
pub const RESYNC_PERIOD: Duration = Duration::from_secs(20);

/// One look at the timers.
pub async fn tick(context: Arc<Context>) {
    if let Err(error) = look(&context).await {
        tracing::debug!(%error, "timers could not be looked at; it will be tried again");
    }
}

async fn look(context: &Context) -> Result<()> {
    let (now, mut due) = context.store.due_lanes(WINDOW).await?;
    let before = context.timers_seen.load(Ordering::Relaxed);
    let since = Duration::from_millis(u64::try_from(now.as_millis() - before).unwrap_or(0));
    if before != 0 && since > WINDOW {
        // The clock was put forward, the database was away, or this node was frozen.
        due = context.store.due_lanes(since + WINDOW).await?.1;
    }
    context.timers_seen.store(now.as_millis(), Ordering::Relaxed);
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

/// Work of a kind that only a newer program knows waits for that program, where people can see it.
async fn hold_unknown(context: &Context, ready: &[LaneId]) -> Result<()> {
    let known = context.directory.lanes(ready).await?;
    if known.len() == ready.len() {
        return Ok(());
    }
    let known: HashSet<LaneId> = known.iter().map(|lane| lane.id).collect();
    let unknown: Vec<LaneId> = ready.iter().copied().filter(|lane| !known.contains(lane)).collect();
    let held = context.store.hold_unknown(unknown, HELD_AT_ONCE).await?;
    if held > 0 {
        tracing::warn!(held, "work of a kind that this program does not know is held");
    }
    Ok(())
}

/// Hints every lane that has ready work, and says how many there are.
pub async fn resync(context: &Context) -> Result<usize> {
    let now = context.store.now().await?;
    let waiting = context.store.waiting_lanes().await?;
    let ready: Vec<LaneId> =
        waiting.into_iter().filter(|lane| lane.run_at <= now).map(|lane| lane.lane).collect();
    hold_unknown(context, &ready).await?;
    context.queue.overhear(&ready).await?;
    Ok(ready.len())
}
