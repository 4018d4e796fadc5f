//! An operator who has things run again: one job that ended, the jobs of all events, all dead letters. Each is asked for
//! until it is answered, always under the same key, so that what was made of it is known.

use http::Method;
use serde_json::{Value, json};
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::Said;

use super::{Desk, Phase};

/// How much of each is asked for.
const JOBS_MAX: u32 = 6;
const BULK_MAX: u32 = 3;
const BULK: [&str; 2] = ["/inbox/replay", "/dead-letters/replay"];

/// Replays until faults have stopped.
pub async fn run(desk: Desk, mut chance: Chance) {
    let (mut jobs, mut bulk) = (0, 0);
    loop {
        desk.nap(&mut chance, 3000, 30_000).await;
        if desk.phase() != Phase::Load {
            return;
        }
        let scope = if chance.percent(20) { "fresh" } else { "same" };
        let body = json!({"note": "once more", "scope": scope});
        if chance.percent(60) && jobs < JOBS_MAX {
            jobs += 1;
            one(&desk, &mut chance, &body, &format!("replay-{jobs}")).await;
        } else if bulk < BULK_MAX {
            bulk += 1;
            let path = BULK[usize::from(chance.percent(50))];
            many(&desk, path, body, &format!("replays-{bulk}")).await;
        }
    }
}

async fn one(desk: &Desk, chance: &mut Chance, body: &Value, key: &str) {
    let status = if chance.percent(50) { "succeeded" } else { "dead_letter" };
    let ended = desk.call(Method::GET, &format!("/jobs?status={status}&limit=100"), None).await;
    let Said::Yes(_, ended) = ended.said else { return };
    let ended = ended["data"].as_array().cloned().unwrap_or_default();
    let Some(old) = chance.pick(&ended).and_then(|job| job["id"].as_str()) else { return };
    match desk.ask(Method::POST, &format!("/jobs/{old}/replay"), body, key).await {
        Said::Yes(_, answer) => {
            let new = answer["job_id"].as_str().unwrap_or_default();
            desk.repeats.replayed(old, new);
        }
        // It was replayed already.
        Said::No(409, code) if code == "invalid_state" => {}
        refused => {
            let refused = format!("{old}: a replay was refused: {refused:?}");
            desk.told.violation("contract", refused);
        }
    }
}

async fn many(desk: &Desk, path: &str, mut body: Value, key: &str) {
    body["filter"] = match path {
        "/dead-letters/replay" => json!({"kind": "job"}),
        _ => json!({}),
    };
    let operation = desk.must(Method::POST, path, &body, key, "operation_id").await;
    operation.into_iter().for_each(|operation| desk.repeats.replays(&operation));
}
