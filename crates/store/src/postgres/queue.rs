//! The queue: heartbeats, checkpoints and progress. Claims and endings have files of their own.

use async_trait::async_trait;
use deadpool_postgres::{Client, GenericClient};
use std::collections::HashMap;
use uuid::Uuid;
use wakepost_domain::lease::Ticket;
use wakepost_domain::{Ulid, limits};

use super::batch::Verb;
use super::claim::millis;
use super::costs::{told, total_cost};
use super::fault::Fault;
use super::ordering::lock_new;
use super::rows::{execute, get, id, opt_time, query, query_opt, time, uuid};
use super::settings::remember;
use super::{Postgres, commit, work};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    ClaimLane, ClaimRequest, Claimed, Heartbeat, HeartbeatAnswer, Idempotency, Item, NewWork, Once,
    Progress, Queue, Settle, Settled,
};
use crate::vault::Sealed;

#[async_trait]
impl Queue for Postgres {
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<Claimed>> {
        self.claim_lanes(&request).await
    }

    async fn claim_one(
        &self,
        worker: String,
        item: Item,
        lane: ClaimLane,
    ) -> Result<Option<Claimed>> {
        self.claim_item(&worker, item, &lane).await
    }

    async fn heartbeat(&self, batch: Vec<Heartbeat>) -> Vec<Result<HeartbeatAnswer>> {
        self.inner.heartbeats.submit(batch).await
    }

    async fn settle(&self, batch: Vec<Settle>) -> Vec<Result<Settled>> {
        self.inner.settles.submit(batch).await
    }

    async fn follow_up(
        &self,
        ticket: Ticket,
        item: NewWork,
        once: Option<Idempotency>,
    ) -> Result<Once<()>> {
        let _place = self.inner.admission.enter(item.input.as_ref().map_or(0, Sealed::len))?;
        let mut client = self.hot().await?;
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        // The key before the item: so does whoever ends its run.
        lock_new(&tx, &[&item]).await?;
        live(&tx, &ticket).await?;
        work::insert(&tx, &[&item]).await?;
        commit(tx).await?;
        Ok(Once::Now(()))
    }

    async fn checkpoint(&self, ticket: Ticket, state: Sealed) -> Result<()> {
        let _place = self.inner.admission.enter(state.len())?;
        let mut client = self.hot().await?;
        let tx = client.transaction().await?;
        live(&tx, &ticket).await?;
        execute(
            &tx,
            "INSERT INTO job_state (work_id, tenant, checkpoint) VALUES ($1::uuid, $2::int, $3::bytea)
             ON CONFLICT (work_id) DO UPDATE SET checkpoint = excluded.checkpoint",
            &[&uuid(ticket.work.0), &ticket.tenant.0, &state.as_bytes()],
        )
        .await?;
        failpoint::pass_async("checkpoint.before_commit").await?;
        commit(tx).await
    }

    async fn progress(&self, progress: Progress) -> Result<()> {
        let _place = self.inner.admission.enter(progress.content.len())?;
        let mut client = self.hot().await?;
        let tx = client.transaction().await?;
        // The item's lock makes the numbers grow one by one.
        live(&tx, &progress.ticket).await?;
        add_progress(&tx, &progress).await?;
        commit(tx).await
    }
}

async fn add_progress(tx: &impl GenericClient, progress: &Progress) -> Result<()> {
    execute(
        tx,
        "WITH added AS (
           INSERT INTO progress (work_id, tenant, seq, at, content)
           SELECT $1::uuid, $2::int, coalesce(max(seq), 0) + 1, wakepost_now(), $3::bytea
           FROM progress WHERE work_id = $1::uuid
           RETURNING seq)
         DELETE FROM progress p USING added a
         WHERE p.work_id = $1::uuid AND p.seq <= a.seq - $4::bigint",
        &[
            &uuid(progress.ticket.work.0),
            &progress.ticket.tenant.0,
            &progress.content.as_bytes(),
            &limits::PROGRESS_KEPT,
        ],
    )
    .await?;
    Ok(())
}

/// A live lease, and what it is about. Whether a stop was asked for comes with it.
pub(super) struct Live {
    pub scope: Ulid,
    pub cancel_requested: bool,
}

