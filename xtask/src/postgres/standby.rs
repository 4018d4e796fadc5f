//! A standby: a copy of a server that follows it, and can take its place.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use rustix::process::Signal;

use super::{Account, Postgres, Programs, new_directory};

/// From the next commits on each waits for the standby.
const WAITED_FOR: &str = "synchronous_standby_names = '*'\n";

impl Postgres {
    /// A standby of this server, with a directory and a port of its own. From soon on (the server takes a moment to
    /// hear of it: `pg_stat_replication.sync_state` says when) a commit here returns when the standby has it too.
    pub fn standby(&self) -> anyhow::Result<Postgres> {
        let programs = Programs::find_or_install()?;
        let account = Account::choose()?;
        let directory = new_directory(&std::env::temp_dir(), &account)?;
        let mut copy = account.command(programs.pg_basebackup());
        copy.current_dir(directory.path())
            .args(["--host=127.0.0.1", "--username=postgres", "--pgdata=data"])
            .arg(format!("--port={}", self.port()))
            .args(["--write-recovery-conf", "--checkpoint=fast", "--no-sync"])
            // What the server throws away before the standby has read it would be missed.
            .args(["--create-slot", "--slot=standby"]);
        run(copy).context("copying PostgreSQL")?;
        let standby = Postgres::start_on(programs, account, directory, self.durability)?;
        let settings = self.directory.path().join("data/postgresql.auto.conf");
        let file = OpenOptions::new().append(true).open(settings);
        file.and_then(|mut file| file.write_all(WAITED_FOR.as_bytes()))
            .context("writing PostgreSQL's settings")?;
        // It reads its files again.
        self.server.signal(Signal::HUP)?;
        Ok(standby)
    }

    /// Makes a standby the server that takes writes. It waits for nobody.
    pub fn promote(&self) -> anyhow::Result<()> {
        let mut promote = self.account.command(self.programs.pg_ctl());
        promote.current_dir(self.directory.path()).args(["--pgdata=data", "--wait", "promote"]);
        run(promote).context("promoting PostgreSQL")
    }
}

fn run(mut command: Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
