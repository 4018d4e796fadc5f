//! Accepting: event, dedup keys, job and receipt in one statement.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use deadpool_postgres::{Client, GenericClient, Transaction};
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakepost_domain::event::Route;
use wakepost_domain::{EventId, Timestamp, WorkId};

use super::batch::Verb;
use super::cancelling::{self, key_of};
use super::fault::Fault;
use super::placing::{Fresh, joined_works, place, placed_before};
use super::prune::guards;
use super::publishing::plain_deliveries;
use super::receipts::{Known, count_known, count_repeats, insert_rejections, trim_rejections};
use super::rows::{execute, get, meta_text, opt_text, query, text, ulid, uuid};
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{
    Accepted, AuditEntry, DedupKey, Ledger, NewEvent, NewReceipt, Received, SharedBody,
};
use crate::vault::Sealed;

/// How often a request of several events is tried that meets others on its way.
pub const TRIES: usize = 4;
/// Rounds after which a batch whose keys others keep taking is given back as busy.
const ROUNDS_MAX: usize = 8;

#[async_trait]
impl Ledger for Postgres {
    async fn accept(&self, batch: Vec<NewEvent>) -> Vec<Received> {
        let batch: Vec<Arc<NewEvent>> = batch.into_iter().map(Arc::new).collect();
        let plain = batch.iter().filter(|new| new.placed_job().is_none()).cloned().collect();
        let mut together = self.inner.accepts.submit(plain).await.into_iter();
        let mut answers = Vec::with_capacity(batch.len());
        for new in batch {
            let answer = match new.placed_job() {
                None => together.next().unwrap_or(Err(StoreError::Busy)),
                Some(_) => Ok(Stored::Alone),
            };
            // What has to do with others holds a lock, which a statement shared with others cannot.
            answers.push(match answer {
                Ok(Stored::Alone) => {
                    let one = self.in_transaction(None, std::slice::from_ref(&*new)).await;
                    one.and_then(|mut one| one.pop().ok_or(StoreError::Busy))
                }
                Ok(Stored::As(accepted)) => Ok(accepted),
                Err(error) => Err(error),
            });
        }
        answers
    }

    /// Not shared with other callers: a body of several events is rare and fills a statement by itself.
    async fn accept_together(
        &self,
        body: SharedBody,
        events: Vec<NewEvent>,
    ) -> Result<Vec<Accepted>> {
        self.in_transaction(Some(&body), &events).await
    }

    async fn publish(
        &self,
        events: Vec<NewEvent>,
        entry: Option<AuditEntry>,
    ) -> Result<Vec<Accepted>> {
        self.publish_events(events, entry).await
    }

    async fn keep_rejections(&self, batch: Vec<NewReceipt>) -> Result<()> {
        let mut client = self.cool().await?;
        let tx = client.transaction().await?;
        insert_rejections(&tx, &batch).await?;
        trim_rejections(&tx, &batch).await?;
        commit(tx).await
    }
}

impl Postgres {
    /// Stores events in a transaction of their own, again if it meets others on its way.
    async fn in_transaction(
        &self,
        body: Option<&SharedBody>,
        events: &[NewEvent],
    ) -> Result<Vec<Accepted>> {
        let shared = body.map_or(0, |body| body.content.len());
        let own: usize = events.iter().map(content_bytes).sum();
        let _place = self.inner.admission.enter(shared + own)?;
        for _ in 1..TRIES {
            match together(&mut self.hot().await?, body, events).await {
                Err(Fault::Again(_) | Fault::Down(StoreError::Busy)) => {}
                done => return Ok(done?),
            }
        }
        Ok(together(&mut self.hot().await?, body, events).await?)
    }
}

pub fn content_bytes(new: &NewEvent) -> usize {
    new.content.as_ref().map_or(0, Sealed::len)
}

/// What became of an event in a statement that it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stored {
    /// It was answered.
    As(Accepted),
    /// Nothing: jobs wait for an event about its subject, so that it needs a transaction of its own.
    Alone,
}

