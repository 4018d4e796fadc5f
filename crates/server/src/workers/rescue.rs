//! The rescuer: ends leases that ran out, and runs that were asked to stop and did not.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wakepost_domain::backoff::Backoff;
use wakepost_domain::lease::Ticket;
use wakepost_domain::limits::CANCEL_PATIENCE;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{State, WorkKind};
use wakepost_store::moves::{Evidence, Expired, Guard};
use wakepost_store::{Result, StoreError};

use super::settle::{decide, settle_decided};
use crate::context::Context;
use crate::webhooks;

/// How often it looks.
pub const PERIOD: Duration = Duration::from_secs(1);
/// How many it ends at a time.
const BATCH: u32 = 500;
/// How many times in a row, when there are very many.
const ROUNDS_MAX: usize = 20;

/// How long a run that cannot be ended is left alone, so that it keeps nobody else from being rescued.
const ASIDE: Duration = Duration::from_secs(5);
/// How many are left alone at most.
const ASIDE_MAX: usize = 5_000;
/// So many failures in a row, one by one, may be the store's: enough for one look.
const FAILURES_MAX: usize = 10;

/// Runs that could not be ended, and until when they are left alone.
#[derive(Debug, Default)]
pub struct Aside(Mutex<HashMap<Ticket, Instant>>);

impl Aside {
    /// How many there are.
    fn count(&self) -> usize {
        let mut aside = self.0.lock();
        let now = Instant::now();
        aside.retain(|_, until| *until > now);
        aside.len()
    }

    fn has(&self, run: &Expired) -> bool {
        self.0.lock().contains_key(&run.ticket)
    }

    fn set(&self, run: &Expired) {
        let mut aside = self.0.lock();
        if aside.len() < ASIDE_MAX {
            aside.insert(run.ticket, Instant::now() + ASIDE);
        }
    }
}

/// One look.
pub async fn tick(context: Arc<Context>) {
    if let Err(error) = rescue(&context).await {
        tracing::warn!(%error, "expired leases could not be rescued; it will be tried again");
    }
}

/// Ends what has expired, and says how many there were.
pub async fn rescue(context: &Arc<Context>) -> Result<usize> {
    let mut rescued = 0;
    for _ in 0..ROUNDS_MAX {
        let limit = BATCH + context.aside.count() as u32;
        let mut expired = context.store.expired(CANCEL_PATIENCE, limit).await?;
        let full = expired.len() == limit as usize;
        expired.retain(|run| !context.aside.has(run));
        rescued += end(context, expired).await;
        if !full {
            break;
        }
    }
    context.metrics.rescued.inc_by(rescued as u64);
    Ok(rescued)
}

/// Ends these. One that cannot be ended must not keep the others from it: if all fail together, each is tried by
/// itself, and what fails then is set aside.
async fn end(context: &Arc<Context>, expired: Vec<Expired>) -> usize {
    let (mut count, mut failed) = end_together(context, expired).await;
    if failed.len() > 1 {
        let (mut left, mut in_a_row) = (Vec::new(), 0);
        for run in failed {
            let (ended, again) = end_together(context, vec![run]).await;
            count += ended;
            in_a_row = if again.is_empty() { 0 } else { in_a_row + 1 };
            left.extend(again);
            if in_a_row == FAILURES_MAX {
                // It may be the store, and nobody's own fault: the rest is for the next look, which begins after these.
                break;
            }
        }
        failed = left;
    }
    failed.iter().for_each(|run| context.aside.set(run));
    count
}

/// The owner of a delivery that was given up hears of it.
async fn tell(context: &Arc<Context>, run: &Expired) {
    let lane = context.directory.lanes(&[run.lane]).await.ok().and_then(|mut lanes| lanes.pop());
    if lane.is_some_and(|lane| lane.key.kind == WorkKind::Delivery) {
        webhooks::tell_of_dead_letter(context, run.ticket.tenant, run.ticket.work).await;
    }
}

/// Ends these in one move: each row is changed only if it is still what was seen. Answers how many were ended, and
/// which could not be.
async fn end_together(context: &Arc<Context>, expired: Vec<Expired>) -> (usize, Vec<Expired>) {
    let now = context.store.now().await.unwrap_or_else(|_| context.now());
    let batch = expired.iter().map(|row| {
        let over = row.lease_expires_at <= now;
        let (ending, guard, error) = match over {
            true => (Ending::Expired, Guard::ExpiredAt(row.lease_expires_at), "the lease ran out"),
            false => (
                Ending::Cancelled,
                Guard::CancelledBefore(now.before(CANCEL_PATIENCE)),
                "it was asked to stop and did not",
            ),
        };
        let error = Some(error.to_owned());
        decide(context, row.ticket, ending, &Backoff::default(), guard, error, Evidence::default())
    });
    let settled = settle_decided(context, batch.collect()).await;
    let (mut count, mut failed) = (0, Vec::new());
    for (run, settled) in expired.into_iter().zip(settled) {
        match settled {
            Ok(settled) => {
                count += 1;
                if settled.state == State::DeadLetter {
                    tell(context, &run).await;
                }
            }
            // Somebody else was quicker, or its worker came back in time.
            Err(StoreError::LeaseLost) => {}
            Err(error) => {
                let run_id = run.ticket.run_id();
                tracing::warn!(%error, %run_id, "a run could not be ended; it will be tried again");
                failed.push(run);
            }
        }
    }
    (count, failed)
}
