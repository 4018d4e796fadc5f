//! Whether the machine is quiet: what other processes take of it meanwhile.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::stats::Spread;
use crate::world::usage;

/// A window during which others took more than this share of the machine is spoilt.
const OTHERS_MAX: f64 = 0.15;
/// How long one look takes, and the pause between two.
const LOOK: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(4);

/// Keeps account of the others.
pub struct Quiet {
    /// Until when spoilt rounds are repeated.
    until: Instant,
    shares: Mutex<Vec<f64>>,
}

impl Quiet {
    /// With this much patience for others.
    pub fn new(patience: Duration) -> Quiet {
        Quiet { until: Instant::now() + patience, shares: Mutex::default() }
    }

    /// Waits for a quiet moment, as long as the patience lasts.
    pub async fn wait(&self, cores: usize) {
        while Instant::now() < self.until {
            let before = usage::machine_cpu();
            tokio::time::sleep(LOOK).await;
            let busy = usage::machine_cpu().saturating_sub(before);
            if busy.as_secs_f64() / LOOK.as_secs_f64() / cores as f64 <= OTHERS_MAX {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Notes the share that others took during a window.
    pub fn note(&self, share: f64) {
        self.lock().push(share);
    }

    /// The windows so far; see [`Quiet::accepts`].
    pub fn mark(&self) -> usize {
        self.lock().len()
    }

    /// Whether the windows since `mark` count. If not, they are forgotten.
    pub fn accepts(&self, mark: usize) -> bool {
        let mut shares = self.lock();
        let spoilt = shares[mark..].iter().any(|share| *share > OTHERS_MAX);
        if !spoilt || Instant::now() >= self.until {
            return true;
        }
        shares.truncate(mark);
        false
    }

    /// The shares that others took during the windows that count.
    pub fn others(&self) -> Spread {
        Spread::of(self.lock().iter().copied())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<f64>> {
        self.shares.lock().expect("nobody panics while holding it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spoilt_window_is_forgotten_while_patience_lasts() {
        let quiet = Quiet::new(Duration::from_secs(60));
        quiet.note(0.1);
        let mark = quiet.mark();
        quiet.note(0.5);
        assert!(!quiet.accepts(mark));
        assert_eq!(quiet.others().high, 0.1);
    }

    #[test]
    fn without_patience_every_window_counts() {
        let quiet = Quiet::new(Duration::ZERO);
        quiet.note(0.5);
        assert!(quiet.accepts(0));
        assert_eq!(quiet.others().high, 0.5);
    }
}
