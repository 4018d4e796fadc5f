//! The failpoints that a simulation gets to, and those that are out of its reach.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use wakepost_store::failpoint::PLACES;

/// Places that no simulation gets to. Why is in docs/simulation.md.
pub const OUT_OF_REACH: [&str; 5] = [
    "expand.before_position",
    "shutdown.mid_drain",
    "sqlite.checkpoint",
    "sqlite.sync",
    "sqlite.sync_error",
];

/// How often places were passed while things could go wrong, and how often something did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<String, (u64, u64)>);

impl Places {
    /// One was passed; answers how often it has been.
    pub fn passed(&mut self, place: &str) -> u64 {
        let counts = self.0.entry(place.to_owned()).or_default();
        counts.0 += 1;
        counts.0
    }

    /// Something went wrong at one.
    pub fn acted(&mut self, place: &str) {
        self.0.entry(place.to_owned()).or_default().1 += 1;
    }

    /// Those of another simulation too.
    pub fn add(&mut self, other: &Places) {
        for (place, (passed, acted)) in &other.0 {
            let counts = self.0.entry(place.clone()).or_default();
            *counts = (counts.0 + passed, counts.1 + acted);
        }
    }

    /// Places within reach that were not passed, and others that were: then the documentation is wrong.
    pub fn surprises(&self) -> Vec<&'static str> {
        let odd = |place: &&&str| self.0.contains_key(**place) == OUT_OF_REACH.contains(*place);
        PLACES.iter().filter(odd).copied().collect()
    }

    /// What is told after a run.
    pub fn report(&self) -> String {
        let acted = self.0.values().filter(|(_, acted)| *acted > 0).count();
        let mut lines = vec![format!(
            "places reached {} of {}, and something went wrong at {acted}:",
            self.0.len(),
            PLACES.len()
        )];
        for (place, (passed, acted)) in &self.0 {
            lines.push(format!("  {place}: passed {passed}, went wrong {acted}"));
        }
        let left = PLACES.iter().filter(|place| !self.0.contains_key(**place));
        lines.push(format!("not reached: {}", left.copied().collect::<Vec<_>>().join(", ")));
        lines.join("\n")
    }
}

/// As a process tells another.
impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (place, (passed, acted))) in self.0.iter().enumerate() {
            let gap = if number == 0 { "" } else { " " };
            write!(f, "{gap}{place}:{passed}:{acted}")?;
        }
        Ok(())
    }
}

impl FromStr for Places {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Places, &'static str> {
        let mut places = BTreeMap::new();
        for word in text.split_whitespace() {
            let mut parts = word.split(':');
            let place = parts.next().filter(|place| PLACES.contains(place));
            let mut number = || parts.next()?.parse().ok();
            let counts = number().zip(number());
            let (Some(place), Some(counts)) = (place, counts) else { return Err("no such place") };
            places.insert(place.to_owned(), counts);
        }
        Ok(Places(places))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_lists_each_place_out_of_reach() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/simulation.md");
        let text = std::fs::read_to_string(file).unwrap();
        let rows = text.split("\n## What is out of reach\n").nth(1).unwrap();
        let rows = rows.split("\n## ").next().unwrap().lines();
        let cells = rows.filter_map(|row| row.strip_prefix("| `")?.split("` | ").next());
        let mut listed: Vec<&str> = cells.flat_map(|cell| cell.split("`, `")).collect();
        listed.sort_unstable();
        assert_eq!(listed, OUT_OF_REACH);
        assert!(OUT_OF_REACH.iter().all(|place| PLACES.contains(place)));
    }

    #[test]
    fn what_a_process_tells_is_read_and_what_is_missing_is_a_surprise() {
        let mut places = Places::default();
        assert_eq!(places.passed("store.busy"), 1);
        assert_eq!(places.passed("store.busy"), 2);
        places.acted("store.busy");
        places.passed("sqlite.sync");
        assert_eq!(places.to_string().parse(), Ok(places.clone()));
        let mut twice = places.clone();
        twice.add(&places);
        assert!(twice.report().contains("store.busy: passed 4, went wrong 2"));
        let surprises = places.surprises();
        assert!(surprises.contains(&"sqlite.sync") && surprises.contains(&"wake.lost"));
        assert!(!surprises.contains(&"store.busy") && !surprises.contains(&"sqlite.checkpoint"));
    }
}
