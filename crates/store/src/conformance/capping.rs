//! Caps: how many items of a tenant or a source run at once, at every committed state.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};

use super::Harness;
use super::drafts::{Inbox, LEASE_S, begin, end};
use super::world::{World, assert_lost, failed, given_up};
use crate::moves::{BeginOutcome, ClaimRequest, Guard, Settle};

pub async fn a_tenants_cap_holds_over_all_its_sources(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b) = (world.inbox().await, world.inbox().await);
    let theirs = world.inbox_of(world.tenant("theirs").await).await;
    for inbox in [&a, &b, &theirs] {
        world.accepted_many(inbox, 5).await;
    }
    let cap = a.tenant_cap(3);
    let first = world.claim(&a).up_to(2).capped(cap).take().await;
    assert_eq!(first.len(), 2);
    assert_eq!(world.claim(&b).up_to(5).capped(cap).take().await.len(), 1);
    assert!(world.claim(&a).up_to(5).capped(cap).on(world.other.clone()).take().await.is_empty());
    let own = theirs.tenant_cap(3);
    assert_eq!(world.claim(&theirs).up_to(5).capped(own).take().await.len(), 3);
    assert!(world.finish(&first[0].ticket, Ending::Succeeded).await.freed_cap);
    assert_eq!(world.claim(&b).up_to(5).capped(cap).take().await.len(), 1);
    assert!(world.claim(&a).up_to(5).capped(cap).take().await.is_empty());
}

pub async fn of_two_caps_the_tighter_one_holds(harness: &impl Harness) {
    let world = World::new(harness).await;
    let (a, b) = (world.inbox().await, world.inbox().await);
    for inbox in [&a, &b] {
        world.accepted_many(inbox, 9).await;
    }
    let claim = |inbox: &Inbox| {
        let both = world.claim(inbox).up_to(9).capped(inbox.tenant_cap(5));
        both.capped(inbox.source_cap(3)).take()
    };
    assert_eq!(claim(&a).await.len(), 3, "the source's");
    let second = claim(&b).await;
    assert_eq!(second.len(), 2, "what the tenant has left");
    world.finish(&second[0].ticket, Ending::Succeeded).await;
    assert!(claim(&a).await.is_empty(), "the source is still full");
    assert_eq!(claim(&b).await.len(), 1);
}

pub async fn lanes_of_one_claim_share_their_cap(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inboxes = [world.inbox().await, world.inbox().await, world.inbox().await];
    let mut lanes = Vec::new();
    for inbox in &inboxes {
        world.accepted_many(inbox, 4).await;
        lanes.push(world.claim(inbox).up_to(3).capped(inbox.tenant_cap(7)).lane());
    }
    let request = ClaimRequest { worker: "ada".to_owned(), lanes };
    assert_eq!(world.store.claim(request.clone()).await.unwrap().len(), 7);
    assert!(world.store.claim(request).await.unwrap().is_empty());
}

pub async fn a_cap_below_what_runs_lets_nothing_more_run(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 6).await;
    let claim = |limit| world.claim(&inbox).up_to(6).capped(inbox.source_cap(limit)).take();
    let running = claim(3).await;
    assert_eq!(running.len(), 3);
    assert!(claim(1).await.is_empty());
    assert!(claim(0).await.is_empty());
    world.finish(&running[0].ticket, Ending::Succeeded).await;
    assert!(claim(2).await.is_empty());
    assert_eq!(claim(4).await.len(), 2);
}

pub async fn a_claim_that_finds_nothing_takes_no_place(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claim = || world.claim(&inbox).up_to(2).capped(inbox.source_cap(2)).take();
    for _ in 0..3 {
        assert!(claim().await.is_empty());
    }
    world.accepted_many(&inbox, 1).await;
    assert_eq!(claim().await.len(), 1);
    world.accepted_many(&inbox, 3).await;
    assert_eq!(claim().await.len(), 1);
}

pub async fn an_uncapped_lane_is_neither_slowed_nor_counted(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 12).await;
    let free = world.claim(&inbox).up_to(10).take().await;
    assert_eq!(free.len(), 10);
    let capped = world.claim(&inbox).capped(inbox.source_cap(1)).one().await;
    assert!(!world.finish(&free[0].ticket, Ending::Succeeded).await.freed_cap);
    assert!(world.claim(&inbox).capped(inbox.source_cap(1)).take().await.is_empty());
    assert!(world.finish(&capped.ticket, Ending::Succeeded).await.freed_cap);
    assert_eq!(world.claim(&inbox).capped(inbox.source_cap(1)).take().await.len(), 1);
}

/// Each way a run can end, as a name and what is done to a running ticket.
const WAYS: [&str; 9] =
    ["success", "retry", "dead letter", "hand-back", "hold", "stop", "expiry", "doubt", "sweep"];

async fn end_by<H: Harness>(world: &World<'_, H>, way: &str, ticket: Ticket) -> State {
    let tenant = ticket.tenant;
    let stop = world.audit(tenant, "job.cancel");
    let guarded = |guard, ending| Settle { guard, ..end(&ticket, ending) };
    let settle = match way {
        "success" => end(&ticket, Ending::Succeeded),
        "retry" => end(&ticket, failed()),
        "dead letter" => end(&ticket, given_up()),
        "hand-back" => end(&ticket, Ending::HandedBack),
        "hold" => end(&ticket, Ending::Held(HeldReason::Budget)),
        "stop" => {
            world.store.cancel(tenant, ticket.work, stop).await.unwrap();
            end(&ticket, failed())
        }
        "expiry" => {
            world.advance_s(LEASE_S + 1).await;
            let seen = world.row(tenant, ticket.work).await.lease_expires_at.unwrap();
            guarded(Guard::ExpiredAt(seen), Ending::Expired)
        }
        "sweep" => {
            world.store.cancel(tenant, ticket.work, stop).await.unwrap();
            world.advance_s(40).await;
            let moment = world.now().await.before(Duration::from_secs(30));
            guarded(Guard::CancelledBefore(moment), Ending::Cancelled)
        }
        "doubt" => {
            let outcome = world.store.begin(begin(&ticket, "mail")).await.unwrap();
            assert!(matches!(outcome, BeginOutcome::InDoubt { .. }), "{outcome:?}");
            return State::Held;
        }
        other => unreachable!("{other}"),
    };
    let settled = world.settle(settle).await.unwrap();
    assert!(settled.freed_cap, "{way}");
    settled.state
}

