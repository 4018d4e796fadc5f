//! The rows against the model: all that can be read of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use wakepost_domain::event::{Event, Route};
use wakepost_domain::lane::LaneId;
use wakepost_domain::lease::run_id;
use wakepost_domain::run::{Run, RunOutcome};
use wakepost_domain::work::State;
use wakepost_domain::{EventId, Timestamp, Ulid, WorkId};
use wakepost_store::Store;
use wakepost_store::moves::{
    CapScope, Cursor, DeadFilter, EffectRow, EventFilter, JobState, Page, Schedule, StatCount,
    WorkFilter, WorkRow,
};

use crate::planning::{subject, unbound};
use crate::rules::{Item, Model, day};
use crate::world::Party;

/// A page that holds all a sequence ever makes.
const ALL: Cursor = Page { before: None, limit: 10_000 };

/// Why a sequence failed.
pub type Checked = Result<(), String>;

/// What a look at the database found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    pub rows: BTreeMap<WorkId, WorkRow>,
    /// Those that were looked at, by scope and key.
    pub effects: BTreeMap<(Ulid, String), EffectRow>,
}

pub fn same<T: PartialEq + Debug>(what: &str, stored: T, model: T) -> Checked {
    if stored == model {
        return Ok(());
    }
    Err(format!("{what}\n  stored: {stored:?}\n  model:  {model:?}"))
}

/// Compares every item's row, and the counters where there are bounds; of what the latest move was about, everything.
pub async fn after_move(
    store: &dyn Store,
    model: &Model,
    parties: &[Party; 2],
    is_bound: bool,
) -> Result<Seen, String> {
    let mut seen = rows(store, model, parties).await?;
    if is_bound {
        counters(store, model, parties).await?;
    }
    let touched = model.touched.iter().filter_map(|id| model.items.get(id));
    seen.effects = details(store, model, touched.collect()).await?;
    Ok(seen)
}

/// Compares all there is.
pub async fn all(store: &dyn Store, model: &Model, parties: &[Party; 2]) -> Result<Seen, String> {
    let mut seen = rows(store, model, parties).await?;
    counters(store, model, parties).await?;
    seen.effects = details(store, model, model.items.values().collect()).await?;
    for party in parties {
        for published in [false, true] {
            events(store, model, party, published).await?;
        }
        lists(store, model, party).await?;
        webhooks(store, model, party).await?;
    }
    bodies(store, model).await?;
    waiting(store, model).await?;
    live_counts(store, model).await?;
    Ok(seen)
}

async fn rows(store: &dyn Store, model: &Model, parties: &[Party; 2]) -> Result<Seen, String> {
    let mut seen = Seen::default();
    for party in parties {
        let rows = store.work_list(party.tenant, WorkFilter::default(), ALL).await.unwrap();
        let own = model.items.values().filter(|item| item.row.tenant == party.tenant);
        let mut own: BTreeMap<WorkId, &WorkRow> =
            own.map(|item| (item.row.id, &item.row)).collect();
        for row in &rows {
            let Some(expected) = own.remove(&row.id) else {
                return Err(format!("an item that the model has not\n  stored: {row:?}"));
            };
            same("an item", row, expected)?;
        }
        if let Some(missing) = own.values().next() {
            return Err(format!("an item is missing\n  model:  {missing:?}"));
        }
        seen.rows.extend(rows.into_iter().map(|row| (row.id, row)));
    }
    Ok(seen)
}

async fn counters(store: &dyn Store, model: &Model, parties: &[Party; 2]) -> Checked {
    let of = |party: &Party| [CapScope::Tenant(party.tenant), CapScope::Source(party.source)];
    let scopes: Vec<CapScope> = parties.iter().flat_map(of).collect();
    let counts = store.counts(scopes.clone()).await.unwrap();
    same("the time", counts.now, model.now)?;
    for scope in scopes {
        let count = counts.get(scope);
        let what = format!("the counter of {}", scope.text());
        same(&what, count.running, model.running(scope))?;
        let next = model.next_starts_ms.get(&scope).copied().unwrap_or(0);
        same(&format!("the next start of {}", scope.text()), count.next_at_ms, next as f64)?;
        if let CapScope::Source(source) = scope {
            let spent = model.spent.get(&(source, day(model.now))).copied().unwrap_or_default();
            same(&format!("the budget of {what}"), (count.spent.runs, count.spent.cost), spent)?;
        }
    }
    Ok(())
}

