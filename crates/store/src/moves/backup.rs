//! What backups of both databases have in common.

/// The tables whose rows a backup's manifest counts.
pub const COUNTED: [&str; 12] = [
    "tenants",
    "data_keys",
    "sources",
    "webhooks",
    "schedules",
    "events",
    "bodies",
    "dedup_keys",
    "work",
    "work_done",
    "attempts",
    "effects",
];

/// How many rows a table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// Which table.
    pub table: &'static str,
    /// How many.
    pub rows: i64,
}
