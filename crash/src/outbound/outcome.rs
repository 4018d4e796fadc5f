//! What a run came to, and how that is printed.

use std::path::PathBuf;
use std::sync::Arc;

use super::record::Record;
use crate::told::Told;

/// What a run came to.
pub struct Outcome {
    /// What was done to the server, counted.
    pub what: String,
    /// What everybody was told and saw.
    pub record: Arc<Record>,
    /// Broken promises.
    pub told: Arc<Told>,
    /// Where all choices came from.
    pub seed: u64,
    /// Directories that were kept.
    pub kept: Vec<PathBuf>,
}

impl Outcome {
    /// How many promises were broken.
    pub fn violations(&self) -> u64 {
        self.told.counts().violations
    }

    /// Prints the end of a run.
    pub fn print(&self) {
        for violation in self.told.described() {
            eprintln!("violation: {violation}");
        }
        let (counts, violations) = (self.record.counts(), self.violations());
        println!(
            "{}, {counts}, deliveries succeeded {}, dead {}, violations {violations} (seed {})",
            self.what, counts.succeeded, counts.dead, self.seed
        );
        for path in &self.kept {
            eprintln!("kept for a closer look: {}", path.display());
        }
    }
}