/// The verb behind [`Ledger::accept`].
#[derive(Default)]
pub struct Accept {
    /// Most of the last batch was there already. Then the next is looked up before anything is inserted,
    /// which is cheaper for duplicates and dearer for what is new.
    repeats_lately: AtomicBool,
}

impl Verb for Accept {
    type Item = Arc<NewEvent>;
    type Answer = Stored;

    fn bytes(item: &Arc<NewEvent>) -> usize {
        content_bytes(item)
    }

    async fn run(
        &self,
        client: &mut Client,
        items: &[Arc<NewEvent>],
    ) -> std::result::Result<Vec<Result<Stored>>, Fault> {
        let items: Vec<&NewEvent> = items.iter().map(|item| &**item).collect();
        let answers = match self.repeats_lately.load(Ordering::Relaxed) {
            true => accept_repeats(client, &items).await?,
            false => accept(client, &items, vec![None; items.len()], Way::Shared).await?,
        };
        let is_repeat = |answer: &&Stored| matches!(answer, Stored::As(Accepted::Duplicate { .. }));
        let repeats = answers.iter().filter(is_repeat).count();
        self.repeats_lately.store(repeats * 2 > items.len(), Ordering::Relaxed);
        Ok(answers.into_iter().map(Ok).collect())
    }
}

/// All events of a request and their body, in a transaction of their own.
async fn together(
    client: &mut Client,
    body: Option<&SharedBody>,
    events: &[NewEvent],
) -> std::result::Result<Vec<Accepted>, Fault> {
    let tx = client.transaction().await?;
    let items: Vec<&NewEvent> = events.iter().collect();
    let LookedUp { known, cancels } = look_up(&tx, &items).await?;
    let stored = accept(&tx, &items, known.clone(), Way::Alone).await?;
    let mut answers: Vec<Accepted> = stored
        .into_iter()
        .map(|stored| match stored {
            Stored::As(accepted) => Ok(accepted),
            Stored::Alone => Err(StoreError::Busy),
        })
        .collect::<Result<_>>()?;
    // Known under its own id: the commit of an earlier try arrived, and cancelled what it had to.
    let cancelling = !cancels.is_empty() && known.iter().any(Option::is_none);
    let pointless = match cancelling {
        true => cancelling::lock(&tx, &cancels, events).await?,
        false => Vec::new(),
    };
    place_new(&tx, events, &known, &mut answers).await?;
    if !pointless.is_empty() {
        cancelling::cancel_by(&tx, &pointless, events, &mut answers).await?;
    }
    if let Some(body) = body.filter(|_| answers.iter().any(|answer| answer.is_new())) {
        execute(
            &tx,
            // It may be there already, if the commit of an earlier try was reported as failed.
            "INSERT INTO bodies (id, tenant, content) VALUES ($1::uuid, $2::int, $3::bytea)
             ON CONFLICT (id) DO NOTHING",
            &[&uuid(body.id.0), &body.tenant.0, &body.content.as_bytes()],
        )
        .await?;
    }
    commit(tx).await?;
    Ok(answers)
}

/// As [`accept`], for what is likely to be there already.
async fn accept_repeats(
    client: &impl GenericClient,
    items: &[&NewEvent],
) -> std::result::Result<Vec<Stored>, Fault> {
    let Known { firsts, counted } = count_known(client, items).await?;
    let Some(routes) = counted else {
        return accept(client, items, firsts, Way::Shared).await;
    };
    failpoint::pass_async("accept.on_conflict").await?;
    answers(client, items, firsts, &routes).await
}

