//! Numbers within an order key: a gap makes the later ones wait for the earlier. Whoever calls holds the key's lock.

use deadpool_postgres::Transaction;
use tokio_postgres::Row;
use uuid::Uuid;
use wakepost_domain::sequence::{LATE, NO_NUMBER, Numbers, OUT_OF_ORDER, REMEMBERED_FOR, Turn};
use wakepost_domain::{TenantId, Timestamp, WorkId};

use super::claim::millis;
use super::ordering::key_uuid;
use super::rows::{execute, get, id, meta, meta_text, opt_time, query, query_opt, uuid};
use crate::error::Result;
use crate::moves::{NewSequence, NewWork, OrderKey};

/// How many waiting items are looked at in one go.
const LOOK: i64 = 500;

/// Gives a new item its place by its number: when it may run, its flags, and before whom it stands. Lets those go
/// that waited for it.
pub async fn stand(
    tx: &Transaction<'_>,
    now: Timestamp,
    key: OrderKey,
    sequence: &NewSequence,
    item: &mut NewWork,
) -> Result<()> {
    let number = sequence.number;
    let first = first(tx, key, number).await?;
    let numbers = numbers(tx, key, first.as_ref()).await?;
    let mut next = numbers.expected();
    match numbers.turn(number) {
        Turn::Now => next = Some(follow(tx, key, number, now).await?),
        Turn::Early => {
            let run_at = wait(tx, now, key, sequence, item).await?;
            item.run_at = Some(run_at);
            follow(tx, key, number, run_at).await?;
        }
        Turn::Before => {}
        Turn::Late => item.meta.flags.push(LATE.to_owned()),
    }
    if let Some(first) = first.filter(|first| first.steps_back(number)) {
        execute(
            tx,
            "UPDATE work SET behind = true WHERE tenant = $1::int AND id = $2::uuid",
            &[&item.tenant.0, &uuid(first.id.0)],
        )
        .await?;
    }
    remember(tx, item.tenant, key, next.unwrap_or(number)).await
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

/// Differs from SQLite: a claim may take it at the same time, so it is locked where it would step back. Only there: a
/// claim walks past what is locked, and nobody would tell its lane.
async fn first(tx: &Transaction<'_>, key: OrderKey, number: i64) -> Result<Option<First>> {
    match first_as(tx, key, "").await? {
        Some(first) if first.steps_back(number) => first_as(tx, key, "FOR UPDATE").await,
        first => Ok(first),
    }
}

async fn first_as(tx: &Transaction<'_>, key: OrderKey, lock: &str) -> Result<Option<First>> {
    let sql = format!(
        "SELECT id, place, fence > 0, state <= 1 FROM work
         WHERE order_key = $1::uuid AND NOT behind {lock}"
    );
    let row = query_opt(tx, &sql, &[&key_uuid(key)]).await?;
    let first = |row: Row| -> Result<First> {
        Ok(First {
            id: WorkId(id(&row, 0)?),
            number: get(&row, 1)?,
            was_claimed: get(&row, 2)?,
            waits: get(&row, 3)?,
        })
    };
    row.map(first).transpose()
}

/// What is known of the key's numbers. What runs now is told by the item itself.
async fn numbers(tx: &Transaction<'_>, key: OrderKey, first: Option<&First>) -> Result<Numbers> {
    let row = query_opt(
        tx,
        "SELECT next, begun FROM sequences WHERE key = $1::uuid AND expires_at > wakepost_now()",
        &[&key_uuid(key)],
    )
    .await?;
    let runs = first.filter(|first| first.was_claimed && first.number != NO_NUMBER);
    let (next, begun) = match &row {
        Some(row) => (Some(get(row, 0)?), get::<Option<i64>>(row, 1)?),
        None => (None, None),
    };
    Ok(Numbers { next, begun: begun.max(runs.map(|first| first.number)) })
}

/// Until when an early one waits: for as long as the source says, and never longer than one it runs before, or one
/// it follows without a gap. Only what follows a gap is out of order.
async fn wait(
    tx: &Transaction<'_>,
    now: Timestamp,
    key: OrderKey,
    sequence: &NewSequence,
    item: &mut NewWork,
) -> Result<Timestamp> {
    let waiting = "fence = 0 AND order_key = $1::uuid AND place <> 9223372036854775807
                   AND place >= $2::bigint - 1";
    let sql = format!(
        "SELECT min(run_at), coalesce(bool_or(place = $2::bigint - 1), false) FROM (
           SELECT run_at, place FROM work WHERE behind AND {waiting}
           UNION ALL
           SELECT run_at, place FROM work WHERE NOT behind AND {waiting}) w"
    );
    let row = query_opt(tx, &sql, &[&key_uuid(key), &sequence.number]).await?;
    let (sooner, follows) = match &row {
        Some(row) => (opt_time(row, 0)?, get(row, 1)?),
        None => (None, false),
    };
    if !follows {
        item.meta.flags.push(OUT_OF_ORDER.to_owned());
    }
    let own = now.after(sequence.wait);
    Ok(sooner.map_or(own, |sooner| own.min(sooner)).max(now))
}

