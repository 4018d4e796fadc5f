//! Retention: removes old history in small steps, so that nobody waits for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::retention::History;
use wakepost_domain::{Timestamp, Ulid};
use wakepost_store::Result;
use wakepost_store::moves::OwnWalk;

use crate::context::Context;

/// How often it starts.
pub const PERIOD: Duration = Duration::from_secs(60);
/// How often one node goes through what tenants keep for less long than the server does. Their ages are days.
const OWN_PERIOD: Duration = Duration::from_secs(3600);
/// The pause between two steps while there is more to do.
const PAUSE: Duration = Duration::from_millis(50);
/// So many failures end a pass.
const FAILURES_MAX: u32 = 5;
/// How many steps in a row.
const STEPS_MAX: usize = 500;

/// Removes what is too old.
pub async fn tick(context: Arc<Context>) {
    for _ in 0..STEPS_MAX {
        let before = context.config.retention.before(context.now());
        let pruned = context.store.prune(before).await;
        if let Ok(pruned) = &pruned {
            context.metrics.pruned.inc_by(pruned.rows);
        }
        match pruned {
            Ok(pruned) if pruned.more && !context.stop.is_cancelled() => {
                tokio::time::sleep(PAUSE).await
            }
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "old history could not be removed; it will be tried again");
                return;
            }
        }
    }
}

/// Removes what tenants keep for less long, if no node did so lately.
pub async fn own_tick(context: Arc<Context>) {
    let passed: Result<()> = async {
        let walks = own_walks(&context, context.now()).await?;
        if walks.is_empty() || !context.store.take_turn("retention.own", OWN_PERIOD).await? {
            return Ok(());
        }
        go(&context, walks).await;
        Ok(())
    }
    .await;
    if let Err(error) = passed {
        tracing::debug!(%error, "tenants' retention could not be looked up; it will be tried again");
    }
}

/// What there is to go through. Tenants without ages of their own cost nothing. Work comes before events and bodies, which
/// stay as long as it needs them.
pub async fn own_walks(context: &Context, now: Timestamp) -> Result<Vec<OwnWalk>> {
    let (mut walks, mut receipts) = (Vec::new(), Vec::new());
    for tenant in context.directory.all_tenants().await? {
        let own = &tenant.settings.retention;
        let before = |kind| context.config.retention.own_before(own, kind, now);
        let id = tenant.id;
        walks.extend(before(History::DeadLetters).map(|before| OwnWalk::DeadLetters(id, before)));
        walks.extend(before(History::Runs).map(|before| OwnWalk::Runs(id, before)));
        walks.extend(before(History::Bodies).map(|before| OwnWalk::Bodies(id, before)));
        walks.extend(before(History::Events).map(|before| OwnWalk::Events(id, before)));
        receipts.extend(before(History::Receipts).map(|before| (id, before)));
    }
    if !receipts.is_empty() {
        walks.push(OwnWalk::Receipts(receipts.into()));
    }
    Ok(walks)
}

/// Goes through it, a step of each walk in turn: a tenant with much to remove keeps nobody waiting. It ends when all walks
/// have, and each does.
pub async fn go(context: &Context, walks: Vec<OwnWalk>) {
    let mut walks: VecDeque<_> = walks.into_iter().map(|walk| (walk, Ulid::MIN)).collect();
    let mut failures = 0;
    while let Some((walk, after)) = walks.pop_front() {
        match context.store.prune_own(walk.clone(), after).await {
            Ok(walked) => {
                context.metrics.pruned.inc_by(walked.rows);
                walks.extend(walked.next.map(|next| (walk, next)));
            }
            // The others' go on. If they fail too, it is the database.
            Err(error) => {
                tracing::warn!(%error, "a tenant's old history could not be removed; it will be tried again");
                failures += 1;
            }
        }
        if failures == FAILURES_MAX || context.stop.is_cancelled() {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}
