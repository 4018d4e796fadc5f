//! Work items from outside a run: create, cancel, release, replay.

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use uuid::Uuid;
use wakepost_domain::lane::LaneId;
use wakepost_domain::transition::{self, Move};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, Timestamp, WorkId};

use super::callbacks::make_callbacks;
use super::cancelling::{cancel_each, cancel_uuid, check_new, next_of_subject};
use super::ordering::{key_uuid, let_next_go, lock_live, lock_new};
use super::read::work_of_event;
use super::rows::{
    WORK_DONE, WORK_LIVE, audit, execute, get, meta_text, opt_text, query, query_opt, ulid, uuid,
    work,
};
use super::sequencing;
use super::settings::{forget, remember};
use super::{Postgres, after_commit, before_commit, commit, conclude, revivals};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    AuditEntry, CancelOutcome, HandedDown, Idempotency, NewWork, Once, Replay, ReplayFrom, Spot,
    SubjectStep, WorkMeta, WorkMoves, WorkRow,
};
use crate::vault::Sealed;

#[async_trait]
impl WorkMoves for Postgres {
    async fn create_work(
        &self,
        items: Vec<NewWork>,
        once: Option<Idempotency>,
    ) -> Result<Once<Vec<WorkId>>> {
        let bytes = items.iter().filter_map(|item| item.input.as_ref()).map(Sealed::len).sum();
        let _place = self.inner.admission.enter(bytes)?;
        let mut client = self.hot().await?;
        let plain = |item: &NewWork| {
            item.dedup.is_none() && item.order.is_none() && item.cancel_key().is_none()
        };
        if once.is_none() && items.iter().all(plain) {
            // One statement is a transaction of its own, and saves three trips to the server.
            before_commit().await?;
            insert(&client, &items.iter().collect::<Vec<_>>()).await?;
            after_commit().await?;
            return Ok(Once::Now(items.iter().map(|item| item.id).collect()));
        }
        let tx = client.transaction().await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        let firsts = take_keys(&tx, &items).await?;
        let ids = items.iter().map(|item| first_of(item, &firsts)).collect();
        let new: Vec<&NewWork> =
            items.iter().filter(|item| first_of(item, &firsts) == item.id).collect();
        lock_new(&tx, &new).await?;
        insert(&tx, &new).await?;
        check_new(&tx, &new).await?;
        if new.is_empty() {
            forget(&tx, once.as_ref()).await?;
        }
        commit(tx).await?;
        Ok(Once::Now(ids))
    }

    async fn cancel(
        &self,
        tenant: TenantId,
        id: WorkId,
        entry: AuditEntry,
    ) -> Result<CancelOutcome> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        // The key before the item: so does whoever ends its run.
        let keys = lock_live(&tx, &[(tenant, id)]).await?;
        let row = lock(&tx, tenant, id).await?.ok_or(StoreError::NotFound)?;
        let outcome = cancel(&tx, &row, &keys.into_values().collect::<Vec<_>>(), None).await?;
        audit(&tx, &entry).await?;
        commit(tx).await?;
        Ok(outcome)
    }

    async fn cancel_many(
        &self,
        tenant: TenantId,
        ids: Vec<WorkId>,
        entry: Option<AuditEntry>,
    ) -> Result<Vec<CancelOutcome>> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let outcomes = cancel_each(&tx, tenant, &ids).await?;
        if let Some(entry) = &entry {
            audit(&tx, entry).await?;
        }
        commit(tx).await?;
        Ok(outcomes)
    }

    async fn live_of_subject(
        &self,
        tenant: TenantId,
        subject: String,
        after: Option<WorkId>,
        rows_max: u32,
    ) -> Result<SubjectStep> {
        next_of_subject(&self.cool().await?, tenant, &subject, after, rows_max).await
    }

    async fn release(&self, tenant: TenantId, id: WorkId, entry: AuditEntry) -> Result<LaneId> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        let released = release(&tx, tenant, id, None, &entry).await;
        let lane = conclude(tx, released).await?;
        Ok(lane)
    }

    async fn replay(
        &self,
        request: Replay,
        once: Option<Idempotency>,
    ) -> Result<Once<(WorkId, LaneId)>> {
        let _place = self.inner.admission.enter(request.input.as_ref().map_or(0, Sealed::len))?;
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        revivals::begin(&tx).await?;
        if let Some(before) = remember(&tx, once.as_ref()).await? {
            return Ok(Once::Before(before));
        }
        let lane = replay(&tx, &request).await?;
        audit(&tx, &request.audit).await?;
        failpoint::pass_async("replay.before_commit").await?;
        commit(tx).await?;
        Ok(Once::Now((request.id, lane)))
    }
}

