//! Events that a webhook never got, a page at a time.

use wakepost_domain::event_type;
use wakepost_store::moves::{EventFilter, NewDelivery, Operation, Page};
use wakepost_store::{Result, failpoint};

use super::{Dealt, PAGE, asked};
use crate::backfilling::Backfill;
use crate::context::Context;
use crate::publishing::first_delivery;

/// Makes the next deliveries. A page that is done again makes nothing again, and counts the same.
pub async fn page(context: &Context, operation: &Operation) -> Result<Dealt> {
    let asked: Backfill = asked(operation)?;
    let filter = EventFilter {
        published: true,
        since: Some(asked.since),
        until: asked.until,
        ..EventFilter::default()
    };
    // Of those that were there when it was asked for.
    let before = Some(operation.position.unwrap_or(operation.id.0));
    let rows = context.store.events(operation.tenant, filter, Page { before, limit: PAGE }).await?;
    let mut dealt = Dealt::of(&rows, |row| row.event.id.0);
    let webhook = context.directory.webhook(operation.tenant, asked.webhook).await?;
    let tenant = context.directory.tenant(operation.tenant).await?;
    let (Some(webhook), Some(tenant)) = (webhook, tenant) else {
        dealt.is_over = true;
        return Ok(dealt);
    };
    let wanted = rows.iter().map(|row| &row.event).filter(|event| {
        webhook.subscribes(&event.event_type) && !event_type::is_ours(&event.event_type)
    });
    // They go out now, whatever the webhook's first delay is, and in no order: their own time is over.
    let items = wanted.map(|event| {
        let delivery = first_delivery(&tenant, &webhook, event.id, None);
        (event.id, NewDelivery { run_at: None, ..delivery })
    });
    let items: Vec<_> = items.collect();
    if items.is_empty() {
        return Ok(dealt);
    }
    failpoint::pass_async("backfill.before_page").await?;
    let made = context.store.add_deliveries(operation.tenant, items).await?;
    dealt.matched += made.len() as i64;
    dealt.done += made.len() as i64;
    let _ = context.queue.hint_all_nodes(&[webhook.lane]).await;
    Ok(dealt)
}
