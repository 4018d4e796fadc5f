//! Small things that can wait: when keys were last used, gauges, and a look at the store.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::work::State;

use crate::context::Context;
use crate::telemetry::metrics::Word;

/// How often.
pub const PERIOD: Duration = Duration::from_secs(15);

/// Writes down which keys were used, and counts live work.
pub async fn tick(context: Arc<Context>) {
    // A store that was read-only is found writable again even if nobody asks whether we are ready.
    let _ = context.store.ping().await;
    let used: Vec<_> = context.used_keys.lock().drain().collect();
    if !used.is_empty()
        && let Err(error) = context.store.touch_keys(used).await
    {
        tracing::debug!(%error, "the use of keys was not written down");
    }
    let Ok(counts) = context.store.live_counts().await else {
        return;
    };
    for state in State::ALL.into_iter().filter(|state| !state.is_terminal()) {
        let sum = counts.iter().filter(|row| row.state == state).map(|row| row.count).sum();
        context.metrics.live.get_or_create(&Word { word: state.as_str() }).set(sum);
    }
}
