//! How wishes are made up: how often each is, and what makes things meet.

use proptest::prelude::*;
use wakepost_domain::thread::ThreadPolicy;

use crate::wish::{
    BeginWish, Bounds, EndWish, Hand, HookPick, NewEventWish, NewJobWish, Pick, PublicationWish,
    ThreadWish, Wish,
};

fn hand() -> impl Strategy<Value = Hand> {
    (
        prop_oneof![2 => Just(0u8), 1 => 0..8u8],
        prop::bool::weighted(0.12),
        prop::bool::weighted(0.04),
    )
        .prop_map(|(nth, stale, foreign)| Hand { nth, stale, foreign })
}

fn pick() -> impl Strategy<Value = Pick> {
    (0..16u8, prop::bool::weighted(0.15), prop::bool::weighted(0.08))
        .prop_map(|(nth, any, foreign)| Pick { nth, any, foreign })
}

/// One of two or none: mostly the same one, so that things meet.
fn same(some: f64) -> impl Strategy<Value = Option<u8>> {
    prop::option::weighted(some, prop_oneof![3 => Just(0u8), 1 => Just(1)])
}

/// One of a few, or none.
fn few(most: u8, some: f64) -> impl Strategy<Value = Option<u8>> {
    prop::option::weighted(some, 0..most)
}

/// One of two, of which one is in use far more often than the other, so that several runs meet over it.
fn key() -> impl Strategy<Value = u8> {
    prop_oneof![3 => Just(0u8), 1 => Just(1)]
}

fn tenant() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.3)
}

fn thread() -> impl Strategy<Value = ThreadWish> {
    let policy = prop_oneof![
        1 => Just(ThreadPolicy::Off),
        1 => Just(ThreadPolicy::Queue),
        3 => Just(ThreadPolicy::Merge),
        3 => Just(ThreadPolicy::Interrupt),
    ];
    let quiet = (prop_oneof![Just(0u8), 1..20u8], 0..40u8);
    (policy, prop::bool::weighted(0.1), quiet).prop_map(
        |(policy, only_if_known, (quiet_s, cap_s))| ThreadWish {
            policy,
            only_if_known,
            quiet_s,
            cap_s,
        },
    )
}

fn event() -> impl Strategy<Value = NewEventWish> {
    let keys = (0..16u8, few(16, 0.15), prop_oneof![5 => 600..601u16, 1 => 1..120u16]);
    let others = (same(0.5), same(0.35), same(0.7), any::<bool>());
    let thread = prop::option::weighted(0.4, thread());
    (thread, keys, others, prop::bool::weighted(0.4), prop::bool::weighted(0.9)).prop_map(
        |(
            thread,
            (key, second_key, window_s),
            (order, coalesce, subject, is_reply),
            calls_back,
            job,
        )| {
            NewEventWish {
                thread,
                key,
                second_key,
                window_s,
                order,
                coalesce,
                subject,
                is_reply,
                calls_back,
                makes_job: job,
            }
        },
    )
}

fn job() -> impl Strategy<Value = NewJobWish> {
    let when = prop::option::weighted(0.25, 1..200u16);
    let what = (few(3, 0.15), same(0.4), same(0.6), few(3, 0.5));
    let flags = (any::<bool>(), any::<bool>(), prop::bool::weighted(0.06), any::<bool>());
    (when, what, flags, prop_oneof![1 => Just(1i32), 4 => 2..4i32]).prop_map(
        |(
            delay_s,
            (key, order, subject, cancel_on),
            (of_source, calls_back, over_hops, with_input),
            max_attempts,
        )| {
            NewJobWish {
                of_source,
                delay_s,
                key,
                order,
                subject,
                cancel_on,
                calls_back,
                max_attempts,
                over_hops,
                with_input,
            }
        },
    )
}

