//! The program `wakepost`, as a library, so that tests and benchmarks can hold its parts.
//!
//! Data moves one way: edge → ledger → queue → executor → outside, and every handover is one transaction.
//! [`app`] is the only place that connects things; nothing else knows it is there.

pub mod alert_posts;
pub mod api;
pub mod app;
pub mod backfilling;
pub mod callbacks;
pub mod chains;
pub mod cli;
pub mod config;
pub mod context;
pub mod dashboard;
pub mod dead_letters;
pub mod deliveries;
pub mod demo;
pub mod directory;
mod doors;
pub mod edge;
pub mod exchange;
pub mod executors;
pub mod fresh;
pub mod hub;
pub mod listener;
pub mod mcp;
pub mod outbound;
pub mod publishing;
pub mod queue;
pub mod rates;
pub mod reference;
pub mod registering;
pub mod replays;
pub mod replies;
mod schedules;
mod schema;
pub mod self_webhook;
pub mod system;
pub mod telemetry;
mod to_the_end;
pub mod tokens;
#[cfg(test)]
mod trial;
pub mod view;
pub mod webhooks;
pub mod within;
pub mod workers;
