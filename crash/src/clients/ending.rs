//! The ends of runs, one by one or many in one call, repeated while nobody answers.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::Desk;
use super::acting::TRIES_MAX;
use crate::caller::{Exchange, Said};
use crate::chance::Chance;
use crate::told::{End, Run, Verdict};

const PAUSE: Duration = Duration::from_millis(100);

/// A run that is to end.
pub struct Finish {
    /// The run.
    pub run: Run,
    /// How.
    pub end: End,
}

/// Ends runs, as one call or each alone.
pub async fn all(desk: &Desk, chance: &mut Chance, finishes: Vec<Finish>) {
    if finishes.len() > 1 && chance.percent(50) {
        return together(desk, chance, finishes).await;
    }
    for finish in finishes {
        alone(desk, chance, finish).await;
    }
}

/// Ends one run.
pub async fn alone(desk: &Desk, chance: &mut Chance, mut finish: Finish) {
    let (path, fields) = match finish.end {
        End::Complete(result) => ("complete", json!({"result": {"n": result}})),
        End::Fail => ("fail", json!({"error": "it went wrong"})),
        End::Dead => ("fail", json!({"error": "it is hopeless", "retryable": false})),
    };
    let path = format!("/jobs/{}/{path}", finish.run.job);
    let body = with_token(fields, &finish.run);
    desk.told.ending(&mut finish.run, finish.end);
    for tries in 1..=TRIES_MAX {
        let exchange = desk.caller.post(chance, &path, &body).await;
        let verdict = desk.told.ended(&mut finish.run, finish.end, tries, &exchange);
        match verdict {
            Verdict::Done(_) => return look_back(desk, chance, &mut finish.run).await,
            Verdict::Refused => return,
            Verdict::Unknown => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Ends many runs in one call.
async fn together(desk: &Desk, chance: &mut Chance, mut finishes: Vec<Finish>) {
    let jobs: Vec<Value> = finishes.iter().map(one_of_many).collect();
    let body = json!({"jobs": jobs});
    for finish in &mut finishes {
        desk.told.ending(&mut finish.run, finish.end);
    }
    for tries in 1..=TRIES_MAX {
        let exchange = desk.caller.post(chance, "/jobs/finish", &body).await;
        let mut unknown = false;
        let said = each(&exchange, finishes.len());
        for (finish, said) in finishes.iter_mut().zip(said) {
            let own = Exchange { said, ..exchange };
            let verdict = desk.told.ended(&mut finish.run, finish.end, tries, &own);
            unknown |= verdict == Verdict::Unknown;
        }
        if !unknown {
            return;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn one_of_many(finish: &Finish) -> Value {
    let fields = match finish.end {
        End::Complete(result) => json!({"outcome": "complete", "result": {"n": result}}),
        End::Fail => json!({"outcome": "fail", "error": "it went wrong"}),
        End::Dead => json!({"outcome": "fail", "error": "it is hopeless", "retryable": false}),
    };
    let mut fields = with_token(fields, &finish.run);
    fields["id"] = finish.run.job.clone().into();
    fields
}

/// The answers about each of many.
pub fn each(exchange: &Exchange, count: usize) -> Vec<Said> {
    let Said::Yes(_, answer) = &exchange.said else {
        return vec![exchange.said.clone(); count];
    };
    let answers = answer["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    (0..count).map(|index| answers.get(index).map_or(Said::Nothing, said_of_one)).collect()
}

/// The answer about one of many, as a single call would have had it.
fn said_of_one(answer: &Value) -> Said {
    let code = answer["code"].as_str().unwrap_or_default();
    match (answer["ok"].as_bool(), code) {
        (Some(true), _) => Said::Yes(200, answer.clone()),
        (_, "busy" | "store_unavailable") => Said::Nothing,
        _ => Said::No(409, code.to_owned()),
    }
}

/// Sometimes a worker goes on with a token after the end: nothing may come of it.
async fn look_back(desk: &Desk, chance: &mut Chance, run: &mut Run) {
    if !chance.percent(5) {
        return;
    }
    let body = with_token(json!({"state": {"step": desk.told.new_result()}}), run);
    let path = format!("/jobs/{}/checkpoint", run.job);
    let exchange = desk.caller.call(chance, Method::PUT, &path, Some(&body)).await;
    if let Said::Yes(..) = exchange.said {
        desk.told.violation("L2", format!("{}: a checkpoint was saved after the end", run.job));
    }
}

fn with_token(mut fields: Value, run: &Run) -> Value {
    fields["lease_token"] = run.token.clone().into();
    fields
}
