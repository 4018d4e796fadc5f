//! The loop: lease what fits, run it, and stop without losing anything.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::attempt::attempt;
use super::{Settings, Worker};
use crate::backoff::Backoff;
use crate::{Client, Error, LeaseQuery, LeasedJob};

/// How long handing jobs back may take.
const HAND_BACK: Duration = Duration::from_secs(5);

/// Works until `stop` is ready, then lets running jobs end within the grace period and hands back the rest.
/// Waits out a server that is away; returns an error only when the server refuses the worker as such.
pub async fn run<W: Worker>(
    client: &Client,
    settings: &Settings,
    worker: W,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let settings = Arc::new(settings.clone());
    let worker = Arc::new(worker);
    let (hand_back, handed_back) = watch::channel(false);
    let mut running = JoinSet::new();
    let stop = pin!(stop);
    let mut stop = Flag::new(stop);
    let mut backoff = Backoff::default();
    let end = loop {
        while running.try_join_next().is_some() {}
        let free = settings.concurrency.max(1).saturating_sub(running.len());
        if free == 0 {
            stop.while_doing(running.join_next()).await;
        }
        if stop.is_set() {
            break Ok(());
        }
        if free == 0 {
            continue;
        }
        let asked = Instant::now();
        match lease(client, &settings, free, &mut stop).await {
            Ok(jobs) if jobs.is_empty() => {
                // A server that does not wait must not be asked in a tight loop.
                if asked.elapsed() < settings.wait / 2 {
                    stop.or_sleep(backoff.next()).await;
                }
            }
            Ok(jobs) => {
                backoff = Backoff::default();
                for job in jobs {
                    let (settings, worker) = (settings.clone(), worker.clone());
                    let handed_back = handed_back.clone();
                    running.spawn(attempt(client.clone(), settings, worker, job, handed_back));
                }
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "no jobs can be leased now");
                stop.or_sleep(backoff.next()).await;
            }
            Err(error) => break Err(error),
        }
    };
    drain(&mut running, settings.grace, &hand_back).await;
    end
}

/// Asks for jobs. The poll is not cut short by a stop: jobs leased in it would be nobody's until they expire.
async fn lease<F: Future<Output = ()>>(
    client: &Client,
    settings: &Settings,
    free: usize,
    stop: &mut Flag<'_, F>,
) -> Result<Vec<LeasedJob>, Error> {
    let query = LeaseQuery {
        worker: settings.name.clone(),
        max: Some(u32::try_from(free).unwrap_or(500).min(500)),
        wait_s: Some(settings.wait.as_secs().clamp(1, 30)),
        kinds: settings.kinds.clone(),
        sources: settings.sources.clone(),
        lease_s: Some(settings.lease_s()),
    };
    let mut poll = client.lease_jobs(&query).into_future();
    match stop.while_doing(&mut poll).await {
        Some(answer) => answer,
        None => poll.await,
    }
    .map(|leased| leased.jobs)
}

async fn drain(running: &mut JoinSet<()>, grace: Duration, hand_back: &watch::Sender<bool>) {
    let all = async |running: &mut JoinSet<()>| while running.join_next().await.is_some() {};
    if timeout(grace, all(running)).await.is_err() {
        hand_back.send_replace(true);
        let _ = timeout(HAND_BACK, all(running)).await;
    }
}

/// A future that is watched until it is ready, and then stays so.
struct Flag<'a, F> {
    future: Pin<&'a mut F>,
    set: bool,
}

impl<'a, F: Future<Output = ()>> Flag<'a, F> {
    fn new(future: Pin<&'a mut F>) -> Flag<'a, F> {
        Flag { future, set: false }
    }

    fn is_set(&self) -> bool {
        self.set
    }

    /// Does something; `None` if the flag was raised first.
    async fn while_doing<T>(&mut self, doing: impl Future<Output = T>) -> Option<T> {
        if self.set {
            return None;
        }
        tokio::select! {
            done = doing => Some(done),
            () = self.future.as_mut() => {
                self.set = true;
                None
            }
        }
    }

    async fn or_sleep(&mut self, pause: Duration) {
        self.while_doing(tokio::time::sleep(pause)).await;
    }
}
