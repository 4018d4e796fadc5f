//! Received events whose jobs have to do with others: they join one, supersede some, wait for one, or stand behind
//! them.
//!
//! Differs from SQLite: two nodes may do so at once. Whoever does holds the lock of the order key, or of what
//! coalesces, taken by a statement of its own, so that the next statement sees what the one before it left.

use std::collections::HashMap;

use deadpool_postgres::{GenericClient, Transaction};
use uuid::Uuid;
use wakepost_domain::event::Route;
use wakepost_domain::lane::LaneId;
use wakepost_domain::{EventId, Timestamp, WorkId};

use super::coalescing::{orders_of_waiting, supersede};
use super::conversing::{self, Talk};
use super::ordering::{key_uuid, lock_keys};
use super::rows::{code, execute, id, query, query_opt, time, uuid};
use super::sequencing;
use super::work::{find, insert, insert_at};
use crate::error::Result;
use crate::moves::{Accepted, NewEvent, NewJob, NewWork, Spot};

/// An event that is new, and its job.
pub type Fresh<'a> = (&'a NewEvent, &'a NewJob);

/// Finds each event's place, in their order, and makes the jobs of those that are to have one of their own.
pub async fn place(tx: &Transaction<'_>, fresh: &[Fresh<'_>]) -> Result<Vec<Accepted>> {
    let orders = orders(tx, fresh.iter().map(|(_, job)| *job)).await?;
    lock_keys(tx, &orders).await?;
    if fresh.iter().all(|(_, job)| job.is_only_ordered()) {
        let items: Vec<NewWork> = fresh.iter().map(|(new, job)| new.placed_work(job)).collect();
        insert(tx, &items.iter().collect::<Vec<_>>()).await?;
        return Ok(vec![Accepted::New; fresh.len()]);
    }
    let now = now(tx).await?;
    let mut placed = Vec::with_capacity(fresh.len());
    for (new, job) in fresh {
        placed.push(place_one(tx, now, new, job).await?);
    }
    route(tx, fresh, &placed).await?;
    Ok(placed)
}

/// Locks what jobs coalesce by, and answers every order key that is touched then: their own, and those of what they
/// may supersede. The caller locks these, all at once: two that take them in different orders can deadlock.
pub async fn orders<'a>(
    tx: &Transaction<'_>,
    jobs: impl Iterator<Item = &'a NewJob> + Clone,
) -> Result<Vec<Uuid>> {
    let coalesce = jobs.clone().filter_map(|job| job.coalesce);
    let coalesce: Vec<Uuid> = coalesce.map(|key| Uuid::from_bytes(key.0)).collect();
    let mut orders: Vec<Uuid> = jobs.filter_map(|job| job.order_key()).map(key_uuid).collect();
    if !coalesce.is_empty() {
        lock_keys(tx, &coalesce).await?;
        orders.extend(orders_of_waiting(tx, &coalesce).await?);
    }
    Ok(orders)
}

async fn now(tx: &Transaction<'_>) -> Result<Timestamp> {
    time(&tx.query_one("SELECT wakepost_now()", &[]).await?, 0)
}

async fn place_one(
    tx: &Transaction<'_>,
    now: Timestamp,
    new: &NewEvent,
    job: &NewJob,
) -> Result<Accepted> {
    let mut item = new.placed_work(job);
    let mut spot = Spot { coalesce: job.coalesce, ..Spot::USUAL };
    if let Some(thread) = &job.thread {
        match conversing::talk(tx, now, new, thread).await? {
            Talk::Settled(accepted) => return Ok(accepted),
            Talk::Own => {}
        }
        if thread.policy.gathers() {
            let until = now.after(thread.quiet.cap);
            spot.gathers_until = Some(until);
            // Whether it waits at all is decided by this moment, not by that of the statement which makes the item.
            item.run_at = Some(thread.quiet.run_at(now, until)).filter(|at| *at > now);
        }
    }
    let next = supersede(tx, job.coalesce, &item).await?;
    if let Some(order) = &job.order
        && let Some(sequence) = &order.sequence
    {
        sequencing::stand(tx, now, order.key, sequence, &mut item).await?;
        spot.number = sequence.number;
    }
    insert_at(tx, &[(&item, spot)]).await?;
    Ok(next.map_or(Accepted::New, Accepted::NewBefore))
}

/// Differs from SQLite: the events are there already, as those of jobs of their own.
async fn route(tx: &Transaction<'_>, fresh: &[Fresh<'_>], placed: &[Accepted]) -> Result<()> {
    let (mut tenants, mut ids, mut routes) = (vec![], vec![], vec![]);
    for ((new, _), placed) in fresh.iter().zip(placed) {
        let route = placed.route(new.event.route);
        if route != new.event.route {
            tenants.push(new.event.tenant.0);
            ids.push(uuid(new.event.id.0));
            routes.push(route as i16);
        }
    }
    if !ids.is_empty() {
        execute(
            tx,
            "UPDATE events e SET route = r.route
             FROM unnest($1::int[], $2::uuid[], $3::smallint[]) AS r (tenant, id, route)
             WHERE e.tenant = r.tenant AND e.id = r.id",
            &[&tenants, &ids, &routes],
        )
        .await?;
    }
    Ok(())
}

/// What became of an event whose commit arrived although it was reported as failed.
pub async fn placed_before(tx: &Transaction<'_>, new: &NewEvent) -> Result<Accepted> {
    let row = query_opt(
        tx,
        "SELECT route FROM events WHERE tenant = $1::int AND id = $2::uuid",
        &[&new.event.tenant.0, &uuid(new.event.id.0)],
    )
    .await?;
    match row.map(|row| code(&row, 0, Route::from_code)).transpose()? {
        Some(Route::Ignored) if new.event.route == Route::Job => Ok(Accepted::Ignored),
        Some(Route::Joined) => {
            let works = joined_works(tx, &[new.event.id]).await?;
            let row = match works.get(&new.event.id) {
                Some(work) => find(tx, new.event.tenant, *work).await?,
                None => None,
            };
            let joined =
                |(work, lane): (WorkId, LaneId)| Accepted::Joined { work, lane, freed_cap: false };
            Ok(row.map(|row| (row.id, row.lane)).map_or(Accepted::New, joined))
        }
        _ => Ok(Accepted::New),
    }
}

/// The item that each event joined first; later ones are replays of it.
pub async fn joined_works(
    on: &impl GenericClient,
    events: &[EventId],
) -> Result<HashMap<EventId, WorkId>> {
    if events.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = query(
        on,
        "SELECT e.id, j.work_id FROM unnest($1::uuid[]) AS e (id) CROSS JOIN LATERAL (
           SELECT work_id FROM joined WHERE event_id = e.id ORDER BY work_id LIMIT 1) j",
        &[&events.iter().map(|event| uuid(event.0)).collect::<Vec<_>>()],
    )
    .await?;
    rows.iter().map(|row| Ok((EventId(id(row, 0)?), WorkId(id(row, 1)?)))).collect()
}
