//! The outbound side: events are published and delivered while the server is killed.
//!
//! `publisher` publishes, singly and in batches, and repeats what got no answer; `receiver` stands in for three
//! subscribers (`hooks`), each with a temper of its own, and logs what it answered and when; `puller` is a fourth that
//! leases its deliveries; `watcher` counts while everything runs. All they are told and see is in `record`, and nothing
//! else is known to the check (`check`), which asks the API once faults have stopped.

mod check;
mod hooks;
mod outcome;
mod publisher;
mod puller;
mod receiver;
mod record;
mod watcher;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use xtask::postgres::Durability;

pub use outcome::Outcome;

use crate::chance::Chance;
use crate::clients::{Desk, Phase};
use crate::kill::{self, Killing};
use crate::options::{Common, OutboundControl};
use crate::told::Told;
use crate::world::{Cluster, Place, break_promise, new_directory};
use hooks::Hooks;
use receiver::Receiver;
use record::Record;

const PUBLISHERS: u64 = 4;
const PULLERS: u64 = 2;
/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(5);
/// How long a client may take to go home: a long poll, a stall and a last call.
const GOING_HOME: Duration = Duration::from_secs(15);
/// What the servers are told besides. Links to large events must not change with a node's port.
const SETTINGS: [(&str, &str); 3] = [
    ("WAKEPOST_ALLOW_HTTP", "true"),
    ("WAKEPOST_ALLOW_PRIVATE", "true"),
    ("WAKEPOST_PUBLIC_URL", "https://hooks.example"),
];

/// What all who take part share.
#[derive(Clone)]
pub struct Office {
    /// How to call, where broken promises are kept, and what everybody does now.
    desk: Desk,
    /// The webhooks.
    hooks: Arc<Hooks>,
    /// What everybody was told and saw.
    record: Arc<Record>,
    /// Deliveries that have not ended, as the watcher saw last.
    waiting: Arc<AtomicUsize>,
}

/// Publishes, kills, and checks.
pub async fn run(
    common: &Common,
    seed: u64,
    kills: u32,
    control: Option<OutboundControl>,
) -> anyhow::Result<Outcome> {
    let directory = new_directory()?;
    let place = Place { directory: directory.path(), disk: None };
    let mut cluster = Cluster::start(common, &place, Durability::Small, &SETTINGS).await?;
    let told = Arc::new(Told::default());
    let record = Arc::new(Record::new(told.clone()));
    let receiver = Receiver::start(record.clone(), Chance::new(seed, 400)).await?;
    let hooks = Arc::new(Hooks::make(&cluster.api().await?, &receiver).await?);
    receiver.open(hooks.clone());
    if let Some(control) = control {
        break_promise(&mut cluster, control).await?;
    }
    let desk = Desk::new(cluster.caller(), told.clone());
    let office = Office { desk, hooks, record: record.clone(), waiting: Arc::default() };
    let mut load = Load::start(&office, seed);

    let mut killing = Killing::new(cluster, seed, kills);
    let survived = all(&mut killing, &office, seed, kills).await;
    let of_database = killing.of_database(common.database);
    let checked = match survived {
        Ok(()) => load.end_and_check(&office, &receiver).await,
        Err(error) => Err(error),
    };
    // A server that cannot be started again, or asked, is the worst violation of all.
    if let Err(error) = checked {
        told.violation("start", format!("{error:#}"));
    }
    let kept = kill::close(killing.cluster, directory, &told, control.is_some())?;
    Ok(Outcome { what: format!("kills {kills}{of_database}"), record, told, seed, kept })
}

/// Kills after a while of load, again and again. Now and then the while is long enough that what was answered in it can
/// only have been recorded: a repeat of it is then nobody's fault but the server's.
async fn all(killing: &mut Killing, office: &Office, seed: u64, kills: u32) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed, 4);
    let mut shown = Instant::now();
    while !killing.is_over() {
        let load = match chance.percent(12) {
            true => chance.millis(4000, 5000),
            false => chance.millis(60, 800),
        };
        tokio::time::sleep(load).await;
        office.record.fault_begins();
        killing.next().await?;
        office.record.fault_ends();
        if shown.elapsed() >= PROGRESS {
            shown = Instant::now();
            let (violations, counts) =
                (office.desk.told.counts().violations, office.record.counts());
            println!("{}/{kills} kills: {counts}, violations {violations}", killing.killed);
        }
    }
    Ok(())
}

/// Everybody at work.
struct Load {
    publishers: JoinSet<()>,
    others: JoinSet<()>,
}

impl Load {
    fn start(office: &Office, seed: u64) -> Load {
        let mut load = Load { publishers: JoinSet::new(), others: JoinSet::new() };
        for number in 0..PUBLISHERS {
            let chance = Chance::new(seed, 100 + number);
            load.publishers.spawn(publisher::Publisher::new(office.clone(), chance, number).run());
        }
        for number in 0..PULLERS {
            let chance = Chance::new(seed, 200 + number);
            load.others.spawn(puller::run(office.clone(), chance, format!("puller-{number}")));
        }
        load.others.spawn(watcher::run(office.clone(), Chance::new(seed, 300)));
        load
    }

    /// Faults have stopped: publishers repeat what got no answer, receivers are well, everything arrives, and then it
    /// is checked.
    async fn end_and_check(&mut self, office: &Office, receiver: &Receiver) -> anyhow::Result<()> {
        office.desk.enter(Phase::Calm);
        receiver.calm_down();
        while self.publishers.join_next().await.is_some() {}
        check::drain(office).await?;
        office.desk.enter(Phase::Over);
        let all = async { while self.others.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GOING_HOME, all).await;
        self.others.abort_all();
        check::everything(office).await
    }
}
