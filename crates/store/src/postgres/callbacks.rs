//! What tells a job's outcome, made with the job's end.

/// The beginning of a statement that makes it; `FROM` says of which items, as they were in the queue. Differs from
/// SQLite: it is a part of the statement that ends them, so that the usual batch stays one statement.
macro_rules! make_callbacks {
    () => {
        "INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                    scope, subject, meta)
  SELECT tenant, wakepost_callback_id(id, wakepost_now()), 3, callback_lane, 1, wakepost_now(), 0, 10, 0,
         event_id, wakepost_callback_id(id, wakepost_now()), subject,
         '{\"parent_id\":\"job_' || wakepost_id_text(id) || '\"}'"
    };
}
pub(super) use make_callbacks;
