//! The ceilings and the receiver of deliveries, each served by a child process of this program.

pub mod bare;
pub mod ceiling;
pub mod receiver;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A runtime like that of `wakepost`.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()
}

/// Ends at SIGTERM.
fn stop_at_sigterm() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = CancellationToken::new();
    let ends = stop.clone();
    tokio::spawn(async move {
        terminate.recv().await;
        ends.cancel();
    });
    Ok(stop)
}
