//! The demo's story, step by step.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use wakepost_providers::{SignedRequest, registry};

use super::http::Http;
use super::{sending, slack};
use crate::app::App;
use crate::config::{Config, ExecCommand, Flags, load};

/// How long any one step may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a failed attempt waits in the demo; the usual ten seconds would be a long pause.
const BACKOFF_S: u64 = 2;

/// Tells the story.
pub async fn tell(directory: &Path) -> anyhow::Result<()> {
    let began = Instant::now();
    let say = |text: String| println!("{:5.1} s  {text}", began.elapsed().as_secs_f64());
    let app = App::start(config(directory)?).await?;
    let context = app.context.clone();
    let key = app.first_key.clone().context("the demo's database is new")?;
    let base = format!("http://{}", app.address);
    let serving = tokio::spawn(app.serve());
    say(format!("server    listening on {base}, storing in SQLite, nothing else installed"));

    let http = Http::new(&base, &key);
    let source = make_source(&http).await?;
    let id = source["id"].as_str().context("a source has an id")?.to_owned();
    say(format!("source    {id} takes GitHub's webhooks; its jobs run a small command"));

    let event = send_three_times(&http, &source, &say).await?;
    let job = event.replace("evt_", "job_");
    wait_for(&http, &job, &say, "begins", |job| job["status"] == "running").await?;
    let committed =
        |job: &Value| job["effects"][0]["state"] == "committed" && !job["checkpoint"].is_null();
    let working = wait_for(&http, &job, &say, "effect", committed).await?;
    kill_agent(&working, &say).await?;
    wait_for(&http, &job, &say, "rescued", |job| job["status"] == "retrying").await?;
    wait_for(&http, &job, &say, "begins", |job| job["attempts"] == 2).await?;
    let done = wait_for(&http, &job, &say, "done", |job| job["status"] == "succeeded").await?;

    let story = http.call(Method::GET, &format!("/api/v1/inbox/{event}"), None).await?;
    println!();
    slack::tell(&http, &say).await?;
    println!();
    sending::tell(&http, &say).await?;
    println!();
    print_end(&story, &done);
    context.stop.cancel();
    serving.await?;
    println!(
        "\nNext: wakepost serve, then: webhookctl --help. The README's first guide wires your own agent."
    );
    Ok(())
}

fn config(directory: &Path) -> anyhow::Result<Config> {
    let values = BTreeMap::from([
        ("listen", "127.0.0.1:0".to_owned()),
        ("data_dir", directory.display().to_string()),
        ("shutdown_grace_s", "2".to_owned()),
        // Its subscriber is on this machine.
        ("allow_http", "true".to_owned()),
        ("allow_private", "true".to_owned()),
    ]);
    // Only what is said here: the demo must not touch whatever the environment points at.
    let flags = Flags { file: Some(empty_file(directory)?), values };
    let mut config = load(&flags, &|_| None)?;
    let agent = ExecCommand {
        command: vec![std::env::current_exe()?.display().to_string(), "demo-agent".to_owned()],
        directory: None,
        env: BTreeMap::new(),
        concurrency: 1,
        timeout: None,
    };
    config.exec.insert("demo".to_owned(), agent);
    Ok(config)
}

fn empty_file(directory: &Path) -> anyhow::Result<std::path::PathBuf> {
    let path = directory.join("wakepost.toml");
    std::fs::write(&path, "")?;
    Ok(path)
}

async fn make_source(http: &Http) -> anyhow::Result<Value> {
    let body = json!({
        "provider": "github",
        "name": "demo",
        "executor": {"kind": "exec", "name": "demo"},
        "backoff_s": [BACKOFF_S],
    });
    http.call(Method::POST, "/api/v1/sources", Some(body)).await
}

