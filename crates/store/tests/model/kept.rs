//! Sequences that once failed: each is run before any new one.

use crate::wish::{Bounds, NewJobWish, Wish};

const UNBOUND: Bounds = Bounds {
    tenant_running: None,
    source_running: None,
    source_rate: None,
    source_runs_per_day: None,
    source_cost_per_day: None,
};

pub fn sequences() -> Vec<(Bounds, Vec<Wish>)> {
    vec![(UNBOUND, all_of_an_order_key_are_cancelled_and_none_is_let_go())]
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
