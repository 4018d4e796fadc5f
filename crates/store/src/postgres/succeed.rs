//! The usual end of a run: it succeeded, and neither cost nor error was told. A statement of its own, since a batch of
//! these is most of what a queue does.
//!
//! Differs from SQLite: there each end is judged by plain code. Here one statement that can do whatever may follow an end
//! ([`super::settle`]) opens every table it might write to, with all their indexes, each time: two thirds of its price
//! for twenty items is that. What this one passes over, the other finds.

use std::collections::HashMap;

use deadpool_postgres::GenericClient;
use uuid::Uuid;
use wakepost_domain::work::State;

use super::fault::Fault;
use super::rows::{query, uuid};
use super::settle::{Ended, give_back_caps, move_to_done, read_ended};
use crate::moves::{Evidence, Guard, Settle};
use crate::vault::Sealed;

/// Locks are taken in the order that the statement of all ends takes them in: items, then counters. An item whose end
/// makes a callback is not touched.
const SUCCEED: &str = concat!(
    "
WITH hit AS (
  DELETE FROM work w USING (
    SELECT e.*, w.at
    FROM unnest($1::int[], $2::uuid[], $3::int[], $4::bytea[], $5::bytea[]) AS e (tenant, id, fence, result, reply)
    CROSS JOIN LATERAL (
      SELECT ctid AS at FROM work w WHERE w.tenant = e.tenant AND w.id = e.id OFFSET 0) w
    OFFSET 0) p
  WHERE w.ctid = p.at
    AND CASE WHEN w.fence <> p.fence OR w.state <> 5 OR w.callback_lane IS NOT NULL THEN false
             ELSE w.lease_expires_at > wakepost_now() END
  RETURNING w.tenant, w.id, w.kind, w.lane, w.run_at, w.attempts, w.max_attempts, w.fence, w.event_id, w.scope,
            w.subject, w.order_key, w.meta, w.last_error, w.worker, w.started_at, w.caps, w.place, w.callback_lane, p.result, p.reply
), ",
    give_back_caps!(),
    ", kept AS (
  INSERT INTO job_state AS s (work_id, tenant, result, reply)
  SELECT id, tenant, result, reply FROM hit WHERE result IS NOT NULL OR reply IS NOT NULL
  ON CONFLICT (work_id) DO UPDATE
  SET result = coalesce(excluded.result, s.result), reply = coalesce(excluded.reply, s.reply)
), ",
    move_to_done!("6", "last_error", "true"),
    "
SELECT id, lane, 6::smallint, caps IS NOT NULL, place FROM hit"
);

/// Whether all of them are such ends.
pub fn all_succeed(ends: &[&Settle]) -> bool {
    ends.iter().all(|end| {
        let Settle { guard, settlement, error, evidence, expanded, .. } = end;
        let Evidence { cost, detail, .. } = evidence;
        *guard == Guard::Live
            && settlement.state == State::Succeeded
            && error.is_none()
            && cost.is_none()
            && detail.is_none()
            && expanded.is_none()
    })
}

/// Ends those whose lease is live and that nobody has to be told of.
pub async fn succeed(
    client: &impl GenericClient,
    ends: &[&Settle],
) -> Result<HashMap<Uuid, Ended>, Fault> {
    let mut ends = ends.to_vec();
    ends.sort_unstable_by_key(|end| (end.ticket.tenant, end.ticket.work));
    macro_rules! column {
        ($end:ident => $of:expr) => {
            ends.iter().map(|$end| $of).collect::<Vec<_>>()
        };
    }
    let rows = query(
        client,
        SUCCEED,
        &[
            &column!(end => end.ticket.tenant.0),
            &column!(end => uuid(end.ticket.work.0)),
            &column!(end => end.ticket.fence),
            &column!(end => end.evidence.result.as_ref().map(Sealed::as_bytes)),
            &column!(end => end.evidence.reply.as_ref().map(Sealed::as_bytes)),
        ],
    )
    .await?;
    read_ended(&rows)
}
