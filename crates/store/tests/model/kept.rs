//! Sequences that once failed, or that chance seldom leads to: each is run before any new one.

use crate::wish::{Bounds, HookPick, NewEventWish, NewJobWish, PublicationWish, Wish};

const UNBOUND: Bounds = Bounds {
    tenant_running: None,
    source_running: None,
    source_rate: None,
    source_runs_per_day: None,
    source_cost_per_day: None,
};

pub fn sequences() -> Vec<(Bounds, Vec<Wish>)> {
    vec![
        (UNBOUND, all_of_an_order_key_are_cancelled_and_none_is_let_go()),
        (UNBOUND, all_of_an_order_key_are_ended_and_none_is_let_go()),
        (UNBOUND, an_expired_key_goes_with_its_body()),
    ]
}

/// SQLite let an item go, and moved its time, that the same call then cancelled.
fn all_of_an_order_key_are_cancelled_and_none_is_let_go() -> Vec<Wish> {
    let job = NewJobWish {
        of_source: false,
        delay_s: None,
        key: None,
        order: Some(0),
        subject: Some(0),
        cancel_on: None,
        calls_back: true,
        max_attempts: 1,
        over_hops: false,
        with_input: false,
    };
    let jobs = Wish::Create(false, vec![job.clone(), job]);
    vec![jobs, Wish::StepClock(5), Wish::CancelSubject(false, 0)]
}

/// The same of a webhook's queue, which chance seldom leads to.
fn all_of_an_order_key_are_ended_and_none_is_let_go() -> Vec<Wish> {
    let event = PublicationWish {
        key: None,
        differs: false,
        window_s: 600,
        hooks: [true, true],
        order: Some(0),
        subject: None,
        delay_s: None,
    };
    let hook = HookPick { second_tenant: false, second: false };
    let end = Wish::EndWaiting { hook, gives_up: true, limit: 5 };
    vec![Wish::Publish(false, vec![event.clone(), event]), Wish::StepClock(5), end]
}

/// An expired key was taken over although the body it guards was there.
fn an_expired_key_goes_with_its_body() -> Vec<Wish> {
    let event = |key, second_key, window_s, makes_job| {
        let event = NewEventWish {
            thread: None,
            key,
            second_key,
            window_s,
            order: None,
            coalesce: None,
            subject: None,
            is_reply: false,
            calls_back: false,
            makes_job,
        };
        Wish::Accept(false, event)
    };
    let publication = PublicationWish {
        key: Some(0),
        differs: false,
        window_s: 10,
        hooks: [false, false],
        order: None,
        subject: None,
        delay_s: None,
    };
    let out = || Wish::Publish(false, vec![publication.clone()]);
    vec![
        // The job of the first keeps its body; nothing keeps the second's.
        event(0, None, 10, true),
        event(1, Some(2), 10, false),
        out(),
        Wish::StepClock(20),
        event(0, None, 600, false),
        event(2, None, 600, false),
        event(3, Some(1), 600, false),
        out(),
        Wish::ForgetBodies(false),
        event(0, None, 600, false),
        event(2, Some(0), 600, false),
        event(1, None, 600, false),
        event(3, Some(2), 600, false),
        out(),
    ]
}