/// Gives the jobs that have to do with others their places.
async fn place_new(
    tx: &Transaction<'_>,
    events: &[NewEvent],
    known: &[Option<EventId>],
    answers: &mut [Accepted],
) -> Result<()> {
    let (mut fresh, mut at): (Vec<Fresh<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
    for (index, event) in events.iter().enumerate() {
        match event.placed_job().filter(|_| answers[index].is_new()) {
            None => {}
            // Known under its own id: the commit of an earlier try arrived, with the job.
            Some(_) if known[index].is_some() => {
                answers[index] = placed_before(tx, event).await?;
            }
            Some(job) => {
                fresh.push((event, job));
                at.push(index);
            }
        }
    }
    if fresh.is_empty() {
        return Ok(());
    }
    let placed = place(tx, &fresh).await?;
    let jobs: HashMap<EventId, Option<WorkId>> = fresh
        .iter()
        .zip(&placed)
        .map(|((new, _), placed)| (new.event.id, placed.job(new.event.id, new.event.route)))
        .collect();
    for (index, placed) in at.into_iter().zip(placed) {
        answers[index] = placed;
    }
    // Copies within the request were answered before their first had its place.
    for answer in answers {
        if let Accepted::Duplicate { of, job } = answer
            && let Some(placed) = jobs.get(of)
        {
            *job = *placed;
        }
    }
    Ok(())
}

/// What a statement leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Events that cancel jobs, since others share it.
    Shared,
    /// Nothing.
    Alone,
    /// Everything, unless all of it is new.
    Whole,
}

/// Stores what is new and counts what is not.
async fn accept(
    client: &impl GenericClient,
    items: &[&NewEvent],
    known: Vec<Option<EventId>>,
    way: Way,
) -> std::result::Result<Vec<Stored>, Fault> {
    let firsts = store(client, items, known, way).await?;
    let repeats: Vec<(&NewEvent, EventId)> = items
        .iter()
        .zip(&firsts)
        // Its own id: the commit of an earlier try arrived although it was reported as failed.
        .filter_map(|(item, first)| Some((*item, first.filter(|first| item.event.id != *first)?)))
        .collect();
    let routes = match repeats.is_empty() {
        true => HashMap::new(),
        false => {
            failpoint::pass_async("accept.on_conflict").await?;
            count_repeats(client, &repeats).await?
        }
    };
    answers(client, items, firsts, &routes).await
}

/// What each item is answered, given the first of its kind, unless it was left out, and what the firsts of repeats
/// led to.
async fn answers(
    client: &impl GenericClient,
    items: &[&NewEvent],
    firsts: Vec<Option<EventId>>,
    routes: &HashMap<EventId, i16>,
) -> std::result::Result<Vec<Stored>, Fault> {
    let joined = routes.iter().filter(|(_, route)| **route == Route::Joined as i16);
    let joined: Vec<EventId> = joined.map(|(event, _)| *event).collect();
    let joined = joined_works(client, &joined).await?;
    let answer = |(item, first): (&&NewEvent, Option<EventId>)| match first {
        None => Stored::Alone,
        Some(first) if item.event.id == first => Stored::As(Accepted::New),
        Some(of) => Stored::As(Accepted::Duplicate { of, job: job_of(of, routes, &joined) }),
    };
    Ok(items.iter().zip(firsts).map(answer).collect())
}

/// The job that an event made or joined. If the event is gone and its dedup key is not, whether it made one is no
/// longer known.
fn job_of(
    event: EventId,
    routes: &HashMap<EventId, i16>,
    joined: &HashMap<EventId, WorkId>,
) -> Option<WorkId> {
    match routes.get(&event).copied().map(Route::from_code) {
        None | Some(Some(Route::Job)) => Some(WorkId::first_of(event)),
        Some(Some(Route::Joined)) => joined.get(&event).copied(),
        Some(_) => None,
    }
}

/// What was there before a request of its own transaction.
pub struct LookedUp {
    /// Of each item, which event is the first of its kind.
    pub known: Vec<Option<EventId>>,
    /// What jobs wait for that the request may cancel.
    cancels: Vec<Uuid>,
}