/// Those that follow a number without a gap wait no longer than it does. Answers the first number that is missing.
async fn follow(
    tx: &Transaction<'_>,
    key: OrderKey,
    number: i64,
    run_at: Timestamp,
) -> Result<i64> {
    let mut expected = number.saturating_add(1);
    loop {
        let waiting = following(tx, key, expected).await?;
        let count = waiting.len() as i64;
        for one in waiting {
            if one.number > expected {
                return Ok(expected);
            }
            expected = one.number.saturating_add(1);
            execute(
                tx,
                "UPDATE work SET run_at = least(run_at, $3::bigint), meta = $4::text,
                        state = CASE WHEN least(run_at, $3::bigint) <= wakepost_now() THEN 0 ELSE state END
                 WHERE tenant = $1::int AND id = $2::uuid AND state <= 1",
                &[&one.tenant.0, &one.id, &run_at.as_millis(), &one.meta],
            )
            .await?;
        }
        if count < LOOK {
            return Ok(expected);
        }
    }
}

/// An item that was never claimed, its number, and what it carries once it waits for nothing.
struct Following {
    tenant: TenantId,
    id: Uuid,
    number: i64,
    meta: Option<String>,
}

async fn following(tx: &Transaction<'_>, key: OrderKey, from: i64) -> Result<Vec<Following>> {
    let waiting = "order_key = $1::uuid AND fence = 0 AND place >= $2::bigint
                   AND place <> 9223372036854775807";
    let sql = format!(
        "SELECT tenant, id, place, meta FROM (
           SELECT tenant, id, place, meta FROM work WHERE NOT behind AND {waiting}
           UNION ALL
           SELECT tenant, id, place, meta FROM work WHERE behind AND {waiting}) w
         ORDER BY place, id LIMIT $3::bigint"
    );
    let following = |row: &Row| {
        let mut kept = meta(get(row, 3)?);
        kept.flags.retain(|flag| flag != OUT_OF_ORDER);
        Ok(Following {
            tenant: TenantId(get(row, 0)?),
            id: get(row, 1)?,
            number: get(row, 2)?,
            meta: meta_text(&kept),
        })
    };
    query(tx, &sql, &[&key_uuid(key), &from, &LOOK]).await?.iter().map(following).collect()
}

async fn remember(tx: &Transaction<'_>, tenant: TenantId, key: OrderKey, next: i64) -> Result<()> {
    execute(
        tx,
        "INSERT INTO sequences AS s (key, tenant, next, expires_at)
         VALUES ($1::uuid, $2::int, $3::bigint, wakepost_now() + $4::bigint)
         ON CONFLICT (key) DO UPDATE SET next = excluded.next, expires_at = excluded.expires_at,
           begun = CASE WHEN s.expires_at > wakepost_now() THEN s.begun END",
        &[&key_uuid(key), &tenant.0, &next, &millis(REMEMBERED_FOR)],
    )
    .await?;
    Ok(())
}

/// Numbered items were run to their ends: what comes with a lower number is late.
pub async fn ended(tx: &Transaction<'_>, ended: &[(Uuid, i64)]) -> Result<()> {
    if ended.is_empty() {
        return Ok(());
    }
    let (keys, numbers): (Vec<Uuid>, Vec<i64>) = ended.iter().copied().unzip();
    execute(
        tx,
        "UPDATE sequences s SET begun = greatest(s.begun, e.number)
         FROM unnest($1::uuid[], $2::bigint[]) AS e (key, number) WHERE s.key = e.key",
        &[&keys, &numbers],
    )
    .await?;
    Ok(())
}