/// Effects, runs, progress, and what jobs keep. Answers the effects.
async fn details(
    store: &dyn Store,
    model: &Model,
    items: Vec<&Item>,
) -> Result<BTreeMap<(Ulid, String), EffectRow>, String> {
    let ids: Vec<WorkId> = items.iter().map(|item| item.row.id).collect();
    let kept: BTreeMap<WorkId, JobState> =
        store.job_states(ids).await.unwrap().into_iter().collect();
    let talking = items.iter().filter(|item| !item.joined.is_empty());
    let talking: Vec<&Item> = talking.copied().collect();
    if !talking.is_empty() {
        let pairs = |item: &&Item| item.joined.iter().map(|event| (item.row.id, *event)).collect();
        let expected: Vec<Vec<(WorkId, EventId)>> = talking.iter().map(pairs).collect();
        let ids = talking.iter().map(|item| item.row.id).collect();
        same("what joined", store.joined(ids).await.unwrap(), expected.concat())?;
    }
    let mut scopes: BTreeMap<Ulid, &Item> = BTreeMap::new();
    for item in items {
        let (tenant, id) = (item.row.tenant, item.row.id);
        same(&format!("what {id:?} keeps"), kept.get(&id), item.kept.as_ref())?;
        if item.row.fence > 0 {
            let runs = store.runs(tenant, id).await.unwrap();
            same(&format!("the runs of {id:?}"), runs, runs_of(item))?;
            let details = store.run_details(tenant, id).await.unwrap();
            let expected = item.details.values().cloned().collect();
            same(&format!("how the runs of {id:?} went"), details, expected)?;
        }
        if !item.progress.is_empty() || item.row.purged_by.is_some() {
            let progress = store.progress_after(tenant, id, 0).await.unwrap();
            same(&format!("the progress of {id:?}"), &progress, &item.progress)?;
        }
        // What never ran has no effects, unless it replays something.
        if item.row.fence > 0 || item.row.scope != id.0 {
            scopes.insert(item.row.scope, item);
        }
    }
    let mut seen = BTreeMap::new();
    for (scope, item) in scopes {
        let mut effects = store.effects(item.row.tenant, scope).await.unwrap();
        effects.sort_by(|a, b| a.key.cmp(&b.key));
        same(&format!("the effects of {scope}"), &effects, &model.effects_of(scope))?;
        seen.extend(effects.into_iter().map(|effect| ((scope, effect.key.clone()), effect)));
    }
    Ok(seen)
}

fn runs_of(item: &Item) -> Vec<Run> {
    let row = &item.row;
    let mut runs = item.runs.clone();
    if row.state == State::Succeeded {
        let started_at = row.started_at.expect("it ran");
        let run = Run {
            id: run_id(row.id, row.fence, started_at),
            attempt: row.attempts,
            worker: row.worker.clone().expect("it ran"),
            started_at,
            ended_at: row.finished_at.expect("it is through"),
            outcome: RunOutcome::Succeeded,
            error: None,
            cost: None,
        };
        runs.insert(row.fence, run);
    }
    let cost = |fence: &i32| item.costs.get(fence).copied();
    runs.into_iter().map(|(fence, run)| Run { cost: cost(&fence), ..run }).collect()
}

async fn events(store: &dyn Store, model: &Model, party: &Party, published: bool) -> Checked {
    let filter = EventFilter { published, ..EventFilter::default() };
    let rows = store.events(party.tenant, filter, ALL).await.unwrap();
    let is_own = |event: &&Event| {
        event.tenant == party.tenant && (event.route == Route::Published) == published
    };
    let own: Vec<&Event> = model.events.values().rev().filter(is_own).collect();
    same("how many events there are", rows.len(), own.len())?;
    for (row, event) in rows.into_iter().zip(own) {
        same("an event", &row.event, event)?;
        let of = |item: &&Item| {
            let is_of = item.row.event == Some(event.id) || item.joined.contains(&event.id);
            is_of && item.row.replayed_as.is_none()
        };
        let mut states: Vec<State> =
            model.items.values().filter(of).map(|item| item.row.state).collect();
        states.sort();
        let mut work = row.work;
        work.sort();
        same(&format!("the work of {}", event.id), work, states)?;
    }
    Ok(())
}