pub async fn look_up(
    client: &impl GenericClient,
    items: &[&NewEvent],
) -> std::result::Result<LookedUp, Fault> {
    let subjects: BTreeSet<Uuid> = items.iter().filter_map(|item| key_of(item)).collect();
    let subjects: Vec<Uuid> = subjects.into_iter().collect();
    let keys: Vec<Uuid> = items.iter().flat_map(|item| &item.dedup).map(key_uuid).collect();
    let rows = query(
        client,
        "SELECT d.key, CASE WHEN d.expires_at > wakepost_now() THEN d.event_id END, false
         FROM unnest($1::uuid[]) AS k (key) JOIN dedup_keys d ON d.key = k.key
         UNION ALL
         SELECT s.key, NULL, true FROM unnest($2::uuid[]) AS s (key)
         CROSS JOIN LATERAL (SELECT 1 FROM work w WHERE w.cancel_key = s.key LIMIT 1) w",
        &[&keys, &subjects],
    )
    .await?;
    let (mut known, mut expired, mut cancels) = (HashMap::new(), Vec::new(), Vec::new());
    for row in &rows {
        let key: Uuid = get(row, 0)?;
        match get::<Option<Uuid>>(row, 1)? {
            Some(first) => drop(known.insert(key, EventId(ulid(first)))),
            None if get(row, 2)? => cancels.push(key),
            None => expired.push(key),
        }
    }
    known.extend(free(client, &expired).await?);
    let first = |item: &NewEvent| item.dedup.iter().find_map(|key| known.get(&key_uuid(key)));
    Ok(LookedUp { known: items.iter().map(|item| first(item).copied()).collect(), cancels })
}

/// Stores what is new, and says of each item which event is the first of its kind: itself, if it is new. None: it
/// was left out, since it cancels jobs.
pub async fn store(
    client: &impl GenericClient,
    items: &[&NewEvent],
    mut firsts: Vec<Option<EventId>>,
    way: Way,
) -> std::result::Result<Vec<Option<EventId>>, Fault> {
    let mut left_out = HashSet::new();
    for _ in 0..ROUNDS_MAX {
        let is_open = |index: &usize| firsts[*index].is_none() && !left_out.contains(index);
        let open: Vec<usize> = (0..items.len()).filter(is_open).collect();
        if open.is_empty() {
            return Ok(firsts);
        }
        let fold = Fold::of(items, &open);
        let stored = insert(client, items, &fold, way).await?;
        for index in open {
            firsts[index] = stored.first_of(items, &fold, index);
            if firsts[index].is_none() && stored.leaves_out(items, &fold, index) {
                left_out.insert(index);
            }
        }
    }
    Err(Fault::Again(StoreError::Busy))
}

/// A batch in which each key has one owner: the first item that has it. An item all of whose keys are its
/// own leads; any other follows the owner of one of its keys, and is a copy if that one turns out new.
pub struct Fold {
    owners: BTreeMap<DedupKey, Option<usize>>,
    leaders: Vec<usize>,
    follows: HashMap<usize, usize>,
}

impl Fold {
    pub fn of(items: &[&NewEvent], open: &[usize]) -> Fold {
        let mut fold =
            Fold { owners: BTreeMap::new(), leaders: Vec::new(), follows: HashMap::new() };
        for &index in open {
            let keys = &items[index].dedup;
            let owner = keys.iter().find_map(|key| fold.owners.get(key).copied().flatten());
            match owner {
                Some(leader) => {
                    fold.follows.insert(index, leader);
                    // Looked up, but not taken: a copy takes no keys.
                    for key in keys {
                        fold.owners.entry(*key).or_insert(None);
                    }
                }
                None => {
                    fold.leaders.push(index);
                    fold.owners.extend(keys.iter().map(|key| (*key, Some(index))));
                }
            }
        }
        fold
    }

    /// Whether an item is a copy of another.
    pub fn has_copies(&self) -> bool {
        !self.follows.is_empty()
    }

    /// The event that an item stands or falls with: its own, if it leads.
    fn leader_of(&self, items: &[&NewEvent], index: usize) -> EventId {
        items[self.follows.get(&index).copied().unwrap_or(index)].event.id
    }
}

