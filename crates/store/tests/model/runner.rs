//! Makes sequences up, one from each seed, and looks for the shortest that fails.

use std::panic::AssertUnwindSafe;
use std::time::{Instant, UNIX_EPOCH};

use futures_util::FutureExt;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::chance::{bounds, wish};
use crate::compare::Checked;
use crate::databases::Database;
use crate::kept;
use crate::sequence;
use crate::tally::Tally;
use crate::wish::{Bounds, Wish};

const SEQUENCES: u64 = 256;
const MOVES: usize = 40;
/// How often a shorter sequence is tried.
const SHRINKS_MAX: usize = 600;

/// Runs as many sequences as were asked for. The seeds are those after `WAKEPOST_MODEL_SEED`, or new ones.
pub fn run<D: Database>() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let sequences = number("WAKEPOST_MODEL_SEQUENCES").unwrap_or(SEQUENCES);
    let first = number("WAKEPOST_MODEL_SEED")
        .unwrap_or_else(|| UNIX_EPOCH.elapsed().unwrap().as_millis() as u64);
    let began = Instant::now();
    runtime.block_on(async {
        let mut database = D::open().await;
        let mut tally = Tally::default();
        for (bounds, wishes) in kept::sequences() {
            if let Err(why) = attempt(&mut database, bounds, &wishes, &mut tally).await {
                panic!("{}", report::<D>("a kept sequence", bounds, &wishes, &why));
            }
        }
        for seed in (first..).take(sequences as usize) {
            if let Some(failure) = find(&mut database, seed, &mut tally).await {
                database.close().await;
                panic!("{failure}");
            }
        }
        database.close().await;
        println!("{tally}");
    });
    let took = began.elapsed().as_secs_f64();
    println!(
        "{}: {sequences} sequences of {MOVES} moves from seed {first} in {took:.1} s",
        D::NAME
    );
}

/// The shortest failing sequence that is found from a seed, if its own fails.
async fn find<D: Database>(database: &mut D, seed: u64, tally: &mut Tally) -> Option<String> {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let sequences = (bounds(), proptest::collection::vec(wish(), MOVES));
    let (bounds, mut shortest) = sequences.new_tree(&mut runner).unwrap().current();
    let mut why = attempt(database, bounds, &shortest, tally).await.err()?;
    // A wish means something whatever was before it, so leaving moves out is all the shortening that is needed.
    let mut tries = 0;
    let mut leave_out = MOVES / 2;
    while leave_out > 0 {
        let (mut from, mut is_shorter) = (0, false);
        while from < shortest.len() && tries < SHRINKS_MAX {
            let until = (from + leave_out).min(shortest.len());
            let shorter = [&shortest[..from], &shortest[until..]].concat();
            tries += 1;
            match attempt(database, bounds, &shorter, tally).await {
                Err(again) => (shortest, why, is_shorter) = (shorter, again, true),
                Ok(()) => from = until,
            }
        }
        if leave_out > 1 || !is_shorter || tries >= SHRINKS_MAX {
            leave_out /= 2;
        }
    }
    let seed =
        format!("seed {seed}, again by WAKEPOST_MODEL_SEED={seed} WAKEPOST_MODEL_SEQUENCES=1");
    Some(report::<D>(&seed, bounds, &shortest, &why))
}

async fn attempt<D: Database>(
    database: &mut D,
    bounds: Bounds,
    wishes: &[Wish],
    tally: &mut Tally,
) -> Checked {
    let run = AssertUnwindSafe(sequence::run(database, bounds, wishes, tally)).catch_unwind();
    run.await.unwrap_or_else(|_| Err("a panic, shown above".to_owned()))
}

fn report<D: Database>(of: &str, bounds: Bounds, wishes: &[Wish], why: &str) -> String {
    let moves: Vec<String> =
        wishes.iter().zip(1..).map(|(wish, nth)| format!("{nth:4}. {wish:?}")).collect();
    format!(
        "{} and the model differ, {why}\n\nThe shortest sequence found, with {bounds:?}:\n{}\n\nof {of}",
        D::NAME,
        moves.join("\n")
    )
}
