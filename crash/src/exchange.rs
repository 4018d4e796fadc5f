//! One call of a client, and what became of it.

use serde_json::Value;

/// What a client was told.
#[derive(Debug, Clone)]
pub enum Said {
    /// A 2xx.
    Yes(u16, Value),
    /// A refusal and its code.
    No(u16, String),
    /// No answer, or one that leaves open what happened (503).
    Nothing,
}

/// One call and what became of it, with the times in Unix milliseconds. They can be compared with the server's:
/// it runs on the same machine. Two things within one millisecond may have happened in either order, and
/// PostgreSQL's clock rounds where ours cuts off: only what differs by more is judged.
#[derive(Debug, Clone)]
pub struct Exchange {
    /// What was answered.
    pub said: Said,
    /// Nothing was sent before.
    pub sent: i64,
    /// Whatever was done was done before.
    pub received: i64,
}
