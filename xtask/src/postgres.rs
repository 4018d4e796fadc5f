//! A PostgreSQL server of our own: started on a free port, its data in the temp directory, gone
//! when dropped.

mod account;
mod programs;
mod server;
mod standby;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::interrupt::{self, Interrupted};
use crate::process::POLL_INTERVAL;
use account::Account;
use programs::Programs;
use server::{Server, free_port};

/// A port is free only until someone else takes it, so the start is tried on a few.
const PORTS_TRIED_MAX: usize = 5;

/// How long what is left of a killed server may be in the way of the next.
const START_AGAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// What a commit is worth on the server.
#[derive(Clone, Copy, Debug)]
pub enum Durability {
    /// A commit outlives the server's processes but not the machine: for tests.
    Fast,
    /// A commit is on the disk, that of the temp directory, when it returns: for measurements.
    Real,
    /// As `Real`, on a small disk, with a log so short that checkpoints are frequent: for crash tests.
    Small,
    /// As `Small`, but a commit returns before it is on the disk: to show that crash tests notice.
    Delayed,
}

impl Durability {
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Fast => &[
                "fsync=off",
                "full_page_writes=off",
                "max_connections=400",
                "shared_buffers=256MB",
            ],
            Self::Real => &["fsync=on", "shared_buffers=1GB", "max_wal_size=4GB"],
            Self::Small => &["fsync=on", "shared_buffers=64MB", "max_wal_size=96MB"],
            Self::Delayed => {
                &["fsync=on", "shared_buffers=64MB", "max_wal_size=96MB", "synchronous_commit=off"]
            }
        }
    }
}

/// A running server. Dropping it ends the server and removes its directory.
#[derive(Debug)]
pub struct Postgres {
    // Fields drop in this order: the server ends before its directory goes.
    server: Server,
    directory: TempDir,
    programs: Programs,
    account: Account,
    durability: Durability,
}

impl Postgres {
    /// Starts a server, installing PostgreSQL first when it is missing.
    pub fn start(durability: Durability) -> anyhow::Result<Self> {
        Self::start_in(&std::env::temp_dir(), durability)
    }

    /// Whether there is a PostgreSQL on this machine.
    pub fn is_installed() -> bool {
        Programs::find().is_some()
    }

    /// As [`Postgres::start`], with its data in a directory of its own under `place`.
    pub fn start_in(place: &Path, durability: Durability) -> anyhow::Result<Self> {
        let programs = Programs::find_or_install()?;
        let account = Account::choose()?;
        let directory = new_directory(place, &account)?;
        create_cluster(&programs, &account, directory.path())?;
        Self::start_on(programs, account, directory, durability)
    }

    /// On a data directory that was never started before.
    fn start_on(
        programs: Programs,
        account: Account,
        directory: TempDir,
        durability: Durability,
    ) -> anyhow::Result<Self> {
        for _ in 0..PORTS_TRIED_MAX {
            let (settings, port) = (durability.settings(), free_port()?);
            let server = Server::start(&programs, &account, directory.path(), settings, port)?;
            if let Some(server) = server {
                return Ok(Self { server, directory, programs, account, durability });
            }
        }
        bail!("PostgreSQL found its port taken {PORTS_TRIED_MAX} times in a row");
    }

    /// Ends the server after what is under way, and saves everything: those who are connected are cut.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.server.end(Signal::INT)
    }

    /// Lets nobody in from now on. Those who are connected stay, and the server ends once they have gone.
    pub fn close(&self) -> anyhow::Result<()> {
        self.server.signal(Signal::TERM)
    }

    /// Ends the server as the kernel would: its other processes find out by themselves.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.server.end(Signal::KILL)
    }

    /// Ends the server and all its processes at once, without saving anything.
    pub fn quit(&mut self) -> anyhow::Result<()> {
        self.server.end(Signal::QUIT)
    }

    /// Starts a server that was ended, on the same data and the same port.
    pub fn start_again(&mut self) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_AGAIN_TIMEOUT;
        let (directory, settings) = (self.directory.path(), self.durability.settings());
        while Instant::now() < deadline {
            let port = self.server.port();
            let server = Server::start(&self.programs, &self.account, directory, settings, port)?;
            if let Some(server) = server {
                self.server = server;
                return Ok(());
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!("PostgreSQL could not start again within {START_AGAIN_TIMEOUT:?}");
    }

    /// Ends the server, keeps its directory, and says where that is.
    pub fn keep(mut self) -> anyhow::Result<PathBuf> {
        self.quit()?;
        Ok(self.directory.keep())
    }

    /// The address of the database `postgres`, as superuser.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.server.port())
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The major version of the server.
    pub fn version(&self) -> u32 {
        self.programs.version()
    }

    /// Returns at Ctrl-C; that the server ends by itself before then is an error.
    pub fn wait_for_interrupt(&mut self) -> anyhow::Result<()> {
        self.server.wait_for_interrupt()
    }
}

/// The server's home, closed to other accounts: its socket asks for no password.
fn new_directory(place: &Path, account: &Account) -> anyhow::Result<TempDir> {
    let directory = tempfile::Builder::new()
        .prefix("wakepost-postgres-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(place)
        .context("creating a directory for PostgreSQL")?;
    account.own(directory.path())?;
    Ok(directory)
}

fn create_cluster(programs: &Programs, account: &Account, directory: &Path) -> anyhow::Result<()> {
    let output = account
        .command(programs.initdb())
        .current_dir(directory)
        .args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"])
        .args(["--no-sync", "--pgdata=data"])
        .stdin(Stdio::null())
        .output()
        .context("running initdb")?;
    if interrupt::take() {
        bail!(Interrupted);
    }
    if !output.status.success() {
        bail!("initdb failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    /// `None` only for a developer who tests against a server elsewhere and has none here; when
    /// `cargo xtask test` starts its own, there is one.
    fn start() -> Option<Postgres> {
        Programs::find()?;
        Some(Postgres::start(Durability::Fast).expect("a server"))
    }

    #[test]
    fn a_dropped_server_leaves_no_directory_and_no_open_port() {
        let Some(postgres) = start() else { return };
        let directory = postgres.directory.path().to_owned();
        let address = ("127.0.0.1", postgres.server.port());
        assert!(directory.join("data/PG_VERSION").exists());
        TcpStream::connect(address).expect("a server that listens");

        drop(postgres);
        assert!(!directory.exists());
        TcpStream::connect(address).expect_err("a port nobody listens on");
    }

    #[test]
    fn a_killed_server_starts_again_on_the_same_port() {
        let Some(mut postgres) = start() else { return };
        let url = postgres.url();
        postgres.kill().expect("a server that can be killed");
        postgres.start_again().expect("a server that starts again");
        assert_eq!(postgres.url(), url);
        TcpStream::connect(("127.0.0.1", postgres.server.port())).expect("a server that listens");
    }

    #[test]
    fn a_standby_follows_until_it_is_promoted() {
        let Some(mut primary) = start() else { return };
        let standby = primary.standby().expect("a standby");
        let follows = standby.directory.path().join("data/standby.signal");
        assert!(follows.exists());
        assert_ne!(standby.port(), primary.port());
        primary.quit().expect("it ends");
        TcpStream::connect(("127.0.0.1", standby.port())).expect("it lives on");
        standby.promote().expect("it can be promoted");
        assert!(!follows.exists());
    }

    #[test]
    fn two_servers_run_side_by_side() {
        let (Some(first), Some(second)) = (start(), start()) else {
            return;
        };
        assert_ne!(first.url(), second.url());
    }
}
