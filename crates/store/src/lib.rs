//! The ledger and the queue: the only room that speaks SQL.
//!
//! Its traits are moves, small and by room ([`moves`]): accept, claim, heartbeat, settle, and so on. Each
//! move is one transaction and takes a batch. [`sqlite`] and [`postgres`] are twins that hold SQL and
//! nothing else; what a move means is decided in the domain crate, once. Everything confidential comes in
//! as [`vault::Sealed`] and leaves as it came: no backend ever sees plain text.
//!
//! The promises of these traits are tests, in `conformance`, and run on both databases.

pub mod admission;
mod coming;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
pub mod failpoint;
pub mod moves;
pub mod postgres;
pub mod sqlite;
pub mod vault;
mod xaes;

pub use error::{Result, StoreError};
pub use moves::Store;
