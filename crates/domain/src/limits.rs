//! Every bound that is not a setting, in one place.

use std::time::Duration;

/// The largest body of an API request.
pub const API_BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// The largest inbound body, unless the source or provider says otherwise.
pub const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The largest `max_body_bytes` a source may set.
pub const BODY_BYTES_CEILING: usize = 64 * 1024 * 1024;
/// How many events one inbound body may hold.
pub const EVENTS_PER_BODY_MAX: usize = 1000;
/// How many events may join a job; the next one makes a job of its own.
pub const EVENTS_JOINED_MAX: i32 = 100;
/// How much of a thread's id is kept to search by.
pub const THREAD_BYTES_MAX: usize = 1000;
/// How many fields a form may have.
pub const FORM_FIELDS_MAX: usize = 1000;
/// The largest checkpoint.
pub const CHECKPOINT_BYTES_MAX: usize = 1024 * 1024;
/// The largest job input, result or effect result.
pub const DOCUMENT_BYTES_MAX: usize = 1024 * 1024;
/// The longest free name: an event type, a job kind, a worker.
pub const NAME_CHARS_MAX: usize = 200;
/// The longest effect key, dedup key or subject.
pub const KEY_CHARS_MAX: usize = 500;
/// The longest error text that is kept.
pub const ERROR_BYTES_MAX: usize = 4096;
/// The longest note.
pub const NOTE_CHARS_MAX: usize = 2000;
/// How many jobs one call may create.
pub const JOBS_PER_CALL_MAX: usize = 1000;
/// How many jobs one call may lease.
pub const LEASE_MAX: u32 = 500;
/// How long a lease call may wait for work.
pub const LEASE_WAIT_MAX: Duration = Duration::from_secs(30);
/// How many progress events are kept of a job.
pub const PROGRESS_KEPT: i64 = 1000;
/// How many effects one scope may have.
pub const EFFECTS_PER_SCOPE_MAX: i64 = 10_000;
/// How many duplicate receipts are kept of an event; the rest are only counted.
pub const DUPLICATE_RECEIPTS_KEPT: i32 = 20;
/// How many rejections are kept of a source.
pub const REJECTIONS_KEPT: i64 = 300;
/// Rows in a list, unless asked otherwise, and at most.
pub const PAGE_DEFAULT: u32 = 50;
/// The most rows in a list.
pub const PAGE_MAX: u32 = 500;
/// The most attempts a policy may ask for.
pub const ATTEMPTS_MAX: u32 = 100;
/// The most webhooks that a tenant may be allowed.
pub const WEBHOOKS_PER_TENANT_MAX: u32 = 1000;
/// How many dead letters of a tenant are counted; beyond it there are that many at least.
pub const DEAD_LETTERS_COUNTED_MAX: u32 = 100_000;
/// How many dead letters one filter may choose by their ids.
pub const DEAD_LETTERS_CHOSEN_MAX: usize = 500;
/// How long after asking a running job to stop it is cancelled for it.
pub const CANCEL_PATIENCE: Duration = Duration::from_secs(30);
/// How many may listen to the inbox of one node at once.
pub const STREAMS_MAX: usize = 100;
/// For how many seconds a portal link may be good, at least …
pub const PORTAL_LINK_S_MIN: u64 = 60;
/// … and at most.
pub const PORTAL_LINK_S_MAX: u64 = 7 * 24 * 3600;
/// How many may fetch a whole event by its link from one node at once.
pub const LINKS_AT_ONCE_MAX: usize = 16;
/// Requests that a tenant may keep as fixtures.
pub const FIXTURES_PER_TENANT_MAX: i64 = 200;
/// Schedules that a tenant may have.
pub const SCHEDULES_PER_TENANT_MAX: i64 = 1000;
/// Jobs of one subject that may wait for an event to cancel them: that event's transaction ends them all.
pub const CANCEL_ON_PER_SUBJECT_MAX: i64 = 200;
/// Lanes a tenant may have by name; jobs of further names share one lane.
pub const LANES_PER_TENANT_MAX: usize = 5000;

/// Cuts a text to at most `bytes_max` bytes, at a character's edge.
pub fn truncate(text: &str, bytes_max: usize) -> &str {
    if text.len() <= bytes_max {
        return text;
    }
    let mut end = bytes_max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
