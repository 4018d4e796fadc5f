//! Publishing: events with their dedup keys and deliveries, in one statement.
//!
//! A single event shares its statement with those of other callers, each of which is answered for itself. A call of
//! several has a statement of its own that stores all or nothing. Where something was there before, goes in order, or is
//! noted in the audit trail, there is a transaction.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::{Client, GenericClient, Transaction};
use uuid::Uuid;
use wakepost_domain::EventId;

use super::accept::{Fold, TRIES, Way, content_bytes, insert, look_up, store};
use super::batch::Verb;
use super::fault::Fault;
use super::ordering::lock_new;
use super::rows::{audit, bytes, execute, id, query, uuid};
use super::{Postgres, after_commit, before_commit, commit, work};
use crate::error::{Result, StoreError};
use crate::failpoint;
use crate::moves::{Accepted, AuditEntry, HandedDown, NewDelivery, NewEvent, NewWork};

impl Postgres {
    pub(super) async fn publish_events(
        &self,
        events: Vec<NewEvent>,
        entry: Option<AuditEntry>,
    ) -> Result<Vec<Accepted>> {
        if entry.is_none() && events.len() <= 1 && !events.iter().any(is_ordered) {
            return self.inner.publishes.submit(events).await.into_iter().collect();
        }
        let _place = self.inner.admission.enter(events.iter().map(content_bytes).sum())?;
        for _ in 1..TRIES {
            match together(&mut self.hot().await?, &events, entry.as_ref()).await {
                Err(Fault::Again(_) | Fault::Down(StoreError::Busy)) => {}
                done => return Ok(done?),
            }
        }
        Ok(together(&mut self.hot().await?, &events, entry.as_ref()).await?)
    }
}

/// The verb behind the publishing of single events.
pub struct Publish;

impl Verb for Publish {
    type Item = NewEvent;
    type Answer = Accepted;

    fn bytes(item: &NewEvent) -> usize {
        content_bytes(item)
    }

    async fn run(
        &self,
        client: &mut Client,
        items: &[NewEvent],
    ) -> std::result::Result<Vec<Result<Accepted>>, Fault> {
        let items: Vec<&NewEvent> = items.iter().collect();
        let firsts = match store(&*client, &items, vec![None; items.len()], Way::Alone).await {
            // It may be there already: the batcher has found out whose fault it is.
            Err(Fault::Row(_)) if items.len() == 1 => {
                return Ok(alone(client, &items, None).await?.into_iter().map(Ok).collect());
            }
            stored => stored?,
        };
        let answers = judge(&*client, &items, &firsts).await?;
        count(&*client, &items, &answers).await?;
        // In its own call it is the first.
        let own = |error| match error {
            StoreError::Mismatch(_) => StoreError::Mismatch(0),
            other => other,
        };
        Ok(answers.into_iter().map(|answer| answer.map_err(own)).collect())
    }
}

/// All events of one call, or none.
async fn together(
    client: &mut Client,
    events: &[NewEvent],
    entry: Option<&AuditEntry>,
) -> std::result::Result<Vec<Accepted>, Fault> {
    let items: Vec<&NewEvent> = events.iter().collect();
    let fold = Fold::of(&items, &(0..items.len()).collect::<Vec<_>>());
    if entry.is_none() && !fold.has_copies() && !events.iter().any(is_ordered) {
        before_commit().await?;
        match insert(&*client, &items, &fold, Way::Whole).await {
            Ok(round) if round.new.len() == items.len() => {
                after_commit().await?;
                return Ok(vec![Accepted::New; items.len()]);
            }
            // Something was there before, and nothing was stored.
            Ok(_) | Err(Fault::Row(_)) => {}
            Err(fault) => return Err(fault),
        }
    }
    alone(client, &items, entry).await
}

/// The same in a transaction.
async fn alone(
    client: &mut Client,
    items: &[&NewEvent],
    entry: Option<&AuditEntry>,
) -> std::result::Result<Vec<Accepted>, Fault> {
    let tx = client.transaction().await?;
    let mut known = look_up(&tx, items).await?.known;
    find_stored(&tx, items, &mut known).await?;
    let firsts = store(&tx, items, known.clone(), Way::Alone).await?;
    let answers = judge(&tx, items, &firsts).await?;
    // The first that says something else ends it, and nothing is kept.
    let refused = answers.iter().find_map(|answer| answer.as_ref().err());
    if let Some(error) = refused {
        return Err(error.clone().into());
    }
    count(&tx, items, &answers).await?;
    let made = items.iter().zip(known).zip(&firsts);
    // Known under its own id: the commit of an earlier try arrived, with its deliveries and its entry.
    let made =
        made.filter(|((new, known), first)| known.is_none() && **first == Some(new.event.id));
    let made: Vec<&NewEvent> = made.map(|((new, _), _)| *new).collect();
    put_in_order(&tx, &made).await?;
    if let Some(entry) = entry.filter(|_| !made.is_empty()) {
        audit(&tx, entry).await?;
    }
    commit(tx).await?;
    Ok(answers.into_iter().flatten().collect())
}

