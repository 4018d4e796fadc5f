//! Outliving: what pruning leaves, because live work or a promise still needs it.

use wakepost_domain::transition::Ending;
use wakepost_domain::work::{HeldReason, State};
use wakepost_domain::{EventId, WorkId};

use super::Harness;
use super::effects::skip;
use super::pruning::{LONG, all_before};
use super::world::{World, failed_for_s, given_up, sealed};
use crate::moves::{Accepted, Progress, PruneBefore, SharedBody};

pub async fn live_work_keeps_its_event_and_all_it_has(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let retried = world.running(&inbox).await.ticket;
    world.begin(&retried, "mail").await;
    world.store.checkpoint(retried, sealed("page 1")).await.unwrap();
    world.store.progress(Progress { ticket: retried, content: sealed("half") }).await.unwrap();
    world.finish(&retried, failed_for_s(100)).await;
    let works = [
        retried.work,
        world.ended(&inbox, Ending::Held(HeldReason::Budget)).await,
        world.running(&inbox).await.ticket.work,
        world.accepted(&inbox).await,
    ];
    let later = world.now().await.after(LONG * 2);
    let ignored = world.event(&inbox).ignored().build();
    world.accept(ignored.clone()).await;
    let second = world.created(world.job(&inbox).of_event(ignored.event.id).at(later)).await;
    let mut before = Vec::new();
    for work in works {
        let mut picture = world.picture(inbox.tenant, work).await;
        picture.effects.iter_mut().for_each(|effect| effect.alive = false);
        before.push(picture);
    }
    world.much_later().await;
    for (work, before) in works.into_iter().zip(before) {
        assert_eq!(world.picture(inbox.tenant, work).await, before);
        assert!(world.has_body(EventId(work.0)).await, "{:?}", before.row.state);
        world.stored(inbox.tenant, EventId(work.0)).await;
    }
    assert_eq!(world.state(inbox.tenant, second).await, State::Scheduled);
    assert!(world.has_body(ignored.event.id).await, "a later item needs it too");
    world.stored(inbox.tenant, ignored.event.id).await;
}

pub async fn a_dead_letter_keeps_its_body_until_it_is_replayed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let dead = world.ended(&inbox, given_up()).await;
    let replayed = world.ended(&inbox, given_up()).await;
    let dead_again = world.ended(&inbox, given_up()).await;
    world.replayed(inbox.tenant, replayed, false).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    world.replayed(inbox.tenant, dead_again, false).await;
    world.run_to(&inbox, given_up()).await;
    let done = world.ended(&inbox, Ending::Succeeded).await;
    let never = world.now().await.before(LONG);
    world.advance(LONG).await;
    let bodies = world.now().await.before(LONG / 2);
    let before = PruneBefore { bodies, ..all_before(never) };
    world.prune(before).await;
    assert!(world.has_body(EventId(dead.0)).await);
    assert!(world.has_body(EventId(dead_again.0)).await, "its replay is a dead letter");
    assert!(!world.has_body(EventId(replayed.0)).await);
    assert!(!world.has_body(EventId(done.0)).await);
    world.replayed(inbox.tenant, dead, false).await;
    world.prune(before).await;
    assert!(world.has_body(EventId(dead.0)).await, "its replay is live");
    world.run_to(&inbox, Ending::Succeeded).await;
    world.prune(before).await;
    assert!(!world.has_body(EventId(dead.0)).await);
}

pub async fn a_shared_body_stays_as_long_as_one_event_needs_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let body = EventId(world.id());
    let part = |index: u16| world.event(&inbox).part_of(body, index).build();
    let shared = SharedBody { id: body, tenant: inbox.tenant, content: sealed("[1,2]") };
    world.store.accept_together(shared, vec![part(0), part(1)]).await.unwrap();
    world.run_to(&inbox, Ending::Succeeded).await;
    let dead = world.run_to(&inbox, given_up()).await.ticket.work;
    let never = world.now().await.before(LONG);
    world.advance(LONG).await;
    let bodies = world.now().await.before(LONG / 2);
    let before = PruneBefore { bodies, ..all_before(never) };
    world.prune(before).await;
    assert!(world.has_body(body).await, "one of its events is a dead letter");
    world.replayed(inbox.tenant, dead, false).await;
    world.prune(before).await;
    assert!(world.has_body(body).await, "its replay is live");
    world.run_to(&inbox, Ending::Succeeded).await;
    world.prune(before).await;
    assert!(!world.has_body(body).await);
}

