//! The demo's agent: what a user's own agent would be, in any language. It gets its job on standard input
//! and its key in the environment, and speaks to the lease API.

use std::io::Read;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use http::Method;
use serde_json::{Value, json};

use super::http::Http;

/// How long the agent reads and thinks: enough for a person to follow, and to kill it in the middle.
const READING: Duration = Duration::from_millis(700);
const THINKING: Duration = Duration::from_secs(10);

/// Runs the agent.
pub fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(work()));
    match done {
        Ok(reply) => {
            println!("{}", json!({"reply": reply}));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Answers everything that was said in the thread, at once.
async fn answer(http: &Http, path: &str, token: &str, job: &Value) -> anyhow::Result<String> {
    let said = |envelope: &Value| envelope["message"]["text"].as_str().map(str::to_owned);
    let events = job["events"].as_array();
    let said: Vec<String> = match events {
        Some(events) => events.iter().filter_map(said).collect(),
        None => said(&job["envelope"]).into_iter().collect(),
    };
    let interim = json!({"lease_token": token, "text": "Looking into it…"});
    http.call(Method::POST, &format!("{path}/reply"), Some(interim)).await?;
    tokio::time::sleep(READING * 2).await;
    Ok(format!(
        "You asked: **{}** It ran out of disk; I freed some and started it again.",
        said.join(" – ")
    ))
}

async fn work() -> anyhow::Result<String> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let job: Value = serde_json::from_str(&text)?;
    let variable = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let http = Http::new(&variable("WAKEPOST_URL")?, &variable("WAKEPOST_KEY")?);
    let path = format!("/api/v1/jobs/{}", variable("WAKEPOST_JOB_ID")?);
    let token = variable("WAKEPOST_LEASE_TOKEN")?;

    if job["envelope"]["provider"] == "slack" {
        return answer(&http, &path, &token, &job).await;
    }
    let issue = &job["envelope"]["data"]["issue"];
    let title = issue["title"].as_str().unwrap_or("the issue");
    eprintln!("reading {title:?}");
    tokio::time::sleep(READING).await;
    // The act that must not happen twice.
    let effect = json!({"lease_token": token, "key": "label:triage", "description": "put the label 'triage' on"});
    let decision = http.call(Method::POST, &format!("{path}/effects"), Some(effect)).await?;
    match decision["decision"].as_str() {
        Some("execute") => {
            eprintln!(
                "labelling (idempotency key {})",
                decision["idempotency_key"].as_str().unwrap_or("?")
            );
            let result = json!({"lease_token": token, "result": {"label": "triage", "by_attempt": job["attempt"]}});
            http.call(Method::POST, &format!("{path}/effects/label:triage/commit"), Some(result))
                .await?;
        }
        Some("skip") => eprintln!(
            "the label is on already, put there by attempt {}",
            decision["result"]["by_attempt"]
        ),
        other => anyhow::bail!("the ledger says {other:?}"),
    }
    let state =
        json!({"lease_token": token, "state": {"labelled": true, "process": std::process::id()}});
    http.call(Method::PUT, &format!("{path}/checkpoint"), Some(state)).await?;
    if job["attempt"] == 1 {
        eprintln!("thinking…");
        tokio::time::sleep(THINKING).await;
    }
    Ok(format!("Thanks! {title:?} is labelled and on its way."))
}
