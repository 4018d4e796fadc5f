//! A client that makes jobs in lines: those of a line share an order key, and must run one at a time, in order.

use serde_json::json;

use super::{Desk, Phase};
use crate::caller::Said;
use crate::chance::Chance;

/// Lines of one client.
const LINES: u64 = 6;
/// Jobs of a line that may be open before the client waits.
const OPEN_MAX: usize = 4;
/// How often a job without an answer is asked for again before the client gives the line up.
const TRIES_MAX: u32 = 10;

/// Makes jobs until faults have stopped.
pub async fn run(desk: Desk, mut chance: Chance, number: u64) {
    let mut made = 0;
    let mut given_up = Vec::new();
    while desk.phase() == Phase::Load {
        let pause = chance.millis(10, 60);
        tokio::time::sleep(pause).await;
        let line = format!("line-{number}-{}", chance.within(1, LINES));
        if desk.told.open_in_line(&line) >= OPEN_MAX || given_up.contains(&line) {
            continue;
        }
        made += 1;
        // What comes after it in its line is made only once it is known to be there.
        if !make(&desk, &mut chance, &line, made).await {
            given_up.push(line);
        }
    }
}

/// Makes one job, however often that takes. Whether it is known to be there.
async fn make(desk: &Desk, chance: &mut Chance, line: &str, number: u64) -> bool {
    let body = json!({
        "kind": "lined-up", "input": {"line": line, "number": number}, "max_attempts": 1,
        "order_key": line, "dedup_key": format!("{line}/{number}"),
    });
    desk.told.lining_up();
    let mut known = false;
    for _ in 0..TRIES_MAX {
        match desk.caller.post(chance, "/jobs", &body).await.said {
            Said::Yes(_, answer) => {
                desk.told.lined_up(line, answer["id"].as_str().unwrap_or_default());
                known = true;
                // Now and then it is asked for once more, and must be the same.
                if !chance.percent(10) {
                    break;
                }
            }
            Said::No(status, code) => {
                desk.told.violation("contract", format!("{line}: refused: {status} {code}"));
                break;
            }
            Said::Nothing if known => break,
            Said::Nothing => {}
        }
    }
    known
}
