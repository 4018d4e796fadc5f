//! What runs cost. A run tells its total so far: the last word counts.

use rusqlite::{Connection, OptionalExtension};
use wakepost_domain::budget;
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::Ticket;

use super::rows::{Bits, time};

/// The part of a running row that the cost of its run needs.
pub struct Payer {
    pub lane: LaneId,
    pub started_at: i64,
    /// Whether bounds apply to it: one of them may be a budget.
    pub capped: bool,
}

/// Notes what a run cost so far, for it and for the budget of the day it began; answers what all runs of its item
/// cost.
pub fn tell(tx: &Connection, ticket: &Ticket, payer: &Payer, cost: f64) -> rusqlite::Result<f64> {
    let work = Bits(ticket.work.to_bytes());
    let before: Option<f64> = tx
        .prepare_cached("SELECT cost FROM costs WHERE work_id = ?1 AND fence = ?2")?
        .query_row((work, ticket.fence), |row| row.get(0))
        .optional()?;
    tx.prepare_cached(
        "INSERT INTO costs (work_id, fence, tenant, cost) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (work_id, fence) DO UPDATE SET cost = excluded.cost",
    )?
    .execute((work, ticket.fence, ticket.tenant.0, cost))?;
    if payer.capped {
        // The claim that began the run made the row, if the source has a budget.
        tx.prepare_cached(
            "UPDATE budgets SET cost = cost + ?1
             WHERE source = (SELECT origin FROM lanes WHERE id = ?2) AND day = ?3",
        )?
        .execute((
            cost - before.unwrap_or(0.0),
            payer.lane.0,
            budget::day(time(payer.started_at)),
        ))?;
    }
    tx.prepare_cached("SELECT sum(cost) FROM costs WHERE work_id = ?1")?
        .query_row([work], |row| row.get(0))
}
