//! The operator: keeps an eye on how much waits, looks for jobs that are held, finds out in the world outside
//! whether an effect in doubt was done, and says so.

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::{Desk, Phase};
use crate::caller::Said;
use crate::chance::Chance;

const PAUSE: Duration = Duration::from_millis(400);
/// Held jobs that one look takes up.
const LOOK: &str = "/jobs?status=held&limit=100";
const WAITING: &str = "/jobs?status=pending&limit=500";

/// Works until everybody goes home.
pub async fn run(desk: Desk, mut chance: Chance) {
    while desk.phase() != Phase::Over {
        for job in rows(&desk, &mut chance, LOOK).await {
            if let Some(id) = job["id"].as_str() {
                decide(&desk, &mut chance, id).await;
            }
        }
        let waiting = rows(&desk, &mut chance, WAITING).await.len();
        desk.waiting.store(waiting, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
}

async fn rows(desk: &Desk, chance: &mut Chance, path: &str) -> Vec<Value> {
    match desk.caller.call(chance, Method::GET, path, None).await.said {
        Said::Yes(_, answer) => answer["data"].as_array().cloned().unwrap_or_default(),
        Said::No(..) | Said::Nothing => Vec::new(),
    }
}

async fn decide(desk: &Desk, chance: &mut Chance, job: &str) {
    let shown = desk.caller.call(chance, Method::GET, &format!("/jobs/{job}"), None).await.said;
    let Said::Yes(_, shown) = shown else { return };
    for effect in shown["effects"].as_array().into_iter().flatten() {
        let (Some(key), "in_doubt") =
            (effect["key"].as_str(), effect["state"].as_str().unwrap_or_default())
        else {
            continue;
        };
        let result = desk.told.new_result();
        let body = match desk.told.was_done(job, key, result) {
            true => json!({"outcome": "committed", "result": {"n": result}, "note": "it was done"}),
            false => {
                desk.told.undoing(job, key);
                json!({"outcome": "not_done", "note": "nobody saw it"})
            }
        };
        let path = format!("/jobs/{job}/effects/{key}/resolve");
        match desk.caller.post(chance, &path, &body).await.said {
            // Decided already, by a call of ours whose answer got lost.
            Said::Yes(..) | Said::Nothing | Said::No(409, _) => {}
            Said::No(status, code) => {
                let problem =
                    format!("{job}: an operator's word on {key} was refused: {status} {code}");
                desk.told.violation("contract", problem);
            }
        }
    }
}
