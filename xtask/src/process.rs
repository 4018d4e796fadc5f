//! Running child processes to their end, or to ours.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::interrupt::{self, Interrupted};
use crate::workspace;

/// How often the waiting loops look at the child and at the interrupt flag.
pub const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// How long an interrupted child may take to end: nextest itself gives its tests ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Cargo, as a command to add arguments to.
///
/// What `cargo run` set to describe this package is taken out again: build scripts that watch those
/// variables would run anew at every change between `cargo` and `cargo xtask`.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(workspace::root());
    for (name, _) in std::env::vars_os() {
        if describes_this_package(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn describes_this_package(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

/// Whether `cargo <subcommand>` is installed.
pub fn cargo_has(subcommand: &str) -> bool {
    cargo()
        .args([subcommand, "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A server's program as a command line that has the kernel end it when we are killed too hard to do so.
/// Where util-linux is not there to ask for that, the plain program.
pub fn ending_with_us(program: &Path, signal: &str) -> Vec<OsString> {
    let setpriv = ["setpriv", "--pdeathsig", signal, "--"];
    let works = Command::new(setpriv[0]).args(&setpriv[1..]).arg("true").output();
    let asks = works.is_ok_and(|output| output.status.success());
    let before = if asks { setpriv.as_slice() } else { &[] };
    before.iter().map(OsString::from).chain([program.into()]).collect()
}

/// Runs a command to its end with its output on ours; anything but success is an error.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    run_within(command, Duration::MAX)
}

/// The same, for at most so long: then the command and all that it started are killed.
pub fn run_within(command: &mut Command, limit: Duration) -> anyhow::Result<()> {
    let name = shown(command);
    let status = wait(command, limit).with_context(|| format!("running `{name}`"))?;
    if !status.success() {
        bail!("`{name}` failed ({status})");
    }
    Ok(())
}

/// The command as one would type it.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Waits for the child in a process group of its own: a Ctrl-C at the terminal reaches only us, and
/// we hand it on to the whole group, as we do with a signal sent to us alone.
fn wait(command: &mut Command, limit: Duration) -> anyhow::Result<ExitStatus> {
    if interrupt::take() {
        bail!(Interrupted);
    }
    let mut child = command.stdin(Stdio::null()).process_group(0).spawn()?;
    let group = Pid::from_child(&child);
    let started = Instant::now();
    let mut kill_at = None;
    loop {
        if let Some(status) = child.try_wait()? {
            if kill_at.is_some() {
                bail!(Interrupted);
            }
            return Ok(status);
        }
        if interrupt::take() {
            let _ = kill_process_group(group, Signal::INT);
            kill_at.get_or_insert_with(|| Instant::now() + STOP_TIMEOUT);
        }
        if kill_at.is_some_and(|deadline| Instant::now() >= deadline) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        if started.elapsed() > limit {
            let _ = kill_process_group(group, Signal::KILL);
            child.wait()?;
            bail!("it did not end in {} s", limit.as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` failed (exit status: 3)");
    }

    #[test]
    fn a_missing_command_is_an_error_that_names_it() {
        let error = run(&mut Command::new("wakepost-no-such-program")).unwrap_err();
        assert_eq!(error.to_string(), "running `wakepost-no-such-program`");
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let limit = Duration::from_millis(50);
        let error = run_within(Command::new("sleep").arg("60"), limit).unwrap_err();
        assert_eq!(format!("{error:#}"), "running `sleep 60`: it did not end in 0 s");
    }

    #[test]
    fn cargo_runs_without_the_variables_of_this_package() {
        let removed = cargo();
        let names: Vec<_> = removed.get_envs().filter(|(_, value)| value.is_none()).collect();
        assert!(names.iter().any(|(name, _)| *name == "CARGO_PKG_NAME"));
    }
}
