//! What is printed: progress, the counts, and each violation in plain words.

use std::path::PathBuf;
use std::sync::Arc;

use crate::told::Told;

/// What a run came to.
pub struct Outcome {
    /// What was done to the server, counted.
    pub what: String,
    /// What clients were told.
    pub told: Arc<Told>,
    /// Where all choices came from.
    pub seed: u64,
    /// Directories that were kept.
    pub kept: Vec<PathBuf>,
}

/// Tells how far a run is.
pub fn progress(done: &str, told: &Told) {
    let counts = told.counts();
    println!(
        "{done}: events {}, jobs finished {}, violations {}",
        counts.accepted, counts.finished, counts.violations
    );
}

/// Prints the end of a run.
pub fn print(outcome: &Outcome) {
    let counts = outcome.told.counts();
    for violation in outcome.told.described() {
        eprintln!("violation: {violation}");
    }
    let (what, seed, acknowledged) = (&outcome.what, outcome.seed, outcome.told.acknowledged());
    println!("{what}, events acknowledged {acknowledged}, {counts} (seed {seed})");
    for path in &outcome.kept {
        eprintln!("kept for a closer look: {}", path.display());
    }
}
