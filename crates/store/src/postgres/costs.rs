//! What runs cost. A run tells its total so far: the last word counts.

/// Parts of a statement that note what runs cost so far, for them and for the budgets of the days they began on.
/// `$rows` is what they are of: locked items, with `cost` where a run told it. `$after` holds once the counters that
/// the statement changes are locked: budgets are locked after them, everywhere. How much more a run costs than before is
/// known from the row that is written: what the statement itself sees of it may be from before it waited for the item.
macro_rules! told {
    ($rows:literal, $after:literal) => {
        concat!(
            "told AS MATERIALIZED (
  SELECT r.id, r.tenant, r.fence, r.cost,
         CASE WHEN r.caps IS NOT NULL THEN (SELECT l.origin FROM lanes l WHERE l.id = r.lane) END AS source,
         r.started_at / 86400000 AS day
  FROM ", $rows, " r WHERE r.cost IS NOT NULL
), priced AS (
  INSERT INTO costs (work_id, fence, tenant, cost) SELECT id, fence, tenant, cost FROM told
  ON CONFLICT (work_id, fence) DO UPDATE SET before = costs.cost, cost = excluded.cost
  RETURNING work_id, fence, cost - before AS more
), charged AS MATERIALIZED (
  SELECT b.source, b.day, t.more
  FROM (SELECT t.source, t.day, sum(p.more) AS more
        FROM told t JOIN priced p ON p.work_id = t.id AND p.fence = t.fence
        WHERE t.source IS NOT NULL GROUP BY t.source, t.day) t
  JOIN budgets b ON b.source = t.source AND b.day = t.day
  WHERE ", $after, "
  ORDER BY b.source, b.day FOR UPDATE OF b
), paid AS (
  UPDATE budgets b SET cost = b.cost + c.more FROM charged c WHERE b.source = c.source AND b.day = c.day
)"
        )
    };
}

/// What all runs of an item cost, now that the row `$row` tells what its latest one does; null if it does not.
macro_rules! total_cost {
    ($row:literal) => {
        concat!(
            $row,
            ".cost + coalesce((SELECT sum(c.cost) FROM costs c
                    WHERE c.work_id = ",
            $row,
            ".id AND c.fence <> ",
            $row,
            ".fence), 0)"
        )
    };
}

pub(super) use {told, total_cost};
