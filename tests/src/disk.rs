//! A small disk for one process: a file system in memory, in a mount namespace that ends with the process.

use std::path::Path;
use std::process::{Command as StdCommand, Stdio};

use tokio::process::Command;

use crate::gateway::Gateway;
use crate::program::{bin_path, in_clean_environment};

/// Mounts it, and becomes the program.
const SCRIPT: &str = r#"mount -t tmpfs -o "size=$1" wakepost "$2" && shift 2 && exec "$@""#;

/// With a user namespace no root is needed, where the kernel lets everyone have one.
const NAMESPACES: [&str; 3] = ["--user", "--map-root-user", "--mount"];

/// A program that sees a disk of this size at `data_dir`, not started yet.
pub(crate) fn program_on(size: &str, name: &str, directory: &Path, data_dir: &Path) -> Command {
    std::fs::create_dir_all(data_dir).expect("a directory");
    let mut command = Command::new("unshare");
    command.args(NAMESPACES).args(["--", "sh", "-c", SCRIPT, "sh", size]);
    command.arg(data_dir).arg(bin_path(name));
    in_clean_environment(command, directory)
}

/// The small disk of a running gateway ([`crate::Setup::disk`]).
#[derive(Debug)]
pub struct SmallDisk {
    pid: String,
    path: String,
}

impl SmallDisk {
    /// Why there can be none on this machine.
    pub fn impossible() -> Option<String> {
        let mut trial = StdCommand::new("unshare");
        trial.args(NAMESPACES).args(["--", "mount", "-t", "tmpfs", "trial", "/mnt"]);
        let output = trial.stdin(Stdio::null()).output();
        match output {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(format!("unshare: {error}")),
        }
    }

    /// That of a gateway.
    pub fn of(gateway: &Gateway) -> SmallDisk {
        let path = gateway.data_dir().to_str().expect("a plain path").to_owned();
        SmallDisk { pid: gateway.pid().to_string(), path }
    }

    /// Gives it another size.
    pub fn resize(&self, size: &str) {
        let inside = ["--user", "--mount", "--preserve-credentials"];
        let mut command = StdCommand::new("nsenter");
        command.args(["--target", &self.pid]).args(inside);
        command.args(["--", "mount", "-o", &format!("remount,size={size}"), &self.path]);
        let output = command.output().expect("nsenter");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
    }
}
