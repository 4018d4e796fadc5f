//! Many seeds: each in a process of its own, since what a process has done before must not matter.

use std::collections::BTreeSet;
use std::ops::Range;
use std::process::{Command, ExitCode, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;

use crate::control::Control;
use crate::options::Common;
use crate::places::Places;

/// What a process says in its last line when nothing was wrong.
pub const OUTCOME: &str = "outcome ";
/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(10);
/// After so many bad seeds the others are not run.
const FAILED_MAX: usize = 10;

/// What is wanted of seeds besides that nothing is wrong.
#[derive(Clone, Copy)]
pub struct Wanted {
    /// That each goes the same way twice.
    pub twice: bool,
    /// That they get to every place within reach.
    pub all_places: bool,
}

/// Sums over all seeds.
#[derive(Default)]
struct Sums {
    seeds: u64,
    counts: [u64; 7],
    places: Places,
    /// Seeds that went wrong, and what was said of them.
    failed: Vec<(u64, String)>,
}

/// Runs seeds on all cores.
pub fn run(range: Range<u64>, wanted: Wanted, common: Common) -> anyhow::Result<ExitCode> {
    let seeds = range.end - range.start;
    let (next, sums) = (AtomicU64::new(range.start), Mutex::new(Sums::default()));
    let (began, shown) = (Instant::now(), Mutex::new(Instant::now()));
    let threads = std::thread::available_parallelism()?.get();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let is_over = lock(&sums).failed.len() >= FAILED_MAX;
                    if seed >= range.end || is_over {
                        return;
                    }
                    let ran = one(seed, wanted.twice, common);
                    let mut sums = lock(&sums);
                    sums.add(seed, ran);
                    let mut shown = lock(&shown);
                    if shown.elapsed() >= PROGRESS {
                        *shown = Instant::now();
                        println!("{}/{seeds} seeds: {sums}", sums.seeds);
                    }
                }
            });
        }
    });
    let mut sums = sums.into_inner().expect("no thread panics while holding it");
    println!("{} seeds in {:.0} s: {sums}", sums.seeds, began.elapsed().as_secs_f64());
    println!("{}", sums.places.report());
    sums.failed.sort();
    for (seed, what) in &sums.failed {
        println!("seed {seed}:\n{what}");
    }
    if let Some((seed, _)) = sums.failed.first() {
        println!("again: cargo xtask simulate --seed {seed} --trace");
    }
    let surprises = if wanted.all_places { sums.places.surprises() } else { Vec::new() };
    if !surprises.is_empty() {
        println!("reached though out of reach, or not reached though within it: {surprises:?}");
    }
    let good = match common.control {
        None => sums.failed.is_empty() && surprises.is_empty(),
        Some(control) => sums.has_noticed(control),
    };
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics while holding it")
}

/// Runs a seed; answers its last line, or what was wrong.
fn one(seed: u64, twice: bool, common: Common) -> Result<String, String> {
    let first = process(seed, common)?;
    if twice {
        let second = process(seed, common)?;
        if first != second {
            return Err(format!("the same seed went two ways:\n{first}\n{second}"));
        }
    }
    Ok(first)
}

fn process(seed: u64, common: Common) -> Result<String, String> {
    let output = command(seed, common).and_then(|mut command| Ok(command.output()?));
    let Output { status, stdout, stderr } = output.map_err(|error| error.to_string())?;
    let (said, log) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let last = said.lines().last().and_then(|line| line.strip_prefix(OUTCOME));
    match last {
        Some(outcome) if status.success() => Ok(outcome.to_owned()),
        _ => Err(format!("{said}{log}{status}")),
    }
}

fn command(seed: u64, common: Common) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["one", "--seed", &seed.to_string()]);
    if let Some(control) = common.control.and_then(|control| control.to_possible_value()) {
        command.args(["--control", control.get_name()]);
    }
    Ok(command)
}

/// The rules that a seed saw broken; none if it did not come to its end, or went two ways.
fn broken(what: &str) -> Option<BTreeSet<&str>> {
    let (said, _) = what.split_once(&format!("\n{OUTCOME}"))?;
    let rules = said.lines().filter_map(|line| Some(line.split_once(": ")?.0));
    let rules: BTreeSet<_> = rules.filter(|rule| !rule.contains(' ')).collect();
    (!rules.is_empty()).then_some(rules)
}

impl Sums {
    /// Whether a promise broken on purpose was noticed by the rules that are there for it. That some seed failed is not
    /// enough: it may have failed for another reason.
    fn has_noticed(&self, control: Control) -> bool {
        let mut missing: BTreeSet<&str> = control.rules().iter().copied().collect();
        let mut all_ended = true;
        for (seed, what) in &self.failed {
            match broken(what) {
                Some(rules) => missing.retain(|rule| !rules.contains(rule)),
                None => {
                    println!("seed {seed} did not come to its end");
                    all_ended = false;
                }
            }
        }
        if !missing.is_empty() {
            println!("the broken promise was not noticed by {missing:?}");
        }
        missing.is_empty() && all_ended
    }

    fn add(&mut self, seed: u64, ran: Result<String, String>) {
        self.seeds += 1;
        match ran {
            Ok(outcome) => {
                let words: Vec<&str> = outcome.splitn(self.counts.len() + 2, ' ').collect();
                let numbers = words.iter().skip(1).map(|word| word.parse().unwrap_or(0));
                self.counts.iter_mut().zip(numbers).for_each(|(sum, more): (_, u64)| *sum += more);
                let places = words.last().and_then(|places| places.parse().ok());
                self.places.add(&places.unwrap_or_default());
            }
            Err(what) => self.failed.push((seed, what)),
        }
    }
}

impl std::fmt::Display for Sums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [events, jobs, leases, requests, crashes, faults, seconds] = self.counts;
        let (hours, failed) = (seconds / 3600, self.failed.len());
        write!(
            f,
            "events {events}, jobs {jobs}, leases {leases}, requests to receivers {requests}, crashes {crashes}, other \
             faults {faults}, simulated hours {hours}, bad seeds {failed}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noticed(whats: &[&str]) -> bool {
        let failed = whats.iter().map(|what| (1, (*what).to_owned())).collect();
        Sums { failed, ..Sums::default() }.has_noticed(Control::Fencing)
    }

    #[test]
    fn a_control_is_noticed_by_its_own_rules_only() {
        let both = "E2: job_1 did charge 2 times\nL1: two leases\noutcome 01 2 3\nexit status: 1";
        assert!(noticed(&[both]));
        let one = "E2: 3 more\noutcome 01 2 3\nexit status: 1";
        assert!(!noticed(&[one]));
        assert!(noticed(&[one, "L1: two leases\noutcome 01 2 3\nexit status: 1"]));
        let others = "U1: job_1 is there 2 times\noutcome 01 2 3\nL1: in the log\nE2: there";
        assert!(!noticed(&[others]));
    }

    #[test]
    fn a_seed_that_breaks_off_notices_nothing() {
        assert!(!noticed(&["L1: a\nE2: b\nthread panicked\nexit status: 101"]));
        assert!(!noticed(&["the same seed went two ways:\n01 2\n02 2"]));
        assert!(!noticed(&[]));
    }
}
