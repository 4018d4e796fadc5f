//! Bulk work: a page at a time, by whichever node has it. Each item is done once, however often that is interrupted.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use wakepost_domain::event::Event;
use wakepost_domain::{AuditId, OperationId, WorkId};
use wakepost_store::moves::{AuditEntry, Idempotency, Operation, OperationStep, Page};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError, failpoint};

use crate::context::Context;
use crate::replays::{self, InboxReplay, Wish};

/// How often it looks.
pub const PERIOD: Duration = Duration::from_millis(500);
/// How long a node has for one page.
const HOLD: Duration = Duration::from_secs(15);
/// How many items it deals with at a time.
const PAGE: u32 = 100;
/// How many pages in a row.
const PAGES_MAX: usize = 20;
/// How long it is known that an item was dealt with: far longer than a page takes.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// One look.
pub async fn tick(context: Arc<Context>) {
    for _ in 0..PAGES_MAX {
        match page(&context).await {
            Ok(true) if !context.stop.is_cancelled() => {}
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "bulk work was interrupted; it goes on soon");
                return;
            }
        }
    }
}

/// Deals with the next page of an operation; answers whether there was one.
async fn page(context: &Context) -> Result<bool> {
    let Some(operation) = context.store.take_operation(HOLD).await? else {
        return Ok(false);
    };
    let asked: InboxReplay = serde_json::from_str(&operation.asked)
        .map_err(|_| StoreError::Corrupt(format!("{} cannot be read", operation.id)))?;
    let filter = asked.filter.clone().resolve(context, operation.tenant).await?;
    // Of those that were there when it was asked for.
    let before = Some(operation.position.unwrap_or(operation.id.0));
    let rows = context.store.events(operation.tenant, filter, Page { before, limit: PAGE }).await?;
    let (mut done, mut failed) = (0, 0);
    for row in &rows {
        if asked.dry_run {
            continue;
        }
        match replay(context, &operation, &asked, &row.event).await {
            Ok(()) => done += 1,
            Err(StoreError::InvalidState(_) | StoreError::NotFound) => failed += 1,
            Err(error) => return Err(error),
        }
    }
    failpoint::pass_async("operation.before_position").await?;
    let step = OperationStep {
        id: operation.id,
        turn: operation.turn,
        position: rows.last().map(|row| row.event.id.0),
        matched: rows.len() as i64,
        done,
        failed,
        is_over: rows.len() < PAGE as usize,
    };
    context.store.advance_operation(step).await?;
    Ok(true)
}

/// Replays one event, unless this operation did so before and was interrupted then.
async fn replay(
    context: &Context,
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
