//! What operators see from outside: counters, figures over time, logs and traces.

pub mod log;
pub mod metrics;
pub mod story;
pub mod streaks;
pub mod tally;
pub mod traces;