/// Signs one event as GitHub would, and sends it twice at the same moment and once more.
async fn send_three_times(
    http: &Http,
    source: &Value,
    say: &impl Fn(String),
) -> anyhow::Result<String> {
    let body = json!({
        "action": "opened",
        "issue": {"number": 42, "title": "It happened twice", "html_url": "https://github.com/acme/shop/issues/42"},
        "repository": {"full_name": "acme/shop"},
        "sender": {"login": "mona", "id": 1},
    });
    let id = source["id"].as_str().unwrap_or_default();
    let secret = source["secret"].as_str().context("the source's secret is shown once")?;
    let mut request = SignedRequest::post(format!("/in/{id}"), body.to_string());
    let github = registry::find("github").context("GitHub is known")?;
    request.set("x-github-event", "issues")?;
    let delivery = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
    github.sign(
        &mut request,
        secret,
        &Default::default(),
        delivery,
        wakepost_domain::Timestamp::default(),
    )?;
    let send = || {
        http.send(
            Method::POST,
            &request.url,
            request.headers.clone(),
            Bytes::from(request.body.clone()),
        )
    };
    let (first, second) = tokio::join!(send(), send());
    let third = send().await;
    let mut event = None;
    for (nth, answer) in [("1st", first), ("2nd, at the same moment", second), ("3rd", third)] {
        let (status, answer) = answer?;
        let word = answer["status"].as_str().unwrap_or("?").to_owned();
        let id = answer["event_id"]
            .as_str()
            .context("every copy is answered with the event's id")?
            .to_owned();
        say(format!("github    {nth}: {} {word} {id}", status.as_u16()));
        anyhow::ensure!(
            matches!(status, StatusCode::ACCEPTED | StatusCode::OK),
            "a copy was refused"
        );
        event = Some(id);
    }
    let event = event.context("there was an answer")?;
    let jobs = http.call(Method::GET, "/api/v1/jobs", None).await?;
    let count = jobs["data"].as_array().map_or(0, Vec::len);
    anyhow::ensure!(count == 1, "three copies made {count} jobs");
    say(format!("ledger    three requests, one event, one job: {}", event.replace("evt_", "job_")));
    Ok(event)
}

/// Kills the agent's process, as the kernel would when memory runs out. Its checkpoint says which it is.
async fn kill_agent(job: &Value, say: &impl Fn(String)) -> anyhow::Result<()> {
    let process = job["checkpoint"]["process"].as_i64().and_then(|id| i32::try_from(id).ok());
    let process =
        process.and_then(rustix::process::Pid::from_raw).context("the agent said who it is")?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    rustix::process::kill_process(process, rustix::process::Signal::KILL)?;
    say(format!(
        "kill -9   the agent, process {}, in the middle of its work",
        process.as_raw_nonzero()
    ));
    Ok(())
}

/// Waits until the job is as it should be, and says so.
async fn wait_for(
    http: &Http,
    id: &str,
    say: &impl Fn(String),
    step: &str,
    reached: impl Fn(&Value) -> bool,
) -> anyhow::Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let job = http.call(Method::GET, &format!("/api/v1/jobs/{id}"), None).await?;
        if reached(&job) {
            say(line(step, &job));
            return Ok(job);
        }
        anyhow::ensure!(Instant::now() < deadline, "the job did not come to {step}: {job}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

fn line(step: &str, job: &Value) -> String {
    let run = job["lease"]["run_id"].as_str().unwrap_or("-");
    match step {
        "begins" => format!("agent     run {run}, attempt {}", job["attempts"]),
        "effect" => format!(
            "effect    {} committed, result {}",
            job["effects"][0]["key"].as_str().unwrap_or("?"),
            job["effects"][0]["result"]
        ),
        "rescued" => format!(
            "retry     the job is {} and keeps its checkpoint {}",
            job["status"].as_str().unwrap_or("?"),
            job["checkpoint"]
        ),
        _ => format!(
            "agent     attempt {} found the effect committed, skipped it, and finished",
            job["attempts"]
        ),
    }
}

fn print_end(story: &Value, job: &Value) {
    let runs = job["runs"].as_array().cloned().unwrap_or_default();
    println!(
        "event     {}  {}",
        story["id"].as_str().unwrap_or("?"),
        story["status"].as_str().unwrap_or("?")
    );
    println!("received  {} times, stored once", story["receipts"].as_array().map_or(0, Vec::len));
    for run in &runs {
        let error = run["error"].as_str().map(|error| format!(" ({error})")).unwrap_or_default();
        println!(
            "run       {}  attempt {}: {}{error}",
            run["id"].as_str().unwrap_or("?"),
            run["attempt"],
            run["outcome"].as_str().unwrap_or("?")
        );
    }
    println!("effects   {} committed, once", story["effects"]["committed"]);
    println!("reply     {}", job["reply"].as_str().unwrap_or("-"));
}
