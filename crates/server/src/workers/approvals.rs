//! Approvals that nobody gave: an item whose proposal was not decided on in time is cancelled, as by a rejection.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::AuditId;
use wakepost_store::Result;
use wakepost_store::moves::{AuditEntry, Decided, Overdue};

use crate::context::Context;

/// How often it looks.
pub const PERIOD: Duration = Duration::from_secs(1);
/// How many it ends at a time; the rest at the next look.
const BATCH: u32 = 200;

/// One look. Every node looks: the store gives each item up once, on its own clock.
pub async fn tick(context: Arc<Context>) {
    let overdue = match context.store.overdue(BATCH).await {
        Ok(overdue) => overdue,
        Err(error) => {
            tracing::debug!(%error, "approvals could not be looked at; it will be tried again");
            return;
        }
    };
    for proposal in overdue {
        if let Err(error) = expire(&context, proposal).await {
            tracing::warn!(%error, "an approval that nobody gave could not be ended; it will be tried again");
        }
    }
}

async fn expire(context: &Context, proposal: Overdue) -> Result<()> {
    let work = proposal.kind.map(|kind| proposal.work.text(kind));
    let audit = AuditEntry {
        id: AuditId(context.new_id()),
        tenant: Some(proposal.tenant),
        actor: "wakepost".to_owned(),
        action: "effect.expire".to_owned(),
        target: format!("{} {} {}", work.unwrap_or_default(), proposal.key, proposal.hash),
        note: None,
    };
    if let Some(Decided::Cancelled { next_in_order }) =
        context.store.expire(proposal, audit).await?
    {
        context.queue.hint_all_nodes(next_in_order.as_slice()).await?;
    }
    Ok(())
}