/// An earlier try that arrived although it was reported as failed, and that no key tells of, is known by its id alone.
async fn find_stored(
    tx: &Transaction<'_>,
    items: &[&NewEvent],
    known: &mut [Option<EventId>],
) -> std::result::Result<(), Fault> {
    let rows = query(
        tx,
        "SELECT e.id FROM unnest($1::int[], $2::uuid[]) AS i (tenant, id) CROSS JOIN LATERAL (
           SELECT id FROM events WHERE tenant = i.tenant AND id = i.id OFFSET 0) e",
        &[
            &items.iter().map(|new| new.event.tenant.0).collect::<Vec<_>>(),
            &items.iter().map(|new| uuid(new.event.id.0)).collect::<Vec<_>>(),
        ],
    )
    .await?;
    for row in &rows {
        let stored = EventId(id(row, 0)?);
        for (known, _) in known.iter_mut().zip(items).filter(|(_, new)| new.event.id == stored) {
            known.get_or_insert(stored);
        }
    }
    Ok(())
}

/// What each event is answered, given the first of its kind. What a first said is not known once it is gone.
async fn judge(
    client: &impl GenericClient,
    items: &[&NewEvent],
    firsts: &[Option<EventId>],
) -> std::result::Result<Vec<Result<Accepted>>, Fault> {
    let mut tenants: BTreeMap<EventId, i32> = BTreeMap::new();
    for (new, first) in items.iter().zip(firsts) {
        tenants.extend(
            first.filter(|first| *first != new.event.id).map(|id| (id, new.event.tenant.0)),
        );
    }
    let said = match tenants.is_empty() {
        true => HashMap::new(),
        false => said(client, &tenants).await?,
    };
    let judged = items.iter().zip(firsts).enumerate().map(|(index, (new, first))| match *first {
        // Nothing of a publication is left out.
        None => Err(StoreError::Busy),
        Some(first) if first == new.event.id => Ok(Accepted::New),
        Some(of) => match said.get(&of).is_none_or(|said| *said == new.event.payload_hash) {
            true => Ok(Accepted::Duplicate { of, job: None }),
            false => Err(StoreError::Mismatch(index)),
        },
    });
    Ok(judged.collect())
}

async fn said(
    client: &impl GenericClient,
    tenants: &BTreeMap<EventId, i32>,
) -> std::result::Result<HashMap<EventId, [u8; 32]>, Fault> {
    failpoint::pass_async("accept.on_conflict").await?;
    let rows = query(
        client,
        "SELECT e.id, e.payload_hash FROM unnest($1::int[], $2::uuid[]) AS f (tenant, id)
         CROSS JOIN LATERAL (
           SELECT id, payload_hash FROM events WHERE tenant = f.tenant AND id = f.id OFFSET 0) e",
        &[
            &tenants.values().copied().collect::<Vec<_>>(),
            &tenants.keys().map(|id| uuid(id.0)).collect::<Vec<_>>(),
        ],
    )
    .await?;
    let said = rows.iter().map(|row| Ok((EventId(id(row, 0)?), bytes(row, 1)?)));
    Ok(said.collect::<Result<_>>()?)
}

/// Counts repeats. Events come, and are locked, in their order.
async fn count(
    client: &impl GenericClient,
    items: &[&NewEvent],
    answers: &[Result<Accepted>],
) -> std::result::Result<(), Fault> {
    let mut repeats: BTreeMap<(i32, Uuid), i32> = BTreeMap::new();
    for (new, answer) in items.iter().zip(answers) {
        if let Ok(Accepted::Duplicate { of, .. }) = answer {
            *repeats.entry((new.event.tenant.0, uuid(of.0))).or_default() += 1;
        }
    }
    if repeats.is_empty() {
        return Ok(());
    }
    let (tenants, firsts): (Vec<i32>, Vec<Uuid>) = repeats.keys().copied().unzip();
    execute(
        client,
        "UPDATE events e SET duplicates = e.duplicates + f.repeats
         FROM unnest($1::int[], $2::uuid[], $3::int[]) AS f (tenant, id, repeats)
         WHERE e.tenant = f.tenant AND e.id = f.id",
        &[&tenants, &firsts, &repeats.values().copied().collect::<Vec<_>>()],
    )
    .await?;
    Ok(())
}

/// Makes the deliveries of new events that go in order with others. All that do not are there already.
async fn put_in_order(tx: &Transaction<'_>, new: &[&NewEvent]) -> Result<()> {
    let ordered: Vec<NewWork> =
        new.iter().flat_map(|new| deliveries(new, |one| one.order.is_some())).collect();
    if ordered.is_empty() {
        return Ok(());
    }
    // Differs from SQLite: one statement makes all the others, so the middle of a fan-out is after it.
    failpoint::pass_async("publish.mid_fan_out").await?;
    let ordered: Vec<&NewWork> = ordered.iter().collect();
    lock_new(tx, &ordered).await?;
    work::insert(tx, &ordered).await
}

/// The deliveries that have to do with no other, as they lie in their indexes.
pub fn plain_deliveries(events: &[&NewEvent]) -> Vec<NewWork> {
    let plain = events.iter().flat_map(|new| deliveries(new, |one| one.order.is_none()));
    let mut plain: Vec<NewWork> = plain.collect();
    plain.sort_unstable_by_key(|work| (work.lane, work.id));
    plain
}

fn deliveries<'a>(
    new: &'a NewEvent,
    which: fn(&NewDelivery) -> bool,
) -> impl Iterator<Item = NewWork> + 'a {
    let event = &new.event;
    let those = new.deliveries.iter().filter(move |one| which(one));
    those.map(|one| one.work(event.tenant, event.id, HandedDown::by(event)))
}

fn is_ordered(new: &NewEvent) -> bool {
    new.deliveries.iter().any(|delivery| delivery.order.is_some())
}
