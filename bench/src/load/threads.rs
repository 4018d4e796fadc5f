//! Spreads connections over threads, each with a runtime of its own: no stealing, no shared state.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinSet;

use super::connection::{Answer, Connection};
use super::requests::Events;
use super::{Expected, Load, Seen};

/// How much longer than planned a load may take before it counts as hung.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections are opened and threads started before the first request goes out.
const HEAD_START: Duration = Duration::from_millis(50);

/// When the load begins, when its window opens, and when it ends.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    pub begin: Instant,
    pub open: Instant,
    pub end: Instant,
}

/// One connection with its requests and what it saw.
pub struct Client {
    pub connection: Connection,
    pub events: Events,
    pub expected: Expected,
    pub times: Times,
    pub micros: Vec<u32>,
    pub exchanges: u64,
}

impl Client {
    /// Sends the next request and notes how long the answer took since `began`.
    pub async fn exchange(&mut self, began: Instant) -> anyhow::Result<()> {
        let answer = self.connection.exchange(self.events.next()).await?;
        check(&answer, self.expected)?;
        let now = Instant::now();
        self.exchanges += 1;
        if now >= self.times.open && now < self.times.end {
            let micros = now.duration_since(began).as_micros();
            self.micros.push(u32::try_from(micros).unwrap_or(u32::MAX));
        }
        Ok(())
    }
}

fn check(answer: &Answer<'_>, expected: Expected) -> anyhow::Result<()> {
    let word = expected.word.as_bytes();
    let has_word = word.is_empty() || answer.body.windows(word.len()).any(|part| part == word);
    anyhow::ensure!(
        answer.status == expected.status && has_word,
        "answered {} {:?} in place of {} {:?}",
        answer.status,
        String::from_utf8_lossy(answer.body),
        expected.status,
        expected.word
    );
    Ok(())
}

/// Runs `client` on every connection and gathers what they saw. One error fails all.
pub async fn run<F, R>(load: Load, client: F) -> anyhow::Result<Seen>
where
    F: Fn(usize, Client) -> R + Send + Sync + 'static,
    R: Future<Output = anyhow::Result<Client>> + Send + 'static,
{
    let begin = Instant::now() + HEAD_START;
    let open = begin + load.warm_up;
    let times = Times { begin, open, end: open + load.window };
    let client = Arc::new(client);
    let mut threads = JoinSet::new();
    for thread in 0..load.threads {
        let (load, client) = (load.clone(), client.clone());
        threads.spawn_blocking(move || one_thread(thread, &load, times, &*client));
    }
    let mut seen = Seen { window: load.window, ..Seen::default() };
    while let Some(done) = threads.join_next().await {
        for client in done?? {
            seen.exchanges += client.exchanges;
            seen.micros.extend(client.micros);
        }
    }
    seen.micros.sort_unstable();
    Ok(seen)
}

fn one_thread<F, R>(
    thread: usize,
    load: &Load,
    times: Times,
    client: &F,
) -> anyhow::Result<Vec<Client>>
where
    F: Fn(usize, Client) -> R,
    R: Future<Output = anyhow::Result<Client>> + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let patience = load.warm_up + load.window + PATIENCE;
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for index in (thread..load.connections).step_by(load.threads) {
            let one = Client {
                connection: Connection::open(load.events.address()).await?,
                events: load.events.clone(),
                expected: load.expected,
                times,
                micros: Vec::with_capacity(16 * 1024),
                exchanges: 0,
            };
            tasks.spawn(client(index, one));
        }
        let all = async {
            let mut clients = Vec::new();
            while let Some(done) = tasks.join_next().await {
                clients.push(done??);
            }
            anyhow::Ok(clients)
        };
        let done = tokio::time::timeout(patience, all).await;
        done.context("the load did not end in time")?
    })
}
