//! Enqueue to start: from just before a job is posted to its worker's receipt of it, whether the worker asked for it or
//! it is posted to an agent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wakepost_server::listener;

use super::rounds::{by_arm, order, rounds};
use super::timed::{self, Heard, Request, Round, Tasks, Timetable, sorted};
use super::window::Spent;
use super::worker::{Input, Worker};
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::world::gateway::{Gateway, Kind};
use crate::world::peers::{Peer, Queue};

const JOBS_PER_SECOND: u32 = 200;
/// Workers wait in a long poll; with a few, one is always waiting.
const WORKERS: usize = 4;
/// Not measured: connections, caches and plans warm up.
const UNCOUNTED: usize = 50;
const PATIENCE: Duration = Duration::from_secs(90);

/// How a job reaches whoever works on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Workers ask for it.
    Pulled,
    /// It is posted to an agent.
    Pushed,
    /// Workers ask another node for it than the one that is told of it.
    Across,
}

impl Way {
    /// As it stands in names.
    fn text(self) -> &'static str {
        match self {
            Way::Pulled => "",
            Way::Pushed => " pushed",
            Way::Across => " through another node",
        }
    }
}

/// What is measured.
enum Arm<'a> {
    Ours(&'a Gateway, Way),
    Theirs(&'a Peer),
}

impl Arm<'_> {
    /// On SQLite there is one node.
    fn is_there(&self) -> bool {
        !matches!(self, Arm::Ours(gateway, Way::Across) if gateway.kind == Kind::Sqlite)
    }

    fn name(&self) -> String {
        match self {
            Arm::Ours(gateway, way) => format!("{}{}", gateway.kind, way.text()),
            Arm::Theirs(peer) => peer.queue.to_string(),
        }
    }
}

/// The figures of the spec, with those of other queues beside ours as information.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let gateways = bench.gateways().await?;
    let peers =
        Peer::all(bench, &[Queue::GraphileWorker, Queue::BullMq, Queue::BullMqEverySecond]).await;
    let ways = [Way::Pulled, Way::Pushed, Way::Across];
    let ours = ways.iter().flat_map(|way| gateways.iter().map(|gateway| Arm::Ours(gateway, *way)));
    let ours = ours.filter(Arm::is_there);
    let arms: Vec<Arm<'_>> = ours.chain(peers.iter().map(Arm::Theirs)).collect();
    let seen = rounds(bench, async |round| {
        let mut seen = BTreeMap::new();
        for index in order(round, arms.len()) {
            let micros = match &arms[index] {
                Arm::Ours(gateway, Way::Across) => across(bench, gateway).await?,
                Arm::Ours(gateway, way) => of_gateway(bench, gateway, *way).await?,
                Arm::Theirs(peer) => of_peer(bench, peer).await?,
            };
            seen.insert(index, micros);
        }
        let seen = seen.into_values().zip(&arms);
        Ok(seen
            .map(|(seen, arm)| seen.told(round, &format!("enqueue to start on {:<15}", arm.name())))
            .collect())
    });
    let mut figures = Vec::new();
    for (seen, arm) in by_arm(seen.await?).into_iter().zip(&arms) {
        let (p50, p99) = seen.into_iter().unzip();
        let way = if let Arm::Ours(_, way) = arm { way.text() } else { "" };
        let name = |share| format!("enqueue to start at {JOBS_PER_SECOND} jobs/s{way}, {share}");
        figures.extend(match arm {
            Arm::Ours(gateway, ..) => [
                Figure::new(name("p50"), gateway.kind, Unit::Millis, p50)
                    .held_to(Target::Below(3.0), Target::Below(1.5)),
                Figure::new(name("p99"), gateway.kind, Unit::Millis, p99)
                    .held_to(Target::Below(15.0), Target::Below(6.0)),
            ],
            Arm::Theirs(peer) => [
                Figure::new(name("p50"), peer.queue, Unit::Millis, p50),
                Figure::new(name("p99"), peer.queue, Unit::Millis, p99),
            ],
        });
    }
    Ok(figures)
}