pub(super) fn check(from: State, mv: Move) -> Result<State> {
    transition::next(from, mv).map_err(|invalid| StoreError::InvalidState(invalid.to_string()))
}

/// Lets a held item go on, where it was or in another lane; answers which.
pub(super) async fn release(
    tx: &Transaction<'_>,
    tenant: TenantId,
    id: WorkId,
    lane: Option<LaneId>,
    entry: &AuditEntry,
) -> Result<LaneId> {
    let row = lock(tx, tenant, id).await?.ok_or(StoreError::NotFound)?;
    check(row.state, Move::Release)?;
    let lane = lane.unwrap_or(row.lane);
    execute(
        tx,
        "UPDATE work SET state = 0, run_at = wakepost_now(), held_reason = NULL, lane = $3::bigint
         WHERE tenant = $1::int AND id = $2::uuid",
        &[&tenant.0, &uuid(id.0), &lane.0],
    )
    .await?;
    audit(tx, entry).await?;
    Ok(lane)
}

/// Of each dedup key, the item that has it: ours if nobody had it or its time was over, else the first. A job's key guards no
/// body: what the job was made with goes with the job. Keys are taken in their order, as everywhere.
async fn take_keys(tx: &Transaction<'_>, items: &[NewWork]) -> Result<HashMap<Uuid, WorkId>> {
    let mut wanted: BTreeMap<Uuid, (&NewWork, Timestamp)> = BTreeMap::new();
    for item in items {
        if let Some((key, until)) = &item.dedup {
            wanted.entry(Uuid::from_bytes(key.0)).or_insert((item, *until));
        }
    }
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    execute(
        tx,
        "INSERT INTO dedup_keys AS d (key, tenant, event_id, expires_at)
         SELECT * FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::bigint[])
           AS k (key, tenant, event_id, expires_at)
         ORDER BY key
         ON CONFLICT (key) DO UPDATE SET tenant = excluded.tenant, event_id = excluded.event_id,
                                         expires_at = excluded.expires_at
           WHERE d.expires_at <= wakepost_now()",
        &[
            &wanted.keys().copied().collect::<Vec<_>>(),
            &wanted.values().map(|(item, _)| item.tenant.0).collect::<Vec<_>>(),
            &wanted.values().map(|(item, _)| uuid(item.id.0)).collect::<Vec<_>>(),
            &wanted.values().map(|(_, until)| until.as_millis()).collect::<Vec<_>>(),
        ],
    )
    .await?;
    let rows = query(
        tx,
        "SELECT key, event_id FROM dedup_keys WHERE key = ANY($1::uuid[])",
        &[&wanted.keys().copied().collect::<Vec<_>>()],
    )
    .await?;
    rows.iter().map(|row| Ok((get(row, 0)?, WorkId(ulid(get(row, 1)?))))).collect()
}

fn first_of(item: &NewWork, firsts: &HashMap<Uuid, WorkId>) -> WorkId {
    let key = item.dedup.as_ref().map(|(key, _)| Uuid::from_bytes(key.0));
    key.and_then(|key| firsts.get(&key)).copied().unwrap_or(item.id)
}

pub(super) async fn insert(client: &impl GenericClient, items: &[&NewWork]) -> Result<()> {
    let items: Vec<_> = items.iter().map(|item| (*item, Spot::USUAL)).collect();
    insert_at(client, &items).await
}

