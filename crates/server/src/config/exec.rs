//! Commands that jobs may name: `[exec.NAME]` in `wakepost.toml`. The API can only name one, never make one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub directory: Option<PathBuf>,
    /// What it finds in its environment, besides ours.
    pub env: BTreeMap<String, String>,
    /// How many may run at once on this node.
    pub concurrency: usize,
    /// How long one may run, if not as long as the source allows.
    pub timeout: Option<Duration>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    command: Vec<String>,
    directory: Option<PathBuf>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default = "default_concurrency")]
    concurrency: usize,
    timeout_s: Option<u64>,
}

fn default_concurrency() -> usize {
    4
}

/// The keys of a command.
pub const KEYS: [&str; 5] = ["command", "directory", "env", "concurrency", "timeout_s"];

/// Reads one `[exec.NAME]`.
pub fn read(name: &str, table: toml::Value) -> Result<ExecCommand, String> {
    let written: Written = table
        .try_into()
        .map_err(|error: toml::de::Error| format!("exec.{name}: {}", error.message()))?;
    if written.command.is_empty() {
        return Err(format!("exec.{name}.command must name a program"));
    }
    if written.concurrency == 0 {
        return Err(format!("exec.{name}.concurrency must be at least 1"));
    }
    Ok(ExecCommand {
        command: written.command,
        directory: written.directory,
        env: written.env,
        concurrency: written.concurrency,
        timeout: written.timeout_s.map(Duration::from_secs),
    })
}
