//! Waiting for a condition, never for a time.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// How long a test waits for what must happen, where the promise itself has no limit: long enough for a
/// busy machine, short enough to be told of.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(20);

/// Looks again and again until there is something to see.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, look: impl FnMut() -> F) -> T {
    within(PATIENCE, what, look).await
}

/// As [`until`], with a limit that is part of the promise.
pub async fn within<T, F: Future<Output = Option<T>>>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}
