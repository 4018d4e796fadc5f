//! Accepting: event, dedup keys, job and receipt in one statement.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use deadpool_postgres::{Client, GenericClient, Transaction};
use uuid::Uuid;
use wakepost_domain::event::Route;
use wakepost_domain::{EventId, Timestamp, WorkId};

use super::batch::Verb;
use super::fault::Fault;
use super::placing::{Fresh, joined_works, place, placed_before};
use super::receipts::{Known, count_known, count_repeats, insert_rejections, trim_rejections};
use super::rows::{execute, get, opt_text, query, text, ulid, uuid};
use super::{Postgres, commit};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{Accepted, DedupKey, Ledger, NewEvent, NewReceipt, Received, SharedBody};
use crate::vault::Sealed;

/// How often a request of several events is tried that meets others on its way.
const TRIES: usize = 4;
/// Rounds after which a batch whose keys others keep taking is given back as busy.
const ROUNDS_MAX: usize = 8;

#[async_trait]
impl Ledger for Postgres {
    async fn accept(&self, batch: Vec<NewEvent>) -> Vec<Received> {
        if batch.iter().all(|new| new.placed_job().is_none()) {
            return self.inner.accepts.submit(batch).await;
        }
        // What has to do with others holds a lock, which a statement shared with others cannot.
        let mut answers = Vec::with_capacity(batch.len());
        for new in batch {
            let answer = match new.placed_job().is_some() {
                true => self.in_transaction(None, std::slice::from_ref(&new)).await,
                false => self.inner.accepts.submit(vec![new]).await.into_iter().collect(),
            };
            let one = answer.and_then(|mut one| one.pop().ok_or(StoreError::Busy));
            answers.push(one);
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
        let own: usize = events.iter().map(Accept::bytes).sum();
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

/// The verb behind [`Ledger::accept`].
#[derive(Default)]
pub struct Accept {
    /// Most of the last batch was there already. Then the next is looked up before anything is inserted,
    /// which is cheaper for duplicates and dearer for what is new.
    repeats_lately: AtomicBool,
}

impl Verb for Accept {
    type Item = NewEvent;
    type Answer = Accepted;

    fn bytes(item: &NewEvent) -> usize {
        item.content.as_ref().map_or(0, Sealed::len)
    }

    async fn run(
        &self,
        client: &mut Client,
        items: &[NewEvent],
    ) -> std::result::Result<Vec<Received>, Fault> {
        let answers = match self.repeats_lately.load(Ordering::Relaxed) {
            true => accept_repeats(client, items).await?,
            false => accept(client, items, vec![None; items.len()]).await?,
        };
        let repeats = answers.iter().filter(|answer| !answer.is_new()).count();
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
    let known = look_up(&tx, events).await?;
    let mut answers = accept(&tx, events, known.clone()).await?;
    place_new(&tx, events, &known, &mut answers).await?;
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
    items: &[NewEvent],
) -> std::result::Result<Vec<Accepted>, Fault> {
    let Known { firsts, counted } = count_known(client, items).await?;
    let Some(routes) = counted else {
        return accept(client, items, firsts).await;
    };
    failpoint::pass_async("accept.on_conflict").await?;
    answers(client, items, firsts.into_iter().flatten().collect(), &routes).await
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

/// Stores what is new and counts what is not.
async fn accept(
    client: &impl GenericClient,
    items: &[NewEvent],
    known: Vec<Option<EventId>>,
) -> std::result::Result<Vec<Accepted>, Fault> {
    let firsts = store(client, items, known).await?;
    let repeats: Vec<(&NewEvent, EventId)> = items
        .iter()
        .zip(&firsts)
        // Its own id: the commit of an earlier try arrived although it was reported as failed.
        .filter(|(item, first)| item.event.id != **first)
        .map(|(item, first)| (item, *first))
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

/// What each item is answered, given the first of its kind and what the firsts of repeats led to.
async fn answers(
    client: &impl GenericClient,
    items: &[NewEvent],
    firsts: Vec<EventId>,
    routes: &HashMap<EventId, i16>,
) -> std::result::Result<Vec<Accepted>, Fault> {
    let joined = routes.iter().filter(|(_, route)| **route == Route::Joined as i16);
    let joined: Vec<EventId> = joined.map(|(event, _)| *event).collect();
    let joined = joined_works(client, &joined).await?;
    let answer = |(item, first): (&NewEvent, EventId)| match item.event.id == first {
        true => Accepted::New,
        false => Accepted::Duplicate { of: first, job: job_of(first, routes, &joined) },
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

/// Says of each item which event is the first of its kind, where that was there before this batch.
async fn look_up(
    client: &impl GenericClient,
    items: &[NewEvent],
) -> std::result::Result<Vec<Option<EventId>>, Fault> {
    let keys: Vec<Uuid> = items.iter().flat_map(|item| &item.dedup).map(key_uuid).collect();
    let rows = query(
        client,
        "SELECT d.key, d.event_id FROM unnest($1::uuid[]) AS k (key)
         JOIN dedup_keys d ON d.key = k.key AND d.expires_at > wakepost_now()",
        &[&keys],
    )
    .await?;
    let mut known = HashMap::new();
    for row in &rows {
        known.insert(get::<Uuid>(row, 0)?, EventId(ulid(get(row, 1)?)));
    }
    let first = |item: &NewEvent| item.dedup.iter().find_map(|key| known.get(&key_uuid(key)));
    Ok(items.iter().map(|item| first(item).copied()).collect())
}

/// Stores what is new, and says of each item which event is the first of its kind: itself, if it is new.
async fn store(
    client: &impl GenericClient,
    items: &[NewEvent],
    mut firsts: Vec<Option<EventId>>,
) -> std::result::Result<Vec<EventId>, Fault> {
    for _ in 0..ROUNDS_MAX {
        let open: Vec<usize> = (0..items.len()).filter(|index| firsts[*index].is_none()).collect();
        if open.is_empty() {
            return Ok(firsts.into_iter().flatten().collect());
        }
        let fold = Fold::of(items, &open);
        let stored = insert(client, items, &fold).await?;
        for index in open {
            firsts[index] = stored.first_of(items, &fold, index);
        }
    }
    Err(Fault::Again(StoreError::Busy))
}

/// A batch in which each key has one owner: the first item that has it. An item all of whose keys are its
/// own leads; any other follows the owner of one of its keys, and is a copy if that one turns out new.
struct Fold {
    owners: BTreeMap<DedupKey, Option<usize>>,
    leaders: Vec<usize>,
    follows: HashMap<usize, usize>,
}

impl Fold {
    fn of(items: &[NewEvent], open: &[usize]) -> Fold {
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
}

/// What one round found and did.
struct Stored {
    known: HashMap<Uuid, EventId>,
    new: HashSet<EventId>,
}

impl Stored {
    fn first_of(&self, items: &[NewEvent], fold: &Fold, index: usize) -> Option<EventId> {
        let own = items[index].event.id;
        let known = items[index].dedup.iter().find_map(|key| self.known.get(&key_uuid(key)));
        let leader = fold.follows.get(&index).map_or(own, |leader| items[*leader].event.id);
        // None: the one it follows is itself a duplicate, or another node took the key just now. The
        // next round sees more.
        known.copied().or_else(|| self.new.contains(&leader).then_some(leader))
    }
}

fn key_uuid(key: &DedupKey) -> Uuid {
    Uuid::from_bytes(key.0)
}

/// The look-up only answers duplicates and spares their rows: the unique index is the arbiter. Keys are
/// taken in their order, since two batches that take them in different orders can deadlock. An event that
/// got only some of its keys makes the statement fail and leave nothing; run again, it sees the other's.
const INSERT: &str = "
WITH clock AS MATERIALIZED (
  SELECT wakepost_now() AS now
), key AS MATERIALIZED (
  SELECT * FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::bigint[])
    AS k (key, tenant, event_id, expires_at)
), known AS MATERIALIZED (
  SELECT k.key, k.event_id, d.event_id AS first
  FROM key k JOIN dedup_keys d ON d.key = k.key AND d.expires_at > (SELECT now FROM clock)
), taken AS (
  INSERT INTO dedup_keys AS d (key, tenant, event_id, expires_at)
  SELECT key, tenant, event_id, expires_at FROM key
  WHERE event_id IS NOT NULL
    AND event_id NOT IN (SELECT event_id FROM known WHERE event_id IS NOT NULL)
  ORDER BY key
  ON CONFLICT (key) DO UPDATE SET tenant = excluded.tenant, event_id = excluded.event_id,
                                  expires_at = excluded.expires_at
    WHERE d.expires_at <= wakepost_now()
  RETURNING key, event_id
), missed AS MATERIALIZED (
  SELECT event_id FROM key
  WHERE event_id IS NOT NULL AND key NOT IN (SELECT key FROM taken)
), item AS MATERIALIZED (
  SELECT *
  FROM unnest($5::uuid[], $6::int[], $7::uuid[], $8::text[], $9::text[], $10::smallint[],
              $11::boolean[], $12::text[], $13::bigint[], $14::bytea[], $15::text[], $16::int[],
              $17::bytea[], $18::bigint[], $19::int[], $20::uuid[], $21::smallint[],
              $22::bigint[], $23::text[])
    AS i (id, tenant, source, type, dedup_key, route, verified, subject, occurred_at, payload_hash,
          remote_addr, latency_us, content, lane, max_attempts, body_id, part, signature,
          thread)
  WHERE id NOT IN (SELECT event_id FROM missed)
), event AS (
  INSERT INTO events (tenant, id, source, type, dedup_key, route, verified, subject, occurred_at,
                      payload_hash, duplicates, remote_addr, latency_us, body_id, part,
                      signature, thread)
  SELECT tenant, id, source, type, dedup_key, route, verified, subject, occurred_at, payload_hash, 0,
         remote_addr, latency_us, body_id, part, signature, thread
  FROM item
), body AS (
  INSERT INTO bodies (id, tenant, content)
  SELECT id, tenant, content FROM item WHERE content IS NOT NULL
), job AS (
  INSERT INTO work (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence, event_id,
                    scope, subject)
  SELECT tenant, id, 0, lane, 0, (SELECT now FROM clock), 0, max_attempts, 0, id, id, subject
  FROM item WHERE lane IS NOT NULL
)
SELECT id, NULL::uuid FROM item
UNION ALL
SELECT key, first FROM known
UNION ALL
SELECT event_id, NULL FROM taken
WHERE CASE WHEN event_id IN (SELECT event_id FROM missed) THEN wakepost_conflict() ELSE false END";

async fn insert(
    client: &impl GenericClient,
    items: &[NewEvent],
    fold: &Fold,
) -> std::result::Result<Stored, Fault> {
    let owned = fold.owners.iter().map(|(key, owner)| (key, owner.map(|index| &items[index])));
    let (mut keys, mut key_tenants, mut key_events, mut expires) = (vec![], vec![], vec![], vec![]);
    for (key, owner) in owned {
        keys.push(key_uuid(key));
        key_tenants.push(owner.map(|new| new.event.tenant.0));
        key_events.push(owner.map(|new| uuid(new.event.id.0)));
        expires.push(owner.map(|new| new.dedup_until.as_millis()));
    }
    let new: Vec<&NewEvent> = fold.leaders.iter().map(|index| &items[*index]).collect();
    macro_rules! column {
        ($one:ident => $of:expr) => {
            new.iter().map(|$one| $of).collect::<Vec<_>>()
        };
    }
    let rows = query(
        client,
        INSERT,
        &[
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
        ],
    )
    .await?;
    let mut stored = Stored { known: HashMap::new(), new: HashSet::new() };
    for row in &rows {
        let subject: Uuid = get(row, 0)?;
        match get::<Option<Uuid>>(row, 1)? {
            Some(first) => {
                stored.known.insert(subject, EventId(ulid(first)));
            }
            None => {
                stored.new.insert(EventId(ulid(subject)));
            }
        }
    }
    Ok(stored)
}
