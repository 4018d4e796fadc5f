//! Bulk work: a page at a time, by whichever node has it. Each item is done once, however often that is interrupted.

mod backfill;
mod dead_letters;
mod inbox;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use serde::de::DeserializeOwned;
use wakepost_domain::{OperationId, Timestamp, Ulid, WorkId};
use wakepost_store::moves::{Operation, OperationKind, OperationStep};
use wakepost_store::{Result, StoreError, failpoint};

use crate::context::Context;

/// How often it looks.
pub const PERIOD: Duration = Duration::from_millis(500);
/// How long a node has for one page.
const HOLD: Duration = Duration::from_secs(15);
/// How many items it deals with at a time.
const PAGE: u32 = 100;
/// How many pages in a row.
const PAGES_MAX: usize = 20;

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

/// What a page came to.
struct Dealt {
    /// The last item that was looked at.
    position: Option<Ulid>,
    matched: i64,
    done: i64,
    failed: i64,
    /// Whether it was the last page.
    is_over: bool,
}

impl Dealt {
    /// A page of which nothing is done yet.
    fn of<T>(rows: &[T], id: fn(&T) -> Ulid) -> Dealt {
        let is_over = rows.len() < PAGE as usize;
        Dealt { position: rows.last().map(id), matched: 0, done: 0, failed: 0, is_over }
    }
}

/// Deals with the next page of an operation; answers whether there was one.
async fn page(context: &Arc<Context>) -> Result<bool> {
    let Some(operation) = context.store.take_operation(HOLD).await? else {
        return Ok(false);
    };
    let dealt = match operation.kind {
        OperationKind::InboxReplay => inbox::replay_page(context, &operation).await?,
        OperationKind::DeadLetterReplay => dead_letters::replay_page(context, &operation).await?,
        OperationKind::WebhookRecover => dead_letters::replay_page(context, &operation).await?,
        OperationKind::WebhookBackfill => backfill::page(context, &operation).await?,
        OperationKind::DeadLetterPurge => dead_letters::purge_page(context, &operation).await?,
    };
    failpoint::pass_async("operation.before_position").await?;
    let Dealt { position, matched, done, failed, is_over } = dealt;
    let (id, turn) = (operation.id, operation.turn);
    let step = OperationStep { id, turn, position, matched, done, failed, is_over };
    context.store.advance_operation(step).await?;
    Ok(true)
}

/// What something is replayed as follows from the operation, so that it knows its own work again. Such ids are later than
/// the operation's own: what it makes is never among what it looks at.
fn replayed_id(operation: OperationId, old: Ulid) -> WorkId {
    let mut hash = digest::Context::new(&digest::SHA256);
    hash.update(b"replay");
    hash.update(&operation.to_bytes());
    hash.update(&old.to_bytes());
    let bits: [u8; 16] = hash.finish().as_ref()[..16].try_into().expect("SHA-256 has 32 bytes");
    let later = Timestamp::from_millis(operation.0.time().as_millis() + 1);
    WorkId(Ulid::from_parts(later, u128::from_be_bytes(bits)))
}

/// An item whose record cannot be read fails by itself: it must not keep the others from their turn for ever. Anything
/// else that goes wrong ends the page, which is tried again.
fn set_aside(item: String, error: StoreError) -> Result<()> {
    match error {
        StoreError::Corrupt(_) => {
            tracing::error!(%error, item, "bulk work left an item out");
            Ok(())
        }
        error => Err(error),
    }
}

/// What was asked for.
fn asked<T: DeserializeOwned>(operation: &Operation) -> Result<T> {
    serde_json::from_str(&operation.asked)
        .map_err(|_| StoreError::Corrupt(format!("{} cannot be read", operation.id)))
}
