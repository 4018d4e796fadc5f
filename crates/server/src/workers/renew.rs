//! Renewals: a registration that ends by itself is made anew before it does, by one node.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use wakepost_store::Result;
use wakepost_store::moves::Renewal;

use crate::context::Context;
use crate::registering::{self, webhook_url};

/// How often it looks.
pub const PERIOD: Duration = Duration::from_secs(1);
/// How many it looks at.
const BATCH: u32 = 20;
/// How many it renews at once.
const AT_ONCE: usize = 8;
/// How long a node has for one.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long after a failure it is tried again, by whichever node: later than the first has given up.
const PAUSE: Duration = Duration::from_secs(60);

/// One look.
pub async fn tick(context: Arc<Context>) {
    let due = match context.store.due_renewals(BATCH).await {
        Ok(due) => due,
        Err(error) => {
            tracing::debug!(%error, "renewals could not be looked up");
            return;
        }
    };
    // A provider that does not answer must not keep the others' registrations from being renewed in time.
    let renewing = stream::iter(due).for_each_concurrent(AT_ONCE, async |renewal| {
        if let Err(error) = renew(&context, renewal).await {
            tracing::warn!(%error, source = %renewal.source, "a registration could not be renewed");
        }
    });
    tokio::select! {
        () = renewing => {}
        () = context.stop.cancelled() => {}
    }
}

async fn renew(context: &Context, renewal: Renewal) -> Result<()> {
    if !context.store.claim_renewal(renewal, PAUSE).await? {
        return Ok(());
    }
    // As it is now: another node may have renewed it a moment ago.
    context.directory.forget_source(renewal.source);
    let Some(live) = context.directory.source(renewal.source).await? else {
        return Ok(());
    };
    // Its pushes would be refused. Enabled again, it is renewed within a minute.
    if !live.source.config.enabled {
        return Ok(());
    }
    let url = webhook_url(context, &live);
    match tokio::time::timeout(PATIENCE, registering::register(context, &live, &url)).await {
        Ok(Ok(_)) => tracing::info!(source = %renewal.source, "a registration was renewed"),
        Ok(Err(halt)) => {
            tracing::warn!(%halt, source = %renewal.source, "a registration could not be renewed; it will be tried again");
        }
        Err(_) => {
            tracing::warn!(source = %renewal.source, "a renewal took too long; it will be tried again");
        }
    }
    Ok(())
}
