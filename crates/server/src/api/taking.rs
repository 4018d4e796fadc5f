//! Leases on their way into a caller's hands: what nobody takes is handed back.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;

use super::error::ApiError;
use crate::context::Context;
use crate::to_the_end::ToTheEnd;
use crate::workers::settle::{End, settle};

/// What a run that was handed back says of itself.
const UNTAKEN: &str = "whoever asked for it hung up before it was handed out";

/// A caller that waits for leases.
pub struct Taker<T> {
    /// Ends when the server stops, or the caller hangs up: no reason to wait any longer.
    pub stop: CancellationToken,
    give: oneshot::Sender<Vec<T>>,
}

impl<T> Taker<T> {
    /// Whether it hung up.
    pub fn is_gone(&self) -> bool {
        self.give.is_closed()
    }

    /// Gives it what it asked for. The leases of a caller that hung up are handed back: else each would last its whole
    /// time, and cost an attempt, though nobody has it.
    pub async fn give(self, context: &Context, leased: Vec<T>, tickets: Vec<Ticket>) {
        if self.give.send(leased).is_ok() {
            return;
        }
        let end = |ticket| End::plain(ticket, Ending::HandedBack, Some(UNTAKEN.to_owned()));
        // Runs among them that have ended meanwhile stay as they are.
        settle(context, tickets.into_iter().map(end).collect()).await;
    }
}

/// Leases for a caller, to the end: a claim whose answer nobody waits for would be a lease that nobody knows of.
pub async fn taken<T, W>(
    context: &Arc<Context>,
    lease: impl FnOnce(Taker<T>) -> W,
) -> Result<Vec<T>, ApiError>
where
    W: Future<Output = Result<(), ApiError>> + Send + 'static,
{
    let (give, take) = oneshot::channel();
    let stop = context.stop.child_token();
    let hangs_up = stop.clone().drop_guard();
    let mut leasing = ToTheEnd::of(lease(Taker { stop, give }));
    // Of a caller that hangs up these go first: what goes on without it must find it gone.
    let (mut take, _hangs_up) = (take, hangs_up);
    (&mut leasing).await?;
    // Nothing is waited for between: what was sent is answered.
    Ok(take.try_recv().unwrap_or_default())
}
