//! The programs themselves.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

/// Names the directory of the programs.
const BIN_DIR: &str = "WAKEPOST_TEST_BIN_DIR";
/// What a program keeps of the environment of the tests: nothing that could be a setting.
const INHERITED: [&str; 3] = ["PATH", "HOME", "TMPDIR"];
/// How long a program that is meant to end may take.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// A program that ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; none: a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it told people.
    pub stderr: String,
}

impl Ran {
    /// Panics if it ended with another code.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Ran {
        let Ran { stdout, stderr, .. } = &self;
        assert_eq!(self.code, Some(code), "stdout:\n{stdout}\nstderr:\n{stderr}");
        self
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", self.stdout))
    }
}

/// A program in a clean environment, not started yet.
pub(crate) fn program(name: &str, directory: &Path) -> Command {
    in_clean_environment(Command::new(bin_path(name)), directory)
}

pub(crate) fn bin_path(name: &str) -> PathBuf {
    let path = bin_dir().join(name);
    assert!(path.exists(), "{} is not built: run this through `cargo xtask test`", path.display());
    path
}

pub(crate) fn in_clean_environment(mut command: Command, directory: &Path) -> Command {
    command
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))))
        .current_dir(directory)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

fn bin_dir() -> PathBuf {
    match std::env::var_os(BIN_DIR) {
        Some(directory) => directory.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug"),
    }
}

/// Runs `wakepost` to its end, with these settings.
pub async fn wakepost(directory: &Path, settings: &[(&str, &str)], args: &[&str]) -> Ran {
    let mut command = program("wakepost", directory);
    command.args(args).envs(settings.iter().copied());
    run(command).await
}

/// Runs `webhookctl` to its end, as a user with this server and key in the environment.
pub async fn webhookctl(url: &str, key: &str, args: &[&str]) -> Ran {
    run(webhookctl_started(url, key, args)).await
}

/// `webhookctl` to be started, for what goes on until it is ended.
pub fn webhookctl_started(url: &str, key: &str, args: &[&str]) -> Command {
    let mut command = program("webhookctl", &std::env::temp_dir());
    command.args(args).env("WAKEPOST_URL", url).env("WAKEPOST_KEY", key);
    command
}

async fn run(mut command: Command) -> Ran {
    let output = tokio::time::timeout(RUN_LIMIT, command.output())
        .await
        .expect("the program ends")
        .expect("the program starts");
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A text that nobody else has: lower-case hexadecimal digits.
pub fn random_text(digits: usize) -> String {
    let mut bytes = vec![0u8; digits.div_ceil(2)];
    getrandom::fill(&mut bytes).expect("random bytes");
    let mut text = hex::encode(bytes);
    text.truncate(digits);
    text
}
