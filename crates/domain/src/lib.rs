//! What things are in Wakepost, and which moves are legal.
//!
//! Everything here is pure: no clock, no randomness, no SQL, no HTTP. The store keeps these things, the
//! server moves them, and both ask this crate what a move means. Time and chance come in as arguments or
//! through the two small traits in [`ports`].

pub mod access;
pub mod advice;
pub mod alert;
pub mod approval;
pub mod backoff;
pub mod budget;
pub mod callback;
pub mod circuit;
pub mod cron;
pub mod effect;
pub mod envelope;
pub mod event;
pub mod event_type;
pub mod executor;
pub mod failure;
pub mod fair;
pub mod figures;
pub mod id;
pub mod lane;
pub mod lease;
pub mod limits;
pub mod ports;
pub mod publication;
pub mod rate;
pub mod receipt;
pub mod redaction;
pub mod retention;
pub mod run;
pub mod schedule;
pub mod sequence;
pub mod source;
pub mod tenant;
pub mod thread;
pub mod time;
pub mod transition;
pub mod webhook;
pub mod work;

pub use id::{
    AlertId, AuditId, EventId, KeyId, OperationId, ReceiptId, RunId, ScheduleId, SourceId, Ulid,
    WebhookId, WorkId,
};
pub use tenant::TenantId;
pub use time::Timestamp;
