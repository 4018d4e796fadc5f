//! Following: what a run asks for is made with its success, or while its lease is live, and once.

use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, WorkId};

use super::Harness;
use super::drafts::{Inbox, end, once};
use super::world::{World, assert_lost, failed, given_up};
use crate::moves::{NewWork, Once, Settle};

impl<H: Harness> World<'_, H> {
    fn reply(&self, inbox: &Inbox, of: &Ticket) -> NewWork {
        let event = self.job(inbox).of_kind(WorkKind::Reply).of_event(EventId(of.work.0));
        event.in_order(&of.work.text(WorkKind::Job)).with_input("\"hello\"").build()
    }

    async fn is_there(&self, inbox: &Inbox, work: WorkId) -> bool {
        self.store.work(inbox.tenant, work).await.unwrap().is_some()
    }
}

pub async fn a_success_makes_what_follows_it(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let reply = world.reply(&inbox, &claimed.ticket);
    let ended = Settle {
        follow_up: Some(Box::new(reply.clone())),
        ..end(&claimed.ticket, Ending::Succeeded)
    };
    assert!(world.settle(ended.clone()).await.unwrap().makes_follow_up());
    let row = world.row(inbox.tenant, reply.id).await;
    assert_eq!((row.kind, row.state, row.event), (WorkKind::Reply, State::Pending, reply.event));
    assert_eq!(world.kept(reply.id).await.input, reply.input);
    assert!(world.settle(ended).await.unwrap().repeated, "and a repeat makes nothing");
    let claimed = world.claim(&inbox).up_to(9).take().await;
    assert_eq!(claimed.iter().map(|item| item.ticket.work).collect::<Vec<_>>(), [reply.id]);
}

pub async fn nothing_follows_a_run_that_did_not_succeed(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    for ending in [failed(), given_up(), Ending::HandedBack, Ending::Cancelled] {
        let claimed = world.running(&inbox).await;
        let reply = world.reply(&inbox, &claimed.ticket);
        let follow_up = Some(Box::new(reply.clone()));
        world.settle(Settle { follow_up, ..end(&claimed.ticket, ending) }).await.unwrap();
        assert!(!world.is_there(&inbox, reply.id).await, "{ending:?}");
        let left = world.store.work(inbox.tenant, claimed.ticket.work).await.unwrap().unwrap();
        if !left.state.is_terminal() {
            world.run_to(&inbox, Ending::Succeeded).await;
        }
    }
    let claimed = world.running(&inbox).await;
    world.finish(&claimed.ticket, Ending::HandedBack).await;
    let reply = world.reply(&inbox, &claimed.ticket);
    let follow_up = Some(Box::new(reply.clone()));
    assert_lost(
        world.settle(Settle { follow_up, ..end(&claimed.ticket, Ending::Succeeded) }).await,
    );
    assert!(!world.is_there(&inbox, reply.id).await, "a zombie's success makes nothing");
}

pub async fn a_live_run_makes_work_and_a_dead_one_none(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let claimed = world.running(&inbox).await;
    let (first, second) =
        (world.reply(&inbox, &claimed.ticket), world.reply(&inbox, &claimed.ticket));
    let until = world.now().await.after(std::time::Duration::from_secs(60));
    let key = once(7, "made", until);
    for expected in [true, false] {
        let made = world.store.follow_up(claimed.ticket, first.clone(), Some(key.clone())).await;
        assert_eq!(made.unwrap() == Once::Now(()), expected, "an idempotency key makes it once");
    }
    world.store.follow_up(claimed.ticket, second.clone(), None).await.unwrap();
    let behind = world.row(inbox.tenant, second.id).await.behind;
    assert!(behind, "what one run asks for is done in order");
    world.finish(&claimed.ticket, Ending::HandedBack).await;
    let third = world.reply(&inbox, &claimed.ticket);
    assert_lost(world.store.follow_up(claimed.ticket, third.clone(), None).await);
    assert!(!world.is_there(&inbox, third.id).await);
}

pub async fn many_successes_at_once_make_what_follows_each(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    world.accepted_many(&inbox, 20).await;
    let claimed = world.claim(&inbox).up_to(20).take().await;
    let replies: Vec<NewWork> =
        claimed.iter().map(|item| world.reply(&inbox, &item.ticket)).collect();
    let ends = claimed.iter().zip(&replies).map(|(item, reply)| Settle {
        follow_up: Some(Box::new(reply.clone())),
        ..end(&item.ticket, Ending::Succeeded)
    });
    // Each node gets them in its own order.
    let (ours, mut theirs): (Vec<Settle>, Vec<Settle>) = (ends.clone().collect(), ends.collect());
    theirs.reverse();
    let (a, b) = tokio::join!(world.store.settle(ours), world.other.settle(theirs));
    let made = a.into_iter().chain(b).map(|settled| settled.unwrap());
    assert_eq!(made.filter(|settled| settled.makes_follow_up()).count(), 20);
    for reply in &replies {
        assert_eq!(world.state(inbox.tenant, reply.id).await, State::Pending);
    }
}