pub async fn every_way_a_run_can_end_frees_its_place(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claim = |limit: u32| {
        let claim = world.claim(&inbox).up_to(limit).capped(inbox.source_cap(limit));
        claim.capped(inbox.tenant_cap(limit))
    };
    for way in WAYS {
        let work = world.accepted(&inbox).await;
        let mut ticket = claim(1).one().await.ticket;
        if way == "doubt" {
            world.store.begin(begin(&ticket, "mail")).await.unwrap();
            world.finish(&ticket, failed()).await;
            ticket = claim(1).one().await.ticket;
        }
        assert_eq!(ticket.work, work, "{way}");
        assert!(claim(1).take().await.is_empty(), "{way}");
        let state = end_by(&world, way, ticket).await;
        assert_eq!(world.state(inbox.tenant, work).await, state, "{way}");
        if state.is_claimable() {
            let again = claim(1).one().await;
            world.finish(&again.ticket, Ending::Succeeded).await;
        }
    }
    world.accepted_many(&inbox, 6).await;
    assert_eq!(claim(4).take().await.len(), 4, "the whole cap is free again");
    assert!(claim(4).take().await.is_empty());
}

pub async fn a_place_is_freed_once_however_often_its_end_is_told(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 5).await;
    let claim = || world.claim(&inbox).up_to(5).capped(inbox.source_cap(2)).take();
    let running = claim().await;
    let told = end(&running[0].ticket, Ending::Succeeded);
    world.settle(told.clone()).await.unwrap();
    let again = world.settle(told.clone()).await.unwrap();
    assert!(again.repeated);
    let twice = world.store.settle(vec![told.clone(), told]).await;
    assert!(twice.into_iter().all(|answer| answer.unwrap().repeated));
    assert_lost(world.settle(end(&running[0].ticket, given_up())).await);
    assert_eq!(claim().await.len(), 1);
    assert!(claim().await.is_empty());
}

/// Whoever runs an item counts itself in after the claim and out before the end, so the count can only be
/// lower than the truth: a count over the cap proves a breach.
pub async fn caps_hold_at_every_moment_and_never_drift(harness: &impl Harness) {
    const TENANT: u32 = 5;
    const SOURCE: u32 = 3;
    let world = World::new(harness).await;
    let inboxes = [world.inbox().await, world.inbox().await];
    for inbox in &inboxes {
        world.accepted_many(inbox, 60).await;
    }
    let running: Arc<[AtomicI64; 3]> = Arc::default();
    let most = Arc::new(AtomicI64::new(0));
    let mut workers = Vec::new();
    for turn in 0..8 {
        let node = world.node(turn);
        let claims = inboxes.map(|inbox| {
            let claim = world.claim(&inbox).on(node.clone()).up_to(2);
            claim.capped(inbox.tenant_cap(TENANT)).capped(inbox.source_cap(SOURCE))
        });
        let (running, most) = (running.clone(), most.clone());
        // The worlds' clock stands still or runs by itself: nothing expires meanwhile.
        let endings = [Ending::Succeeded, failed(), Ending::HandedBack, given_up()];
        let settle = move |ticket: Ticket, round: usize| {
            let ending = if ticket.fence > 2 { Ending::Succeeded } else { endings[round % 4] };
            end(&ticket, ending)
        };
        workers.push(tokio::spawn(async move {
            let mut round = turn;
            let mut idle = 0;
            while idle < 30 {
                round += 1;
                let source = round % 2;
                let claimed = claims[source].clone().take().await;
                idle = if claimed.is_empty() { idle + 1 } else { 0 };
                for item in &claimed {
                    let all = running[2].fetch_add(1, Ordering::SeqCst) + 1;
                    let own = running[source].fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(all <= i64::from(TENANT), "{all} of the tenant run");
                    assert!(own <= i64::from(SOURCE), "{own} of the source run");
                    most.fetch_max(all, Ordering::SeqCst);
                    assert_eq!(item.lane, claims[source].clone().lane().lane);
                }
                tokio::task::yield_now().await;
                for item in claimed {
                    running[2].fetch_sub(1, Ordering::SeqCst);
                    running[source].fetch_sub(1, Ordering::SeqCst);
                    node.settle(vec![settle(item.ticket, round)]).await.remove(0).unwrap();
                }
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert!(world.store.live_counts().await.unwrap().is_empty(), "everything ended");
    assert!(most.load(Ordering::SeqCst) > 1, "nothing ever ran beside another");
    for inbox in &inboxes {
        world.accepted_many(inbox, 9).await;
        let claim = world.claim(inbox).up_to(9).capped(inbox.source_cap(SOURCE));
        assert_eq!(claim.take().await.len(), SOURCE as usize, "the whole cap is free again");
    }
    let claim = world.claim(&inboxes[0]).up_to(9).capped(inboxes[0].tenant_cap(TENANT));
    assert_eq!(claim.take().await.len(), TENANT as usize, "the whole cap is free again");
}
