//! The harness of the whole-program tests: the real programs, as child processes, on both databases.
//!
//! The tests in `tests/`, one file for each room of promises, build on it in the words of the domain: a
//! [`Gateway`] is started, a [`Source`] sends an [`Event`], a [`Worker`] gets a [`Lease`], a [`Receiver`] is
//! an agent or a subscriber, and in [`platform`] are stand-ins of Slack and the like. It knows the HTTP
//! contract and nothing of the server's insides; every process that it starts ends with the test, however the
//! test ends.

mod agent;
mod announcing;
mod api;
mod database;
mod disk;
mod failpoints;
mod gateway;
mod http;
mod meeting;
mod past;
mod process;
mod program;
mod receiver;
mod setup;
mod signals;
mod skipping;
mod source;
mod waiting;
mod worker;

pub mod platform;

pub use agent::{Agent, Sdk};
pub use announcing::{Channel, Drive, Mailbox};
pub use api::Api;
pub use database::Database;
pub use disk::SmallDisk;
pub use failpoints::Act;
pub use gateway::Gateway;
pub use http::{Answer, Http, cut_off_exchange, raw_exchange};
pub use meeting::{Came, Meeting};
pub use past::{Past, migrations};
pub use program::{Ran, random_text, wakepost, webhookctl, webhookctl_started};
pub use receiver::{Receiver, Reply, Seen};
pub use setup::{Prepared, Setup, random_master_key};
pub use skipping::skipped;
pub use source::{Event, Source, known_request, now, told_request};
pub use waiting::{PATIENCE, until, within};
pub use worker::{Lease, Worker};

/// Stamps out tests for both databases. Each name is that of a function from a [`Database`]; attributes before
/// it are those of its tests.
#[macro_export]
macro_rules! on_both {
    ($($(#[$attribute:meta])* $name:ident),+ $(,)?) => {
        $(
            mod $name {
                #[tokio::test]
                $(#[$attribute])*
                async fn on_sqlite() {
                    super::$name($crate::Database::Sqlite).await;
                }

                #[tokio::test]
                $(#[$attribute])*
                async fn on_postgres() {
                    super::$name($crate::Database::Postgres).await;
                }
            }
        )+
    };
}
