//! Rates and budgets: how many start in a second, and how much runs on a day, over all nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use wakepost_domain::budget::{Budget, Over};
use wakepost_domain::rate::Rate;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};

use super::Harness;
use super::drafts::{Inbox, LEASE_S, end};
use super::world::{World, assert_invalid, failed};
use crate::moves::{Bound, Cap, CapScope, ClaimRequest, Evidence, Guard, Heartbeat, Item, Settle};

fn rate(scope: CapScope, per_s: f64) -> Cap {
    Cap { scope, bound: Bound::Rate(Rate::new(per_s).unwrap()) }
}

fn source_rate(inbox: &Inbox, per_s: f64) -> Cap {
    rate(CapScope::Source(inbox.source), per_s)
}

fn runs(most: u32) -> Budget {
    Budget { runs_per_day: Some(most), ..Budget::default() }
}

fn cost(most: f64) -> Budget {
    Budget { cost_per_day: Some(most), ..Budget::default() }
}

fn budgeted(inbox: &Inbox, budget: Budget) -> Cap {
    Cap { scope: CapScope::Source(inbox.source), bound: Bound::Budget(budget) }
}

/// Brings the clock a moment past midnight, so that no promise about a day is cut in two by a running clock.
async fn next_day<H: Harness>(world: &World<'_, H>) {
    let day_ms = 24 * 3600 * 1000;
    let passed = world.now().await.as_millis().rem_euclid(day_ms) as u64;
    world.advance(Duration::from_millis(day_ms as u64 - passed + 1000)).await;
}

pub async fn a_rate_lets_its_burst_start_and_then_one_at_a_time(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 9).await;
    // A start every hundred seconds: however slow the machine, none is due by itself.
    let claim = || world.claim(&inbox).up_to(9).capped(source_rate(&inbox, 0.01)).take();
    assert_eq!(claim().await.len(), 1);
    assert!(claim().await.is_empty());
    world.advance_s(101).await;
    assert_eq!(claim().await.len(), 1);
    assert!(claim().await.is_empty());
    // What was not used is not saved up.
    world.advance_s(1000).await;
    assert_eq!(claim().await.len(), 1);
    assert!(claim().await.is_empty());
}

pub async fn a_rate_counts_retries_and_rescued_runs_as_starts(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted(&inbox).await;
    let claim = || world.claim(&inbox).up_to(9).capped(source_rate(&inbox, 0.01)).take();
    let first = claim().await.remove(0);
    world.finish(&first.ticket, failed()).await;
    assert!(claim().await.is_empty(), "a retry is a start");
    world.advance_s(101).await;
    let second = claim().await.remove(0).ticket;
    world.advance_s(LEASE_S + 101).await;
    let seen = world.row(inbox.tenant, second.work).await.lease_expires_at.unwrap();
    let expired = Settle { guard: Guard::ExpiredAt(seen), ..end(&second, Ending::Expired) };
    world.settle(expired).await.unwrap();
    assert_eq!(claim().await.len(), 1, "a start was due");
}

pub async fn a_rate_holds_over_all_sources_and_lanes_of_a_tenant(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inboxes = [world.inbox().await, world.inbox().await, world.inbox().await];
    let shared = rate(CapScope::Tenant(inboxes[0].tenant), 5.0);
    let mut lanes = Vec::new();
    // The first lane is empty: it must not keep its share of the room from the others.
    for inbox in &inboxes {
        lanes.push(world.claim(inbox).up_to(4).capped(shared).lane());
    }
    for inbox in &inboxes[1..] {
        world.accepted_many(inbox, 4).await;
    }
    let request = ClaimRequest { worker: "ada".to_owned(), lanes };
    let claimed = world.other.claim(request).await.unwrap();
    assert_eq!(claimed.len(), 5, "one second's worth");
}

pub async fn a_claim_that_finds_nothing_uses_up_no_rate_and_no_budget(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    let claim = || {
        let claim = world.claim(&inbox).up_to(5).capped(source_rate(&inbox, 0.01));
        claim.capped(budgeted(&inbox, runs(1))).take()
    };
    for _ in 0..3 {
        assert!(claim().await.is_empty());
    }
    world.accepted_many(&inbox, 2).await;
    assert_eq!(claim().await.len(), 1);
}

