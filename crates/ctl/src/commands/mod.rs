//! One file per command.

pub mod deliveries;
pub mod dlq;
pub mod event_types;
pub mod events;
pub mod fixtures;
pub mod inbox;
mod input;
pub mod jobs;
pub mod keys;
mod operation;
mod paging;
mod period;
pub mod portal_link;
mod replaying;
mod resetting;
pub mod schedules;
pub mod sources;
pub mod stats;
pub mod tenants;
pub mod trigger;
pub mod verify;
pub mod webhooks;
