//! PostgreSQL: one database, many nodes.
//!
//! The hot moves (accept, claim, heartbeat, settle) go through a group-commit batcher each (`batch`): whole
//! batches as arrays in one statement, so that a round trip and a commit are shared by whoever is there.
//! Everything else is one short transaction on a pooled connection. Time is the database's
//! (`wakepost_now()`), and no connection carries state from one move to the next, so that a
//! transaction-mode pooler may stand in between. The files beside this one hold the moves, and each has
//! its twin in `sqlite/`.

mod accept;
mod alerts;
mod approvals;
mod backup;
mod batch;
mod callbacks;
mod cancelling;
mod caps;
mod checks;
mod claim;
mod coalescing;
mod connect;
mod conversing;
mod costs;
mod data_keys;
mod dead_letters;
mod deliveries;
mod effects;
mod event_list;
mod event_types;
mod fault;
mod fixtures;
mod hub;
mod looking;
mod marks;
mod migrate;
mod operations;
mod ordering;
mod outbox;
mod partitions;
mod placing;
mod prune;
mod prune_own;
mod publishing;
mod queue;
mod read;
mod receipts;
mod registration;
mod revivals;
mod rows;
mod schedules;
mod sequencing;
mod series;
mod settings;
mod settings_rows;
mod settle;
mod stats;
mod succeed;
mod upkeep;
mod webhooks;
mod work;

use std::sync::Arc;

use deadpool_postgres::{Client, Pool, Transaction};

use crate::admission::Admission;
use crate::error::Result;
use crate::failpoint;
use accept::Accept;
use batch::Batcher;
use claim::Claims;
use connect::{Dial, Fresh};
use hub::Hub;
use marks::{LowMarks, RescueMark};
use prune::Walk;
use publishing::Publish;
use queue::Beat;
use settle::End;

pub use backup::Snapshot;
pub use looking::Looked;
pub use migrate::{Pending, schema_version};

/// How a node uses the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresOptions {
    /// How many connections the node may hold, the listening one not counted. Half of them serve the
    /// queue alone, so that no slow list ever delays it.
    pub max_connections: usize,
    /// Where to listen to other nodes, if not at the URL itself: a transaction-mode pooler may stand in
    /// front of everything else, but not in front of a connection that listens.
    pub listen_url: Option<String>,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions { max_connections: 16, listen_url: None }
    }
}

/// The store on PostgreSQL.
#[derive(Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

struct Inner {
    listening: Dial,
    /// For the queue, and for what its workers call.
    hot: Pool,
    /// For everything else.
    cool: Pool,
    fresh: Fresh,
    admission: Admission,
    accepts: Batcher<Accept>,
    publishes: Batcher<Publish>,
    claims: Batcher<Claims>,
    heartbeats: Batcher<Beat>,
    settles: Batcher<End>,
    low_marks: Arc<LowMarks>,
    rescue_mark: RescueMark,
    walk: Walk,
    hub: Hub,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres")
    }
}

impl Postgres {
    /// Connects, and checks that the server is one this program can work with. The schema is the
    /// caller's next step: [`Postgres::migrate`], then [`Postgres::ensure_partitions`].
    ///
    /// `sslmode=require` (or `verify-full`) in the URL encrypts and verifies the server, against the
    /// usual roots or those in the file that `sslrootcert` names; without it nothing is encrypted.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Postgres> {
        let dial = Dial::parse(url)?.probe().await?;
        let listening = match &options.listen_url {
            Some(url) => Dial::parse(url)?,
            None => dial.clone(),
        };
        let size = options.max_connections.max(4);
        let fresh = Fresh::default();
        let hot = dial.pool(size / 2, connect::HOT, &fresh)?;
        let cool = dial.pool(size - size / 2, connect::COOL, &fresh)?;
        let admission = Admission::default();
        let low_marks = Arc::<LowMarks>::default();
        let inner = Inner {
            accepts: Batcher::start(Accept::default(), hot.clone(), admission.clone()),
            publishes: Batcher::start(Publish, hot.clone(), admission.clone()),
            claims: Batcher::start(Claims(low_marks.clone()), hot.clone(), admission.clone()),
            heartbeats: Batcher::start(Beat, hot.clone(), admission.clone()),
            settles: Batcher::start(End, hot.clone(), admission.clone()),
            low_marks,
            rescue_mark: RescueMark::default(),
            walk: Walk::default(),
            hub: Hub::start(hot.clone()),
            admission,
            fresh,
            listening,
            hot,
            cool,
        };
        Ok(Postgres { inner: Arc::new(inner) })
    }

    async fn hot(&self) -> Result<Client> {
        Ok(self.inner.hot.get().await?)
    }

    async fn cool(&self) -> Result<Client> {
        Ok(self.inner.cool.get().await?)
    }
}

/// Commits a transaction, past the places where tests make it fail.
async fn commit(tx: Transaction<'_>) -> Result<()> {
    before_commit().await?;
    tx.commit().await?;
    after_commit().await
}

/// Commits a transaction that went well. One that did not is rolled back before its caller hears of it: until then its
/// locks hide an item from claims, which would not come back for it soon.
async fn conclude<T>(tx: Transaction<'_>, outcome: Result<T>) -> Result<T> {
    match outcome {
        Ok(done) => commit(tx).await.map(|()| done),
        Err(error) => {
            // If it cannot be, the connection is gone, and the locks with it.
            let _ = tx.rollback().await;
            Err(error)
        }
    }
}

/// The last place before a commit. A statement that is its own transaction has it before it is sent.
async fn before_commit() -> Result<()> {
    failpoint::pass_async("store.before_commit").await?;
    failpoint::pass_async("store.commit_error").await
}

/// The first place after a commit.
async fn after_commit() -> Result<()> {
    failpoint::pass_async("store.commit_unknown").await?;
    failpoint::pass_async("store.after_commit").await
}
