//! `wakepost config check`: the settings in force, and where each came from.

use std::process::ExitCode;

use crate::config::Config;

/// Prints them. Secrets are hidden.
pub fn check(config: &Config) -> anyhow::Result<ExitCode> {
    let width = |choose: fn(&crate::config::Setting) -> &str| {
        config.shown.iter().map(|setting| choose(setting).len()).max().unwrap_or(0)
    };
    let (names, values) = (width(|setting| &setting.name), width(|setting| &setting.value).min(60));
    for setting in &config.shown {
        println!("{:names$}  {:values$}  {}", setting.name, setting.value, setting.origin);
    }
    Ok(ExitCode::SUCCESS)
}
