//! The demo's Slack: a workspace of its own on this machine, and a conversation in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::extract::{Path, State};
use axum::routing::post;
use axum::{Json, Router};
use bytes::Bytes;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_providers::{SignedRequest, registry};

use super::http::Http;

const PATIENCE: Duration = Duration::from_secs(20);
/// Two people in a channel, or one who thinks of something else: within the quiet time.
const AFTERTHOUGHT: Duration = Duration::from_millis(400);
const CHANNEL: &str = "C0DEPLOYS";

/// What was posted, by the calls of Slack's API that replies use.
#[derive(Default)]
struct Workspace {
    messages: Mutex<Vec<Posted>>,
}

struct Posted {
    ts: String,
    thread_ts: String,
    text: String,
    edits: usize,
}

/// Takes `chat.postMessage` and `chat.update` as Slack does.
async fn take(
    State(workspace): State<Arc<Workspace>>,
    Path(method): Path<String>,
    Json(call): Json<Value>,
) -> Json<Value> {
    let text = call["text"].as_str().unwrap_or_default().to_owned();
    let mut messages = workspace.messages.lock();
    let ts = match method.as_str() {
        "chat.postMessage" => {
            let ts = format!("1700000000.{:06}", messages.len() + 1);
            let thread_ts = call["thread_ts"].as_str().unwrap_or_default().to_owned();
            messages.push(Posted { ts: ts.clone(), thread_ts, text, edits: 0 });
            ts
        }
        "chat.update" => {
            let ts = call["ts"].as_str().unwrap_or_default().to_owned();
            match messages.iter_mut().find(|message| message.ts == ts) {
                Some(message) => {
                    message.text = text;
                    message.edits += 1;
                }
                None => return Json(json!({"ok": false, "error": "message_not_found"})),
            }
            ts
        }
        _ => return Json(json!({"ok": false, "error": "unknown_method"})),
    };
    Json(json!({"ok": true, "channel": CHANNEL, "ts": ts}))
}

/// Tells of a mention and an afterthought, answered together and once.
pub async fn tell(http: &Http, say: &impl Fn(String)) -> anyhow::Result<()> {
    let workspace = Arc::<Workspace>::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let api = Router::new().route("/api/{method}", post(take)).with_state(workspace.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, api).await });

    let source = json!({
        "provider": "slack",
        "name": "demo workspace",
        "secret": "the demo's signing secret",
        "settings": {"bot_token": "xoxb-demo", "api_url": format!("http://{address}/api")},
        "executor": {"kind": "exec", "name": "demo"},
    });
    let source = http.call(Method::POST, "/api/v1/sources", Some(source)).await?;
    let id = source["id"].as_str().context("a source has an id")?;
    let now = Timestamp::from_secs(jiff::Timestamp::now().as_second());
    let thread = format!("{}.000100", now.as_millis() / 1000);
    let mention = json!({
        "type": "app_mention", "user": "U0ADA0001", "team": "T0ACME001", "channel": CHANNEL,
        "ts": thread, "text": "<@U0AGENT01> why did the build fail?",
    });
    let afterthought = json!({
        "type": "app_mention", "user": "U0ADA0001", "team": "T0ACME001", "channel": CHANNEL,
        "ts": format!("{}.000200", now.as_millis() / 1000), "thread_ts": thread,
        "text": "<@U0AGENT01> I mean last night's",
    });
    let mut jobs = Vec::new();
    for (event, event_id) in [(mention, "Ev0001"), (afterthought, "Ev0002")] {
        let said = event["text"].as_str().unwrap_or_default().to_owned();
        let answer = send(http, id, event_id, event, now).await?;
        let job = answer["job_id"].as_str().context("a mention makes or joins a job")?.to_owned();
        say(format!("slack     {said:?}: {job}"));
        jobs.push(job);
        tokio::time::sleep(AFTERTHOUGHT).await;
    }
    anyhow::ensure!(jobs[0] == jobs[1], "two messages of a moment made two jobs");
    say("thread    two messages within a moment, one job".to_owned());
    wait_for(&workspace, say, |message| message.edits == 0).await?;
    wait_for(&workspace, say, |message| message.edits > 0).await?;
    let count = workspace.messages.lock().len();
    anyhow::ensure!(count == 1, "the thread has {count} messages of ours");
    serving.abort();
    Ok(())
}

/// Signs an event as Slack would, and sends it.
async fn send(
    http: &Http,
    source: &str,
    event_id: &str,
    event: Value,
    now: Timestamp,
) -> anyhow::Result<Value> {
    let body = json!({
        "type": "event_callback", "team_id": "T0ACME001", "api_app_id": "A0AGENT01",
        "event_id": event_id, "event_time": now.as_millis() / 1000, "event": event,
        "authorizations": [{"team_id": "T0ACME001", "user_id": "U0AGENT01", "is_bot": true}],
    });
    let mut request = SignedRequest::post(format!("/in/{source}"), body.to_string());
    let slack = registry::find("slack").context("Slack is known")?;
    slack.sign(&mut request, "the demo's signing secret", &Default::default(), event_id, now)?;
    let (headers, body) = (request.headers, Bytes::from(request.body));
    let (status, answer) = http.send(Method::POST, &request.url, headers, body).await?;
    anyhow::ensure!(status.is_success(), "a mention was refused: {status}");
    Ok(answer)
}

/// Waits until the thread's message is as it should be, and shows it.
async fn wait_for(
    workspace: &Workspace,
    say: &impl Fn(String),
    reached: impl Fn(&Posted) -> bool,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let shown =
            workspace.messages.lock().first().filter(|message| reached(message)).map(|message| {
                let how = if message.edits == 0 { "posted" } else { "changed in place" };
                format!("reply     {how} in thread {}: {:?}", message.thread_ts, message.text)
            });
        if let Some(line) = shown {
            say(line);
            return Ok(());
        }
        anyhow::ensure!(Instant::now() < deadline, "no reply came in the thread");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
