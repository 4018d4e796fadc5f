//! The system account that runs PostgreSQL, which refuses to run as root.

use std::ffi::OsStr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use rustix::process::geteuid;

/// Who runs the server.
#[derive(Debug)]
pub enum Account {
    /// Whoever runs this program.
    Current,
    /// The account `postgres`, which the system's package made; this program runs as root.
    Postgres {
        /// Its user id.
        uid: u32,
        /// Its group id.
        gid: u32,
    },
}

impl Account {
    /// The current account, unless that is root.
    pub fn choose() -> anyhow::Result<Self> {
        if !geteuid().is_root() {
            return Ok(Self::Current);
        }
        Ok(Self::Postgres { uid: id_of_postgres("-u")?, gid: id_of_postgres("-g")? })
    }

    /// A command that runs as this account, its messages in English so that they can be read by us.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("LC_ALL", "C");
        if let Self::Postgres { uid, gid } = *self {
            command.uid(uid).gid(gid);
        }
        command
    }

    /// Makes a file or directory this account's own.
    pub fn own(&self, path: &Path) -> anyhow::Result<()> {
        if let Self::Postgres { uid, gid } = *self {
            chown(path, Some(uid), Some(gid))
                .with_context(|| format!("giving {} to postgres", path.display()))?;
        }
        Ok(())
    }
}

fn id_of_postgres(which: &str) -> anyhow::Result<u32> {
    let output = Command::new("id").args([which, "postgres"]).output().context("running id")?;
    if !output.status.success() {
        bail!(
            "PostgreSQL refuses to run as root and there is no account `postgres` to run it as: \
             add one, or run this as another user"
        );
    }
    String::from_utf8_lossy(&output.stdout).trim().parse().context("reading the output of id")
}
