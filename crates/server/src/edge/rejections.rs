//! Receipts of refused requests, written off the request's path and dropped when there are too many.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use wakepost_store::moves::{Ledger, NewReceipt};

const WAITING_MAX: usize = 1024;
const BATCH_MAX: usize = 256;
/// How long the writer rests after a full batch: of a flood only the latest few are kept anyway.
const FLOOD_PAUSE: Duration = Duration::from_millis(100);

/// Where refusals are left.
#[derive(Clone)]
pub struct Rejections {
    queue: mpsc::Sender<NewReceipt>,
}

impl Rejections {
    /// Starts the writer.
    pub fn start(ledger: Arc<dyn Ledger + Send + Sync>) -> Rejections {
        let (queue, mut waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move {
            let mut batch = Vec::with_capacity(BATCH_MAX);
            loop {
                let count = waiting.recv_many(&mut batch, BATCH_MAX).await;
                if count == 0 {
                    return;
                }
                if let Err(error) = ledger.keep_rejections(std::mem::take(&mut batch)).await {
                    tracing::debug!(%error, "receipts of refused requests were not kept");
                }
                if count == BATCH_MAX {
                    tokio::time::sleep(FLOOD_PAUSE).await;
                }
            }
        });
        Rejections { queue }
    }

    /// Leaves a refusal. Under a flood some are dropped: they are counted all the same.
    pub fn leave(&self, receipt: NewReceipt) {
        let _ = self.queue.try_send(receipt);
    }
}