fn publication() -> impl Strategy<Value = PublicationWish> {
    let key =
        (few(3, 0.4), prop::bool::weighted(0.2), prop_oneof![5 => 600..601u16, 1 => 1..120u16]);
    let hooks = prop::array::uniform2(prop::bool::weighted(0.7));
    let delay = prop::option::weighted(0.15, 1..200u16);
    (key, hooks, same(0.6), same(0.3), delay).prop_map(
        |((key, differs, window_s), hooks, order, subject, delay_s)| PublicationWish {
            key,
            differs,
            window_s,
            hooks,
            order,
            subject,
            delay_s,
        },
    )
}

fn hook() -> impl Strategy<Value = HookPick> {
    (tenant(), prop::bool::weighted(0.3))
        .prop_map(|(second_tenant, second)| HookPick { second_tenant, second })
}

/// Something about webhooks.
fn by_subscriber() -> impl Strategy<Value = Wish> {
    let rest = || prop::option::weighted(0.6, prop_oneof![3 => 1..150u16, 1 => Just(u16::MAX)]);
    let few_times = || prop::bool::weighted(0.1);
    prop_oneof![
        8 => (tenant(), prop::collection::vec(publication(), 1..4))
            .prop_map(|(t, events)| Wish::Publish(t, events)),
        3 => (hook(), rest(), few_times(), few_times())
            .prop_map(|(hook, for_s, stale, foreign)| Wish::Shut { hook, for_s, stale, foreign }),
        2 => (hook(), any::<bool>(), 0..5u8)
            .prop_map(|(hook, gives_up, limit)| Wish::EndWaiting { hook, gives_up, limit }),
        2 => (hook(), any::<bool>()).prop_map(|(hook, ordered)| Wish::Backfill(hook, ordered)),
    ]
}

fn end() -> impl Strategy<Value = EndWish> {
    prop_oneof![
        3 => Just(EndWish::Succeed),
        1 => Just(EndWish::SucceedWithReply),
        2 => Just(EndWish::Retry),
        4 => prop_oneof![Just(0u16), 0..90u16].prop_map(EndWish::RetryAfter),
        2 => Just(EndWish::GiveUp),
        1 => Just(EndWish::FailProbe),
        1 => Just(EndWish::HandBack),
        1 => Just(EndWish::Hold),
        1 => Just(EndWish::Stop),
    ]
}

fn begin() -> impl Strategy<Value = BeginWish> {
    let draft = prop::option::weighted(0.3, prop_oneof![Just(3600u16), 1..100u16]);
    (any::<bool>(), key(), key(), prop::bool::weighted(0.3), draft).prop_map(
        |(again, key, text, executes_on_doubt, draft_s)| BeginWish {
            again,
            key,
            text,
            executes_on_doubt,
            draft_s,
        },
    )
}

/// Something about a run: most of what happens.
fn by_worker() -> impl Strategy<Value = Wish> {
    let cost = || few(9, 0.3);
    prop_oneof![
        4 => (hand(), 0..200u16, cost()).prop_map(|(h, s, c)| Wish::Heartbeat(h, s, c)),
        1 => hand().prop_map(Wish::FollowUp),
        1 => (hand(), any::<u8>()).prop_map(|(h, text)| Wish::Checkpoint(h, text)),
        1 => (hand(), any::<u8>()).prop_map(|(h, text)| Wish::Progress(h, text)),
        11 => (hand(), begin()).prop_map(|(h, begin)| Wish::Begin(h, begin)),
        3 => (hand(), key()).prop_map(|(h, key)| Wish::Commit(h, key)),
        1 => (hand(), key()).prop_map(|(h, key)| Wish::Abort(h, key)),
        2 => (hand(), key()).prop_map(|(h, text)| Wish::Ask(h, text)),
        9 => (hand(), end(), cost(), prop::bool::weighted(0.15))
            .prop_map(|(hand, end, cost, twice)| Wish::Settle { hand, end, cost, twice }),
    ]
}

