//! Lanes that rest until a rate or a budget lets the next item start.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::context::Context;

/// How long it sleeps where nothing rests.
const IDLE: Duration = Duration::from_secs(60);

/// Wakes lanes to the moment, until the server stops.
pub async fn run(context: Arc<Context>) {
    while !context.stop.is_cancelled() {
        let next = context.queue.wake_rested().await;
        tokio::select! {
            () = tokio::time::sleep_until(next.unwrap_or_else(|| Instant::now() + IDLE)) => {}
            () = context.queue.rest_changed() => {}
            () = context.stop.cancelled() => {}
        }
    }
}