/// Makes items that may have to do with others by more than their order keys.
pub(super) async fn insert_at(
    client: &impl GenericClient,
    items: &[(&NewWork, Spot)],
) -> Result<()> {
    macro_rules! column {
        ($item:ident => $of:expr) => {
            items.iter().map(|($item, _)| $of).collect::<Vec<_>>()
        };
        (at $spot:ident => $of:expr) => {
            items.iter().map(|(_, $spot)| $of).collect::<Vec<_>>()
        };
    }
    execute(
        client,
        "WITH item AS MATERIALIZED (
           SELECT * FROM unnest($1::int[], $2::uuid[], $3::smallint[], $4::bigint[], $5::bigint[],
                                $6::int[], $7::uuid[], $8::uuid[], $9::text[], $10::text[], $11::bytea[],
                                $12::uuid[], $13::bigint[], $14::uuid[], $15::bigint[], $16::uuid[],
                                $17::bigint[], $18::bigint[], $19::smallint[]) WITH ORDINALITY
             AS i (tenant, id, kind, lane, run_at, max_attempts, event_id, scope, subject, meta, input,
                   order_key, place, coalesce_key, gathers_until, cancel_key, scheduled_for,
                   callback_lane, held, nth)
         ), state AS (
           INSERT INTO job_state (work_id, tenant, input, scheduled_for)
           SELECT id, tenant, input, scheduled_for FROM item WHERE input IS NOT NULL
         )
         INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                           event_id, scope, subject, meta, order_key, place, coalesce_key,
                           gathers_until, cancel_key, callback_lane, held_reason, behind)
         SELECT tenant, id, kind, lane, CASE WHEN held IS NOT NULL THEN 4
                     WHEN run_at > wakepost_now() OR (run_at IS NOT NULL AND gathers_until IS NOT NULL)
                     THEN 1 ELSE 0 END,
                greatest(run_at, wakepost_now()), 0, max_attempts, 0, event_id, scope, subject, meta,
                order_key, place, coalesce_key, gathers_until, cancel_key, callback_lane, held,
                CASE WHEN order_key IS NULL THEN false
                     ELSE EXISTS (SELECT 1 FROM work f WHERE f.order_key = i.order_key AND NOT f.behind)
                          OR EXISTS (SELECT 1 FROM item e
                                     WHERE e.order_key = i.order_key AND e.nth < i.nth) END
         FROM item i",
        &[
            &column!(item => item.tenant.0),
            &column!(item => uuid(item.id.0)),
            &column!(item => item.kind as i16),
            &column!(item => item.lane.0),
            &column!(item => item.run_at.map(Timestamp::as_millis)),
            &column!(item => item.max_attempts),
            &column!(item => item.event.map(|event| uuid(event.0))),
            &column!(item => uuid(item.scope.unwrap_or(item.id.0))),
            &column!(item => opt_text(&item.subject)),
            &column!(item => meta_text(&item.meta)),
            &column!(item => item.input.as_ref().map(Sealed::as_bytes)),
            &column!(item => item.order.map(key_uuid)),
            &column!(at spot => spot.number),
            &column!(at spot => spot.coalesce.map(|key| Uuid::from_bytes(key.0))),
            &column!(at spot => spot.gathers_until.map(Timestamp::as_millis)),
            &column!(item => item.cancel_key().map(cancel_uuid)),
            &column!(item => item.meta.scheduled_for.map(Timestamp::as_millis)),
            &column!(item => item.meta.callback_lane.map(|lane| lane.0)),
            &column!(item => item.meta.held().map(|reason| reason as i16)),
        ],
    )
    .await?;
    Ok(())
}

/// Gives a live item up, or asks its run to stop, with the reason if there is one to tell.
pub(super) async fn cancel(
    tx: &Transaction<'_>,
    row: &WorkRow,
    order_keys: &[Uuid],
    reason: Option<&str>,
) -> Result<CancelOutcome> {
    let key: super::rows::Params<'_> = &[&row.tenant.0, &uuid(row.id.0), &reason];
    if row.state == State::Running {
        execute(
            tx,
            "UPDATE work SET cancel_at = coalesce(cancel_at, wakepost_now()),
                    last_error = coalesce($3::text, last_error)
             WHERE tenant = $1::int AND id = $2::uuid",
            key,
        )
        .await?;
        return Ok(CancelOutcome::Requested);
    }
    check(row.state, Move::Cancel)?;
    let ran = query(
        tx,
        concat!(
            "WITH gone AS (DELETE FROM work WHERE tenant = $1::int AND id = $2::uuid RETURNING *), done AS (
           INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                                  event_id, scope, subject, order_key, meta, last_error, worker,
                                  started_at, finished_at, callback_lane)
           SELECT tenant, id, kind, lane, 7, run_at, attempts, max_attempts, fence, event_id, scope,
                  subject, order_key, meta, coalesce($3::text, last_error), worker, started_at, wakepost_now(),
                  callback_lane
           FROM gone), called AS (",
            make_callbacks!(),
            " FROM gone WHERE callback_lane IS NOT NULL)
         SELECT order_key, place FROM gone
         WHERE order_key IS NOT NULL AND place <> 9223372036854775807 AND fence > 0 AND NOT behind"
        ),
        key,
    )
    .await?;
    let ran = ran.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?)));
    sequencing::ended(tx, &ran.collect::<Result<Vec<_>>>()?).await?;
    let next_in_order = match order_keys.is_empty() {
        true => None,
        false => let_next_go(tx, order_keys).await?.into_values().next(),
    };
    Ok(CancelOutcome::Cancelled { next_in_order })
}