pub async fn a_key_outlives_the_event_for_its_whole_window(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let until = world.now().await.after(LONG * 2);
    let first = world.event(&inbox).with_key("a").blocking_until(until).build();
    world.accept(first.clone()).await;
    world.run_to(&inbox, Ending::Succeeded).await;
    world.much_later().await;
    assert_eq!(world.store.event(inbox.tenant, first.event.id).await.unwrap(), None);
    let again = world.accept(world.event(&inbox).with_key("a")).await;
    assert_eq!(
        again,
        Accepted::Duplicate { of: first.event.id, job: Some(WorkId::first_of(first.event.id)) }
    );
    world.advance(LONG).await;
    world.much_later().await;
    assert_eq!(world.accept(world.event(&inbox).with_key("a")).await, Accepted::New);
}

pub async fn an_expired_key_stays_as_long_as_its_body(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let now = world.now().await;
    let never = now.before(LONG);
    let soon = now.after(LONG / 60);
    let alone = world.event(&inbox).with_key("a").with_key("b").blocking_until(soon).build();
    let body = EventId(world.id());
    let part = |index: u16, key: &str| {
        world.event(&inbox).part_of(body, index).with_key(key).blocking_until(soon).build()
    };
    let parts = vec![part(0, "c"), part(1, "d")];
    let firsts = [&alone, &alone, &parts[0], &parts[1]].map(|new| new.event.id);
    let shared = SharedBody { id: body, tenant: inbox.tenant, content: sealed("[1,2]") };
    world.accept(alone).await;
    world.store.accept_together(shared, parts).await.unwrap();
    world.advance(LONG).await;
    assert_eq!(world.prune(all_before(never)).await, 0);
    for (key, of) in ["a", "b", "c", "d"].into_iter().zip(firsts) {
        let again = world.accept(world.event(&inbox).with_key(key)).await;
        let job = Some(WorkId::first_of(of));
        assert_eq!(again, Accepted::Duplicate { of, job }, "{key}");
    }
    for _ in 0..3 {
        world.run_to(&inbox, Ending::Succeeded).await;
    }
    let bodies = world.now().await.before(LONG / 2);
    world.prune(PruneBefore { bodies, ..all_before(never) }).await;
    for key in ["a", "b", "c", "d"] {
        assert_eq!(world.accept(world.event(&inbox).with_key(key)).await, Accepted::New, "{key}");
    }
}

pub async fn effects_stay_as_long_as_anything_shares_them(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.commit(&claimed.ticket, "mail", "sent").await.unwrap();
    world.finish(&claimed.ticket, given_up()).await;
    let (first, scope) = (claimed.ticket.work, claimed.scope);
    let second = world.replayed(inbox.tenant, first, false).await;
    world.much_later().await;
    assert_eq!(world.store.work(inbox.tenant, first).await.unwrap(), None);
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(ticket.work, second);
    assert_eq!(world.begin(&ticket, "mail").await, skip(scope, "sent"), "a live replay");
    world.finish(&ticket, given_up()).await;
    let third = world.replayed(inbox.tenant, second, false).await;
    world.run_to(&inbox, given_up()).await;
    world.advance(LONG / 4).await;
    world.prune(all_before(world.now().await.before(LONG / 2))).await;
    let fourth = world.replayed(inbox.tenant, third, false).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    assert_eq!(ticket.work, fourth);
    assert_eq!(world.begin(&ticket, "mail").await, skip(scope, "sent"), "a finished replay");
    world.finish(&ticket, Ending::Succeeded).await;
    world.much_later().await;
    assert!(world.store.effects(inbox.tenant, scope).await.unwrap().is_empty());
}
