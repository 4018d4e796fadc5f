//! The load: senders, makers of jobs, workers and an operator, none of whom knows when the server dies.

pub mod acting;
pub mod ending;
mod liner;
pub mod operator;
mod sender;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use wakepost_tests::Source;

use crate::caller::Caller;
use crate::chance::Chance;
use crate::told::Told;

const SENDERS: u64 = 5;
const LINERS: u64 = 2;
const WORKERS: u64 = 6;

/// What every client shares.
#[derive(Clone)]
pub struct Desk {
    /// How to call.
    pub caller: Caller,
    /// Where answers are kept.
    pub told: Arc<Told>,
    phase: Arc<AtomicU8>,
    /// Jobs that wait for a worker, as the operator saw last.
    waiting: Arc<AtomicUsize>,
}

/// What the clients do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub enum Phase {
    /// They send and work, well or badly.
    Load,
    /// Faults have stopped: nothing new is sent, and whoever works works well.
    Calm,
    /// They go home.
    Over,
}

impl Desk {
    /// A desk.
    pub fn new(caller: Caller, told: Arc<Told>) -> Desk {
        Desk { caller, told, phase: Arc::default(), waiting: Arc::default() }
    }

    /// What the clients do now.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Load,
            1 => Phase::Calm,
            _ => Phase::Over,
        }
    }

    /// Lets the clients do something else.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }
}

/// The clients at work.
pub struct Clients {
    desk: Desk,
    senders: JoinSet<()>,
    others: JoinSet<()>,
}

impl Clients {
    /// Starts them all.
    pub fn start(desk: &Desk, sources: &[Source], seed: u64) -> Clients {
        let mut clients =
            Clients { desk: desk.clone(), senders: JoinSet::new(), others: JoinSet::new() };
        for number in 0..SENDERS {
            let chance = Chance::new(seed, 100 + number);
            let sender = sender::Sender::new(desk.clone(), sources.to_vec(), chance, number);
            clients.senders.spawn(sender.run());
        }
        for number in 0..LINERS {
            let chance = Chance::new(seed, 150 + number);
            clients.senders.spawn(liner::run(desk.clone(), chance, number));
        }
        for number in 0..WORKERS {
            let chance = Chance::new(seed, 200 + number);
            let worker = worker::Worker::new(desk.clone(), chance, format!("worker-{number}"));
            clients.others.spawn(worker.run());
        }
        clients.others.spawn(operator::run(desk.clone(), Chance::new(seed, 300)));
        clients
    }

    /// Faults have stopped: senders repeat what got no answer, most of it, and stop.
    pub async fn calm_down(&mut self) {
        self.desk.enter(Phase::Calm);
        while self.senders.join_next().await.is_some() {}
    }

    /// Ends them.
    pub async fn go_home(&mut self) {
        self.desk.enter(Phase::Over);
        let all = async { while self.others.join_next().await.is_some() {} };
        // Long enough for a long poll, a stall and a last call.
        let _ = tokio::time::timeout(Duration::from_secs(15), all).await;
        self.others.abort_all();
    }
}
