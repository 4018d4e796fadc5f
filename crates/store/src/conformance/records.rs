//! Records: what runs leave behind, and what jobs and events keep apart from the queue.

use std::time::Duration;

use wakepost_domain::limits;
use wakepost_domain::run::RunOutcome;
use wakepost_domain::transition::Ending;

use super::Harness;
use super::world::{World, assert_near, failed, given_up, sealed};
use crate::moves::{Evidence, Progress, Settle};

pub async fn runs_are_listed_oldest_first_with_their_evidence(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let work = world.accepted(&inbox).await;
    let mut tickets = Vec::new();
    for (worker, ending) in [("ada", failed()), ("bob", Ending::HandedBack), ("eve", given_up())] {
        let ticket = world.claim(&inbox).by(worker).one().await.ticket;
        world.advance_s(7).await;
        world.finish(&ticket, ending).await;
        tickets.push(ticket);
    }
    let runs = world.store.runs(inbox.tenant, work).await.unwrap();
    let seen: Vec<_> =
        runs.iter().map(|run| (run.worker.as_str(), run.attempt, run.outcome)).collect();
    let expected = [
        ("ada", 1, RunOutcome::Failed),
        ("bob", 2, RunOutcome::HandedBack),
        ("eve", 2, RunOutcome::Failed),
    ];
    assert_eq!(seen, expected);
    for (run, ticket) in runs.iter().zip(&tickets) {
        assert_eq!((run.id, run.started_at), (ticket.run_id(), ticket.started_at));
        assert_near(run.ended_at, run.started_at.after(Duration::from_secs(7)));
        assert!(run.ended_at >= run.started_at && run.error.is_some());
    }
    assert!(world.store.runs(stranger, work).await.unwrap().is_empty());
}

pub async fn progress_is_numbered_and_read_from_where_one_left_off(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let stranger = world.tenant("stranger").await;
    let ticket = world.running(&inbox).await.ticket;
    for text in ["one", "two", "three"] {
        let progress = Progress { ticket, content: sealed(text) };
        world.store.progress(progress).await.unwrap();
    }
    let rows = world.store.progress_after(inbox.tenant, ticket.work, 0).await.unwrap();
    let seen: Vec<_> = rows.iter().map(|row| (row.seq, row.content.clone())).collect();
    assert_eq!(seen, [(1, sealed("one")), (2, sealed("two")), (3, sealed("three"))]);
    assert_near(rows[0].at, world.now().await);
    let next = world.next_run(&inbox, &ticket).await;
    world.store.progress(Progress { ticket: next, content: sealed("four") }).await.unwrap();
    let rest = world.store.progress_after(inbox.tenant, ticket.work, 2).await.unwrap();
    assert_eq!(rest.iter().map(|row| row.seq).collect::<Vec<_>>(), [3, 4]);
    assert!(world.store.progress_after(inbox.tenant, ticket.work, 4).await.unwrap().is_empty());
    assert!(world.store.progress_after(stranger, ticket.work, 0).await.unwrap().is_empty());
}

pub async fn progress_told_at_once_has_one_number_each(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    let mut calls = Vec::new();
    for turn in 0..24 {
        let (node, content) = (world.node(turn), sealed(&turn.to_string()));
        calls.push(tokio::spawn(async move {
            node.progress(Progress { ticket, content }).await.unwrap();
        }));
    }
    for call in calls {
        call.await.unwrap();
    }
    let rows = world.store.progress_after(inbox.tenant, ticket.work, 0).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), (1..=24).collect::<Vec<_>>());
}

pub async fn only_the_latest_progress_of_a_job_is_kept(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let ticket = world.running(&inbox).await.ticket;
    let total = limits::PROGRESS_KEPT + 20;
    let (node, others) = (world.store.clone(), 0..total);
    let calls = others.map(|turn| {
        let node = node.clone();
        let content = sealed(&turn.to_string());
        async move { node.progress(Progress { ticket, content }).await.unwrap() }
    });
    use futures_util::StreamExt;
    futures_util::stream::iter(calls).buffer_unordered(4).collect::<Vec<()>>().await;
    let rows = world.store.progress_after(inbox.tenant, ticket.work, 0).await.unwrap();
    let seen: Vec<i64> = rows.iter().map(|row| row.seq).collect();
    assert_eq!(seen, (21..=total).collect::<Vec<_>>());
}

pub async fn what_jobs_keep_is_read_for_many_at_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let asked = world.created(world.job(&inbox).with_input("question")).await;
    let ticket = world.claim(&inbox).one().await.ticket;
    let evidence = Evidence { result: Some(sealed("answer")), ..Evidence::default() };
    world.settle(Settle { evidence, ..super::drafts::end(&ticket, failed()) }).await.unwrap();
    let ticket = world.claim(&inbox).one().await.ticket;
    world.store.checkpoint(ticket, sealed("page 2")).await.unwrap();
    let evidence =
        Evidence { reply: Some(sealed("hello")), cost: Some(2.0), ..Evidence::default() };
    let end = super::drafts::end(&ticket, Ending::Succeeded);
    world.settle(Settle { evidence, ..end }).await.unwrap();
    let plain = world.accepted(&inbox).await;
    let other = world.created(world.job(&inbox).with_input("other")).await;
    let states = world.store.job_states(vec![plain, other, asked]).await.unwrap();
    assert_eq!(states.len(), 2, "what keeps nothing is missing");
    let of = |work| states.iter().find(|(id, _)| *id == work).map(|(_, state)| state).unwrap();
    assert_eq!(of(other).input, Some(sealed("other")));
    let kept = of(asked);
    assert_eq!(kept.input, Some(sealed("question")));
    assert_eq!(kept.checkpoint, Some(sealed("page 2")));
    assert_eq!(kept.result, Some(sealed("answer")));
    assert_eq!((kept.reply.clone(), kept.cost), (Some(sealed("hello")), Some(2.0)));
    assert!(world.store.job_states(vec![]).await.unwrap().is_empty());
}

pub async fn bodies_are_read_for_many_at_once(harness: &impl Harness) {
    let world = World::new(harness).await;
    let inbox = world.inbox().await;
    let mut expected = Vec::new();
    for text in ["a", "b", "c"] {
        let new = world.event(&inbox).with_body(text.as_bytes().to_vec()).build();
        expected.push((new.event.id, new.content.clone().unwrap()));
        world.accept(new).await;
    }
    let mut ids: Vec<_> = expected.iter().map(|(id, _)| *id).collect();
    ids.push(wakepost_domain::EventId(world.id()));
    let mut found = world.store.contents(ids).await.unwrap();
    found.sort_by_key(|(id, _)| *id);
    assert_eq!(found, expected);
    assert!(world.store.contents(vec![]).await.unwrap().is_empty());
}
