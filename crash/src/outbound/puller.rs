//! A subscriber that leases its deliveries, and sometimes does badly: it vanishes, refuses, or stalls past its lease.

use std::time::Duration;

use serde_json::json;
use wakepost_tests::now;

use super::Office;
use super::hooks::Hook;
use super::record::{End, Turn};
use crate::caller::Said;
use crate::chance::Chance;
use crate::clients::Phase;

/// How often an end without an answer is repeated.
const TRIES_MAX: u32 = 3;
const UNANSWERED_PAUSE: Duration = Duration::from_millis(50);

/// Pulls until everybody goes home.
pub async fn run(office: Office, mut chance: Chance, name: String) {
    while office.desk.phase() != Phase::Over {
        for turn in lease(&office, &mut chance, &name).await {
            act(&office, &mut chance, turn).await;
        }
    }
}

async fn lease(office: &Office, chance: &mut Chance, name: &str) -> Vec<Turn> {
    let path = format!("/webhooks/{}/deliveries/lease", office.hooks.id(Hook::Pull));
    let (max, lease_s) = (chance.within(1, 20), chance.within(2, 4));
    let body = json!({"worker": name, "max": max, "wait_s": 1, "lease_s": lease_s});
    let exchange = office.desk.caller.post(chance, &path, &body).await;
    match &exchange.said {
        Said::Yes(_, answer) => {
            let rows = answer["deliveries"].as_array().into_iter().flatten();
            rows.filter_map(|row| office.record.leased(&office.hooks, row, &exchange)).collect()
        }
        Said::No(status, code) => {
            let problem = format!("a lease call was refused: {status} {code}");
            office.desk.told.violation("contract", problem);
            Vec::new()
        }
        Said::Nothing => {
            tokio::time::sleep(UNANSWERED_PAUSE).await;
            Vec::new()
        }
    }
}

async fn act(office: &Office, chance: &mut Chance, turn: Turn) {
    let share = if office.desk.phase() == Phase::Load { chance.within(1, 100) } else { 100 };
    match share {
        // It vanishes.
        1..=4 => {}
        5..=10 => end(office, chance, &turn, End::Later).await,
        11 => end(office, chance, &turn, End::Never).await,
        12 => {
            let left = u64::try_from(turn.live_until - now().as_millis()).unwrap_or(0);
            let more = chance.within(20, 1500);
            tokio::time::sleep(Duration::from_millis(left + more)).await;
            end(office, chance, &turn, End::Taken).await;
        }
        _ => end(office, chance, &turn, End::Taken).await,
    }
}

async fn end(office: &Office, chance: &mut Chance, turn: &Turn, end: End) {
    let (verb, mut body) = match end {
        End::Taken => ("ack", json!({})),
        End::Later => ("nack", json!({"error": "not now"})),
        End::Never => ("nack", json!({"error": "not ever", "retryable": false})),
    };
    body["lease_token"] = json!(turn.token);
    let path = format!("/deliveries/{}/{verb}", turn.delivery);
    for _ in 0..TRIES_MAX {
        // Said as late as it can be: from then on the lease may be over.
        office.record.ending(turn, end);
        let exchange = office.desk.caller.post(chance, &path, &body).await;
        if office.record.ended(turn, end, &exchange) {
            return;
        }
        tokio::time::sleep(UNANSWERED_PAUSE).await;
    }
}
