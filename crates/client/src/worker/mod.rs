//! A worker in ten lines: it leases jobs, keeps their leases alive, runs them and reports how they went.
//!
//! [`run`] is the loop; a [`Worker`] (or a plain async function) does the work, with a [`JobContext`] to save
//! checkpoints, tell progress, and do each irreversible act once. A run whose lease is lost is dropped where
//! it stands: the job is someone else's by then.
//!
//! ```no_run
//! use wakepost_client::worker::{self, ActError, JobContext, Settings};
//! use wakepost_client::{Client, Completion};
//!
//! # async fn send_mail(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
//! # async fn example() -> Result<(), wakepost_client::Error> {
//! let client = Client::new("http://127.0.0.1:8787", "a worker key")?;
//! let welcome = |job: JobContext| async move {
//!     let id = job
//!         .effect("email:welcome", |key| async move { Ok::<_, ActError>(send_mail(&key).await?) })
//!         .await?;
//!     Ok(Completion { result: Some(id.into()), ..Completion::default() })
//! };
//! worker::run(&client, &Settings::named("mailer"), welcome, std::future::pending()).await
//! # }
//! ```

mod attempt;
mod context;
mod effect;
mod keep;
mod ledger;
mod looping;
mod stop;

use std::future::Future;
use std::time::Duration;

pub use context::JobContext;
pub use effect::ActError;
pub use looping::run;
pub use stop::Stop;

use crate::Completion;

/// Someone who does jobs.
pub trait Worker: Send + Sync + 'static {
    /// Does one job. It may be dropped at any await, when its lease is lost.
    fn run(&self, job: JobContext) -> impl Future<Output = Result<Completion, Stop>> + Send;
}

impl<F, R> Worker for F
where
    F: Fn(JobContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Completion, Stop>> + Send,
{
    fn run(&self, job: JobContext) -> impl Future<Output = Result<Completion, Stop>> + Send {
        self(job)
    }
}

/// How to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The worker's name, for people.
    pub name: String,
    /// Only these kinds of job; empty: all.
    pub kinds: Vec<String>,
    /// Only from these sources; empty: all.
    pub sources: Vec<String>,
    /// How many jobs at once (at least 1).
    pub concurrency: usize,
    /// How long a lease lasts without a heartbeat (1 s to an hour). Heartbeats go out at a third of it.
    pub lease: Duration,
    /// How long one poll waits (1–30 s). Stopping waits for the poll to end, so that no job is leased unseen.
    pub wait: Duration,
    /// How long running jobs may still take when the worker stops, before they are handed back.
    pub grace: Duration,
}

impl Settings {
    /// One job at a time, of every kind, leased for 2 minutes.
    pub fn named(name: &str) -> Settings {
        Settings {
            name: name.to_owned(),
            kinds: Vec::new(),
            sources: Vec::new(),
            concurrency: 1,
            lease: Duration::from_secs(120),
            wait: Duration::from_secs(5),
            grace: Duration::from_secs(20),
        }
    }

    pub(crate) fn lease_s(&self) -> u64 {
        self.lease.as_secs().clamp(1, 3600)
    }
}
