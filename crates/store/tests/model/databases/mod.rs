//! The two databases, each with a clock that stands still until it is moved, and ways to start over and to die.

mod postgres;
mod sqlite;

use std::sync::Arc;

use async_trait::async_trait;
use wakepost_domain::Timestamp;
use wakepost_store::Store;

use crate::world::Party;

pub use postgres::OnPostgres;
pub use sqlite::OnSqlite;

#[async_trait(?Send)]
pub trait Database: Sized {
    const NAME: &'static str;

    /// Whether lanes with bounds are claimed in a transaction of their own, before the others.
    const CLAIMS_APART: bool;

    /// A database with both tenants.
    async fn open() -> Self;

    fn parties(&self) -> [Party; 2];

    /// Forgets everything but the tenants; answers what the clock says then.
    async fn start_over(&mut self) -> Timestamp;

    /// One of two nodes; the same where there can be only one.
    fn node(&self, nth: usize) -> Arc<dyn Store>;

    /// Sets the clock, forward or back.
    async fn set_clock(&mut self, at: Timestamp);

    /// Waits until nothing is left of calls that changed nothing.
    async fn calm(&mut self);

    /// All nodes are gone, in the middle of whatever they did, and start again.
    async fn crash(&mut self);

    async fn close(self);
}
