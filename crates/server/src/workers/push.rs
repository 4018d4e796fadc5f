//! Pushed runs: claims what this node runs itself, and runs it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::task::TaskTracker;
use wakepost_domain::executor::Executor;

use crate::context::Context;
use crate::executors;
use crate::queue::Pushed;

/// How often it looks without having been told: the net under lost hints.
const SAFETY_POLL: Duration = Duration::from_secs(1);
/// How many it claims at a time.
const BATCH: usize = 64;

/// What runs on this node now.
struct Running {
    all: AtomicUsize,
    all_max: usize,
    by_command: HashMap<String, (AtomicUsize, usize)>,
}

impl Running {
    fn new(context: &Context) -> Running {
        let commands = context.config.exec.iter();
        let by_command = commands
            .map(|(name, command)| (name.clone(), (AtomicUsize::new(0), command.concurrency)));
        Running {
            all: AtomicUsize::new(0),
            all_max: context.config.push_concurrency,
            by_command: by_command.collect(),
        }
    }

    fn free(&self) -> usize {
        self.all_max.saturating_sub(self.all.load(Ordering::Acquire))
    }

    /// How many more of an executor may run. A command that this node does not have: none.
    fn places(&self, executor: &Executor) -> usize {
        match executor {
            Executor::Pull => 0,
            Executor::Http { .. } | Executor::Gateway => self.free(),
            Executor::Exec { name } => self.by_command.get(name).map_or(0, |(running, max)| {
                max.saturating_sub(running.load(Ordering::Acquire)).min(self.free())
            }),
        }
    }

    fn counters(&self, executor: &Executor) -> impl Iterator<Item = &AtomicUsize> {
        let own = match executor {
            Executor::Exec { name } => self.by_command.get(name).map(|(running, _)| running),
            _ => None,
        };
        std::iter::once(&self.all).chain(own)
    }
}

/// Claims and starts runs until the server stops.
pub async fn run(context: Arc<Context>, tracker: TaskTracker) {
    let running = Arc::new(Running::new(&context));
    let worker = worker_name();
    while !context.stop.is_cancelled() {
        match start_ready(&context, &tracker, &running, &worker).await {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(%error, "nothing could be claimed; it will be tried again")
            }
        }
        tokio::select! {
            () = context.queue.pushed_ready() => {}
            () = tokio::time::sleep(SAFETY_POLL) => {}
            () = context.stop.cancelled() => {}
        }
    }
}

/// The node's name as a worker.
fn worker_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "node".to_owned());
    format!("{host}:{}", std::process::id())
}

/// Claims a batch and starts its runs; answers whether there was anything.
async fn start_ready(
    context: &Arc<Context>,
    tracker: &TaskTracker,
    running: &Arc<Running>,
    worker: &str,
) -> wakepost_store::Result<bool> {
    let room = running.free().min(BATCH) as u32;
    if room == 0 {
        return Ok(false);
    }
    let places = |executor: &Executor| running.places(executor);
    let claimed = context.queue.claim_pushed(worker, room, &places).await?;
    let any = !claimed.is_empty();
    context.metrics.claimed.inc_by(claimed.len() as u64);
    for item in claimed {
        start_one(context, tracker, running, item);
    }
    Ok(any)
}

fn start_one(context: &Arc<Context>, tracker: &TaskTracker, running: &Arc<Running>, item: Pushed) {
    let executor = item.2.executor.clone();
    running.counters(&executor).for_each(|counter| {
        counter.fetch_add(1, Ordering::AcqRel);
    });
    let (context, running) = (context.clone(), running.clone());
    tracker.spawn(async move {
        context.metrics.pushed_running.inc();
        executors::run(&context, item).await;
        context.metrics.pushed_running.dec();
        running.counters(&executor).for_each(|counter| {
            counter.fetch_sub(1, Ordering::AcqRel);
        });
        context.queue.push_place_free();
    });
}
