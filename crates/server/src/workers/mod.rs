//! The loops behind the scenes, one a file. Each is safe to run on every node at once.

pub mod alerts;
pub mod approvals;
pub mod fire;
pub mod housekeeping;
pub mod hub;
pub mod operations;
pub mod outbox;
pub mod pages;
pub mod push;
pub mod renew;
pub mod rescue;
pub mod rests;
pub mod retention;
pub mod schedule;
pub mod series;
pub mod settle;
pub mod timers;
pub mod webhooks;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::context::Context;
use crate::telemetry::traces;

/// Starts the loops. They end when the server is asked to stop; pushed runs get their grace.
pub fn start(context: &Arc<Context>, tracker: &TaskTracker) {
    every(context, tracker, timers::PERIOD, timers::tick);
    every(context, tracker, timers::RESYNC_PERIOD, timers::resync_tick);
    every(context, tracker, rescue::PERIOD, rescue::tick);
    every(context, tracker, schedule::PERIOD, schedule::tick);
    every(context, tracker, approvals::PERIOD, approvals::tick);
    every(context, tracker, renew::PERIOD, renew::tick);
    every(context, tracker, operations::PERIOD, operations::tick);
    every(context, tracker, retention::PERIOD, retention::tick);
    every(context, tracker, retention::PERIOD, retention::own_tick);
    every(context, tracker, housekeeping::PERIOD, housekeeping::tick);
    every(context, tracker, fire::SWEEP_PERIOD, fire::sweep_tick);
    every(context, tracker, webhooks::PERIOD, webhooks::tick);
    every(context, tracker, outbox::PERIOD, outbox::tick);
    every(context, tracker, context.config.alerts_every, alerts::tick);
    every(context, tracker, series::FLUSH_PERIOD, series::flush_tick);
    every(context, tracker, series::SAMPLE_PERIOD, series::sample_tick);
    tracker.spawn(push::run(context.clone(), tracker.clone()));
    tracker.spawn(rests::run(context.clone()));
    tracker.spawn(traces::run(context.clone()));
    tracker.spawn(fire::run(context.clone(), tracker.clone()));
}

/// Runs a step again and again, with a pause between two, until the server stops.
fn every<F, S>(context: &Arc<Context>, tracker: &TaskTracker, period: Duration, step: S)
where
    F: Future<Output = ()> + Send,
    S: Fn(Arc<Context>) -> F + Send + 'static,
{
    let context = context.clone();
    tracker.spawn(async move {
        while !context.stop.is_cancelled() {
            step(context.clone()).await;
            tokio::select! {
                () = tokio::time::sleep(period) => {}
                () = context.stop.cancelled() => {}
            }
        }
    });
}
