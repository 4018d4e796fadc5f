//! How much happens in a second: the differences between looks at the node's counters.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// How far back a rate looks.
pub const WINDOW: Duration = Duration::from_secs(10);
/// How many looks are kept at most.
const SAMPLES_MAX: usize = 64;
/// Counters, and what they count.
const COUNTED: [(&str, &str); 5] = [
    ("wakepost_inbound_requests_total", "received"),
    ("wakepost_claimed_total", "started"),
    ("wakepost_runs_total", "ended"),
    ("wakepost_leases_rescued_total", "rescued"),
    ("wakepost_published_total", "published"),
];

/// What was counted up to now, by what it is.
pub type Counted = BTreeMap<&'static str, f64>;

/// Reads the counters out of what `/metrics` says, each summed up over its labels.
pub fn counted(text: &str) -> Counted {
    let mut counted = Counted::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let name = series.split('{').next().unwrap_or_default();
        let known = COUNTED.iter().find(|(metric, _)| *metric == name);
        if let (Some((_, word)), Ok(value)) = (known, value.parse::<f64>()) {
            *counted.entry(word).or_default() += value;
        }
    }
    counted
}

/// The looks of the last seconds.
#[derive(Default)]
pub struct Rates {
    samples: VecDeque<(Instant, Counted)>,
}

impl Rates {
    /// Adds a look.
    pub fn add(&mut self, at: Instant, counted: Counted) {
        // A node that was restarted, or another one, counts from its own beginning.
        let fell = |(_, last): &(Instant, Counted)| {
            last.iter().any(|(word, value)| counted.get(word).is_none_or(|now| now < value))
        };
        if self.samples.back().is_some_and(fell) {
            self.samples.clear();
        }
        self.samples.push_back((at, counted));
        let is_old = |(then, _): &(Instant, Counted)| at.duration_since(*then) > WINDOW;
        while self.samples.len() > SAMPLES_MAX || self.samples.front().is_some_and(is_old) {
            self.samples.pop_front();
        }
    }

    /// How many in a second, in the order of their way through the node; nothing before the second look.
    pub fn per_s(&self) -> Vec<(&'static str, f64)> {
        let (Some((from, first)), Some((to, last))) = (self.samples.front(), self.samples.back())
        else {
            return Vec::new();
        };
        let seconds = to.duration_since(*from).as_secs_f64();
        if seconds <= 0.0 {
            return Vec::new();
        }
        let rate = |word: &'static str| {
            let (before, now) = (first.get(word)?, last.get(word)?);
            Some((word, (now - before).max(0.0) / seconds))
        };
        COUNTED.iter().filter_map(|(_, word)| rate(word)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP wakepost_runs Ended runs.\n\
        wakepost_inbound_requests_total{provider=\"git hub\",verdict=\"accepted\"} 7\n\
        wakepost_inbound_requests_total{provider=\"slack\",verdict=\"duplicate\"} 3\n\
        wakepost_claimed_total 4\nwakepost_other_total 9\nnonsense\n# EOF\n";

    #[test]
    fn counters_are_summed_over_their_labels() {
        assert_eq!(counted(TEXT), Counted::from([("received", 10.0), ("started", 4.0)]));
    }

    #[test]
    fn a_rate_is_the_difference_over_the_window() {
        let (mut rates, start) = (Rates::default(), Instant::now());
        for second in 0..=30 {
            let counted = Counted::from([("received", f64::from(second) * 5.0)]);
            rates.add(start + Duration::from_secs(u64::from(second as u32)), counted);
        }
        assert_eq!(rates.per_s(), [("received", 5.0)]);
        assert!(rates.samples.len() <= 11);
        rates.add(start + Duration::from_secs(31), Counted::from([("received", 1.0)]));
        assert!(rates.per_s().is_empty(), "the node was restarted");
    }
}