async fn of_gateway(bench: &Bench, gateway: &Gateway, way: Way) -> anyhow::Result<Round> {
    let before = Spent::so_far(bench, gateway);
    let micros = in_time(micros(bench, gateway, gateway, way)).await?;
    let others = Spent::so_far(bench, gateway).others(bench, before);
    Ok(Round { micros, others })
}

/// With a node of its own for the workers, which is there for this round only: it would take part in the others.
async fn across(bench: &Bench, gateway: &Gateway) -> anyhow::Result<Round> {
    let mut node = gateway.node(bench).await?;
    let before = Spent::beside(bench, Some(gateway), node.child.pid);
    let micros = in_time(micros(bench, gateway, &node, Way::Across)).await?;
    let others = Spent::beside(bench, Some(gateway), node.child.pid).others(bench, before);
    node.child.stop().await?;
    Ok(Round { micros, others })
}

async fn in_time(
    micros: impl Future<Output = anyhow::Result<Vec<u32>>>,
) -> anyhow::Result<Vec<u32>> {
    tokio::time::timeout(PATIENCE, micros).await.context("the jobs did not all start in time")?
}

async fn of_peer(bench: &Bench, peer: &Peer) -> anyhow::Result<Round> {
    let before = Spent::by_peer(bench, peer.server());
    let micros = peer.start(JOBS_PER_SECOND, count(bench) - UNCOUNTED).await?;
    let others = Spent::by_peer(bench, peer.server()).others(bench, before);
    Ok(Round { micros, others })
}

/// How many jobs a round posts.
fn count(bench: &Bench) -> usize {
    let seconds = bench.options.window().as_secs_f64() * 2.0;
    UNCOUNTED + (seconds * f64::from(JOBS_PER_SECOND)) as usize
}

/// The sorted microseconds of one round. `asked`: the node that workers ask.
async fn micros(
    bench: &Bench,
    gateway: &Gateway,
    asked: &Gateway,
    way: Way,
) -> anyhow::Result<Vec<u32>> {
    let (heard, receipts) = mpsc::unbounded_channel();
    // Aborted when dropped: the last long polls need not be waited for.
    let mut tasks = Tasks::new();
    let mut job = json!({"kind": "start"});
    match way {
        Way::Pulled | Way::Across => {
            for name in 0..WORKERS {
                let worker = Worker::new(asked.api().await?, name, 10, 20);
                tasks.spawn(work(worker, heard.clone()));
            }
        }
        Way::Pushed => {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let url = format!("http://{}/", listener.local_addr()?);
            job["executor"] = json!({"kind": "http", "url": url});
            tasks.spawn(agent(listener, heard.clone()));
        }
    }
    let request = move |number: usize| {
        let mut job = job.clone();
        job["input"] = json!({"number": number});
        Request { path: "/jobs".to_owned(), body: job.to_string() }
    };
    let timetable = Timetable {
        per_second: JOBS_PER_SECOND,
        count: count(bench),
        uncounted: UNCOUNTED,
        request: Arc::new(request),
    };
    let seen = timed::micros(gateway, timetable, receipts, &mut tasks).await?;
    // The last jobs may still be on their way to being finished; the next round must not meet them.
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(sorted(seen))
}

async fn work(mut worker: Worker, heard: Heard) -> anyhow::Result<()> {
    loop {
        worker
            .turn(|job| {
                let number = job.input.as_ref().map_or(usize::MAX, |input| input.number);
                // The measure may be over already.
                let _ = heard.send((number, Instant::now()));
            })
            .await?;
    }
}

/// An agent that jobs are posted to, and that is done at once.
async fn agent(listener: TcpListener, heard: Heard) -> anyhow::Result<()> {
    let take = async move |Json(job): Json<Pushed>| {
        let _ = heard.send((job.input.number, Instant::now()));
        Json(json!({"result": null}))
    };
    let stop = CancellationToken::new();
    // Ended with the round.
    let _stops = stop.clone().drop_guard();
    let router = Router::new().route("/", axum::routing::post(take));
    listener::serve(listener, router, 1_000, stop, Duration::from_millis(100)).await;
    Ok(())
}

#[derive(Deserialize)]
struct Pushed {
    input: Input,
}
