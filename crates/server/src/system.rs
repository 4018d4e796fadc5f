//! The real clock and real chance.

use std::time::{SystemTime, UNIX_EPOCH};

use wakepost_domain::Timestamp;
use wakepost_domain::ports::{Clock, Entropy};

/// The machine's clock. In a debug build a test may move it, while the server runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        Timestamp::from_millis(ms.saturating_add(moved_ms()))
    }
}

/// By how much a test moved the clock: what the file says that `WAKEPOST_CLOCK_FILE` names.
#[cfg(debug_assertions)]
fn moved_ms() -> i64 {
    use std::path::PathBuf;
    use std::sync::LazyLock;
    static FILE: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("WAKEPOST_CLOCK_FILE").map(PathBuf::from));
    let text = FILE.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(not(debug_assertions))]
fn moved_ms() -> i64 {
    0
}

/// The machine's random bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        // Without chance there are no keys and no ids: going on would be worse than stopping.
        getrandom::fill(buffer).expect("the system gives random bytes");
    }
}
