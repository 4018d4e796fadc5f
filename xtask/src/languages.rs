//! The languages beside Rust whose programs are run: there, or installed.

use std::process::Command;

use anyhow::ensure;
use xtask::packages::{self, Need};

const NODE_MIN: (u32, u32) = (20, 0);
const NODE: Need = Need {
    what: "Node 20 or newer (with npm)",
    debian: &["nodejs", "npm"],
    by_hand: "The programs `node` and `npm` must be in PATH.",
};
const PYTHON_MIN: (u32, u32) = (3, 11);
const PYTHON: Need = Need {
    what: "Python 3.11 or newer (with pip)",
    debian: &["python3", "python3-pip"],
    by_hand: "The program `python3` must be in PATH, and `python3 -m pip` must work.",
};

/// Sees to it that Node and npm are there.
pub fn need_node() -> anyhow::Result<()> {
    need(&NODE, || has_node() && answers("npm", &["--version"]))
}

/// Sees to it that Python and pip are there.
pub fn need_python() -> anyhow::Result<()> {
    need(&PYTHON, || has_python() && answers("python3", &["-m", "pip", "--version"]))
}

fn need(need: &Need, met: impl Fn() -> bool) -> anyhow::Result<()> {
    if !met() {
        packages::install(need)?;
        ensure!(met(), "{} is still missing. {}", need.what, need.by_hand);
    }
    Ok(())
}

fn has_node() -> bool {
    version_of("node").is_some_and(|version| version >= NODE_MIN)
}

fn has_python() -> bool {
    version_of("python3").is_some_and(|version| version >= PYTHON_MIN)
}

fn answers(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

fn version_of(program: &str) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().ok()?;
    version(&String::from_utf8_lossy(&output.stdout))
}

/// The first two numbers of a version, as `v20.20.2` or `Python 3.11.7`.
fn version(shown: &str) -> Option<(u32, u32)> {
    let digits = &shown[shown.find(|c: char| c.is_ascii_digit())?..];
    let mut numbers = digits.trim().split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_what_a_program_says_of_itself() {
        assert_eq!(version("v20.20.2\n"), Some((20, 20)));
        assert_eq!(version("Python 3.11.7\n"), Some((3, 11)));
        assert_eq!(version("Python 3.9.2"), Some((3, 9)));
        assert_eq!(version("no such program"), None);
    }

    #[test]
    fn versions_compare_by_number_and_not_by_letter() {
        assert!(version("Python 3.9.2").unwrap() < PYTHON_MIN);
        assert!(version("v8.0.0").unwrap() < NODE_MIN);
    }
}
