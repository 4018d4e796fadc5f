//! Sequences that once failed, or that chance seldom leads to: each is run before any new one.

use crate::wish::{Bounds, HookPick, NewJobWish, PublicationWish, Wish};

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
