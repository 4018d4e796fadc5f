//! Events that are run again, a page at a time.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use wakepost_domain::event::Event;
use wakepost_domain::{AuditId, OperationId, WorkId};
use wakepost_store::moves::{AuditEntry, Idempotency, Operation, Page};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use super::{Dealt, PAGE, asked};
use crate::context::Context;
use crate::replays::{self, InboxReplay, Wish};

/// How long it is known that an item was dealt with: far longer than a page takes.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

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
        match replay(context, operation, &asked, &row.event).await {
            Ok(()) => dealt.done += 1,
            Err(StoreError::InvalidState(_) | StoreError::NotFound) => dealt.failed += 1,
            Err(error) => {
                super::set_aside(row.event.id.to_string(), error)?;
                dealt.failed += 1;
            }
        }
    }
    Ok(dealt)
}

/// Replays one event, unless this operation did so before and was interrupted then.
async fn replay(
    context: &Arc<Context>,
    operation: &Operation,
    asked: &InboxReplay,
    event: &Event,
) -> Result<()> {
    let key = item_key(operation.id, event);
    let answer = context.vault.key(operation.tenant).await?.seal(Slot::Answer(&key), b"{}");
    let until = context.now().after(REMEMBERED);
    let once = Idempotency { key, body_hash: [0; 32], answer, until };
    let wish = Wish {
        tenant: operation.tenant,
        from: replays::of_event(context, event).await?,
        id: WorkId(context.new_id()),
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
    replays::make(context, wish, Some(once)).await.map(|_| ())
}

fn item_key(operation: OperationId, event: &Event) -> [u8; 16] {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(b"operation");
    hash.update(&operation.to_bytes());
    hash.update(&event.id.to_bytes());
    hash.finish().as_ref()[..16].try_into().expect("SHA-256 has 32 bytes")
}
