//! What operators see from outside: counters and logs.

pub mod log;
pub mod metrics;
