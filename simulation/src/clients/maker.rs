//! A maker of jobs: some in lines, whose jobs share an order key and run in order, some for later.

use serde_json::json;
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::Said;
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;

use super::{Desk, Phase};

/// Jobs of one maker.
const JOBS_MAX: u64 = 20;
const LINES: u64 = 3;
/// Jobs for later that are made once faults have stopped.
const LAST: u64 = 4;
/// How often a job without an answer is asked for again before the maker gives its line up.
const TRIES_MAX: u32 = 10;

/// Makes jobs until faults have stopped.
pub async fn run(desk: Desk, mut chance: Chance, number: u64) {
    let mut given_up = Vec::new();
    for made in 1..=JOBS_MAX {
        desk.nap(&mut chance, 10, 6000).await;
        if desk.phase() != Phase::Load {
            return;
        }
        let line = format!("line-{number}-{}", chance.within(1, LINES));
        if given_up.contains(&line) {
            continue;
        }
        let known = match chance.percent(60) {
            true => in_line(&desk, &mut chance, &line, made).await,
            false => later(&desk, &mut chance, &format!("later-{number}-{made}")).await,
        };
        // What comes after it in its line is made only once it is known to be there.
        if !known {
            given_up.push(line);
        }
    }
}

/// Makes jobs for later while nothing goes wrong any more, so that some must come in time.
pub async fn in_time(desk: &Desk, chance: &mut Chance) {
    for made in 1..=LAST {
        later(desk, chance, &format!("last-{made}")).await;
    }
}

/// Makes one job of a line. Whether it is known to be there.
async fn in_line(desk: &Desk, chance: &mut Chance, line: &str, number: u64) -> bool {
    let body = json!({
        "kind": "lined-up", "input": {"line": line}, "max_attempts": 2,
        "order_key": line, "dedup_key": format!("{line}/{number}"),
    });
    let Some(id) = make(desk, chance, &body).await else { return false };
    desk.told.lined_up(line, &id);
    true
}

/// Makes one job for later. Whether it is known to be there.
async fn later(desk: &Desk, chance: &mut Chance, key: &str) -> bool {
    let now = desk.world.time.now().as_millis();
    let at = now + i64::try_from(chance.within(100, 120_000)).unwrap_or(0);
    let run_at = Timestamp::from_millis(at).to_string();
    let body = json!({"kind": "later", "input": {}, "run_at": run_at, "dedup_key": key});
    let Some(id) = make(desk, chance, &body).await else { return false };
    desk.record.runs_at(&id, at, desk.world.time.steps());
    true
}

/// Makes a job, however often that takes, and now and then asks for it once more.
async fn make(desk: &Desk, chance: &mut Chance, body: &serde_json::Value) -> Option<String> {
    desk.told.lining_up();
    let mut known: Option<String> = None;
    for _ in 0..TRIES_MAX {
        match desk.post("/jobs", body).await.said {
            Said::Yes(_, answer) => {
                let id = answer["id"].as_str().unwrap_or_default().to_owned();
                if known.as_ref().is_some_and(|known| *known != id) {
                    let both = format!("{body} was told two ids: {known:?} and {id}");
                    desk.told.violation("U1", both);
                }
                known = Some(id);
                if !chance.percent(15) {
                    break;
                }
            }
            Said::No(status, code) => {
                desk.told.violation("contract", format!("{body}: refused: {status} {code}"));
                break;
            }
            Said::Nothing if known.is_some() => break,
            Said::Nothing => {}
        }
    }
    known
}
