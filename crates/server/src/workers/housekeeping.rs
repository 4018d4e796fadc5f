//! Small things that can wait: when keys were last used, gauges, and a look at the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakepost_domain::work::State;

use crate::context::Context;
use crate::telemetry::metrics::Word;

/// How often.
pub const PERIOD: Duration = Duration::from_secs(15);

/// Writes down which keys were used, and counts live work.
pub async fn tick(context: Arc<Context>) {
    // A store that was read-only is found writable again even if nobody asks whether we are ready.
    let began = Instant::now();
    if context.store.ping().await.is_ok() {
        context.metrics.stored("ping", began.elapsed());
    }
    context.metrics.store_waiting.set(context.store.waiting() as i64);
    // Read here and not on another thread: it waits for no disk, and a simulation has one thread only.
    let (memory, files) = process();
    context.metrics.memory.set(memory);
    context.metrics.files.set(files);
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

/// How much memory the process has, in bytes, and how many open files; 0 where the system does not say.
fn process() -> (i64, i64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = resident.and_then(|text| text.trim().trim_end_matches(" kB").parse::<i64>().ok());
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count());
    (kib.unwrap_or_default() * 1024, i64::try_from(files).unwrap_or_default())
}
