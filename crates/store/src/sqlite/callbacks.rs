//! What tells a job's outcome, made with the job's end.

use rusqlite::Connection;
use wakepost_domain::backoff::DELIVERY_ATTEMPTS;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{TenantId, Timestamp, WorkId};

use super::rows::{Bits, meta_text};
use crate::moves::{WorkMeta, callback};

/// Makes it, for a job that has just come into the history.
pub fn make(
    tx: &Connection,
    now: Timestamp,
    tenant: TenantId,
    job: WorkId,
) -> rusqlite::Result<()> {
    let parent_id = Some(job.text(WorkKind::Job));
    tx.prepare_cached(
        "INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                           event_id, scope, subject, meta)
         SELECT tenant, ?3, ?4, callback_lane, ?5, ?6, 0, ?7, 0, event_id, ?3, subject, ?8
         FROM work_done WHERE tenant = ?1 AND id = ?2",
    )?
    .execute((
        tenant.0,
        Bits(job.to_bytes()),
        Bits(callback::id(job, now).to_bytes()),
        WorkKind::Callback as i16,
        State::Scheduled as i16,
        now.as_millis(),
        DELIVERY_ATTEMPTS,
        meta_text(&WorkMeta { parent_id, ..WorkMeta::default() }),
    ))?;
    Ok(())
}
