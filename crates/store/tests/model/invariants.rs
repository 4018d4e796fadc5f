//! The invariants, of the rows alone: they hold whatever the model says (specification, 8-invariants).

use std::collections::{BTreeMap, BTreeSet};

use wakepost_domain::effect::{EffectState, OnDoubt, Runner};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{Timestamp, WorkId};
use wakepost_store::moves::{OrderKey, WorkRow};

use crate::call::{Answer, Call};
use crate::compare::{Checked, Seen};
use crate::wish::Bounds;
use crate::world::Party;

pub fn check(before: &Seen, after: &Seen, bounds: &Bounds, parties: &[Party; 2]) -> Checked {
    for row in after.rows.values() {
        stands_well(row)?;
        if let Some(old) = before.rows.get(&row.id) {
            follows(old, row)?;
        }
    }
    if let Some(gone) = before.rows.keys().find(|id| !after.rows.contains_key(*id)) {
        return Err(format!("{gone:?} is gone"));
    }
    effects(before, after)?;
    orders(after)?;
    within(after, bounds, parties)?;
    callbacks(after)?;
    ticks(after)
}

/// What a worker is granted, by the rows before: nothing without its live lease, and no act twice.
pub fn granted(before: &Seen, call: &Call, answer: &Answer, now: Timestamp) -> Checked {
    let (Some(ticket), Ok(answer)) = (call.ticket(), answer) else { return Ok(()) };
    let row = &before.rows[&ticket.work];
    let is_leased = row.state == State::Running
        && (row.tenant, row.fence) == (ticket.tenant, ticket.fence)
        && row.lease_expires_at.is_some_and(|end| end > now);
    // Whoever asks again what its run ended by is told so again.
    let is_told_again = row.state == State::AwaitingApproval
        && (answer.starts_with("NeedsApproval") || answer == "false");
    ensure(is_leased || is_told_again, "L2, L3, E3: granted without a live lease", row)?;
    let Call::Begin(begin) = call else { return Ok(()) };
    let known = before.effects.get(&(row.scope, begin.key.clone()));
    let Some(effect) = known.filter(|_| answer.starts_with("Execute")) else { return Ok(()) };
    let is_own = effect.runner == Runner { work: ticket.work, fence: ticket.fence };
    let in_doubt = effect.state == EffectState::Begun && !is_own;
    let may = !in_doubt || begin.on_doubt == OnDoubt::Execute;
    ensure(effect.state != EffectState::Committed, "E1: a committed effect is done again", row)?;
    ensure(may, "E2: an effect in doubt is done again", row)
}

fn ensure(holds: bool, invariant: &str, row: &WorkRow) -> Checked {
    if holds { Ok(()) } else { Err(format!("{invariant}\n  stored: {row:?}")) }
}

fn stands_well(row: &WorkRow) -> Checked {
    let runs = row.state == State::Running;
    ensure(
        row.lease_expires_at.is_some() == runs,
        "L1: what runs has a lease, all else none",
        row,
    )?;
    ensure(row.attempts <= row.max_attempts, "L6: more attempts than there may be", row)?;
    let is_told = row.last_error.is_some() || row.purged_by.is_some();
    let dead = row.state == State::DeadLetter;
    ensure(!dead || is_told, "L6: a dead letter without a reason", row)?;
    let in_time = row.started_at.is_some_and(|started| row.run_at <= started);
    ensure(!runs || in_time, "D5: it started early", row)?;
    ensure(!runs || !row.behind, "L9: it runs before the first of its order key", row)
}