/// Locks a running item until the transaction ends, if the lease is live.
pub(super) async fn live(tx: &impl GenericClient, ticket: &Ticket) -> Result<Live> {
    let row = query_opt(
        tx,
        "SELECT scope, cancel_at FROM work
         WHERE tenant = $1::int AND id = $2::uuid AND fence = $3::int AND state = 5
           AND lease_expires_at > wakepost_now()
         FOR UPDATE",
        &[&ticket.tenant.0, &uuid(ticket.work.0), &ticket.fence],
    )
    .await?
    .ok_or(StoreError::LeaseLost)?;
    Ok(Live { scope: id(&row, 0)?, cancel_requested: opt_time(&row, 1)?.is_some() })
}

/// The verb behind [`Queue::heartbeat`].
pub struct Beat;

/// Items are locked in their order, as the rows come in it: batches that lock them in different orders
/// can deadlock. They are there, and locked: the conflict is how they are found again, even where another moved
/// one meanwhile. Joined with the table by their keys they would be found by a walk, as the claim says.
const BEAT: &str = concat!("
WITH live AS MATERIALIZED (
  SELECT w.*, b.extend_ms, b.cost
  FROM unnest($1::int[], $2::uuid[], $3::int[], $4::bigint[], $5::double precision[])
    AS b (tenant, id, fence, extend_ms, cost)
  CROSS JOIN LATERAL (
    SELECT tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope, lease_expires_at,
           run_deadline, caps, started_at
    FROM work w
    WHERE w.tenant = b.tenant AND w.id = b.id
      AND CASE WHEN w.fence <> b.fence OR w.state <> 5 THEN false
               ELSE w.lease_expires_at > wakepost_now() END
    FOR UPDATE) w
), ", told!("live", "true"), ", spent AS (
  INSERT INTO job_state AS s (work_id, tenant, cost)
  SELECT id, tenant, ", total_cost!("live"), " FROM live WHERE cost IS NOT NULL
  ON CONFLICT (work_id) DO UPDATE SET cost = excluded.cost
)
INSERT INTO work AS w (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope,
                       lease_expires_at)
SELECT tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, scope,
       greatest(lease_expires_at, least(wakepost_now() + extend_ms, run_deadline))
FROM live
ON CONFLICT (tenant, id) DO UPDATE SET lease_expires_at = excluded.lease_expires_at
RETURNING w.tenant, w.id, w.fence, w.lease_expires_at, w.cancel_at");

impl Verb for Beat {
    type Item = Heartbeat;
    type Answer = HeartbeatAnswer;

    fn bytes(_: &Heartbeat) -> usize {
        0
    }

    async fn run(
        &self,
        client: &mut Client,
        items: &[Heartbeat],
    ) -> std::result::Result<Vec<Result<HeartbeatAnswer>>, Fault> {
        // Two beats of one lease are one: the longer extension and the last cost.
        let mut beats: HashMap<(i32, Uuid, i32), Heartbeat> = HashMap::new();
        for item in items {
            let one = beats.entry(key(item)).or_insert(*item);
            one.extend = one.extend.max(item.extend);
            one.cost = item.cost.or(one.cost);
        }
        let mut beats: Vec<Heartbeat> = beats.into_values().collect();
        beats.sort_unstable_by_key(|beat| (beat.ticket.tenant, beat.ticket.work));
        macro_rules! column {
            ($beat:ident => $of:expr) => {
                beats.iter().map(|$beat| $of).collect::<Vec<_>>()
            };
        }
        failpoint::pass_async("lease.heartbeat").await?;
        let rows = query(
            &*client,
            BEAT,
            &[
                &column!(beat => beat.ticket.tenant.0),
                &column!(beat => uuid(beat.ticket.work.0)),
                &column!(beat => beat.ticket.fence),
                &column!(beat => millis(beat.extend)),
                &column!(beat => beat.cost),
            ],
        )
        .await?;
        let mut answers = HashMap::new();
        for row in &rows {
            let answer = HeartbeatAnswer {
                lease_expires_at: time(row, 3)?,
                cancel_requested: opt_time(row, 4)?.is_some(),
            };
            answers.insert((get(row, 0)?, get(row, 1)?, get(row, 2)?), answer);
        }
        Ok(items
            .iter()
            .map(|item| answers.get(&key(item)).copied().ok_or(StoreError::LeaseLost))
            .collect())
    }
}

fn key(beat: &Heartbeat) -> (i32, Uuid, i32) {
    (beat.ticket.tenant.0, uuid(beat.ticket.work.0), beat.ticket.fence)
}