/// Lets keys go whose time is over and whose body is gone; answers whose the others are. A statement of its own, so that
/// batches without such keys look at no bodies.
async fn free(
    client: &impl GenericClient,
    expired: &[Uuid],
) -> std::result::Result<HashMap<Uuid, EventId>, Fault> {
    if expired.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = query(
        client,
        concat!(
            "WITH held AS MATERIALIZED (
               SELECT d.key, d.event_id, d.expires_at > wakepost_now() OR ",
            guards!("d"),
            " AS blocks
               FROM dedup_keys d WHERE d.key = ANY ($1::uuid[]) ORDER BY d.key FOR UPDATE
             ), freed AS (
               DELETE FROM dedup_keys d USING held h WHERE d.key = h.key AND NOT h.blocks
             )
             SELECT key, event_id FROM held WHERE blocks"
        ),
        &[&expired],
    )
    .await?;
    let held = rows.iter().map(|row| Ok((get(row, 0)?, EventId(ulid(get(row, 1)?)))));
    Ok(held.collect::<Result<_>>()?)
}

/// What one round found and did.
pub struct Round {
    known: HashMap<Uuid, EventId>,
    /// What it stored.
    pub new: HashSet<EventId>,
    /// Events that cancel jobs.
    left_out: HashSet<EventId>,
}

impl Round {
    fn first_of(&self, items: &[&NewEvent], fold: &Fold, index: usize) -> Option<EventId> {
        let known = items[index].dedup.iter().find_map(|key| self.known.get(&key_uuid(key)));
        let leader = fold.leader_of(items, index);
        // None: the one it follows is itself a duplicate, or another node took the key just now. The
        // next round sees more.
        known.copied().or_else(|| self.new.contains(&leader).then_some(leader))
    }

    /// A copy of one that is left out comes after it, or it would be stored in its place.
    fn leaves_out(&self, items: &[&NewEvent], fold: &Fold, index: usize) -> bool {
        self.left_out.contains(&fold.leader_of(items, index))
    }
}

fn key_uuid(key: &DedupKey) -> Uuid {
    Uuid::from_bytes(key.0)
}

