//! Kills: processes end at random moments, and start again on the same data.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use xtask::postgres::Durability;

use crate::caller::Caller;
use crate::chance::Chance;
use crate::check;
use crate::clients::{Clients, Desk};
use crate::options::{Common, Control, Database};
use crate::report::{self, Outcome};
use crate::told::Told;
use crate::world::{Cluster, Place, break_promise, new_directory};

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(5);

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Node(usize),
    AllNodes,
    /// The database server: its first process alone, or all at once.
    Postgres {
        first_alone: bool,
    },
}

/// Kills, and checks.
pub async fn run(
    common: &Common,
    seed: u64,
    kills: u32,
    control: Option<Control>,
) -> anyhow::Result<Outcome> {
    let directory = new_directory()?;
    let place = Place { directory: directory.path(), disk: None };
    let mut cluster = Cluster::start(common, &place, Durability::Small, &[]).await?;
    let sources = cluster.sources().await?;
    if let Some(control) = control {
        break_promise(&mut cluster, control).await?;
    }
    let told = Arc::new(Told::default());
    let caller = cluster.caller();
    let mut clients = Clients::start(&Desk::new(caller.clone(), told.clone()), &sources, seed);

    let mut killing = Killing::new(cluster, seed, kills);
    let survived = all(&mut killing, &told).await;
    let database = killing.of_database(common.database);
    let checked = match survived {
        Ok(()) => end_and_check(&mut clients, &caller, &told).await,
        Err(error) => Err(error),
    };
    // A server that cannot be started again, or asked, is the worst violation of all.
    if let Err(error) = checked {
        told.violation("start", format!("{error:#}"));
    }
    let kept = close(killing.cluster, directory, &told, control.is_some())?;
    Ok(Outcome { what: format!("kills {kills}{database}"), told, seed, kept })
}

/// The end of a cluster, which nobody may have reached by itself. Says what is kept for a closer look: something if a
/// promise was broken, unless that was on purpose.
pub fn close(
    mut cluster: Cluster,
    directory: TempDir,
    told: &Told,
    on_purpose: bool,
) -> anyhow::Result<Vec<PathBuf>> {
    if let Some(log) = cluster.fallen()?.filter(|_| told.counts().violations == 0) {
        told.violation("start", format!("a server ended by itself:\n{log}"));
    }
    let mut kept = Vec::new();
    if told.counts().violations > 0 && !on_purpose {
        kept.extend(cluster.keep()?);
        kept.push(directory.keep());
    }
    Ok(kept)
}

/// Faults have stopped: lets the work end, and checks.
pub async fn end_and_check(
    clients: &mut Clients,
    caller: &Caller,
    told: &Told,
) -> anyhow::Result<()> {
    clients.calm_down().await;
    check::drain(caller, told).await?;
    clients.go_home().await;
    check::everything(caller, told).await
}

/// Kills after a while of load, again and again.
async fn all(killing: &mut Killing, told: &Told) -> anyhow::Result<()> {
    let mut shown = Instant::now();
    while !killing.is_over() {
        let load = killing.chance.millis(60, 800);
        tokio::time::sleep(load).await;
        killing.next().await?;
        told.lock().round += 1;
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            report::progress(&format!("{}/{} kills", killing.killed, killing.kills), told);
        }
    }
    Ok(())
}

/// A cluster and the kills it has to survive.
pub struct Killing {
    /// The cluster.
    pub cluster: Cluster,
    /// How many kills there were.
    pub killed: u32,
    chance: Chance,
    kills: u32,
    database_kills: u32,
}

impl Killing {
    /// Kills to come.
    pub fn new(cluster: Cluster, seed: u64, kills: u32) -> Killing {
        Killing { cluster, chance: Chance::new(seed, 1), killed: 0, kills, database_kills: 0 }
    }

    /// Whether there were enough.
    pub fn is_over(&self) -> bool {
        self.killed >= self.kills
    }

    /// Kills whoever's turn it is, and starts them again; nobody may have ended without that.
    pub async fn next(&mut self) -> anyhow::Result<()> {
        if let Some(log) = self.cluster.fallen()? {
            anyhow::bail!("a server ended by itself:\n{log}");
        }
        let victim = self.choose();
        self.kill(victim).await
    }

    /// How many of the kills were of the database server, in words, where there is one.
    pub fn of_database(&self, database: Database) -> String {
        match database {
            Database::Sqlite => String::new(),
            Database::Postgres => format!(" ({} of PostgreSQL)", self.database_kills),
        }
    }

    fn choose(&mut self) -> Victim {
        if self.cluster.count() == 1 {
            return Victim::Node(0);
        }
        // Even a short run kills the database server.
        if self.killed >= 4 * (self.database_kills + 1) - 2 {
            return Victim::Postgres { first_alone: self.chance.percent(60) };
        }
        match self.chance.within(1, 100) {
            1..=25 => Victim::Node(0),
            26..=50 => Victim::Node(1),
            51..=65 => Victim::AllNodes,
            share => Victim::Postgres { first_alone: share <= 85 },
        }
    }

    async fn kill(&mut self, victim: Victim) -> anyhow::Result<()> {
        self.killed += 1;
        match victim {
            Victim::Node(number) => {
                self.cluster.kill_node(number);
                self.revive(number).await
            }
            Victim::AllNodes => {
                for number in 0..self.cluster.count() {
                    self.cluster.kill_node(number);
                }
                for number in 0..self.cluster.count() {
                    self.revive(number).await?;
                }
                Ok(())
            }
            Victim::Postgres { first_alone } => {
                self.database_kills += 1;
                self.cluster.kill_postgres(first_alone)?;
                let down = self.chance.millis(0, 300);
                tokio::time::sleep(down).await;
                self.cluster.start_postgres()
            }
        }
    }

    /// Starts a node again, at once or a little later, and sometimes kills it while it starts.
    async fn revive(&mut self, number: usize) -> anyhow::Result<()> {
        if self.chance.percent(20) {
            let down = self.chance.millis(0, 250);
            tokio::time::sleep(down).await;
        }
        if self.chance.percent(15) && self.killed < self.kills {
            self.cluster.launch_node(number)?;
            let started = self.chance.millis(0, 60);
            tokio::time::sleep(started).await;
            self.cluster.kill_node(number);
            self.killed += 1;
        }
        self.cluster.start_node(number).await
    }
}
