//! The promises of the store as tests, for whoever brings a database.
//!
//! Each promise is a plain function that takes a [`Harness`] and is named by its sentence; the rooms
//! beside this file hold them. [`conformance!`] stamps out one test for every
//! promise in the list, so both databases run exactly the same ones. No promise sleeps: time moves
//! through [`Harness::advance`]. The promises see the store through its moves only, never its tables.

#![allow(missing_docs, reason = "a promise's name is its sentence")]
#![allow(clippy::unwrap_used, reason = "these are tests, though not compiled as such")]

pub mod accepting;
pub mod alerting;
pub mod approving;
pub mod backfilling;
pub mod bounding;
pub mod calling_back;
pub mod cancelling;
pub mod capping;
pub mod chaining;
pub mod checking;
pub mod claiming;
pub mod claiming_one;
pub mod coalescing;
pub mod conserving;
pub mod conversing;
pub mod counting;
pub mod deduplicating;
pub mod delivering;
mod drafts;
pub mod effects;
pub mod event_status;
pub mod figuring;
pub mod fixtures;
pub mod following;
pub mod giving_up;
pub mod in_doubt;
pub mod keeping_less;
pub mod keeping_up;
pub mod keys;
pub mod leasing;
mod list;
pub mod once;
pub mod operating;
pub mod ordering;
pub mod outliving;
pub mod pruning;
pub mod publishing;
pub mod reading_events;
pub mod reading_work;
pub mod records;
pub mod registering;
pub mod replaying;
pub mod rescuing;
pub mod rotating;
pub mod scheduling;
pub mod sequencing;
pub mod settings;
pub mod settling;
pub mod shutting;
pub mod sources;
pub mod staying_away;
pub mod stopping;
mod subscribers;
pub mod subscribing;
pub mod two_keys;
pub mod working;
mod world;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

/// Stamps out one test for every promise, each on a database of its own.
///
/// It takes an async function that makes a [`Harness`].
pub use crate::conformance_tests as conformance;
use crate::moves::Store;

/// A database for one test.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The store on a fresh database, which has the default tenant and nothing else.
    fn store(&self) -> Arc<dyn Store>;

    /// Another node's handle on the same database; the same handle where there can be only one node.
    fn other_node(&self) -> Arc<dyn Store>;

    /// Moves the database's clock forward.
    async fn advance(&self, by: Duration);

    /// Runs statements behind the store's back.
    async fn execute(&self, sql: &str);

    /// Removes the database.
    async fn close(self);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    /// `room::promise` for everything in the list.
    #[macro_export]
    macro_rules! conformance_names {
        ($($room:ident: [$($promise:ident,)*])*) => {
            [$($(concat!(stringify!($room), "::", stringify!($promise)),)*)*]
        };
    }

    #[test]
    fn the_list_has_every_promise_once() {
        let mut written = BTreeSet::new();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
        for entry in std::fs::read_dir(here).unwrap() {
            let path = entry.unwrap().path();
            let room = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).unwrap();
            let promises = text.lines().filter_map(|line| line.strip_prefix("pub async fn "));
            let names = promises.map(|rest| rest.split('(').next().unwrap());
            written.extend(names.map(|name| format!("{room}::{name}")));
        }
        let list = crate::conformance_list!(conformance_names);
        let listed: BTreeSet<String> = list.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(listed, written);
        assert_eq!(listed.len(), list.len(), "a promise is listed twice");
    }
}
