//! Puts the SDKs under the target directory, once per list of versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use xtask::packages::{self, Need};
use xtask::{process, workspace};

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

/// How long one package manager may take; half a minute is usual.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(120);

/// Written last: holds the list of versions that was installed.
const INSTALLED: &str = "installed";

/// The program that asks the SDKs for Node, ready to run.
pub fn node() -> anyhow::Result<Command> {
    need(&NODE, || has_node() && answers("npm", &["--version"]))?;
    let directory = prepare("node", "package-lock.json", |directory| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        process::run_within(npm.current_dir(directory), INSTALL_TIME_MAX)
    })?;
    let mut command = Command::new("node");
    command.arg("main.mjs").current_dir(directory);
    Ok(command)
}

/// The program that asks the SDKs for Python, ready to run.
pub fn python() -> anyhow::Result<Command> {
    need(&PYTHON, || has_python() && answers("python3", &["-m", "pip", "--version"]))?;
    let directory = prepare("python", "requirements.txt", |directory| {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        // The list is complete, and nothing in it has to be built. A target of their own needs no rights and
        // leaves the packages of the system alone.
        pip.args([
            "--no-deps",
            "--only-binary=:all:",
            "--target=packages",
            "-r",
            "requirements.txt",
        ]);
        pip.env("PIP_ROOT_USER_ACTION", "ignore");
        process::run_within(pip.current_dir(directory), INSTALL_TIME_MAX)
    })?;
    let mut command = Command::new("python3");
    command.arg("main.py").env("PYTHONPATH", directory.join("packages")).current_dir(directory);
    Ok(command)
}

/// Copies one language's programs, and installs what they need unless this very list is there already.
fn prepare(
    language: &str,
    list: &str,
    install: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let source = workspace::root().join("xtask/sdks").join(language);
    let directory = workspace::bin_dir("sdk-check")?.join(language);
    let list = fs::read(source.join(list)).with_context(|| format!("reading {list}"))?;
    let fresh = fs::read(directory.join(INSTALLED)).is_ok_and(|installed| installed == list);
    if !fresh && directory.exists() {
        fs::remove_dir_all(&directory).context("removing the SDKs of another list")?;
    }
    copy(&source, &directory).with_context(|| format!("copying {}", source.display()))?;
    if !fresh {
        eprintln!("installing the SDKs for {language}");
        install(&directory)?;
        fs::write(directory.join(INSTALLED), list)?;
    }
    Ok(directory)
}

fn copy(source: &Path, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory)?;
    for entry in fs::read_dir(source)? {
        let entry = entry?;
        // What a developer's own tools left in the source tree stays there.
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), directory.join(entry.file_name()))?;
        }
    }
    Ok(())
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
