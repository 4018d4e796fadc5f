//! What operators see from outside: counters, figures over time, and logs.

pub mod log;
pub mod metrics;
pub mod streaks;
pub mod tally;
