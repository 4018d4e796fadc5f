//! The outbox: what users of PostgreSQL published within transactions of their own, taken into the ledger.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::value::RawValue;
use wakepost_store::moves::Outboxed;
use wakepost_store::{Result, StoreError};

use crate::chains::Origin;
use crate::context::Context;
use crate::publishing::{self, Batch, Publication};

/// How often it looks.
pub const PERIOD: Duration = Duration::from_millis(200);
/// How many it takes at a time.
const BATCH: u32 = 200;
/// How many of them it publishes at once.
const AT_ONCE: usize = 32;
/// How many such pages in a row.
const PAGES_MAX: usize = 20;

/// One look.
pub async fn tick(context: Arc<Context>) {
    for _ in 0..PAGES_MAX {
        match page(&context).await {
            Ok(true) if !context.stop.is_cancelled() => {}
            Ok(_) => return,
            Err(error) => {
                tracing::debug!(%error, "the outbox could not be read; it will be tried again");
                return;
            }
        }
    }
}

/// Takes what waits; answers whether there may be more. A row that two nodes take, or one takes again after a crash, is
/// published under the key of its own id, and so is published once.
async fn page(context: &Arc<Context>) -> Result<bool> {
    let rows = context.store.outbox(BATCH).await?;
    let full = rows.len() == BATCH as usize;
    // Together, so that they share commits.
    let taken =
        futures_util::stream::iter(rows).map(async |row| (row.number, take(context, row).await));
    let taken: Vec<_> = taken.buffer_unordered(AT_ONCE).collect().await;
    let (mut done, mut failed) = (Vec::new(), None);
    for (number, outcome) in taken {
        match outcome {
            Ok(Ok(())) => done.push(number),
            Ok(Err(reason)) => {
                tracing::warn!(number, reason, "an event in the outbox cannot be published");
                context.store.outbox_refused(number, reason).await?;
            }
            Err(error) => failed = Some(error),
        }
    }
    if !done.is_empty() {
        context.store.outbox_done(done).await?;
    }
    failed.map_or(Ok(full), Err)
}

async fn take(context: &Arc<Context>, row: Outboxed) -> Result<std::result::Result<(), String>> {
    let Some(tenant) = context.directory.tenant_by_slug(&row.tenant).await? else {
        return Ok(Err(format!("there is no tenant {}", row.tenant)));
    };
    let Ok(data) = RawValue::from_string(row.data) else {
        return Ok(Err("its data is not JSON".to_owned()));
    };
    let mut item = Publication {
        event_type: row.event_type,
        data,
        api_version: None,
        version: None,
        previous_attributes: None,
        livemode: true,
        dedup_key: row.dedup_key,
        order_key: None,
        deliver_at: None,
    };
    match publishing::check(context, &tenant, &item).await? {
        Ok(version) => item.version = version,
        Err(unfit) => return Ok(Err(format!("{} {}", unfit.field, unfit.message))),
    }
    let call_key = Some(format!("outbox:{}", row.event));
    let origin = Origin::default();
    let id = Some(row.event);
    let batch = Batch { items: vec![item], call_key, origin, id, by_hand: None };
    match publishing::publish(context, &tenant, batch).await {
        Ok(_) => Ok(Ok(())),
        Err(StoreError::Mismatch(_)) => {
            Ok(Err("another event was published under its dedup key".to_owned()))
        }
        Err(error) => Err(error),
    }
}
