//! Words from other nodes: settings that changed, lanes that have work.

use std::sync::Arc;

use tokio::sync::mpsc::Receiver;

use super::timers;
use crate::context::Context;
use crate::hub::{Unknown, Word};

/// Listens until the server stops.
pub async fn listen(context: Arc<Context>, mut messages: Receiver<String>) {
    loop {
        let message = tokio::select! {
            message = messages.recv() => message,
            () = context.stop.cancelled() => return,
        };
        let Some(message) = message else { return };
        let mut lanes = Vec::new();
        for word in message.split(' ') {
            match word.parse() {
                Ok(Word::Ready(lane)) => lanes.push(lane),
                Ok(Word::Freed(tenant)) => {
                    let _ = context.queue.unpark(tenant).await;
                }
                Ok(Word::Changed(setting)) => context.forget(setting),
                Ok(Word::Resync) => timers::resync_tick(context.clone()).await,
                Err(Unknown) => {}
            }
        }
        if !lanes.is_empty() {
            // What gets lost here is found again by the resync.
            let _ = context.queue.overhear(&lanes).await;
        }
    }
}
