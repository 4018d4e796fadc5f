//! A check that no tracked file names a place on someone's machine: a path of theirs, or the host of
//! the registry their Cargo is set to.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use xtask::workspace;

/// Home directories, where a path starts; the path of a URL may well hold these words.
const HOME_PATHS: &str = "(^|[^A-Za-z0-9_.~-])/(root|home)/";

/// Hosts that anyone may name.
const PUBLIC_HOSTS: &[&str] = &["crates.io", "index.crates.io", "static.crates.io", "github.com"];

/// Fails when a tracked file names such a place, after showing where.
pub fn check() -> anyhow::Result<()> {
    let mut grep = Command::new("git");
    grep.current_dir(workspace::root()).args(["grep", "-nIE", "-e", HOME_PATHS]);
    for host in registry_hosts()? {
        grep.args(["-e", &host.replace('.', "\\.")]);
    }
    let status = grep.stdin(Stdio::null()).status().context("running git grep")?;
    match status.code() {
        Some(0) => bail!("the lines above name a place on someone's machine"),
        Some(1) => Ok(()),
        _ => bail!("git grep failed ({status})"),
    }
}

/// The hosts that stand in for crates.io on this machine.
fn registry_hosts() -> anyhow::Result<Vec<String>> {
    let Some(path) = cargo_config() else {
        return Ok(Vec::new());
    };
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    replacement_hosts(&text).with_context(|| format!("reading {}", path.display()))
}

fn cargo_config() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")))?;
    // The second is the name of old, which Cargo still reads.
    ["config.toml", "config"].map(|name| home.join(name)).into_iter().find(|path| path.is_file())
}

fn replacement_hosts(config: &str) -> anyhow::Result<Vec<String>> {
    let config: toml::Table = config.parse()?;
    let urls = |table: &str, key: &'static str| {
        let entries = config.get(table).and_then(toml::Value::as_table).cloned();
        entries.into_iter().flatten().filter_map(move |(_, entry)| entry.get(key).cloned())
    };
    let hosts = urls("source", "registry").chain(urls("registries", "index"));
    let hosts = hosts.filter_map(|url| host(url.as_str()?).map(str::to_owned));
    Ok(hosts.filter(|host| !PUBLIC_HOSTS.contains(&host.as_str())).collect())
}

fn host(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let host = authority.rsplit('@').next()?;
    host.split(':').next().filter(|host| !host.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_of_registry_replacements_are_found() {
        let config = r#"
            [source.crates-io]
            replace-with = "mirror"
            [source.mirror]
            registry = "sparse+https://user@mirror.example:8443/index/"
            [source.public]
            registry = "https://github.com/rust-lang/crates.io-index"
            [source.vendored]
            directory = "vendor"
            [registries.ours]
            index = "sparse+http://ours.example/"
        "#;
        assert_eq!(replacement_hosts(config).unwrap(), ["mirror.example", "ours.example"]);
    }

    #[test]
    fn a_configuration_without_registries_names_no_host() {
        assert!(replacement_hosts("[net]\noffline = true").unwrap().is_empty());
    }
}
