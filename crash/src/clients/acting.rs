//! What every worker does: lease, ask to act, say that it acted; repeated while nobody answers.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::Desk;
use crate::caller::{Exchange, Said};
use crate::chance::Chance;
use crate::told::{Next, Run, Verdict};

/// How often a call without an answer is repeated.
pub const TRIES_MAX: u32 = 3;
/// How long a worker waits after it got no answer to its wish for work.
const UNANSWERED_PAUSE: Duration = Duration::from_millis(20);

/// Asks for up to `max` jobs, for leases of so many seconds.
pub async fn lease(
    desk: &Desk,
    chance: &mut Chance,
    worker: &str,
    max: u64,
    lease_s: u64,
) -> Vec<Run> {
    let body = json!({"worker": worker, "max": max, "wait_s": 1, "lease_s": lease_s});
    let exchange = desk.caller.post(chance, "/jobs/lease", &body).await;
    match &exchange.said {
        Said::Yes(_, answer) => {
            let jobs = answer["jobs"].as_array().into_iter().flatten();
            jobs.filter_map(|job| desk.told.leased(job, &exchange)).collect()
        }
        Said::No(status, code) => {
            let problem = format!("a lease call was refused: {status} {code}");
            desk.told.violation("contract", problem);
            Vec::new()
        }
        Said::Nothing => {
            tokio::time::sleep(UNANSWERED_PAUSE).await;
            Vec::new()
        }
    }
}

/// Asks to act.
pub async fn begin(
    desk: &Desk,
    chance: &mut Chance,
    run: &mut Run,
    key: &str,
    repeatable: bool,
) -> Next {
    for _ in 0..TRIES_MAX {
        let on_doubt = if repeatable { "execute" } else { "hold" };
        let body = json!({"key": key, "on_doubt": on_doubt});
        let exchange = call(desk, chance, run, Method::POST, "effects", body).await;
        let next = desk.told.begun(run, key, repeatable, &exchange);
        if next != Next::Unknown {
            return next;
        }
    }
    Next::Unknown
}

/// Says that it acted. `None`: the lease is lost, or nobody answers.
pub async fn commit(desk: &Desk, chance: &mut Chance, run: &Run, key: &str) -> Option<()> {
    let result = desk.told.new_result();
    for _ in 0..TRIES_MAX {
        let path = format!("effects/{key}/commit");
        let body = json!({"result": {"n": result}});
        let exchange = call(desk, chance, run, Method::POST, &path, body).await;
        match desk.told.committed(run, key, result, &exchange) {
            Verdict::Done(_) => return Some(()),
            Verdict::Refused => return None,
            Verdict::Unknown => {}
        }
    }
    None
}

/// Makes a call about a run's job, with its token.
pub async fn call(
    desk: &Desk,
    chance: &mut Chance,
    run: &Run,
    method: Method,
    path: &str,
    mut body: Value,
) -> Exchange {
    body["lease_token"] = run.token.clone().into();
    let path = format!("/jobs/{}/{path}", run.job);
    desk.caller.call(chance, method, &path, Some(&body)).await
}
