//! One simulation from its seed to its verdict: lives of the server and the times between them, until the story is told.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::FuturesUnordered;
use wakepost_crash::chance::Chance;
use wakepost_crash::told::Problem;
use wakepost_domain::Timestamp;
use wakepost_store::failpoint;
use wakepost_store::moves::{CheckScope, Checked, Checks};
use wakepost_store::sqlite::{Drive, Durability, Sqlite};

use crate::chance::Seeded;
use crate::clients::Desk;
use crate::faults::Faults;
use crate::life::{Clients, End, live};
use crate::places::Places;
use crate::receiver::Receiver;
use crate::server::Making;
use crate::story::{self, Cast};
use crate::time::Time;
use crate::trace::Trace;
use crate::world::World;

/// The longest life while things go wrong, and at all, in simulated time.
const LIFE_MAX_MS: u64 = 90_000;
const LIFE_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// More lives than this is a server that cannot be started.
const LIVES_MAX: u32 = 1000;

/// More rows than any simulation has.
const ROWS_MAX: i64 = 1_000_000;

/// What came of a simulation.
pub struct Outcome {
    /// The hash of its trace.
    pub hash: String,
    /// Broken promises, in words.
    pub violations: Vec<String>,
    /// Numbers for the report: events, jobs, leases, deliveries tried, crashes, other faults, simulated seconds.
    pub counts: [u64; 7],
    /// Where something could go wrong, and did.
    pub places: Places,
}

/// Runs it. The directory is empty, and is not removed.
pub fn run(
    seed: u64,
    control: Option<&'static str>,
    is_shown: bool,
    directory: &Path,
) -> anyhow::Result<Outcome> {
    let (time, trace) = (Arc::new(Time::default()), Rc::new(Trace::new(is_shown)));
    let faults = Rc::new(Faults::new(seed, time.clone()));
    let world = Rc::new(World::new(time.clone(), faults.clone(), trace.clone()));
    let at_places = world.clone();
    failpoint::choose(move |place, passing| {
        let whim = at_places.faults.at(place, passing);
        match whim {
            Some(whim) => at_places.note(format_args!("  {place}: {whim:?}")),
            None => return at_places.faults.drag(place),
        }
        whim
    });
    let receiver = Arc::new(Receiver::new(seed, time.clone()));
    let making = Making {
        directory: directory.to_owned(),
        time,
        entropy: Arc::new(Seeded::new(seed, 4)),
        client: receiver.clone(),
        key: 0,
    };
    let desk = Desk::new(world.clone());
    let cast =
        Cast { seed, receiver: receiver.clone(), directory: PathBuf::from(directory), control };
    let crashes = lives(&world, &desk, making.clone(), seed, cast)?;
    for (rule, problem) in rows(&making)? {
        desk.told.violation(rule, problem);
    }
    let (told, counts) = (&desk.told, desk.told.counts());
    let found = told.lock().found;
    let requests = receiver.seen().requests();
    let violations = told.described();
    Ok(Outcome {
        hash: trace.hash(),
        violations,
        counts: [
            found.events as u64 + desk.record.known_publications() as u64,
            found.jobs as u64,
            counts.leases,
            requests,
            u64::from(crashes),
            faults.acted(),
            world.time.passed().as_secs(),
        ],
        places: faults.places(),
    })
}

/// What the rows themselves show to be wrong, by the statements that `wakepost doctor` asks.
fn rows(making: &Making) -> anyhow::Result<Vec<Problem>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    runtime.block_on(async {
        let clock = making.time.clone();
        let store = Sqlite::open(&making.directory, clock, Durability::Full, Drive::Inline)?;
        let beginning = Timestamp::from_millis(0);
        let scope = CheckScope { since: beginning, runs_since: beginning, rows_max: ROWS_MAX };
        let checked = store.check(scope).await?.into_iter().filter(|one| !one.wrong.is_empty());
        let problem = |one: Checked| {
            let (check, wrong) = (one.check, one.wrong);
            (check.invariants, format!("not so: {}: {wrong:?}", check.says))
        };
        Ok(checked.map(problem).collect())
    })
}

/// Lets the server live until the story is told; answers how often it crashed.
fn lives(
    world: &Rc<World>,
    desk: &Desk,
    making: Making,
    seed: u64,
    cast: Cast,
) -> anyhow::Result<u32> {
    let mut chance = Chance::new(seed, 5);
    let mut clients: Clients = FuturesUnordered::new();
    let mut story = story::tell(desk.clone(), cast).boxed_local();
    let mut crashes = 0;
    for _ in 0..LIVES_MAX {
        let limit = match world.faults.are_on() {
            true => chance.millis(1, LIFE_MAX_MS),
            false => LIFE_MAX,
        };
        world.faults.begin_life(limit == LIFE_MAX);
        let making = making.with_key(crashes);
        let end = live(world, Some(making), limit, &mut clients, &mut story)?;
        if end == End::Told {
            return Ok(crashes);
        }
        if end == End::NotStarted && world.faults.is_calm() {
            break;
        }
        crashes += 1;
        world.note(format_args!("the server is gone: {end:?}"));
        world.faults.revive();
        let away = chance.millis(0, if chance.clone().percent(20) { 40_000 } else { 1500 });
        if live(world, None, away, &mut clients, &mut story)? == End::Told {
            return Ok(crashes);
        }
        if world.faults.are_on() && chance.percent(20) {
            let by = i64::try_from(chance.within(0, 120_000)).unwrap_or(0) - 60_000;
            let by = world.time.step(by);
            world.note(format_args!("the clock is set by {by} ms"));
            desk.told.clock_was_set();
        }
    }
    desk.told.violation("start", "the server cannot be started".to_owned());
    Ok(crashes)
}
