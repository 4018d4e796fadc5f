//! Keeping a pushed run's lease alive, and knowing when to stop it.

use std::time::Duration;

use tokio::time::Instant;
use wakepost_store::StoreError;
use wakepost_store::moves::Heartbeat;

use crate::context::Context;
use crate::queue::Pushed;

/// A run ends itself this long before its last moment, so that its end is still recorded.
const MARGIN: Duration = Duration::from_secs(2);

/// A run that cannot renew its lease ends this long before it does.
const SAFETY: Duration = Duration::from_millis(200);

/// Why a run has to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The lease is somebody else's, or nobody's.
    Lost,
    /// An operator asked for it.
    Cancelled,
    /// It took too long.
    TimedOut,
    /// The node stops, and its grace is over.
    NodeStops,
}

/// Renews the lease until the run has to stop. Never returns while it may go on.
pub async fn keep(context: &Context, item: &Pushed, timeout: Duration) -> Stop {
    let (claimed, _, policy) = item;
    let end = Instant::now() + timeout.saturating_sub(MARGIN).max(Duration::from_millis(500));
    // Often enough that a stop which was asked for is heard soon.
    let period = (policy.lease / 3).clamp(Duration::from_millis(300), Duration::from_secs(2));
    // When the lease ends if no further beat gets through, by this node's own monotonic clock. Whoever
    // cannot renew it must assume that it is lost, and that another run is about to begin.
    let mut lost = Instant::now() + policy.lease.saturating_sub(SAFETY);
    let stopping = async {
        context.stop.cancelled().await;
        tokio::time::sleep(context.config.shutdown_grace).await;
    };
    tokio::pin!(stopping);
    loop {
        // One timer for all three: most runs are over before the first of them.
        tokio::select! {
            () = tokio::time::sleep_until(lost.min(end).min(Instant::now() + period)) => {}
            () = &mut stopping => return Stop::NodeStops,
        }
        let asked = Instant::now();
        if asked >= lost {
            return Stop::Lost;
        }
        if asked >= end {
            return Stop::TimedOut;
        }
        let beat = Heartbeat { ticket: claimed.ticket, extend: policy.lease, cost: None };
        let beating = context.store.heartbeat(vec![beat]);
        let Ok(mut answers) = tokio::time::timeout_at(lost, beating).await else {
            return Stop::Lost;
        };
        match answers.pop() {
            Some(Ok(answer)) if answer.cancel_requested => return Stop::Cancelled,
            Some(Ok(_)) => lost = asked + policy.lease.saturating_sub(SAFETY),
            Some(Err(StoreError::LeaseLost)) => return Stop::Lost,
            // The store is down: the next beat may get through before the lease ends.
            Some(Err(_)) | None => {}
        }
    }
}
