//! Fires the self-webhook for jobs that run within a request, and sweeps up those for which that came to nothing.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::State;
use wakepost_store::Result;

use crate::context::Context;
use crate::queue::Fire;
use crate::self_webhook::{self, Call};
use crate::telemetry::metrics::Metrics;

/// How often the sweep looks.
pub const SWEEP_PERIOD: Duration = Duration::from_secs(60);
/// How often it looks for jobs without having been told.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How many it fires at a time.
const BATCH: usize = 64;
/// How long a job waits whose call alone failed.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// How much longer than the run itself an answer may take.
const ANSWER_MARGIN: Duration = Duration::from_secs(15);

/// Fires for ready jobs until the server stops.
pub async fn run(context: Arc<Context>, tracker: TaskTracker) {
    while !context.stop.is_cancelled() {
        match fire_ready(&context, &tracker).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, "nothing could be fired; it will be tried again")
            }
        }
        tokio::select! {
            () = context.queue.fired_ready() => {}
            () = tokio::time::sleep(SAFETY_POLL) => {}
            () = context.stop.cancelled() => {}
        }
    }
}

/// Starts a batch of calls; answers whether there were any.
async fn fire_ready(context: &Arc<Context>, tracker: &TaskTracker) -> Result<bool> {
    let own = &context.self_webhook;
    let room = own.free().min(BATCH) as u32;
    if room == 0 || !own.is_rested(context).await {
        return Ok(false);
    }
    let fires = context.queue.to_fire(room, own).await?;
    let any = !fires.is_empty();
    for fire in fires {
        let call = Call { lane: fire.turn.lane, runner: fire.executor.runner().clone() };
        if own.begin(fire.item, call) {
            tracker.spawn(fire_one(context.clone(), fire));
        }
    }
    Ok(any)
}

/// Waits for the answer only to know when there is room for the next: the run goes on without this.
async fn fire_one(context: Arc<Context>, fire: Fire) {
    let item = fire.item;
    let timeout = fire.executor.budget().unwrap_or_default() + ANSWER_MARGIN;
    let answered = tokio::select! {
        answered = self_webhook::call(&context, item, timeout) => answered,
        // What is not taken up by another node is swept up.
        () = context.stop.cancelled() => return context.self_webhook.ended(&item),
    };
    match answered {
        Ok(answered) => {
            Metrics::count(&context.metrics.fired, "answered");
            context.self_webhook.ended(&item);
            let waits = State::from_word(&answered.status).is_some_and(State::is_claimable);
            match waits && !answered.ran {
                true => context.queue.fired_in_vain(&fire),
                false => context.queue.fire_ended(&fire),
            }
        }
        // A long run may outlive its request, and a proxy's patience.
        Err(error) if is_taken_up(&context, &fire).await => {
            tracing::debug!(%error, job = %item.work.0, "a self-webhook's answer got lost");
            context.self_webhook.ended(&item);
            context.queue.fire_ended(&fire);
        }
        Err(error) => {
            tracing::warn!(%error, url = context.self_webhook.url(), "the self-webhook did not get through");
            Metrics::count(&context.metrics.fired, "failed");
            failed(&context, &fire).await;
        }
    }
}

/// A job that nobody took up is called for again after a while. Where the way is good the trouble is its own, and no
/// reason for others to wait.
async fn failed(context: &Context, fire: &Fire) {
    if context.self_webhook.is_way_good(context).await {
        tokio::select! {
            () = tokio::time::sleep(RETRY_PAUSE) => {}
            () = context.stop.cancelled() => {}
        }
        context.self_webhook.ended(&fire.item);
    } else {
        context.self_webhook.failed(&fire.item);
    }
    // What gets lost here is swept up.
    let _ = context.queue.hint_lanes(&[fire.lane.id]).await;
}

/// Whether somebody runs the job, or ran it.
async fn is_taken_up(context: &Context, fire: &Fire) -> bool {
    let row = context.store.work(fire.item.tenant, fire.item.work).await;
    let now = context.store.now().await;
    match (row, now) {
        (Ok(Some(row)), Ok(now)) => !row.state.is_claimable() || row.run_at > now,
        (Ok(None), _) => true,
        _ => false,
    }
}

/// One sweep.
pub async fn sweep_tick(context: Arc<Context>) {
    if let Err(error) = sweep(&context).await {
        tracing::debug!(%error, "there was no sweep; it will be tried again");
    }
}

/// Fires again for what should have run long ago, and says how many lanes had such jobs.
pub async fn sweep(context: &Context) -> Result<usize> {
    let stuck = context.store.now().await?.before(context.config.sweep_after);
    let waiting = context.store.waiting_lanes().await?;
    let lanes: Vec<LaneId> =
        waiting.into_iter().filter(|lane| lane.run_at <= stuck).map(|lane| lane.lane).collect();
    context.queue.fire_again(&lanes).await
}
