//! Receipts: repeats are counted and a few kept, rejections kept and trimmed.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deadpool_postgres::GenericClient;
use uuid::Uuid;
use wakepost_domain::receipt::Verdict;
use wakepost_domain::{EventId, limits};

use super::fault::Fault;
use super::rows::{execute, get, opt_text, query, text, ulid, uuid};
use crate::error::Result;
use crate::moves::{NewEvent, NewReceipt};

/// The receipts of an event's repeats stand side by side, from `at` on, and as many are kept as there is
/// room for. Events come, and are locked, in their order.
const COUNT: &str = "
WITH counted AS (
  UPDATE events e SET duplicates = e.duplicates + f.repeats
  FROM unnest($1::int[], $2::uuid[], $3::int[], $4::int[]) AS f (tenant, id, repeats, at)
  WHERE e.tenant = f.tenant AND e.id = f.id
  RETURNING e.tenant, e.id, e.route, f.at,
            least(f.repeats, $10::int - (e.duplicates - f.repeats)) AS room
), kept AS (
  INSERT INTO receipts (id, tenant, source, event_id, remote_addr, verdict, latency_us, detail,
                        evidence)
  SELECT ($5::uuid[])[n], c.tenant, ($6::uuid[])[n], c.id, ($7::text[])[n], $11::smallint,
         ($8::int[])[n], ($9::text[])[n], ($12::text[])[n]
  FROM counted c CROSS JOIN LATERAL generate_series(c.at, c.at + c.room - 1) AS s (n)
  ON CONFLICT (id) DO NOTHING
)
SELECT id, route FROM counted";

/// As [`COUNT`], for a batch of which nothing is new: the look-up and the count in one statement. If anything in it
/// may be new after all, it only looks up. An item may be, whose first known key is past its time.
const COUNT_KNOWN: &str = "
WITH known AS MATERIALIZED (
  SELECT DISTINCT ON (k.item) k.item, d.tenant, d.event_id AS first, d.expires_at > wakepost_now() AS blocks
  FROM unnest($1::uuid[], $2::int[]) WITH ORDINALITY AS k (key, item, place)
  JOIN dedup_keys d ON d.key = k.key
  ORDER BY k.item, k.place
), every AS MATERIALIZED (
  SELECT count(*) = cardinality($3::uuid[]) AS is_known FROM known WHERE blocks AND first <> ($3::uuid[])[item]
), repeated AS MATERIALIZED (
  SELECT tenant, first, count(*)::int AS repeats FROM known
  WHERE (SELECT is_known FROM every) GROUP BY tenant, first ORDER BY tenant, first
), counted AS (
  UPDATE events e SET duplicates = e.duplicates + r.repeats FROM repeated r
  WHERE e.tenant = r.tenant AND e.id = r.first
  RETURNING e.id, e.route, $9::int - (e.duplicates - r.repeats) AS room
), kept AS (
  INSERT INTO receipts (id, tenant, source, event_id, remote_addr, verdict, latency_us, detail,
                        evidence)
  SELECT ($4::uuid[])[k.item], k.tenant, ($5::uuid[])[k.item], k.first, ($6::text[])[k.item],
         $10::smallint, ($7::int[])[k.item], ($8::text[])[k.item], ($11::text[])[k.item]
  FROM (SELECT *, row_number() OVER (PARTITION BY first ORDER BY item) AS nth FROM known) k
  JOIN counted c ON c.id = k.first AND k.nth <= c.room
  ON CONFLICT (id) DO NOTHING
)
SELECT k.item, k.first, c.route, every.is_known
FROM every CROSS JOIN known k LEFT JOIN counted c ON c.id = k.first WHERE k.blocks";

/// What is known of a batch before anything is stored.
pub struct Known {
    /// Which event is the first of each item's kind, where that was there before.
    pub firsts: Vec<Option<EventId>>,
    /// The firsts' routes, if every item is a repeat and all of them were counted.
    pub counted: Option<HashMap<EventId, i16>>,
}

/// Looks a batch up, and counts its repeats if it has nothing else.
pub async fn count_known(
    client: &impl GenericClient,
    items: &[&NewEvent],
) -> std::result::Result<Known, Fault> {
    let (mut keys, mut places) = (vec![], vec![]);
    for (item, place) in items.iter().zip(1i32..) {
        keys.extend(item.dedup.iter().map(|key| Uuid::from_bytes(key.0)));
        places.resize(keys.len(), place);
    }
    macro_rules! column {
        ($one:ident => $of:expr) => {
            items.iter().map(|$one| $of).collect::<Vec<_>>()
        };
    }
    let rows = query(
        client,
        COUNT_KNOWN,
        &[
            &keys,
            &places,
            &column!(new => uuid(new.event.id.0)),
            &column!(new => uuid(new.receipt.id.0)),
            &column!(new => uuid(new.receipt.source.0)),
            &column!(new => opt_text(&new.receipt.remote_addr)),
            &column!(new => new.receipt.latency_us),
            &column!(new => opt_text(&new.receipt.detail)),
            &limits::DUPLICATE_RECEIPTS_KEPT,
            &(Verdict::Duplicate as i16),
            &column!(new => text(&new.evidence()).into_owned()),
        ],
    )
    .await?;
    let mut known = Known { firsts: vec![None; items.len()], counted: None };
    for row in &rows {
        let first = EventId(ulid(get(row, 1)?));
        let place: i32 = get(row, 0)?;
        if let Some(known) = known.firsts.get_mut(place as usize - 1) {
            *known = Some(first);
        }
        if get(row, 3)? {
            let routes = known.counted.get_or_insert_default();
            routes.extend(get::<Option<i16>>(row, 2)?.map(|route| (first, route)));
        }
    }
    Ok(known)
}

