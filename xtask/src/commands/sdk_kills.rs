//! `cargo xtask sdk-kills`: agents of our SDKs are killed in the middle of what they do.

use clap::ValueEnum;

use super::test::run_tests_with;

/// Kill agents of our SDKs around a side effect, and check that it happens once.
///
/// Each trial kills an agent inside an effect, between effect and commit, after the commit, or at a random
/// moment; another takes over. The act's receiver must have counted it once, or the job must be held in doubt.
#[derive(clap::Args)]
pub struct SdkKills {
    /// How many trials of each SDK on each database
    #[arg(long, default_value_t = 100)]
    trials: u32,
    /// Only this SDK
    #[arg(long, value_enum)]
    sdk: Option<Sdk>,
    /// Where all choices come from
    #[arg(long)]
    seed: Option<u64>,
    /// Let the agents act without the ledger: the command must fail
    #[arg(long)]
    control: bool,
}

/// One of our SDKs.
#[derive(Clone, Copy, ValueEnum)]
enum Sdk {
    Rust,
    Python,
    Typescript,
}

impl SdkKills {
    /// Kills and checks.
    pub fn run(self) -> anyhow::Result<()> {
        let sdk = match self.sdk {
            Some(sdk) => format!("_in_{}_", super::crash::name(&sdk)),
            None => String::new(),
        };
        let chosen = format!("binary(sdks) & test(killing::) & test({sdk})");
        let args = ["-p", "wakepost-tests", "--no-capture", "-E", &chosen];
        let mut settings = vec![("WAKEPOST_SDK_TRIALS", self.trials.to_string())];
        settings.extend(self.seed.map(|seed| ("WAKEPOST_SDK_SEED", seed.to_string())));
        settings.extend(self.control.then(|| ("WAKEPOST_SDK_CONTROL", "1".to_owned())));
        // A hundred trials take longer than a test may.
        settings.push(("NEXTEST_PROFILE", "long".to_owned()));
        run_tests_with(&settings, &args.map(str::to_owned))
    }
}
