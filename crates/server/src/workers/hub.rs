//! Words from other nodes: settings that changed, lanes that have work.

use std::sync::Arc;

use tokio::sync::mpsc::Receiver;
use wakepost_domain::TenantId;
use wakepost_domain::lane::LaneId;

use super::timers;
use crate::context::Context;

/// Listens until the server stops. A word that is not known is a newer node's business.
pub async fn listen(context: Arc<Context>, mut words: Receiver<String>) {
    loop {
        let message = tokio::select! {
            message = words.recv() => message,
            () = context.stop.cancelled() => return,
        };
        let Some(message) = message else { return };
        let mut lanes = Vec::new();
        for word in message.split(' ') {
            match word.split_once(':') {
                Some(("w", lane)) => lanes.extend(lane.parse().map(LaneId)),
                Some(("s", source)) => {
                    if let Ok(source) = source.parse() {
                        context.directory.forget_source(source);
                        context.queue.rules_changed();
                    }
                }
                Some(("h", tenant)) => {
                    if let Ok(tenant) = tenant.parse() {
                        context.directory.forget_webhooks(TenantId(tenant));
                        context.directory.forget_types(TenantId(tenant));
                        context.queue.rules_changed();
                    }
                }
                Some(("c", tenant)) => {
                    if let Ok(tenant) = tenant.parse() {
                        let _ = context.queue.unpark(TenantId(tenant)).await;
                    }
                }
                _ => heard(&context, word).await,
            }
        }
        if !lanes.is_empty() {
            // What gets lost here is found again by the resync.
            let _ = context.queue.overhear(&lanes).await;
        }
    }
}

async fn heard(context: &Arc<Context>, word: &str) {
    match word {
        "k" => context.directory.forget_keys(),
        "t" => {
            context.directory.forget_tenants();
            context.queue.rules_changed();
        }
        "resync" => timers::resync_tick(context.clone()).await,
        _ => {}
    }
}
