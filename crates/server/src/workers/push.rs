//! Pushed runs: claims what this node runs itself, and runs it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::executors::{self, Found, Payload, Places};
use crate::queue::{Pushed, Rule};
use crate::telemetry::story;

/// How often it looks without having been told: the net under lost hints.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How many it claims at a time.
const BATCH: usize = 256;
/// While more waits than there are places for, a claim is made when this part of those in use was given back, or this
/// long after the first was: a claim for each of them would cost several times as much.
const WORTH_A_CLAIM: usize = 8;
const GATHERING: Duration = Duration::from_millis(2);

/// Claims and starts runs until the server stops.
pub async fn run(context: Arc<Context>, tracker: TaskTracker) {
    let worker = worker_name();
    while !context.stop.is_cancelled() {
        let given_back = context.places.given_back();
        match start_ready(&context, &tracker, &worker).await {
            // There may be more than that.
            Ok(BATCH) => continue,
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "nothing could be claimed; it will be tried again")
            }
        }
        tokio::select! {
            () = context.queue.pushed_ready() => {}
            () = enough_free(&context.places, given_back) => {}
            () = tokio::time::sleep(SAFETY_POLL) => {}
            () = context.stop.cancelled() => {}
        }
    }
}

/// Waits until so many places were given back since then that they are worth a claim.
async fn enough_free(places: &Places, since: usize) {
    let freed = || places.given_back().wrapping_sub(since);
    while freed() == 0 {
        places.freed().await;
    }
    if freed() < places.taken() / WORTH_A_CLAIM {
        tokio::time::sleep(GATHERING).await;
    }
}

/// The node's name as a worker.
pub fn worker_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "node".to_owned());
    format!("{host}:{}", std::process::id())
}

/// Claims a batch and starts its runs; answers how many.
async fn start_ready(
    context: &Arc<Context>,
    tracker: &TaskTracker,
    worker: &str,
) -> wakepost_store::Result<usize> {
    let mut room = context.places.room();
    let most = room.size().min(BATCH) as u32;
    if most == 0 {
        return Ok(0);
    }
    let mut places = |lane, rule: &Rule| room.take(lane, rule);
    let claimed = context.queue.claim_pushed(worker, most, &mut places).await?;
    let count = claimed.len();
    context.metrics.started(claimed.iter().map(|item| &item.0));
    story::leased(context, claimed.iter().map(|item| &item.0)).await;
    let Found { said, failed } = executors::find(context, &claimed).await;
    if let Some(error) = failed {
        tracing::debug!(%error, "events could not be read together; each delivery reads its own");
    }
    for item in claimed {
        let said = item.0.event.and_then(|event| said.get(&event).cloned());
        start_one(context, tracker, item, said);
    }
    Ok(count)
}

fn start_one(context: &Arc<Context>, tracker: &TaskTracker, item: Pushed, said: Option<Payload>) {
    // Between the plan and now a request may have taken the last place. The item is claimed, and is run.
    let lane = item.2.at_once.map(|_| item.1.id);
    let place = context.places.take(&item.2.executor, lane);
    let context = context.clone();
    tracker.spawn(async move {
        executors::run(&context, item, said).await;
        drop(place);
    });
}
