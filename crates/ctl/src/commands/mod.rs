//! One file per command.

pub mod dlq;
pub mod fixtures;
pub mod inbox;
pub mod jobs;
pub mod keys;
mod paging;
mod replaying;
pub mod sources;
pub mod tenants;
pub mod trigger;
pub mod verify;
