//! An agent is killed in the middle of an effect, between effect and commit, after the commit, or whenever: what it
//! did happens once, or is reported in doubt, and never twice.
//!
//! `cargo xtask sdk-kills` runs it at length.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use wakepost_tests::{Database, Sdk, on_both, until};

use super::World;

on_both!(
    an_agent_in_rust_can_be_killed_anywhere,
    an_agent_in_python_can_be_killed_anywhere,
    an_agent_in_typescript_can_be_killed_anywhere,
);

/// How many trials of each SDK on each database, unless the environment says otherwise.
const TRIALS: usize = 10;
/// How many go on at once.
const AT_ONCE: usize = 5;

async fn an_agent_in_rust_can_be_killed_anywhere(database: Database) {
    try_all(Sdk::Rust, database).await;
}

async fn an_agent_in_python_can_be_killed_anywhere(database: Database) {
    try_all(Sdk::Python, database).await;
}

async fn an_agent_in_typescript_can_be_killed_anywhere(database: Database) {
    try_all(Sdk::TypeScript, database).await;
}

/// Where the agent is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The effect is begun, and nothing has happened.
    BeforeTheAct,
    /// It happened, and nobody was told.
    BeforeTheCommit,
    /// It was told.
    AfterTheCommit,
    /// This long after the agent was started.
    Whenever(Duration),
}

/// What a trial came to.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    trials: usize,
    in_doubt: usize,
    /// Acts that were never begun before the kill.
    untouched: usize,
}

async fn try_all(sdk: Sdk, database: Database) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let trials = number("WAKEPOST_SDK_TRIALS").unwrap_or(TRIALS as u64) as usize;
    let seed = number("WAKEPOST_SDK_SEED").unwrap_or_else(|| {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).expect("random bytes");
        u64::from_le_bytes(bytes) >> 16
    });
    let world = World::start(sdk, database).await;
    let mut chance = Chance(seed);
    let moments: Vec<Moment> = (0..trials).map(|number| chance.moment(number)).collect();
    println!("{sdk:?}: {trials} trials, seed {seed}");
    let world = &world;
    let tallies: Vec<Tally> = stream::iter(moments.into_iter().enumerate())
        .map(|(number, moment)| trial(world, number, moment))
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let sum = tallies.into_iter().fold(Tally::default(), |sum, one| Tally {
        trials: sum.trials + one.trials,
        in_doubt: sum.in_doubt + one.in_doubt,
        untouched: sum.untouched + one.untouched,
    });
    println!("{sdk:?}: {sum:?}, every act happened once");
    assert_eq!(sum.trials, trials);
}

/// One job with one effect, one agent that is killed, and one that takes over.
async fn trial(world: &World, number: usize, moment: Moment) -> Tally {
    let kind = format!("trial-{number}");
    let (path, place) = (format!("/charge/{number}"), format!("trial-{number}"));
    let mut effect = json!({"effect": "charge", "post": path});
    let mut steps = vec![];
    match moment {
        Moment::BeforeTheAct => effect["before"] = place.clone().into(),
        Moment::BeforeTheCommit => effect["inside"] = place.clone().into(),
        Moment::AfterTheCommit => steps.push(json!({"at": place})),
        Moment::Whenever(_) => {}
    }
    steps.insert(0, effect);
    let id = world.job_of(&kind, steps.into()).await;
    let mut settings = vec![("AGENT_KINDS", kind.as_str()), ("AGENT_LEASE_S", "1")];
    let control = std::env::var_os("WAKEPOST_SDK_CONTROL").is_some();
    if control {
        settings.push(("AGENT_WITHOUT_LEDGER", "1"));
    }

    let first = world.agent(&settings).await;
    match moment {
        Moment::Whenever(pause) => tokio::time::sleep(pause).await,
        _ => drop(world.meeting.wait_at(&place, 1).await),
    }
    first.kill().await;
    let untouched = world.show(&id).await["effects"].as_array().is_none_or(Vec::is_empty);
    world.meeting.open(&place);
    let _second = world.agent(&settings).await;
    let settled = until("the job ends, or waits for an operator", || async {
        let job = world.show(&id).await;
        let is_settled = job["status"] == "succeeded" || job["status"] == "held";
        is_settled.then_some(job)
    })
    .await;
    let in_doubt = settled["status"] == "held";
    if in_doubt {
        assert_eq!(settled["held_reason"], "in_doubt", "{moment:?}");
        let happened = !world.meeting.came(&path).is_empty();
        world.resolve(&id, "charge", if happened { "committed" } else { "not_done" }).await;
        world.becomes(&id, "succeeded").await;
    }
    let acts = world.meeting.came(&path);
    assert_eq!(acts.len(), 1, "{moment:?}: {acts:?}");
    if !control {
        check_doubt(moment, in_doubt, &settled);
    }
    Tally { trials: 1, in_doubt: in_doubt.into(), untouched: untouched.into() }
}

/// Doubt where there is reason for it, and only there.
fn check_doubt(moment: Moment, in_doubt: bool, job: &Value) {
    match moment {
        Moment::BeforeTheAct | Moment::BeforeTheCommit => assert!(in_doubt, "{moment:?}: {job}"),
        Moment::AfterTheCommit => assert!(!in_doubt, "{moment:?}: {job}"),
        Moment::Whenever(_) => {}
    }
}

/// Plain chance from a seed, so that a run's choices can be made again.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % below
    }

    /// The first trials go through all moments, so that few of them miss none; then chance decides.
    fn moment(&mut self, trial: usize) -> Moment {
        let of = if trial < TRIALS { trial as u64 % 4 } else { self.next(4) };
        match of {
            0 => Moment::BeforeTheAct,
            1 => Moment::BeforeTheCommit,
            2 => Moment::AfterTheCommit,
            _ => Moment::Whenever(Duration::from_millis(self.next(400))),
        }
    }
}