async fn replay(tx: &Transaction<'_>, request: &Replay) -> Result<LaneId> {
    let new = |lane| NewWork {
        id: request.id,
        tenant: request.tenant,
        kind: WorkKind::Job,
        lane,
        run_at: None,
        max_attempts: request.max_attempts,
        event: None,
        scope: None,
        subject: None,
        order: None,
        meta: WorkMeta { callback_lane: request.callback_lane, ..WorkMeta::default() },
        input: request.input.clone(),
        dedup: None,
    };
    let item = match request.from {
        ReplayFrom::Event(event, lane) => {
            let HandedDown { subject, trace } = workless(tx, request.tenant, event).await?;
            let new = new(lane);
            NewWork {
                event: Some(event),
                scope: (!request.fresh_scope).then_some(event.0),
                subject,
                meta: WorkMeta { trace, ..new.meta },
                ..new
            }
        }
        ReplayFrom::Work(id) => {
            let old = lock(tx, request.tenant, id).await?.ok_or(StoreError::NotFound)?;
            replaceable(&old)?;
            mark_replayed(tx, &old, request.id).await?;
            carry_joined(tx, &old, request.id).await?;
            NewWork {
                kind: old.kind,
                event: old.event,
                scope: (!request.fresh_scope).then_some(old.scope),
                subject: old.subject,
                order: old.order,
                meta: old.meta.replayed(old.id.text(old.kind)),
                ..new(old.lane)
            }
        }
    };
    lock_new(tx, &[&item]).await?;
    insert(tx, &[&item]).await?;
    Ok(item.lane)
}

/// What a received event hands down that has no item yet: a second first item would share its effects. Differs from
/// SQLite: two nodes may want to make the first at once, so the event stays locked.
async fn workless(tx: &Transaction<'_>, tenant: TenantId, event: EventId) -> Result<HandedDown> {
    let row = query_opt(
        tx,
        "SELECT subject, trace FROM events WHERE tenant = $1::int AND id = $2::uuid AND route <> 4
         FOR UPDATE",
        &[&tenant.0, &uuid(event.0)],
    )
    .await?
    .ok_or(StoreError::NotFound)?;
    match work_of_event(tx, tenant, event).await?.last() {
        None => Ok(HandedDown { subject: get(&row, 0)?, trace: get(&row, 1)? }),
        Some(item) => Err(StoreError::InvalidState(format!(
            "the event has work already: replay {}",
            item.id.text(item.kind)
        ))),
    }
}

/// Only a finished item that was not replayed yet can be replayed: its effects have one live owner.
fn replaceable(old: &WorkRow) -> Result<()> {
    if !old.state.is_terminal() {
        return Err(StoreError::InvalidState(format!(
            "a {} item cannot be replayed; wait until it ends, or cancel it",
            old.state.as_str()
        )));
    }
    match old.replayed_as {
        None if old.purged_by.is_some() => {
            Err(StoreError::InvalidState("it was purged: nothing is left to replay".to_owned()))
        }
        None => Ok(()),
        Some(new) => Err(StoreError::InvalidState(format!(
            "it was replayed already, as {}",
            new.text(old.kind)
        ))),
    }
}

async fn mark_replayed(tx: &Transaction<'_>, old: &WorkRow, new: WorkId) -> Result<()> {
    execute(
        tx,
        "UPDATE work_done SET replayed_as = $3::uuid WHERE tenant = $1::int AND id = $2::uuid",
        &[&old.tenant.0, &uuid(old.id.0), &uuid(new.0)],
    )
    .await?;
    Ok(())
}

/// A replay is about all that the old item was about.
async fn carry_joined(tx: &Transaction<'_>, old: &WorkRow, new: WorkId) -> Result<()> {
    execute(
        tx,
        "INSERT INTO joined (work_id, place, tenant, event_id)
         SELECT $3::uuid, place, tenant, event_id FROM joined
         WHERE work_id = $2::uuid AND tenant = $1::int",
        &[&old.tenant.0, &uuid(old.id.0), &uuid(new.0)],
    )
    .await?;
    Ok(())
}

/// One item, live or finished.
pub(super) async fn find(
    on: &impl GenericClient,
    tenant: TenantId,
    id: WorkId,
) -> Result<Option<WorkRow>> {
    find_as(on, tenant, id, "").await
}

/// One item, live or finished, that stays as it is until the transaction ends.
pub(super) async fn lock(
    tx: &Transaction<'_>,
    tenant: TenantId,
    id: WorkId,
) -> Result<Option<WorkRow>> {
    find_as(tx, tenant, id, "FOR UPDATE").await
}

/// Two statements, live first: an item only ever moves from live to finished, so none is missed.
async fn find_as(
    on: &impl GenericClient,
    tenant: TenantId,
    id: WorkId,
    lock: &str,
) -> Result<Option<WorkRow>> {
    for (columns, table) in [(WORK_LIVE, "work"), (WORK_DONE, "work_done")] {
        let sql = format!(
            "SELECT {columns} FROM {table} WHERE tenant = $1::int AND id = $2::uuid {lock}"
        );
        if let Some(row) = query_opt(on, &sql, &[&tenant.0, &uuid(id.0)]).await? {
            return work(&row).map(Some);
        }
    }
    Ok(None)
}