pub async fn one_item_is_claimed_by_its_id_within_every_bound(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    let works = world.accepted_many(&inbox, 3).await;
    let lane = |cap| world.claim(&inbox).capped(cap).lane();
    let item = |n: usize| Item { tenant: inbox.tenant, work: works[n] };
    let claim = async |n: usize, cap| {
        world.store.claim_one("ada".to_owned(), item(n), lane(cap)).await.unwrap().is_some()
    };
    assert!(claim(0, source_rate(&inbox, 0.01)).await);
    assert!(!claim(1, source_rate(&inbox, 0.01)).await);
    assert!(claim(1, budgeted(&inbox, runs(1))).await);
    assert!(!claim(2, budgeted(&inbox, runs(1))).await);
    let counts = world.other.counts(vec![CapScope::Source(inbox.source)]).await.unwrap();
    let count = counts.get(CapScope::Source(inbox.source));
    assert_eq!((count.running, count.spent.runs), (2, 1));
}

pub async fn no_more_start_than_rates_and_budgets_allow_however_many_ask(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 60).await;
    let started = Arc::new(AtomicU32::new(0));
    let mut workers = Vec::new();
    for turn in 0..8 {
        let claim = world.claim(&inbox).on(world.node(turn)).up_to(3);
        let claim = claim.capped(rate(CapScope::Tenant(inbox.tenant), 1000.0));
        let claim = claim.capped(budgeted(&inbox, runs(25)));
        let (node, started) = (world.node(turn + 1), started.clone());
        workers.push(tokio::spawn(async move {
            for _ in 0..12 {
                let claimed = claim.clone().take().await;
                started.fetch_add(claimed.len() as u32, Ordering::Relaxed);
                let ends = claimed.iter().map(|item| end(&item.ticket, failed())).collect();
                for ended in node.settle(ends).await {
                    ended.unwrap();
                }
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(started.load(Ordering::Relaxed), 25);
    let counts = world.store.counts(vec![CapScope::Source(inbox.source)]).await.unwrap();
    let count = counts.get(CapScope::Source(inbox.source));
    assert_eq!((count.running, count.spent.runs), (0, 25));
}

pub async fn a_spent_budget_lets_nothing_run_until_the_next_day(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    let other = world.inbox().await;
    world.accepted_many(&inbox, 9).await;
    world.accepted_many(&other, 2).await;
    let claim = |budget| world.claim(&inbox).up_to(9).capped(budgeted(&inbox, budget)).take();
    assert_eq!(claim(runs(3)).await.len(), 3);
    assert!(claim(runs(3)).await.is_empty());
    assert_eq!(world.claim(&other).capped(budgeted(&other, runs(3))).take().await.len(), 1);
    assert_eq!(claim(runs(4)).await.len(), 1, "a larger budget counts at once");
    next_day(&world).await;
    assert_eq!(claim(runs(3)).await.len(), 3);
}

pub async fn a_days_cost_is_what_its_runs_told_and_counts_each_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 3).await;
    let claim = || world.claim(&inbox).capped(budgeted(&inbox, cost(10.0))).take();
    let first = claim().await.remove(0).ticket;
    let spent = async || {
        let scope = CapScope::Source(inbox.source);
        world.other.counts(vec![scope]).await.unwrap().get(scope).spent
    };
    for told in [2.0, 5.0, 5.0] {
        let extend = Duration::from_secs(LEASE_S);
        let beat = Heartbeat { ticket: first, extend, cost: Some(told) };
        world.store.heartbeat(vec![beat]).await.remove(0).unwrap();
        assert_eq!(spent().await.cost, told);
    }
    let done = |told| Evidence { cost: Some(told), ..Evidence::default() };
    let ended = Settle { evidence: done(7.0), ..end(&first, Ending::Succeeded) };
    world.settle(ended.clone()).await.unwrap();
    assert!(world.settle(ended).await.unwrap().repeated);
    assert_eq!(spent().await.cost, 7.0);
    let second = claim().await.remove(0).ticket;
    world.settle(Settle { evidence: done(3.0), ..end(&second, failed()) }).await.unwrap();
    assert_eq!((spent().await.runs, spent().await.cost), (2, 10.0));
    assert!(claim().await.is_empty(), "the day's cost is reached");
    next_day(&world).await;
    assert_eq!(claim().await.len(), 1);
}

pub async fn what_runs_cost_adds_up_to_what_the_job_does(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let work = world.accepted(&inbox).await;
    let told =
        |ticket, told| Heartbeat { ticket, extend: Duration::from_secs(LEASE_S), cost: Some(told) };
    let first = world.claim(&inbox).one().await.ticket;
    for cost in [2.0, 5.0] {
        world.store.heartbeat(vec![told(first, cost)]).await.remove(0).unwrap();
        assert_eq!(world.kept(work).await.cost, Some(cost));
    }
    let evidence = Evidence { cost: Some(7.0), ..Evidence::default() };
    world.settle(Settle { evidence, ..end(&first, failed()) }).await.unwrap();
    assert_eq!(world.kept(work).await.cost, Some(7.0));
    let second = world.claim(&inbox).one().await.ticket;
    world.other.heartbeat(vec![told(second, 3.0)]).await.remove(0).unwrap();
    assert_eq!(world.kept(work).await.cost, Some(10.0));
    world.finish(&second, failed()).await;
    let third = world.claim(&inbox).one().await.ticket;
    world.finish(&third, Ending::Succeeded).await;
    assert_eq!(world.kept(work).await.cost, Some(10.0));
    let runs = world.store.runs(inbox.tenant, work).await.unwrap();
    let costs: Vec<Option<f64>> = runs.iter().map(|run| run.cost).collect();
    assert_eq!(costs, [Some(7.0), Some(3.0), None]);
}

pub async fn work_over_a_budget_is_held_only_once_it_is_spent(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    let works = world.accepted_many(&inbox, 5).await;
    let budget = Budget { over: Over::Refuse, ..runs(1) };
    let hold = |limit| world.store.hold_over_budget(inbox.lane, inbox.source, budget, limit);
    assert_eq!(hold(9).await.unwrap(), 0, "there is still a run left");
    world.claim(&inbox).capped(budgeted(&inbox, budget)).one().await;
    assert_eq!(hold(3).await.unwrap(), 3);
    assert_eq!(hold(3).await.unwrap(), 1);
    assert_eq!(hold(3).await.unwrap(), 0);
    for work in &works[1..] {
        let row = world.row(inbox.tenant, *work).await;
        assert_eq!((row.state, row.held), (State::Held, Some(HeldReason::Budget)));
    }
}

pub async fn an_operator_lets_work_go_that_no_budget_binds(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    let works = world.accepted_many(&inbox, 2).await;
    let budget = Budget { over: Over::Refuse, ..runs(0) };
    let key = world.store.lanes(vec![inbox.lane]).await.unwrap().remove(0).key;
    let free = Inbox { lane: world.store.lane(key.let_go()).await.unwrap().id, ..inbox };
    assert_ne!(free.lane, inbox.lane);
    let release = |work| {
        let audit = world.audit(inbox.tenant, "job.release");
        world.other.release_into(inbox.tenant, work, free.lane, audit)
    };
    assert_invalid(release(works[0]).await);
    world.store.hold_over_budget(inbox.lane, inbox.source, budget, 9).await.unwrap();
    release(works[0]).await.unwrap();
    assert_eq!(world.actions(inbox.tenant).await, ["job.release"]);
    let counted = budgeted(&inbox, budget.only_counted());
    assert!(world.claim(&inbox).capped(budgeted(&inbox, budget)).take().await.is_empty());
    let let_go = world.claim(&free).up_to(9).capped(counted).take().await;
    assert_eq!(let_go.len(), 1);
    assert_eq!(let_go[0].ticket.work, works[0]);
    let scope = CapScope::Source(inbox.source);
    let count = world.store.counts(vec![scope]).await.unwrap().get(scope);
    assert_eq!(count.spent.runs, 1, "it is counted all the same");
}

pub async fn what_was_used_of_old_days_goes_with_their_runs(harness: &impl Harness) {
    let world = World::new(harness).await;
    next_day(&world).await;
    let inbox = world.inbox().await;
    let work = world.accepted(&inbox).await;
    let ticket = world.claim(&inbox).capped(budgeted(&inbox, runs(5))).one().await.ticket;
    let evidence = Evidence { cost: Some(1.0), ..Evidence::default() };
    world.settle(Settle { evidence, ..end(&ticket, failed()) }).await.unwrap();
    let ticket = world.claim(&inbox).capped(budgeted(&inbox, runs(5))).one().await.ticket;
    world.finish(&ticket, Ending::Succeeded).await;
    let long = Duration::from_secs(60 * 24 * 3600);
    world.advance(long).await;
    let cut = world.now().await.before(long / 2);
    let before = super::pruning::all_before(cut);
    while world.store.prune(before).await.unwrap().more {}
    assert!(world.store.runs(inbox.tenant, work).await.unwrap().is_empty());
    assert_eq!(world.store.prune(before).await.unwrap().rows, 0);
}
