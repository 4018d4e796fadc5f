//! Group commit: the callers of one hot verb share its statements.
//!
//! Calls queue up; a few workers each take what waits, run it as one batch, and then answer. There is no
//! linger: while one batch is on its way to the disk, the next gathers by itself. A second batch overlaps
//! the first only if it is worth a statement of its own. If a row makes a batch
//! fail, its rows are run again one by one, so that only the guilty one's caller hears of it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deadpool_postgres::{Client, Pool};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};

use super::fault::Fault;
use super::{after_commit, before_commit};
use crate::admission::{Admission, Place};
use crate::error::{Result, StoreError};
use crate::failpoint;

/// Batches of one verb that may be on their way at once. More than two bought little when measured.
const WORKERS: usize = 2;
/// While a batch is on its way, the next waits until it has this many rows: one larger statement costs the
/// database less than two small ones.
const ROWS_WORTH_OVERLAP: usize = 64;
/// How often a batch that waits for another looks whether it has grown enough.
const LOOK: Duration = Duration::from_millis(1);
/// How many rows one batch may hold, unless one call alone brings more.
const ROWS_PER_BATCH: usize = 512;
/// How many bytes of bodies one batch may hold, unless one row alone has more.
const BYTES_PER_BATCH: usize = 2 * 1024 * 1024;
/// How many calls may wait. Admission refuses long before this is full.
const QUEUE: usize = 32_768;
/// How often a batch that met a conflict is run again.
const RETRIES: u32 = 3;

/// A verb whose callers share statements.
pub trait Verb: Send + Sync + 'static {
    /// What one caller asks.
    type Item: Send + Sync + 'static;
    /// What it is answered.
    type Answer: Send + 'static;

    /// How much of what waits is this row's.
    fn bytes(item: &Self::Item) -> usize;

    /// Does it: one answer a row. A fault means that no row is answered, though some may be written.
    fn run(
        &self,
        client: &mut Client,
        items: &[Self::Item],
    ) -> impl Future<Output = std::result::Result<Vec<Result<Self::Answer>>, Fault>> + Send;
}

/// The way in for the callers of one verb.
pub struct Batcher<V: Verb> {
    queue: mpsc::Sender<Call<V>>,
    flow: Arc<Flow>,
    admission: Admission,
}

/// What the workers of one verb know of each other.
#[derive(Default)]
struct Flow {
    rows_waiting: AtomicUsize,
    running: AtomicUsize,
    ended: Notify,
}

impl Flow {
    /// Waits until there is no other batch on its way, or enough rows for one more.
    async fn my_turn(&self) {
        while self.running.load(Ordering::Relaxed) > 0
            && self.rows_waiting.load(Ordering::Relaxed) < ROWS_WORTH_OVERLAP
        {
            let _ = tokio::time::timeout(LOOK, self.ended.notified()).await;
        }
    }
}

struct Call<V: Verb> {
    items: Vec<V::Item>,
    waiting: Waiting<V>,
}

struct Waiting<V: Verb> {
    rows: usize,
    bytes: usize,
    answer: oneshot::Sender<Vec<Result<V::Answer>>>,
    /// Held until the caller is answered.
    _place: Place,
}

type Queue<V> = Mutex<mpsc::Receiver<Call<V>>>;

impl<V: Verb> Batcher<V> {
    /// Starts the workers. They end when the batcher is dropped and what waits is done.
    pub fn start(verb: V, pool: Pool, admission: Admission) -> Batcher<V> {
        let (queue, calls) = mpsc::channel(QUEUE);
        let calls = Arc::new(Mutex::new(calls));
        let flow = Arc::<Flow>::default();
        let verb = Arc::new(verb);
        for _ in 0..WORKERS {
            tokio::spawn(serve(verb.clone(), pool.clone(), calls.clone(), flow.clone()));
        }
        Batcher { queue, flow, admission }
    }

    /// One answer an item, after the commit.
    pub async fn submit(&self, items: Vec<V::Item>) -> Vec<Result<V::Answer>> {
        let rows = items.len();
        if rows == 0 {
            return Vec::new();
        }
        match self.call(items, rows).await {
            Ok(answers) => answers,
            Err(error) => everyone(rows, &error),
        }
    }

