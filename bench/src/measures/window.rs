//! One measured window: how many, how fast, and what it cost whom.

use std::time::{Duration, Instant};

use crate::bench::Bench;
use crate::load::requests::Events;
use crate::load::{Expected, Load, Seen};
use crate::world::gateway::Gateway;
use crate::world::usage;

/// Lets what the window before left behind come to rest.
const PAUSE: Duration = Duration::from_millis(200);

/// What a window saw.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// Answers a second.
    pub rate: f64,
    /// Half were answered within this many milliseconds.
    pub p50_ms: f64,
    /// All but one in a hundred were.
    pub p99_ms: f64,
    /// CPU of the server, in microseconds a request.
    pub server_us: f64,
    /// CPU of the database server.
    pub database_us: f64,
    /// CPU of this program.
    pub generator_us: f64,
    /// The share of the machine that processes of others took meanwhile.
    pub others: f64,
}

/// CPU times so far.
#[derive(Debug, Clone, Copy)]
pub struct Spent {
    server: Duration,
    database: Duration,
    /// The whole database server, whether or not this gateway uses it: nobody else does.
    postgres: Duration,
    generator: Duration,
    beside: Duration,
    machine: Duration,
    at: Instant,
}

impl Spent {
    /// As of now.
    pub fn so_far(bench: &Bench, gateway: &Gateway) -> Spent {
        Spent::by(bench, usage::cpu(gateway.child.pid), gateway.database.is_some())
    }

    /// As of now, of several nodes on one database.
    pub fn of_nodes(bench: &Bench, nodes: &[Gateway]) -> Spent {
        let servers = nodes.iter().map(|node| usage::cpu(node.child.pid)).sum();
        Spent::by(bench, servers, nodes.iter().any(|node| node.database.is_some()))
    }

    /// As of now, where another process takes part: what it used belongs to the measure and is nobody's figure.
    /// `gateway`: the server that is measured, if one is.
    pub fn beside(bench: &Bench, gateway: Option<&Gateway>, pid: u32) -> Spent {
        let mut spent = match gateway {
            Some(gateway) => Spent::so_far(bench, gateway),
            None => Spent::by(bench, Duration::ZERO, false),
        };
        spent.beside = usage::cpu(pid);
        spent
    }

    /// As of now, where what is measured are processes of this one that end before the window does.
    pub fn by_ended_children(bench: &Bench) -> Spent {
        Spent::by(bench, usage::ended_children_cpu(std::process::id()), true)
    }

    /// As of now, where what is measured are such processes and, if there is one, the server that keeps their jobs.
    pub fn by_peer(bench: &Bench, server: Option<u32>) -> Spent {
        let beside = server.map_or(Duration::ZERO, usage::cpu);
        Spent { beside, ..Spent::by_ended_children(bench) }
    }

    fn by(bench: &Bench, server: Duration, on_postgres: bool) -> Spent {
        let postgres = bench.postgres.as_ref().map_or(Duration::ZERO, |postgres| postgres.cpu());
        Spent {
            server,
            database: if on_postgres { postgres } else { Duration::ZERO },
            postgres,
            generator: usage::cpu(std::process::id()),
            beside: Duration::ZERO,
            machine: usage::machine_cpu(),
            at: Instant::now(),
        }
    }

    /// The share of the machine that went since `before` to processes that are not part of the measure.
    /// A share of more than a few hundredths spoils what was measured.
    pub fn others(self, bench: &Bench, before: Spent) -> f64 {
        let since = |of: fn(&Spent) -> Duration| of(&self).saturating_sub(of(&before));
        let ours = since(|s| s.server)
            + since(|s| s.postgres)
            + since(|s| s.generator)
            + since(|s| s.beside);
        let others = since(|s| s.machine).saturating_sub(ours);
        let all = self.at.duration_since(before.at).as_secs_f64() * bench.machine.cores as f64;
        let share = (others.as_secs_f64() / all.max(0.001)).min(1.0);
        bench.quiet.note(share);
        share
    }

    /// Microseconds for each of `count` things since `before`: server, database, generator.
    pub fn each(self, before: Spent, count: u64) -> (f64, f64, f64) {
        let each = |now: Duration, then: Duration| {
            now.saturating_sub(then).as_secs_f64() * 1e6 / count.max(1) as f64
        };
        (
            each(self.server, before.server),
            each(self.database, before.database),
            each(self.generator, before.generator),
        )
    }
}

/// A load with the options of this run.
pub fn load(bench: &Bench, events: Events, expected: Expected, connections: usize) -> Load {
    Load {
        events,
        expected,
        connections,
        threads: bench.options.threads as usize,
        warm_up: bench.options.warm_up(),
        window: bench.options.window(),
    }
}

/// Runs a load and measures it.
pub async fn window(
    bench: &Bench,
    gateway: &Gateway,
    load: impl Future<Output = anyhow::Result<Seen>>,
) -> anyhow::Result<Window> {
    tokio::time::sleep(PAUSE).await;
    let before = Spent::so_far(bench, gateway);
    let seen = load.await?;
    let after = Spent::so_far(bench, gateway);
    let (server_us, database_us, generator_us) = after.each(before, seen.exchanges);
    anyhow::ensure!(!seen.micros.is_empty(), "nothing was answered in the window");
    Ok(Window {
        rate: seen.rate(),
        p50_ms: seen.millis(0.5),
        p99_ms: seen.millis(0.99),
        server_us,
        database_us,
        generator_us,
        others: after.others(bench, before),
    })
}

impl Window {
    /// Prints it as a line.
    pub fn print(&self, round: u32, what: &str) {
        println!(
            "round {:>2}  {what:<34} {:>8.0}/s  p50 {:>6.2} ms  p99 {:>7.2} ms   CPU µs each: \
             server {:>5.1}, database {:>5.1}, generator {:>5.1}; others took {:.0} %",
            round + 1,
            self.rate,
            self.p50_ms,
            self.p99_ms,
            self.server_us,
            self.database_us,
            self.generator_us,
            self.others * 100.0
        );
    }
}