async fn bodies(store: &dyn Store, model: &Model) -> Checked {
    let stored = store.contents(model.events.keys().copied().collect()).await.unwrap();
    let stored: BTreeSet<EventId> = stored.into_iter().map(|(id, _)| id).collect();
    same("whose bodies are there", &stored, &model.bodies)
}

/// Schedules, dead letters, what can be claimed, and what is about a subject.
async fn lists(store: &dyn Store, model: &Model, party: &Party) -> Checked {
    let schedules = store.schedules(party.tenant, ALL).await.unwrap();
    let own = model.schedules.values().rev().map(|(schedule, _)| schedule);
    let own: Vec<Schedule> = own.filter(|own| own.tenant == party.tenant).cloned().collect();
    same("schedules", schedules, own)?;
    let letters = store.dead_letters(party.tenant, DeadFilter::default(), ALL).await.unwrap();
    let letters: Vec<WorkId> = letters.iter().rev().map(|row| row.id).collect();
    same("dead letters", letters, model.open_letters(party.tenant))?;
    for lane in party.lanes() {
        let ready = store.ready(lane, ALL.limit).await.unwrap();
        let ready: Vec<WorkId> = ready.into_iter().map(|item| item.work).collect();
        same("what is ready", ready, model.ready(&unbound(lane)))?;
    }
    for nth in 0..2 {
        let found = store.live_of_subject(party.tenant, subject(nth), None, ALL.limit).await;
        let expected = model.about(party.tenant, &subject(nth));
        same("what is about a subject", found.unwrap().found, expected)?;
    }
    Ok(())
}

/// Webhooks, and the deliveries of each.
async fn webhooks(store: &dyn Store, model: &Model, party: &Party) -> Checked {
    let stored = store.webhooks(party.tenant).await.unwrap();
    let own = model.webhooks.values().rev().filter(|one| one.tenant == party.tenant);
    same("webhooks", stored, own.cloned().collect())?;
    for hook in party.hooks {
        let of = |item: &&Item| item.row.lane == hook.lane;
        let own = model.items.values().rev().filter(of).map(|item| item.row.clone());
        let own: Vec<WorkRow> = own.collect();
        let rows = store.deliveries(party.tenant, hook.lane, None, ALL).await.unwrap();
        same("deliveries", &rows, &own)?;
        let mut standing: BTreeMap<State, i64> = BTreeMap::new();
        for row in own {
            *standing.entry(row.state).or_default() += 1;
        }
        let counts = store.delivery_counts(hook.lane, ALL.limit).await.unwrap();
        same("how deliveries stand", counts.into_iter().collect(), standing)?;
    }
    Ok(())
}

/// Lanes with waiting work, and when their first may start.
async fn waiting(store: &dyn Store, model: &Model) -> Checked {
    let mut lanes: BTreeMap<LaneId, Timestamp> = BTreeMap::new();
    let waits = |item: &&Item| item.waits() && !item.row.behind && !model.is_shut(item.row.lane);
    for item in model.items.values().filter(waits) {
        let first = lanes.entry(item.row.lane).or_insert(item.row.run_at);
        *first = item.row.run_at.min(*first);
    }
    let stored = store.waiting_lanes().await.unwrap();
    same("lanes with work", stored.iter().map(|due| (due.lane, due.run_at)).collect(), lanes)
}

async fn live_counts(store: &dyn Store, model: &Model) -> Checked {
    let mut counts: BTreeMap<_, i64> = BTreeMap::new();
    for item in model.items.values().filter(|item| item.is_live()) {
        *counts.entry((item.row.tenant, item.row.state)).or_default() += 1;
    }
    let counts = counts.into_iter();
    let counts: Vec<StatCount> =
        counts.map(|((tenant, state), count)| StatCount { tenant, state, count }).collect();
    same("how the queue stands", store.live_counts().await.unwrap(), counts)
}
