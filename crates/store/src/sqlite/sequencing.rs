//! Numbers within an order key: a gap makes the later ones wait for the earlier.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::sequence::{LATE, NO_NUMBER, Numbers, OUT_OF_ORDER, REMEMBERED_FOR, Turn};
use wakepost_domain::{TenantId, Timestamp, WorkId};

use super::rows::{Bits, meta, meta_text, time};
use crate::moves::{NewSequence, NewWork, OrderKey};

/// How many waiting items are looked at in one go.
const LOOK: i64 = 500;

/// Gives a new item its place by its number: when it may run, its flags, and before whom it stands. Lets those go
/// that waited for it.
pub fn stand(
    tx: &Connection,
    now: Timestamp,
    key: OrderKey,
    sequence: &NewSequence,
    item: &mut NewWork,
) -> rusqlite::Result<()> {
    let number = sequence.number;
    let first = first(tx, key)?;
    let numbers = numbers(tx, now, key, first.as_ref())?;
    let mut next = numbers.expected();
    match numbers.turn(number) {
        Turn::Now => next = Some(follow(tx, now, key, number, now)?),
        Turn::Early => {
            let run_at = wait(tx, now, key, sequence, item)?;
            item.run_at = Some(run_at);
            follow(tx, now, key, number, run_at)?;
        }
        Turn::Before => {}
        Turn::Late => item.meta.flags.push(LATE.to_owned()),
    }
    if let Some(first) = first.filter(|first| first.steps_back(number)) {
        tx.prepare_cached("UPDATE work SET behind = 1 WHERE tenant = ?1 AND id = ?2")?
            .execute((item.tenant.0, Bits(first.id.to_bytes())))?;
    }
    remember(tx, now, item.tenant, key, next.unwrap_or(number))
}

/// The first item of a key.
struct First {
    id: WorkId,
    number: i64,
    was_claimed: bool,
    waits: bool,
}

impl First {
    /// Whether one with this number runs before it. What has no number keeps the place it got.
    fn steps_back(&self, number: i64) -> bool {
        self.waits && !self.was_claimed && self.number != NO_NUMBER && number < self.number
    }
}

fn first(tx: &Connection, key: OrderKey) -> rusqlite::Result<Option<First>> {
    tx.prepare_cached(
        "SELECT id, place, fence > 0, state <= 1 FROM work WHERE order_key = ?1 AND behind = 0",
    )?
    .query_row([Bits(key.0)], |row| {
        Ok(First {
            id: WorkId::from_bytes(row.get::<_, Bits>(0)?.0),
            number: row.get(1)?,
            was_claimed: row.get(2)?,
            waits: row.get(3)?,
        })
    })
    .optional()
}

