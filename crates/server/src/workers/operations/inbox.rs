//! Events that are run again, a page at a time.
//!
//! What an event is run again as follows from the operation. So a page that is done again, however late, because a node
//! died before it noted how far it was, finds what it did and does nothing twice.

use std::sync::Arc;

use wakepost_domain::event::Event;
use wakepost_domain::{AuditId, WorkId};
use wakepost_store::moves::{AuditEntry, Operation, Page};
use wakepost_store::{Result, StoreError};

use super::{Dealt, PAGE, asked, replayed_id};
use crate::context::Context;
use crate::replays::{self, InboxReplay, Wish};

/// Runs the next events again.
pub async fn replay_page(context: &Arc<Context>, operation: &Operation) -> Result<Dealt> {
    let asked: InboxReplay = asked(operation)?;
    let filter = asked.filter.clone().resolve(context, operation.tenant).await?;
    // Of those that were there when it was asked for.
    let before = Some(operation.position.unwrap_or(operation.id.0));
    let rows = context.store.events(operation.tenant, filter, Page { before, limit: PAGE }).await?;
    let mut dealt = Dealt::of(&rows, |row| row.event.id.0);
    for row in &rows {
        dealt.matched += 1;
        if asked.dry_run {
            continue;
        }
        if replay(context, operation, &asked, &row.event).await? {
            dealt.done += 1;
        } else {
            dealt.failed += 1;
        }
    }
    Ok(dealt)
}

/// Replays one event; answers whether this operation did, now or before.
async fn replay(
    context: &Arc<Context>,
    operation: &Operation,
    asked: &InboxReplay,
    event: &Event,
) -> Result<bool> {
    let new = replayed_id(operation.id, event.id.0);
    if is_made(context, event, new).await? {
        return Ok(true);
    }
    let wish = Wish {
        tenant: operation.tenant,
        from: replays::of_event(context, event).await?,
        id: new,
        fresh_scope: asked.fresh_scope,
        audit: AuditEntry {
            id: AuditId(context.new_id()),
            tenant: Some(operation.tenant),
            actor: asked.actor.clone(),
            action: "work.replay".to_owned(),
            target: event.id.to_string(),
            note: Some(asked.note.clone()),
        },
    };
    match replays::make(context, wish, None).await {
        Ok(_) => Ok(true),
        // Somebody was faster: a person, or another node that has this operation too.
        Err(StoreError::InvalidState(_)) => is_made(context, event, new).await,
        Err(StoreError::NotFound) => Ok(false),
        Err(error) => super::set_aside(event.id.to_string(), error).map(|()| false),
    }
}

async fn is_made(context: &Context, event: &Event, new: WorkId) -> Result<bool> {
    let work = context.store.work_of_event(event.tenant, event.id).await?;
    Ok(work.iter().any(|row| row.id == new))
}