/// The look-up only answers duplicates and spares their rows: the unique index is the arbiter. An event one of whose keys is
/// there takes none, whether that key's time is over or not: an expired one is let go first, by [`free`]. Keys are
/// taken in their order, since two batches that take them in different orders can deadlock. An event that
/// got only some of its keys makes the statement fail and leave nothing; run again, it sees the other's.
///
/// An event that jobs may wait for takes no keys, and so is not stored: they end in its own transaction. Jobs that wait
/// for events are rare, and only they are in the index that is looked at.
///
/// `$taken`, `$item` and `$conflict` are further conditions on taking keys, on storing and on failing, `$deliveries` is a
/// further part.
macro_rules! insert_sql {
    ($taken:literal, $item:literal, $deliveries:literal, $conflict:literal) => {
        concat!("
WITH clock AS MATERIALIZED (
  SELECT wakepost_now() AS now
), key AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::bigint[])
    AS k (key, tenant, event_id, expires_at)
), known AS MATERIALIZED (
  SELECT k.key, k.event_id, d.event_id AS first, d.expires_at > (SELECT now FROM clock) AS blocks
  FROM key k JOIN dedup_keys d ON d.key = k.key
), cancels AS MATERIALIZED (
  SELECT c.id FROM unnest($5::uuid[], $24::uuid[]) AS c (id, key)
  CROSS JOIN LATERAL (SELECT 1 FROM work w WHERE w.cancel_key = c.key LIMIT 1) w
), taken AS (
  INSERT INTO dedup_keys (key, tenant, event_id, expires_at)
  SELECT key, tenant, event_id, expires_at FROM key
  WHERE event_id IS NOT NULL
    AND event_id NOT IN (SELECT event_id FROM known WHERE event_id IS NOT NULL)
    AND event_id NOT IN (SELECT id FROM cancels)
    ", $taken, "
  ORDER BY key
  ON CONFLICT (key) DO NOTHING
  RETURNING key, event_id
), missed AS MATERIALIZED (
  SELECT event_id FROM key
  WHERE event_id IS NOT NULL AND key NOT IN (SELECT key FROM taken)
), item AS MATERIALIZED (
  SELECT *
  FROM unnest($5::uuid[], $6::int[], $7::uuid[], $8::text[], $9::text[], $10::smallint[],
              $11::boolean[], $12::text[], $13::bigint[], $14::bytea[], $15::text[], $16::int[],
              $17::bytea[], $18::bigint[], $19::int[], $20::uuid[], $21::smallint[],
              $22::bigint[], $23::text[], $25::bigint[], $26::text[])
    AS i (id, tenant, source, type, dedup_key, route, verified, subject, occurred_at, payload_hash,
          remote_addr, latency_us, content, lane, max_attempts, body_id, part, signature,
          thread, callback_lane, trace)
  WHERE id NOT IN (SELECT event_id FROM missed) ", $item, "
), event AS (
  INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, subject, occurred_at,
                      payload_hash, duplicates, remote_addr, latency_us, body_id, part,
                      signature, thread, trace)
  SELECT tenant, id, source, type, dedup_key, route, verified, subject, occurred_at, payload_hash, 0,
         remote_addr, latency_us, body_id, part, signature, thread, trace
  FROM item
), body AS (
  INSERT INTO bodies (id, tenant, content)
  SELECT id, tenant, content FROM item WHERE content IS NOT NULL
), job AS (
  INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                    scope, subject, callback_lane)
  SELECT tenant, id, 0, lane, 0, (SELECT now FROM clock), 0, max_attempts, 0, id, id, subject,
         callback_lane
  FROM item WHERE lane IS NOT NULL
)", $deliveries, "
SELECT id, NULL::uuid FROM item
UNION ALL
SELECT CASE WHEN blocks THEN key END, CASE WHEN blocks THEN first ELSE key END FROM known
UNION ALL
SELECT id, id FROM cancels
UNION ALL
SELECT event_id, NULL FROM taken
WHERE CASE WHEN event_id IN (SELECT event_id FROM missed) ", $conflict, " THEN wakepost_conflict() ELSE false END")
    };
}

const INSERT: &str = insert_sql!("", "", "", "");

/// The same of what is published. A statement of its own: its further parts cost a single event a tenth of its time,
/// though they have nothing to do.
///
/// `$27`: nothing is stored unless all of it is new, also of events without keys. What another takes meanwhile makes it
/// fail, and be run again.
/// Deliveries come in the order of their lanes, which is that of the indexes they go into. They stand by themselves, not
/// joined with their events: without hash joins, as here, that would be a walk along all events for each.
const INSERT_PUBLISHED: &str = insert_sql!(
    "AND NOT ($27::boolean AND EXISTS (SELECT 1 FROM known))",
    "AND NOT ($27::boolean AND EXISTS (SELECT 1 FROM missed))",
    ", delivery AS (
  INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                    scope, subject, meta)
  SELECT tenant, id, 1, lane, CASE WHEN run_at > (SELECT now FROM clock) THEN 1 ELSE 0 END,
         greatest(run_at, (SELECT now FROM clock)), 0, max_attempts, 0, event_id, id, subject, meta
  FROM unnest($28::uuid[], $29::int[], $30::uuid[], $31::bigint[], $32::bigint[], $33::int[],
              $34::text[], $35::text[])
    AS d (event_id, tenant, id, lane, run_at, max_attempts, subject, meta)
  WHERE event_id NOT IN (SELECT event_id FROM missed)
    AND NOT ($27::boolean AND EXISTS (SELECT 1 FROM missed))
)",
    "OR ($27::boolean AND EXISTS (SELECT 1 FROM missed))"
);

