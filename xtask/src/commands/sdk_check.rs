//! `cargo xtask sdk-check`: whether the vendors' own SDKs agree with our signature code.

use anyhow::ensure;

use crate::sdk_check::{self, Tally};

/// How many disagreements with one SDK are shown: one mistake makes many.
const SHOWN_MAX: usize = 10;

/// Ask the vendors' own SDKs whether they agree with our signature code.
///
/// What we sign, they must accept; what they sign, we must accept; what was spoiled on its way, both must
/// refuse. Needs Node 20 and Python 3.11 with their package managers; the SDKs are installed under the target
/// directory.
#[derive(clap::Args)]
pub struct SdkCheck {}

impl SdkCheck {
    /// Checks every SDK.
    pub fn run(self) -> anyhow::Result<()> {
        Self::check()
    }

    /// The same, as a step of CI.
    pub fn check() -> anyhow::Result<()> {
        let tallies = sdk_check::run()?;
        print(&tallies);
        for tally in &tallies {
            for disagreement in tally.disagreements.iter().take(SHOWN_MAX) {
                eprintln!("{disagreement}");
            }
        }
        let count: usize = tallies.iter().map(|tally| tally.disagreements.len()).sum();
        ensure!(count == 0, "the vendors' SDKs and our signature code disagree in {count} cases");
        Ok(())
    }
}

fn print(tallies: &[Tally]) {
    println!("{:<30} {:<10} {:<18} {:>6}", "SDK", "version", "provider", "agreed");
    for tally in tallies {
        let sdk = tally.sdk;
        let (agreed, tried) = (tally.agreed, tally.agreed + tally.disagreements.len());
        let shown = if agreed == tried { agreed.to_string() } else { format!("{agreed}/{tried}") };
        println!("{:<30} {:<10} {:<18} {shown:>6}", sdk.to_string(), tally.version, sdk.provider);
    }
}
