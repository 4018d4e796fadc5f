//! Receipts of refused requests, explained and written off the request's path, and dropped when there are too
//! many.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use tokio::sync::mpsc;
use wakepost_domain::Timestamp;
use wakepost_providers::{Check, EXPLAINED_BYTES_MAX, OtherSecret, Refusal, Request, explain};
use wakepost_store::moves::{Ledger, NewReceipt};

use crate::directory::{Directory, LiveSource};

const WAITING_MAX: usize = 1024;
const BATCH_MAX: usize = 256;
/// While more than this wait, nothing is explained: it is a flood, and bodies would pile up.
const EXPLAINED_WAITING_MAX: usize = 32;
/// How long the writer rests after a full batch: of a flood only the latest few are kept anyway.
const FLOOD_PAUSE: Duration = Duration::from_millis(100);

/// Where refusals are left.
#[derive(Clone)]
pub struct Rejections {
    queue: mpsc::Sender<Left>,
}

struct Left {
    receipt: NewReceipt,
    forged: Option<Box<Forged>>,
}

/// A request whose signature fits nothing, to be looked into.
pub(super) struct Forged {
    pub source: Arc<LiveSource>,
    pub method: Method,
    pub url: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub now: Timestamp,
    pub refusal: Refusal,
}

impl Rejections {
    /// Starts the writer.
    pub fn start(ledger: Arc<dyn Ledger + Send + Sync>, directory: Arc<Directory>) -> Rejections {
        let (queue, mut waiting) = mpsc::channel(WAITING_MAX);
        tokio::spawn(async move {
            let mut batch: Vec<Left> = Vec::with_capacity(BATCH_MAX);
            loop {
                let count = waiting.recv_many(&mut batch, BATCH_MAX).await;
                if count == 0 {
                    return;
                }
                let mut receipts = Vec::with_capacity(count);
                for left in batch.drain(..) {
                    receipts.push(explained(&directory, left).await);
                }
                if let Err(error) = ledger.keep_rejections(receipts).await {
                    tracing::debug!(%error, "receipts of refused requests were not kept");
                }
                if count == BATCH_MAX {
                    tokio::time::sleep(FLOOD_PAUSE).await;
                }
            }
        });
        Rejections { queue }
    }

    /// Whether a request with this body would be looked into now.
    pub(super) fn explains(&self, body: &Bytes) -> bool {
        let waiting = WAITING_MAX - self.queue.capacity();
        waiting < EXPLAINED_WAITING_MAX && body.len() <= EXPLAINED_BYTES_MAX
    }

    /// Leaves a refusal. Under a flood some are dropped: they are counted all the same.
    pub(super) fn leave(&self, receipt: NewReceipt, forged: Option<Box<Forged>>) {
        let _ = self.queue.try_send(Left { receipt, forged });
    }
}

/// The receipt, with what else can be found out about a signature that fits nothing.
async fn explained(directory: &Directory, left: Left) -> NewReceipt {
    let Left { mut receipt, forged } = left;
    let Some(forged) = forged else {
        return receipt;
    };
    let live = &forged.source;
    let mut others: Vec<(String, String)> = Vec::new();
    if let Some(previous) = &live.source.secrets.previous {
        others.push((previous.clone(), "the previous secret, which has ended".to_owned()));
    }
    for other in directory.kin(live).await.unwrap_or_default() {
        let what = format!("the secret of another source of this provider, {}", other.source.id);
        others.extend(other.source.secrets.current.clone().map(|secret| (secret, what)));
    }
    let others: Vec<OtherSecret<'_>> =
        others.iter().map(|(secret, what)| OtherSecret { secret, what }).collect();
    let secrets: Vec<&str> = live.source.secrets.live(forged.now).collect();
    let check = Check {
        secrets: &secrets,
        settings: &live.settings,
        now: forged.now,
        tolerance: live.tolerance(),
    };
    let request = Request {
        method: &forged.method,
        url: &forged.url,
        headers: &forged.headers,
        body: &forged.body,
        fetched: None,
    };
    if let Some(more) = explain(live.provider, &request, &check, &forged.refusal, &others) {
        receipt.detail = Some(match receipt.detail {
            Some(reason) => format!("{reason}; {more}"),
            None => more,
        });
    }
    receipt
}