/// Stores what leads and is new.
pub async fn insert(
    client: &impl GenericClient,
    items: &[&NewEvent],
    fold: &Fold,
    way: Way,
) -> std::result::Result<Round, Fault> {
    let owned = fold.owners.iter().map(|(key, owner)| (key, owner.map(|index| items[index])));
    let (mut keys, mut key_tenants, mut key_events, mut expires) = (vec![], vec![], vec![], vec![]);
    for (key, owner) in owned {
        keys.push(key_uuid(key));
        key_tenants.push(owner.map(|new| new.event.tenant.0));
        key_events.push(owner.map(|new| uuid(new.event.id.0)));
        expires.push(owner.map(|new| new.dedup_until.as_millis()));
    }
    let new: Vec<&NewEvent> = fold.leaders.iter().map(|index| items[*index]).collect();
    let deliveries = plain_deliveries(&new);
    macro_rules! column {
        ($one:ident => $of:expr) => {
            new.iter().map(|$one| $of).collect::<Vec<_>>()
        };
        (of $work:ident => $of:expr) => {
            deliveries.iter().map(|$work| $of).collect::<Vec<_>>()
        };
    }
    let params: [&(dyn ToSql + Sync); 26] = [
        &keys,
        &key_tenants,
        &key_events,
        &expires,
        &column!(new => uuid(new.event.id.0)),
        &column!(new => new.event.tenant.0),
        &column!(new => uuid(new.event.source.0)),
        &column!(new => text(&new.event.event_type)),
        &column!(new => text(&new.event.dedup_key)),
        &column!(new => new.event.route as i16),
        &column!(new => new.event.verified),
        &column!(new => opt_text(&new.event.subject)),
        &column!(new => new.event.occurred_at.map(Timestamp::as_millis)),
        &column!(new => &new.event.payload_hash[..]),
        &column!(new => opt_text(&new.event.remote_addr)),
        &column!(new => new.event.latency_us),
        &column!(new => new.content.as_ref().map(Sealed::as_bytes)),
        &column!(new => new.plain_job().map(|job| job.lane.0)),
        &column!(new => new.plain_job().map(|job| job.max_attempts)),
        &column!(new => new.event.part.map(|part| uuid(part.body.0))),
        &column!(new => new.event.part.map(|part| part.index as i16)),
        &column!(new => new.event.signature),
        &column!(new => opt_text(&new.event.thread)),
        &column!(new => key_of(new).filter(|_| way == Way::Shared)),
        &column!(new => new.plain_job().and_then(|job| job.callback_lane).map(|lane| lane.0)),
        &column!(new => opt_text(&new.event.trace)),
    ];
    let published: [&(dyn ToSql + Sync); 9] = [
        &(way == Way::Whole),
        &column!(of work => work.event.map(|event| uuid(event.0))),
        &column!(of work => work.tenant.0),
        &column!(of work => uuid(work.id.0)),
        &column!(of work => work.lane.0),
        &column!(of work => work.run_at.map(Timestamp::as_millis)),
        &column!(of work => work.max_attempts),
        &column!(of work => opt_text(&work.subject)),
        &column!(of work => meta_text(&work.meta)),
    ];
    let rows = match deliveries.is_empty() && way != Way::Whole {
        true => query(client, INSERT, &params).await?,
        false => query(client, INSERT_PUBLISHED, &[&params[..], &published[..]].concat()).await?,
    };
    let mut round = Round { known: HashMap::new(), new: HashSet::new(), left_out: HashSet::new() };
    let mut expired: Vec<Uuid> = Vec::new();
    for row in &rows {
        match (get::<Option<Uuid>>(row, 0)?, get::<Option<Uuid>>(row, 1)?) {
            (Some(subject), Some(event)) if event == subject => {
                round.left_out.insert(EventId(ulid(event)));
            }
            (Some(key), Some(first)) => {
                round.known.insert(key, EventId(ulid(first)));
            }
            (Some(event), None) => {
                round.new.insert(EventId(ulid(event)));
            }
            (None, key) => expired.extend(key),
        }
    }
    round.known.extend(free(client, &expired).await?);
    Ok(round)
}
