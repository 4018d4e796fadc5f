//! Retention: removes old history in small steps, so that nobody waits for it.

use std::sync::Arc;
use std::time::Duration;

use crate::context::Context;

/// How often it starts.
pub const PERIOD: Duration = Duration::from_secs(60);
/// The pause between two steps while there is more to do.
const PAUSE: Duration = Duration::from_millis(50);
/// How many steps in a row.
const STEPS_MAX: usize = 500;

/// Removes what is too old.
pub async fn tick(context: Arc<Context>) {
    for _ in 0..STEPS_MAX {
        let before = context.config.retention.before(context.now());
        let pruned = context.store.prune(before).await;
        if let Ok(pruned) = &pruned {
            context.metrics.pruned.inc_by(pruned.rows);
        }
        match pruned {
            Ok(pruned) if pruned.more && !context.stop.is_cancelled() => {
                tokio::time::sleep(PAUSE).await
            }
            Ok(_) => return,
            Err(error) => {
                tracing::warn!(%error, "old history could not be removed; it will be tried again");
                return;
            }
        }
    }
}
