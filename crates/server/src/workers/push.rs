//! Pushed runs: claims what this node runs itself, and runs it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::executors::{self, Found, Payload};
use crate::queue::{Pushed, Rule};
use crate::telemetry::story;

/// How often it looks without having been told: the net under lost hints.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How many it claims at a time.
const BATCH: usize = 256;

/// Claims and starts runs until the server stops.
pub async fn run(context: Arc<Context>, tracker: TaskTracker) {
    let worker = worker_name();
    while !context.stop.is_cancelled() {
        match start_ready(&context, &tracker, &worker).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, "nothing could be claimed; it will be tried again")
            }
        }
        tokio::select! {
            () = context.queue.pushed_ready() => {}
            () = tokio::time::sleep(SAFETY_POLL) => {}
            () = context.stop.cancelled() => {}
        }
    }
}

/// The node's name as a worker.
pub fn worker_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "node".to_owned());
    format!("{host}:{}", std::process::id())
}

/// Claims a batch and starts its runs; answers whether there was anything.
async fn start_ready(
    context: &Arc<Context>,
    tracker: &TaskTracker,
    worker: &str,
) -> wakepost_store::Result<bool> {
    let room = context.places.free().min(BATCH) as u32;
    if room == 0 {
        return Ok(false);
    }
    let places = |lane, rule: &Rule| context.places.free_for(lane, rule);
    let claimed = context.queue.claim_pushed(worker, room, &places).await?;
    let any = !claimed.is_empty();
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
    Ok(any)
}

fn start_one(context: &Arc<Context>, tracker: &TaskTracker, item: Pushed, said: Option<Payload>) {
    // Between the plan and now a request may have taken the last place. The item is claimed, and is run.
    let lane = item.2.at_once.map(|_| item.1.id);
    let place = context.places.take(&item.2.executor, lane);
    let context = context.clone();
    tracker.spawn(async move {
        executors::run(&context, item, said).await;
        drop(place);
        context.queue.push_place_free();
    });
}
