//! Small programs in other languages, with packages in pinned versions: put under the target directory, once per list
//! of versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use xtask::{process, workspace};

use crate::languages;

/// How long one package manager may take; half a minute is usual.
const INSTALL_TIME_MAX: Duration = Duration::from_secs(120);

/// Written last: holds the list of versions that was installed.
const INSTALLED: &str = "installed";

/// The Node program in this directory of `xtask`, ready to run.
pub fn node(source: &str) -> anyhow::Result<Command> {
    languages::need_node()?;
    let directory = prepare(source, "package-lock.json", |directory| {
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
        process::run_within(npm.current_dir(directory), INSTALL_TIME_MAX)
    })?;
    let mut command = Command::new("node");
    command.arg("main.mjs").current_dir(directory);
    Ok(command)
}

/// The Python program in this directory of `xtask`, ready to run.
pub fn python(source: &str) -> anyhow::Result<Command> {
    languages::need_python()?;
    let directory = prepare(source, "requirements.txt", |directory| {
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

/// Copies the program, and installs what it needs unless this very list is there already.
fn prepare(
    source: &str,
    list: &str,
    install: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let directory = workspace::bin_dir("pinned")?.join(source);
    let source = workspace::root().join("xtask").join(source);
    let list = fs::read(source.join(list)).with_context(|| format!("reading {list}"))?;
    let fresh = fs::read(directory.join(INSTALLED)).is_ok_and(|installed| installed == list);
    if !fresh && directory.exists() {
        fs::remove_dir_all(&directory).context("removing the packages of another list")?;
    }
    copy(&source, &directory).with_context(|| format!("copying {}", source.display()))?;
    if !fresh {
        eprintln!("installing the packages that {} needs", source.display());
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
