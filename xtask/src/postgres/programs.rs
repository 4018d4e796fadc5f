//! Where PostgreSQL's programs are, and which version they have.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::packages::{self, Need};

const VERSION_MIN: u32 = 15;

const NEED: Need = Need {
    what: "PostgreSQL 15 or newer",
    debian: &["postgresql"],
    by_hand: "The programs `initdb` and `postgres` must be in PATH or in \
              /usr/lib/postgresql/<version>/bin; or name a running server in \
              WAKEPOST_TEST_DATABASE_URL.",
};

/// The server's programs of one version.
#[derive(Debug)]
pub struct Programs {
    directory: PathBuf,
    version: u32,
}

impl Programs {
    /// The newest version on this machine, installed first when there is none.
    pub fn find_or_install() -> anyhow::Result<Self> {
        if let Some(found) = Self::find() {
            return Ok(found);
        }
        packages::install(&NEED)?;
        Self::find().with_context(|| format!("{} is still missing. {}", NEED.what, NEED.by_hand))
    }

    /// The program that makes a data directory.
    pub fn initdb(&self) -> PathBuf {
        self.directory.join("initdb")
    }

    /// The server.
    pub fn postgres(&self) -> PathBuf {
        self.directory.join("postgres")
    }

    /// The program that copies a running server.
    pub fn pg_basebackup(&self) -> PathBuf {
        self.directory.join("pg_basebackup")
    }

    /// The program that speaks to a server through its data directory.
    pub fn pg_ctl(&self) -> PathBuf {
        self.directory.join("pg_ctl")
    }

    /// The major version.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The newest version on this machine that is new enough.
    pub fn find() -> Option<Self> {
        candidates()
            .into_iter()
            // What lies there may be links, with fewer of the programs beside them.
            .filter_map(|directory| {
                Some(directory.join("initdb").canonicalize().ok()?.parent()?.to_owned())
            })
            .filter_map(|directory| Some(Self { version: version_in(&directory)?, directory }))
            .filter(|programs| programs.version >= VERSION_MIN)
            .max_by_key(|programs| programs.version)
    }
}

/// Debian keeps the server's programs out of PATH, one directory per version.
fn candidates() -> Vec<PathBuf> {
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let debian = debian.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    debian.chain(std::env::split_paths(&path)).collect()
}

fn version_in(directory: &Path) -> Option<u32> {
    let output = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
    major_version(&String::from_utf8_lossy(&output.stdout))
}

fn major_version(shown: &str) -> Option<u32> {
    let (_, version) = shown.split_once("(PostgreSQL) ")?;
    let end = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_major_version_is_read_from_what_the_server_says_of_itself() {
        let debian = "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n";
        assert_eq!(major_version(debian), Some(15));
        assert_eq!(major_version("postgres (PostgreSQL) 19beta1\n"), Some(19));
        assert_eq!(major_version("postgres (PostgreSQL) 17"), Some(17));
        assert_eq!(major_version("some other postgres 3"), None);
    }
}