/// What may become of a row by one move.
fn follows(old: &WorkRow, new: &WorkRow) -> Checked {
    ensure(new.fence >= old.fence, "L1: a fence became smaller", new)?;
    let was_claimed =
        (old.worker.as_ref(), old.started_at) != (new.worker.as_ref(), new.started_at);
    ensure(!was_claimed || new.fence > old.fence, "L1: a claim without a greater fence", new)?;
    if old.state.is_terminal() {
        let last_error = if new.purged_by.is_some() { None } else { old.last_error.clone() };
        let dealt_with = WorkRow {
            replayed_as: old.replayed_as.or(new.replayed_as),
            purged_by: old.purged_by.or(new.purged_by),
            last_error,
            ..old.clone()
        };
        ensure(*new == dealt_with, "L5: a final state changed", new)?;
    }
    Ok(())
}

/// What happened stays so, with what it came to.
fn effects(before: &Seen, after: &Seen) -> Checked {
    for (key, old) in &before.effects {
        let new = &after.effects[key];
        let is_kept = (new.state, &new.result) == (EffectState::Committed, &old.result);
        if old.state == EffectState::Committed && !is_kept {
            return Err(format!("E1: what was committed changed\n  stored: {new:?}"));
        }
    }
    Ok(())
}

/// Of each order key one item is the first.
fn orders(seen: &Seen) -> Checked {
    let mut firsts: BTreeMap<OrderKey, usize> = BTreeMap::new();
    for row in seen.rows.values().filter(|row| !row.state.is_terminal()) {
        if let Some(order) = row.order {
            *firsts.entry(order).or_default() += usize::from(!row.behind);
        }
    }
    match firsts.into_iter().find(|(_, count)| *count != 1) {
        None => Ok(()),
        Some((order, count)) => Err(format!("L9: {order:?} has {count} first items")),
    }
}

fn within(seen: &Seen, bounds: &Bounds, parties: &[Party; 2]) -> Checked {
    let running = |which: &dyn Fn(&WorkRow) -> bool| {
        let runs = |row: &&WorkRow| row.state == State::Running && which(row);
        seen.rows.values().filter(runs).count() as u32
    };
    for party in parties {
        let of_source = |row: &WorkRow| [party.of_source, party.let_go].contains(&row.lane);
        let of_tenant = |row: &WorkRow| of_source(row) || row.lane == party.of_api;
        let tenant = bounds.tenant_running.is_none_or(|most| running(&of_tenant) <= most);
        let source = bounds.source_running.is_none_or(|most| running(&of_source) <= most);
        if !tenant || !source {
            return Err(format!("L9: more of {} run than may", party.tenant.0));
        }
    }
    Ok(())
}

/// Whatever ended and is to be told of is told of once; nothing else is.
fn callbacks(seen: &Seen) -> Checked {
    let mut told: BTreeMap<&str, usize> = BTreeMap::new();
    for row in seen.rows.values().filter(|row| row.kind == WorkKind::Callback) {
        *told.entry(row.meta.parent_id.as_deref().unwrap_or_default()).or_default() += 1;
    }
    for row in seen.rows.values().filter(|row| row.kind == WorkKind::Job) {
        let wanted = usize::from(row.state.is_terminal() && row.meta.callback_lane.is_some());
        let made = told.get(row.id.text(row.kind).as_str()).copied().unwrap_or(0);
        ensure(made == wanted, &format!("an end has {made} callbacks, not {wanted}"), row)?;
    }
    Ok(())
}

/// A tick makes one job. A replay of it is no second one.
fn ticks(seen: &Seen) -> Checked {
    let mut made: BTreeSet<(String, i64)> = BTreeSet::new();
    for row in seen.rows.values().filter(|row| row.meta.parent_id.is_none()) {
        if let Some((schedule, tick)) = row.meta.schedule_id.zip(row.meta.scheduled_for) {
            let first = made.insert((schedule.to_string(), tick.as_millis()));
            ensure(first, "D5: a tick made a second job", row)?;
        }
    }
    Ok(())
}

/// Of which items the rows are not as they were.
pub fn changed(before: &Seen, after: &Seen) -> Vec<WorkId> {
    let is_same = |id: &&WorkId| before.rows.get(*id) == after.rows.get(*id);
    after.rows.keys().filter(|id| !is_same(id)).copied().collect()
}
