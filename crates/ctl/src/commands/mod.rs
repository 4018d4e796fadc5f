//! One file per command.

pub mod dlq;
pub mod fixtures;
pub mod inbox;
pub mod jobs;
pub mod keys;
mod operation;
mod paging;
mod replaying;
pub mod schedules;
pub mod sources;
pub mod stats;
pub mod tenants;
pub mod trigger;
pub mod verify;