    async fn call(&self, items: Vec<V::Item>, rows: usize) -> Result<Vec<Result<V::Answer>>> {
        let bytes = items.iter().map(V::bytes).sum();
        failpoint::pass_async("store.busy").await.map_err(|_| StoreError::Busy)?;
        let place = self.admission.enter(bytes)?;
        let (answer, answers) = oneshot::channel();
        let waiting = Waiting { rows, bytes, answer, _place: place };
        self.flow.rows_waiting.fetch_add(rows, Ordering::Relaxed);
        self.queue.try_send(Call { items, waiting }).map_err(|refused| {
            self.flow.rows_waiting.fetch_sub(rows, Ordering::Relaxed);
            match refused {
                mpsc::error::TrySendError::Full(_) => StoreError::Busy,
                mpsc::error::TrySendError::Closed(_) => closed(),
            }
        })?;
        answers.await.map_err(|_| closed())
    }
}

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}

fn everyone<T>(rows: usize, error: &StoreError) -> Vec<Result<T>> {
    (0..rows).map(|_| Err(error.clone())).collect()
}

async fn serve<V: Verb>(verb: Arc<V>, pool: Pool, calls: Arc<Queue<V>>, flow: Arc<Flow>) {
    while let Some((items, waiting)) = gather(&calls, &flow).await {
        let mut answers = run(&*verb, &pool, &items).await.into_iter();
        flow.running.fetch_sub(1, Ordering::Relaxed);
        flow.ended.notify_one();
        for call in waiting {
            // A caller that went away is no reason to stop.
            let _ = call.answer.send(answers.by_ref().take(call.rows).collect());
        }
    }
}

async fn gather<V: Verb>(calls: &Queue<V>, flow: &Flow) -> Option<(Vec<V::Item>, Vec<Waiting<V>>)> {
    let mut calls = calls.lock().await;
    let Call { mut items, waiting } = calls.recv().await?;
    flow.my_turn().await;
    let mut bytes = waiting.bytes;
    let mut everyone = vec![waiting];
    while items.len() < ROWS_PER_BATCH && bytes < BYTES_PER_BATCH {
        let Ok(next) = calls.try_recv() else { break };
        bytes += next.waiting.bytes;
        items.extend(next.items);
        everyone.push(next.waiting);
    }
    flow.rows_waiting.fetch_sub(items.len(), Ordering::Relaxed);
    flow.running.fetch_add(1, Ordering::Relaxed);
    Some((items, everyone))
}

async fn run<V: Verb>(verb: &V, pool: &Pool, items: &[V::Item]) -> Vec<Result<V::Answer>> {
    match attempt(verb, pool, items).await {
        Ok(answers) => answers,
        Err(Fault::Row(error)) if items.len() > 1 => {
            tracing::warn!(%error, rows = items.len(), "a row spoilt its batch; running them one by one");
            let mut answers = Vec::with_capacity(items.len());
            for item in items {
                match attempt(verb, pool, std::slice::from_ref(item)).await {
                    Ok(answer) => answers.extend(answer),
                    Err(fault) => answers.push(Err(fault.into())),
                }
            }
            answers
        }
        Err(fault) => everyone(items.len(), &fault.into()),
    }
}

async fn attempt<V: Verb>(
    verb: &V,
    pool: &Pool,
    items: &[V::Item],
) -> std::result::Result<Vec<Result<V::Answer>>, Fault> {
    let mut tries = 0;
    loop {
        match once(verb, pool, items).await {
            Err(Fault::Again(_)) if tries < RETRIES => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(5) * tries).await;
            }
            done => return done,
        }
    }
}

async fn once<V: Verb>(
    verb: &V,
    pool: &Pool,
    items: &[V::Item],
) -> std::result::Result<Vec<Result<V::Answer>>, Fault> {
    let mut client = pool.get().await.map_err(StoreError::from)?;
    before_commit().await?;
    let answers = verb.run(&mut client, items).await?;
    after_commit().await?;
    Ok(answers)
}
