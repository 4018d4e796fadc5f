//! What a storm came to, and how that is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::tenant::{PROVIDERS, Tenant};
use crate::told::{Counts, Found};

/// Repeats, by why they came.
#[derive(Debug, Default)]
pub struct Classes(BTreeMap<String, u64>);

impl Classes {
    /// One more.
    pub fn add(&mut self, class: &str) {
        *self.0.entry(class.to_owned()).or_default() += 1;
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.iter().map(|(class, count)| format!("{count} {class}"));
        f.write_str(&each.collect::<Vec<_>>().join(", "))
    }
}

/// What a storm came to.
pub struct Outcome {
    /// The tenants, with what their clients were told.
    pub tenants: Arc<Vec<Tenant>>,
    /// What was killed, in words.
    pub kills: String,
    /// Why repeats came.
    pub classes: Classes,
    /// Where all choices came from.
    pub seed: u64,
    /// Directories that were kept.
    pub kept: Vec<PathBuf>,
}

impl Outcome {
    /// How many promises were broken.
    pub fn violations(&self) -> u64 {
        self.tenants.iter().map(|tenant| tenant.desk.told.counts().violations).sum()
    }

    /// The rules that were broken.
    pub fn broken(&self) -> BTreeSet<&'static str> {
        self.tenants.iter().flat_map(|tenant| tenant.desk.told.broken()).collect()
    }

    /// Prints it.
    pub fn print(&self) {
        for tenant in self.tenants.iter() {
            for violation in tenant.desk.told.described() {
                eprintln!("violation: {}: {violation}", tenant.slug);
            }
        }
        println!(
            "{}, {} tenants, {} providers: {}; repeats: {}; violations {} (seed {})",
            self.kills,
            self.tenants.len(),
            PROVIDERS.len(),
            self.numbers(),
            self.classes,
            self.violations(),
            self.seed
        );
        for path in &self.kept {
            eprintln!("kept for a closer look: {}", path.display());
        }
    }

    /// What clients were told, and what there is, over all tenants.
    fn numbers(&self) -> String {
        let told = |of: fn(&Counts) -> u64| -> u64 {
            self.tenants.iter().map(|tenant| of(&tenant.desk.told.counts())).sum()
        };
        let found = |of: fn(&Found) -> usize| -> usize {
            self.tenants.iter().map(|tenant| of(&tenant.desk.told.lock().found)).sum()
        };
        format!(
            "accepted {}, duplicates answered {}, requests unanswered {}, leases {}, in doubt {}; there are {} \
             events, {} jobs, {} succeeded, {} effects executed, {} committed",
            told(|counts| counts.accepted),
            told(|counts| counts.duplicates),
            told(|counts| counts.unanswered),
            told(|counts| counts.leases),
            told(|counts| counts.in_doubt),
            found(|found| found.events),
            found(|found| found.jobs),
            found(|found| found.succeeded),
            told(|counts| counts.executed),
            found(|found| found.effects),
        )
    }
}