/// Counts repeats, keeps their receipts if not too many are kept, and answers the firsts' routes.
pub async fn count_repeats(
    client: &impl GenericClient,
    repeats: &[(&NewEvent, EventId)],
) -> std::result::Result<HashMap<EventId, i16>, Fault> {
    let mut by_first: BTreeMap<EventId, Vec<&NewEvent>> = BTreeMap::new();
    for (new, first) in repeats {
        by_first.entry(*first).or_default().push(new);
    }
    let (mut tenants, mut firsts, mut counts, mut at) = (vec![], vec![], vec![], vec![]);
    let (mut receipts, mut evidence): (Vec<&NewReceipt>, Vec<String>) = (vec![], vec![]);
    for (first, copies) in &by_first {
        tenants.push(copies[0].event.tenant.0);
        firsts.push(uuid(first.0));
        counts.push(copies.len() as i32);
        // SQL counts from 1. No more of an event's receipts than could be kept.
        at.push(receipts.len() as i32 + 1);
        let most = limits::DUPLICATE_RECEIPTS_KEPT as usize;
        receipts.extend(copies.iter().take(most).map(|new| &new.receipt));
        let shown = copies.iter().take(most).map(|new| text(&new.evidence()).into_owned());
        evidence.extend(shown);
    }
    macro_rules! column {
        ($receipt:ident => $of:expr) => {
            receipts.iter().map(|$receipt| $of).collect::<Vec<_>>()
        };
    }
    let rows = query(
        client,
        COUNT,
        &[
            &tenants,
            &firsts,
            &counts,
            &at,
            &column!(receipt => uuid(receipt.id.0)),
            &column!(receipt => uuid(receipt.source.0)),
            &column!(receipt => opt_text(&receipt.remote_addr)),
            &column!(receipt => receipt.latency_us),
            &column!(receipt => opt_text(&receipt.detail)),
            &limits::DUPLICATE_RECEIPTS_KEPT,
            &(Verdict::Duplicate as i16),
            &evidence,
        ],
    )
    .await?;
    let mut routes = HashMap::new();
    for row in &rows {
        routes.insert(EventId(ulid(get(row, 0)?)), get(row, 1)?);
    }
    Ok(routes)
}

pub async fn insert_rejections(client: &impl GenericClient, batch: &[NewReceipt]) -> Result<()> {
    macro_rules! column {
        ($one:ident => $of:expr) => {
            batch.iter().map(|$one| $of).collect::<Vec<_>>()
        };
    }
    execute(
        client,
        "INSERT INTO receipts (id, tenant, source, remote_addr, verdict, latency_us, detail)
         SELECT * FROM unnest($1::uuid[], $2::int[], $3::uuid[], $4::text[], $5::smallint[],
                              $6::int[], $7::text[])
         ON CONFLICT (id) DO NOTHING",
        &[
            &column!(new => uuid(new.id.0)),
            &column!(new => new.tenant.0),
            &column!(new => uuid(new.source.0)),
            &column!(new => opt_text(&new.remote_addr)),
            &column!(new => new.verdict as i16),
            &column!(new => new.latency_us),
            &column!(new => opt_text(&new.detail)),
        ],
    )
    .await?;
    Ok(())
}

/// Keeps the latest rejections of each source, so that a flood of them cannot grow the database. What
/// another node is trimming just now is left to it.
pub async fn trim_rejections(client: &impl GenericClient, batch: &[NewReceipt]) -> Result<()> {
    let sources: BTreeSet<_> = batch.iter().map(|new| uuid(new.source.0)).collect();
    execute(
        client,
        "DELETE FROM receipts WHERE id IN (
           SELECT r.id FROM unnest($1::uuid[]) AS s (source) CROSS JOIN LATERAL (
             SELECT id FROM receipts
             WHERE source = s.source AND event_id IS NULL
             ORDER BY id DESC OFFSET $2::bigint FOR UPDATE SKIP LOCKED) r)",
        &[&sources.into_iter().collect::<Vec<_>>(), &limits::REJECTIONS_KEPT],
    )
    .await?;
    Ok(())
}
