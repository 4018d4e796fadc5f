//! A publisher: events one by one and in batches, each with a dedup key; what got no answer is published again.

use serde_json::{Value, json};
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::Said;

use super::{Desk, Phase};

/// Events of one publisher.
const EVENTS_MAX: u64 = 20;
const TRIES_MAX: u32 = 8;

/// Publishes until faults have stopped.
pub async fn run(desk: Desk, mut chance: Chance, number: u64) {
    let mut made = 0;
    while made < EVENTS_MAX && desk.phase() == Phase::Load {
        desk.nap(&mut chance, 10, 5000).await;
        let count = if chance.percent(25) { chance.within(2, 4) } else { 1 };
        let keys: Vec<String> =
            (1..=count).map(|one| format!("pub-{number}-{}", made + one)).collect();
        made += count;
        keys.iter().for_each(|key| desk.record.publishing(key));
        let event =
            |key: &String| json!({"type": "order.paid", "data": {"key": key}, "dedup_key": key});
        let body = match keys.as_slice() {
            [key] => event(key),
            keys => keys.iter().map(event).collect(),
        };
        publish(&desk, &mut chance, &keys, &body).await;
    }
}

async fn publish(desk: &Desk, chance: &mut Chance, keys: &[String], body: &Value) {
    for _ in 0..TRIES_MAX {
        match desk.post("/events", body).await.said {
            Said::Yes(_, answer) => {
                let answers = match answer["data"].as_array() {
                    Some(many) => many.clone(),
                    None => vec![answer],
                };
                for (key, answer) in keys.iter().zip(&answers) {
                    let id = answer["id"].as_str().unwrap_or_default();
                    let problem = desk.record.published(key, id);
                    problem.into_iter().for_each(|(rule, what)| desk.told.violation(rule, what));
                }
                if !chance.percent(15) {
                    return;
                }
            }
            Said::No(status, code) => {
                let refused = format!("{keys:?}: a publication was refused: {status} {code}");
                return desk.told.violation("contract", refused);
            }
            Said::Nothing if chance.percent(10) => return,
            Said::Nothing => {}
        }
    }
}
