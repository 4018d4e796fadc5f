//! Keeping a lease alive while its job runs.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::context::Run;
use crate::backoff::Backoff;
use crate::{Client, Extension, LeasedJob};

/// Sends a heartbeat at every third of the lease. Returns when the lease is lost: the server says so, or no
/// heartbeat got through for as long as a lease lasts.
pub(super) async fn keep(
    client: &Client,
    job: &LeasedJob,
    lease_s: u64,
    run: &Run,
    cancel: &watch::Sender<bool>,
) {
    let lease = Duration::from_secs(lease_s);
    let mut good_until = Instant::now() + lease;
    let mut backoff = Backoff::default();
    let mut pause = lease / 3;
    loop {
        sleep(pause).await;
        let sent = Instant::now();
        let extension = Extension { extend_s: Some(lease_s), cost: run.cost() };
        let call = client.heartbeat(&job.id, &job.lease_token, &extension);
        // One that hangs is given up while there is time for another.
        match timeout_at(good_until.min(sent + lease / 3), call).await {
            Ok(Ok(beat)) => {
                // From when it was sent: the server counts from no earlier than that.
                good_until = sent + lease;
                backoff = Backoff::default();
                pause = lease / 3;
                if beat.cancel_requested {
                    cancel.send_replace(true);
                }
            }
            Ok(Err(error)) if is_final(&error) => return,
            Ok(Err(error)) => {
                tracing::warn!(job = %job.id, %error, "a heartbeat did not get through");
                pause = backoff.next().min(lease / 3);
                if Instant::now() + pause >= good_until {
                    return;
                }
            }
            Err(_elapsed) if Instant::now() >= good_until => return,
            Err(_elapsed) => {
                tracing::warn!(job = %job.id, "a heartbeat was not answered");
                pause = Duration::ZERO;
            }
        }
    }
}

fn is_final(error: &crate::Error) -> bool {
    error.problem().is_some_and(|problem| matches!(problem.status, 404 | 409))
}