fn by_operator() -> impl Strategy<Value = Wish> {
    prop_oneof![
        4 => (pick(), key(), any::<bool>()).prop_map(|(p, key, done)| Wish::Resolve(p, key, done)),
        8 => (pick(), prop::bool::weighted(0.75), prop::bool::weighted(0.85))
            .prop_map(|(pick, approved, as_seen)| Wish::Decide { pick, approved, as_seen }),
        5 => pick().prop_map(Wish::Cancel),
        2 => (tenant(), key()).prop_map(|(t, subject)| Wish::CancelSubject(t, subject)),
        3 => pick().prop_map(Wish::Release),
        1 => pick().prop_map(Wish::ReleaseInto),
        1 => tenant().prop_map(Wish::HoldOverBudget),
        5 => (pick(), any::<bool>()).prop_map(|(p, fresh)| Wish::Replay(p, fresh)),
        1 => pick().prop_map(Wish::ReplayEvent),
        1 => tenant().prop_map(Wish::ReplayDead),
        1 => tenant().prop_map(Wish::Purge),
        1 => tenant().prop_map(Wish::ForgetBodies),
    ]
}

fn by_time() -> impl Strategy<Value = Wish> {
    prop_oneof![
        2 => any::<bool>().prop_map(|waits| Wish::ExpireApprovals { waits }),
        8 => prop::bool::weighted(0.8).prop_map(|waits| Wish::Rescue { waits }),
        1 => any::<u8>().prop_map(Wish::RescueLate),
        4 => prop::bool::weighted(0.8).prop_map(|waits| Wish::Fire { waits }),
        2 => (tenant(), any::<bool>()).prop_map(|(t, ordered)| Wish::Schedule(t, ordered)),
        1 => (pick(), prop::bool::weighted(0.7), prop::bool::weighted(0.3))
            .prop_map(|(pick, enabled, stale)| Wish::ChangeSchedule { pick, enabled, stale }),
        1 => pick().prop_map(Wish::DeleteSchedule),
        4 => (1..5i32).prop_map(Wish::StepClock),
        6 => (5..150i32).prop_map(Wish::StepClock),
        1 => (1000..90_000i32).prop_map(Wish::StepClock),
        1 => prop_oneof![-150..0i32, -7200..-150i32].prop_map(Wish::StepClock),
    ]
}

fn claim() -> impl Strategy<Value = Wish> {
    let lanes = prop_oneof![3 => Just(u16::MAX), 2 => any::<u16>()];
    let lease = prop_oneof![Just(100u16), 1..300u16];
    prop_oneof![
        8 => (lanes, 1..5u8, lease, prop_oneof![Just(1000u16), 1..300u16])
            .prop_map(|(lanes, count, lease_s, run_s)| Wish::Claim { lanes, count, lease_s, run_s }),
        1 => pick().prop_map(Wish::ClaimOne),
    ]
}

/// Everything but what a crash can be in the middle of.
fn call() -> impl Strategy<Value = Wish> {
    prop_oneof![
        6 => (tenant(), event()).prop_map(|(t, event)| Wish::Accept(t, event)),
        3 => (tenant(), prop::collection::vec(job(), 1..4)).prop_map(|(t, jobs)| Wish::Create(t, jobs)),
        8 => claim(),
        8 => by_subscriber(),
        26 => by_worker(),
        12 => by_operator(),
    ]
}

pub fn wish() -> impl Strategy<Value = Wish> {
    prop_oneof![
        80 => call(),
        20 => by_time(),
        2 => (tenant(), event()).prop_map(|(t, event)| Wish::AcceptCopies(t, event)),
        1 => Just(Wish::Crash),
        1 => call().prop_map(|wish| Wish::Cut(Box::new(wish))),
    ]
}

pub fn bounds() -> impl Strategy<Value = Bounds> {
    let some = |most: u32| prop::option::weighted(0.2, 1..=most);
    // A gap of whole milliseconds between two starts.
    let rate = prop::option::weighted(0.2, prop_oneof![Just(1u32), Just(2), Just(4)]);
    (some(3), some(2), rate, some(5), some(6)).prop_map(
        |(tenant_running, source_running, source_rate, runs, cost)| Bounds {
            tenant_running,
            source_running,
            source_rate,
            source_runs_per_day: runs,
            source_cost_per_day: cost,
        },
    )
}