/// What is known of the key's numbers. What runs now is told by the item itself.
fn numbers(
    tx: &Connection,
    now: Timestamp,
    key: OrderKey,
    first: Option<&First>,
) -> rusqlite::Result<Numbers> {
    let kept: Option<(i64, Option<i64>)> = tx
        .prepare_cached("SELECT next, begun FROM sequences WHERE key = ?1 AND expires_at > ?2")?
        .query_row((Bits(key.0), now.as_millis()), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let runs = first.filter(|first| first.was_claimed && first.number != NO_NUMBER);
    let begun = kept.and_then(|(_, begun)| begun).max(runs.map(|first| first.number));
    Ok(Numbers { next: kept.map(|(next, _)| next), begun })
}

/// Until when an early one waits: for as long as the source says, and never longer than one it runs before, or one
/// it follows without a gap. Only what follows a gap is out of order.
fn wait(
    tx: &Connection,
    now: Timestamp,
    key: OrderKey,
    sequence: &NewSequence,
    item: &mut NewWork,
) -> rusqlite::Result<Timestamp> {
    let waiting = "fence = 0 AND order_key = ?1 AND place <> 9223372036854775807";
    let (sooner, follows): (Option<i64>, bool) = tx
        .prepare_cached(&format!(
            "SELECT min(run_at), coalesce(max(place = ?2 - 1), 0) FROM (
               SELECT run_at, place FROM work WHERE behind = 1 AND {waiting} AND place >= ?2 - 1
               UNION ALL
               SELECT run_at, place FROM work WHERE behind = 0 AND {waiting} AND place >= ?2 - 1)"
        ))?
        .query_row((Bits(key.0), sequence.number), |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !follows {
        item.meta.flags.push(OUT_OF_ORDER.to_owned());
    }
    let own = now.after(sequence.wait);
    Ok(sooner.map_or(own, |sooner| own.min(time(sooner))).max(now))
}

/// Those that follow a number without a gap wait no longer than it does. Answers the first number that is missing.
fn follow(
    tx: &Connection,
    now: Timestamp,
    key: OrderKey,
    number: i64,
    run_at: Timestamp,
) -> rusqlite::Result<i64> {
    let mut expected = number.saturating_add(1);
    loop {
        let waiting = following(tx, key, expected)?;
        let count = waiting.len() as i64;
        for one in waiting {
            if one.number > expected {
                return Ok(expected);
            }
            expected = one.number.saturating_add(1);
            let mut kept = meta(one.meta);
            kept.flags.retain(|flag| flag != OUT_OF_ORDER);
            tx.prepare_cached(
                "UPDATE work SET run_at = min(run_at, ?3), meta = ?4,
                        state = CASE WHEN min(run_at, ?3) <= ?5 THEN 0 ELSE state END
                 WHERE tenant = ?1 AND id = ?2 AND state <= 1",
            )?
            .execute((
                one.tenant.0,
                one.id,
                run_at.as_millis(),
                meta_text(&kept),
                now.as_millis(),
            ))?;
        }
        if count < LOOK {
            return Ok(expected);
        }
    }
}

/// An item that was never claimed, and its number.
struct Following {
    tenant: TenantId,
    id: Bits,
    number: i64,
    meta: Option<String>,
}

fn following(tx: &Connection, key: OrderKey, from: i64) -> rusqlite::Result<Vec<Following>> {
    let waiting = "order_key = ?1 AND fence = 0 AND place >= ?2 AND place <> 9223372036854775807";
    tx.prepare_cached(&format!(
        "SELECT tenant, id, place, meta FROM (
           SELECT tenant, id, place, meta FROM work WHERE behind = 0 AND {waiting}
           UNION ALL
           SELECT tenant, id, place, meta FROM work WHERE behind = 1 AND {waiting})
         ORDER BY place, id LIMIT ?3"
    ))?
    .query_map((Bits(key.0), from, LOOK), |row| {
        Ok(Following {
            tenant: TenantId(row.get(0)?),
            id: row.get(1)?,
            number: row.get(2)?,
            meta: row.get(3)?,
        })
    })?
    .collect()
}

fn remember(
    tx: &Connection,
    now: Timestamp,
    tenant: TenantId,
    key: OrderKey,
    next: i64,
) -> rusqlite::Result<()> {
    tx.prepare_cached(
        "INSERT INTO sequences (key, tenant, next, expires_at) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (key) DO UPDATE SET next = excluded.next, expires_at = excluded.expires_at,
           begun = CASE WHEN expires_at > ?5 THEN begun END",
    )?
    .execute((
        Bits(key.0),
        tenant.0,
        next,
        now.after(REMEMBERED_FOR).as_millis(),
        now.as_millis(),
    ))?;
    Ok(())
}

/// A numbered item was run to its end: what comes with a lower number is late.
pub fn ended(tx: &Connection, key: OrderKey, number: i64) -> rusqlite::Result<()> {
    tx.prepare_cached("UPDATE sequences SET begun = max(coalesce(begun, ?2), ?2) WHERE key = ?1")?
        .execute((Bits(key.0), number))?;
    Ok(())
}
