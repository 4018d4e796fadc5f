//! The operator: looks for jobs that are held, finds out in the world outside whether an effect in doubt was done, and
//! says so.

use http::Method;
use serde_json::json;
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::Said;

use super::Desk;

/// Held jobs that one look takes up.
const LOOK: &str = "/jobs?status=held&limit=100";

/// Works until the simulation is over.
pub async fn run(desk: Desk, mut chance: Chance) {
    loop {
        desk.nap(&mut chance, 5000, 30_000).await;
        let Said::Yes(_, held) = desk.call(Method::GET, LOOK, None).await.said else { continue };
        for job in held["data"].as_array().into_iter().flatten() {
            if let Some(id) = job["id"].as_str() {
                decide(&desk, id).await;
            }
        }
    }
}

async fn decide(desk: &Desk, job: &str) {
    let shown = desk.call(Method::GET, &format!("/jobs/{job}"), None).await.said;
    let Said::Yes(_, shown) = shown else { return };
    for effect in shown["effects"].as_array().into_iter().flatten() {
        let (Some(key), Some("in_doubt")) = (effect["key"].as_str(), effect["state"].as_str())
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
        match desk.post(&format!("/jobs/{job}/effects/{key}/resolve"), &body).await.said {
            // Decided already, by a call of ours whose answer got lost.
            Said::Yes(..) | Said::Nothing | Said::No(409, _) => {}
            Said::No(status, code) => desk.told.violation(
                "contract",
                format!("{job}: an operator's word on {key} was refused: {status} {code}"),
            ),
        }
    }
}
