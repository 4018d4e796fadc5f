//! Dead letters that are tried again or purged, a page at a time.
//!
//! What was done to one is written on the dead letter itself, in the transaction that did it: as what it was
//! replayed, or by which operation it was purged. So a page that is done again, because a node died before it noted
//! how far it was, finds what it did, does nothing twice, and counts it.

use std::sync::Arc;

use wakepost_domain::{AuditId, Timestamp, WorkId};
use wakepost_store::moves::{AuditEntry, Operation, Page, ReplayFrom, WorkRow};
use wakepost_store::{Result, StoreError, failpoint};

use super::{Dealt, PAGE, asked, replayed_id};
use crate::context::Context;
use crate::dead_letters::{DeadLetterPurge, DeadLetterReplay, DeadQuery};
use crate::replays::{self, Wish};

/// Tries the next dead letters again.
pub async fn replay_page(context: &Arc<Context>, operation: &Operation) -> Result<Dealt> {
    let asked: DeadLetterReplay = asked(operation)?;
    let rows = rows(context, operation, &asked.filter, asked.at).await?;
    let mut dealt = Dealt::of(&rows, |row| row.id.0);
    for row in &rows {
        let new = replayed_id(operation.id, row.id.0);
        let ours = row.replayed_as == Some(new);
        if !ours && (row.replayed_as.is_some() || row.purged_by.is_some()) {
            continue;
        }
        dealt.matched += 1;
        if asked.dry_run {
            continue;
        }
        if ours || replay(context, operation, &asked, row, new).await? {
            dealt.done += 1;
        } else {
            dealt.failed += 1;
        }
        failpoint::pass_async("replay.mid_batch").await?;
    }
    Ok(dealt)
}

/// Purges the next dead letters.
pub async fn purge_page(context: &Context, operation: &Operation) -> Result<Dealt> {
    let asked: DeadLetterPurge = asked(operation)?;
    let rows = rows(context, operation, &asked.filter, asked.at).await?;
    let mut dealt = Dealt::of(&rows, |row| row.id.0);
    let before = rows.iter().filter(|row| row.purged_by == Some(operation.id)).count() as i64;
    let open = rows.iter().filter(|row| row.replayed_as.is_none() && row.purged_by.is_none());
    let open: Vec<WorkId> = open.map(|row| row.id).collect();
    let wanted = open.len() as i64;
    let purged = match open.is_empty() {
        true => 0,
        false => context.store.purge(operation.tenant, open, operation.id).await? as i64,
    };
    dealt.matched = before + wanted;
    dealt.done = before + purged;
    // Somebody was faster.
    dealt.failed = wanted - purged;
    Ok(dealt)
}

/// The next of those that had been given up when it was asked for, whatever was done to them since.
async fn rows(
    context: &Context,
    operation: &Operation,
    filter: &DeadQuery,
    at: Timestamp,
) -> Result<Vec<WorkRow>> {
    let filter = filter.given_up_by(at, operation.id);
    let before = Some(operation.position.unwrap_or(operation.id.0));
    context.store.dead_letters(operation.tenant, filter, Page { before, limit: PAGE }).await
}

/// Tries one again; answers whether this operation did, now or before.
async fn replay(
    context: &Arc<Context>,
    operation: &Operation,
    asked: &DeadLetterReplay,
    row: &WorkRow,
    new: WorkId,
) -> Result<bool> {
    let wish = Wish {
        tenant: operation.tenant,
        from: ReplayFrom::Work(row.id),
        id: new,
        fresh_scope: asked.fresh_scope,
        audit: AuditEntry {
            id: AuditId(context.new_id()),
            tenant: Some(operation.tenant),
            actor: asked.actor.clone(),
            action: "work.replay".to_owned(),
            target: row.id.text(row.kind),
            note: Some(asked.note.clone()),
        },
    };
    match replays::make(context, wish, None).await {
        Ok(_) => Ok(true),
        // Somebody was faster: a person, or another node that has this operation too.
        Err(StoreError::InvalidState(_)) => {
            let now = context.store.work(operation.tenant, row.id).await?;
            Ok(now.is_some_and(|row| row.replayed_as == Some(new)))
        }
        Err(StoreError::NotFound) => Ok(false),
        Err(error) => super::set_aside(row.id.text(row.kind), error).map(|()| false),
    }
}
