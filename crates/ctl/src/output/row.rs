//! A thing, as a line of a list.

use jiff::Timestamp;

use super::Cell;

/// What lists show of a thing.
pub trait Row {
    /// What many of them are called.
    const THINGS: &'static str;
    /// What is shown of each.
    const COLUMNS: &'static [&'static str];

    /// One of them; times are told relative to `now`.
    fn cells(&self, now: Timestamp) -> Vec<Cell>;
}
