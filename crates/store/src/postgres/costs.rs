//! What runs cost. A run tells its total so far: the last word counts.

/// Parts of a statement that note what runs cost so far, for them and for the budgets of the days they began on.
/// `$rows` is what they are of: locked items, with `cost` where a run told it. `$after` holds once the counters that
/// the statement changes are locked: budgets are locked after them, everywhere.
macro_rules! told {
    ($rows:literal, $after:literal) => {
        concat!(
            "told AS MATERIALIZED (
  SELECT r.id, r.tenant, r.fence, r.cost,
         r.cost - coalesce((SELECT c.cost FROM costs c WHERE c.work_id = r.id AND c.fence = r.fence), 0) AS more,
         CASE WHEN r.caps IS NOT NULL THEN (SELECT l.origin FROM lanes l WHERE l.id = r.lane) END AS source,
         r.started_at / 86400000 AS day
  FROM ", $rows, " r WHERE r.cost IS NOT NULL
), priced AS (
  INSERT INTO costs (work_id, fence, tenant, cost) SELECT id, fence, tenant, cost FROM told
  ON CONFLICT (work_id, fence) DO UPDATE SET cost = excluded.cost
), charged AS MATERIALIZED (
  SELECT b.source, b.day, t.more
  FROM (SELECT source, day, sum(more) AS more FROM told WHERE source IS NOT NULL GROUP BY source, day) t
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
