//! The self-webhook: jobs that run within a request that the server sends to itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use wakepost_tests::{Answer, Api, Database, Gateway, Http, Receiver, Reply, on_both, until};

on_both!(
    a_job_runs_within_a_request_of_the_server_to_itself,
    nobody_else_gets_a_job_that_the_server_fires_for,
    a_call_without_the_right_token_runs_nothing,
    of_many_calls_about_one_job_one_runs_it,
    a_caller_that_hangs_up_does_not_end_the_run,
    a_run_ends_with_its_budget,
    a_stop_hands_the_run_back_and_the_next_start_goes_on,
    what_fails_is_fired_for_again_when_it_is_due,
    no_more_run_at_once_than_the_source_allows,
    a_job_that_was_never_fired_for_is_swept_up,
    a_server_that_cannot_reach_itself_says_so_and_goes_on_once_it_can,
    any_node_may_answer_the_call,
    an_executor_that_cannot_run_within_a_request_is_refused,
);

const PATH: &str = "/integrations/_process-task";

fn fired(run: Value) -> Value {
    json!({"kind": "self_webhook", "run": run})
}

fn posted(url: String) -> Value {
    fired(json!({"kind": "http", "url": url}))
}

async fn job_is(api: &Api, id: &str, status: &str) -> Value {
    until(&format!("the job is {status}"), || async {
        let shown = api.show_job(id).await;
        (shown["status"] == status).then_some(shown)
    })
    .await
}

/// Calls the server as it calls itself.
async fn call(gateway: &Gateway, prefix: &str, token: Option<&str>, job: &str) -> Answer {
    let mut headers = HeaderMap::new();
    if let Some(token) = token {
        let value = HeaderValue::from_str(&format!("Bearer {token}")).expect("a token");
        headers.insert(header::AUTHORIZATION, value);
    }
    let url = format!("{}{prefix}{PATH}", gateway.url());
    let body = json!({"task_id": job}).to_string();
    Http::default().send(Method::POST, &url, headers, body).await
}

/// A base URL at which nothing works, but every call is seen.
async fn nowhere() -> Receiver {
    Receiver::start(|_| Reply::new(503, "")).await
}

/// The token of the first call about a job that went to nowhere.
async fn token_for(nowhere: &Receiver, job: &str) -> String {
    until("the server calls itself", || async {
        let calls = nowhere.seen(PATH);
        let call = calls.iter().find(|call| call.json()["task_id"] == job)?;
        Some(call.header("authorization").strip_prefix("Bearer ")?.to_owned())
    })
    .await
}

async fn a_job_runs_within_a_request_of_the_server_to_itself(database: Database) {
    const COMMANDS: &str = "[exec.echo]\ncommand = [\"cat\"]\n";
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, r#"{"reply": "hi"}"#)).await;
    let executor = json!({"executor": posted(receiver.url("/run"))});
    let source = api.source_with("stripe", executor).await;
    assert!(source.made["executor_secret"].is_string(), "what it is signed with is shown once");
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let done = job_is(&api, &sent.text("job_id"), "succeeded").await;
    assert_eq!((&done["reply"], &done["attempts"]), (&json!("hi"), &json!(1)));
    let seen = receiver.seen("/run");
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].json()["envelope"]["data"]["id"], "e-1");
    assert!(!seen[0].header("webhook-signature").is_empty());

    let run = fired(json!({"kind": "exec", "name": "echo"}));
    let ids: Vec<String> = {
        let jobs = (0..20).map(|n| json!({"input": {"n": n}, "executor": run})).collect();
        let made = api.post("/jobs", Value::Array(jobs)).await.is(201).json();
        let rows = made["data"].as_array().expect("jobs").clone();
        rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    };
    for (n, id) in ids.iter().enumerate() {
        let done = job_is(&api, id, "succeeded").await;
        assert_eq!(done["result"]["input"], json!({"n": n}));
        assert_eq!(done["attempts"], 1);
    }
}

async fn nobody_else_gets_a_job_that_the_server_fires_for(database: Database) {
    let nowhere = nowhere().await;
    let gateway =
        Gateway::setup(database).setting("WAKEPOST_PUBLIC_URL", &nowhere.url("")).start().await;
    let api = gateway.admin();
    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    let job = json!({"input": 1, "executor": posted(agent.url("/run"))});
    let id = api.job_with(job).await;
    token_for(&nowhere, &id).await;
    let lease = json!({"worker": "ada", "wait_s": 2});
    assert_eq!(api.post("/jobs/lease", lease).await.is(200).json()["jobs"], json!([]));
    assert_eq!(api.show_job(&id).await["status"], "pending");
    assert!(agent.seen("/run").is_empty(), "it was pushed");
}

async fn a_call_without_the_right_token_runs_nothing(database: Database) {
    let nowhere = nowhere().await;
    let gateway =
        Gateway::setup(database).setting("WAKEPOST_PUBLIC_URL", &nowhere.url("")).start().await;
    let api = gateway.admin();
    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    let job = json!({"input": 1, "executor": posted(agent.url("/run"))});
    let (id, other) = (api.job_with(job.clone()).await, api.job_with(job).await);
    let token = token_for(&nowhere, &id).await;
    let mut forged = token.clone().into_bytes();
    let last = forged.last_mut().expect("a token");
    *last = if *last == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("letters");
    for wrong in [None, Some(""), Some("rubbish"), Some(gateway.admin_key()), Some(forged.as_str())]
    {
        call(&gateway, "", wrong, &id).await.refuses(401, "unauthorized");
    }
    call(&gateway, "", Some(&token), &other).await.refuses(401, "unauthorized");
    call(&gateway, "", Some(&token), "rubbish").await.refuses(401, "unauthorized");
    // It opens nothing else.
    api.with_key(&token).get("/jobs").await.refuses(401, "unauthorized");
    assert!(agent.seen("/run").is_empty());
    assert_eq!(api.show_job(&id).await["attempts"], 0);
    let answer = call(&gateway, "/_agent-native", Some(&token), &id).await.is(200).json();
    assert_eq!(answer, json!({"id": id, "status": "succeeded", "ran": true}));
    // The token is good for as long as it is; what is done stays done.
    let answer = call(&gateway, "", Some(&token), &id).await.is(200).json();
    assert_eq!(answer, json!({"id": id, "status": "succeeded", "ran": false}));
    assert_eq!(agent.seen("/run").len(), 1);
}

async fn of_many_calls_about_one_job_one_runs_it(database: Database) {
    let nowhere = nowhere().await;
    let gateway =
        Gateway::setup(database).setting("WAKEPOST_PUBLIC_URL", &nowhere.url("")).start().await;
    let api = gateway.admin();
    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    let id = api.job_with(json!({"input": 1, "executor": posted(agent.url("/run"))})).await;
    let token = token_for(&nowhere, &id).await;
    let calls = (0..8).map(|_| call(&gateway, "", Some(&token), &id));
    let answers = futures_util::future::join_all(calls).await;
    let ran = answers.into_iter().filter(|answer| answer.clone().is(200).json()["ran"] == true);
    assert_eq!(ran.count(), 1);
    let done = job_is(&api, &id, "succeeded").await;
    assert_eq!((&done["attempts"], agent.seen("/run").len()), (&json!(1), 1));
}

async fn a_caller_that_hangs_up_does_not_end_the_run(database: Database) {
    const COMMANDS: &str = r#"
[exec.wait]
command = ["sh", "-c", '''
touch DIRECTORY/began
while [ ! -e DIRECTORY/go ] && [ -e DIRECTORY/wakepost.toml ]; do sleep 0.05; done
echo done
''']
"#;
    let nowhere = nowhere().await;
    let setup = Gateway::setup(database).file(COMMANDS);
    let gateway = setup.setting("WAKEPOST_PUBLIC_URL", &nowhere.url("")).start().await;
    let api = gateway.admin();
    let run = fired(json!({"kind": "exec", "name": "wait"}));
    let id = api.job_with(json!({"input": 1, "executor": run})).await;
    let token = token_for(&nowhere, &id).await;
    let began = gateway.directory().join("began");
    tokio::select! {
        _ = call(&gateway, "", Some(&token), &id) => panic!("it was answered"),
        () = until("it runs", || async { began.exists().then_some(()) }) => {}
    }
    std::fs::write(gateway.directory().join("go"), "").expect("a file");
    let done = job_is(&api, &id, "succeeded").await;
    assert_eq!((&done["reply"], &done["attempts"]), (&json!("done"), &json!(1)));
}

async fn a_run_ends_with_its_budget(database: Database) {
    const COMMANDS: &str = r#"
[exec.slow]
command = ["sh", "-c", "while [ -e DIRECTORY/wakepost.toml ]; do sleep 0.05; done"]
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let mut run = fired(json!({"kind": "exec", "name": "slow"}));
    run["budget_s"] = json!(3);
    let id = api.job_with(json!({"input": 1, "executor": run})).await;
    let shown = job_is(&api, &id, "retrying").await;
    assert_eq!(shown["last_error"], "the command took too long");
}

async fn a_stop_hands_the_run_back_and_the_next_start_goes_on(database: Database) {
    const COMMANDS: &str = r#"
[exec.wait]
command = ["sh", "-c", '''
touch DIRECTORY/began
while [ ! -e DIRECTORY/go ] && [ -e DIRECTORY/wakepost.toml ]; do sleep 0.05; done
echo done
''']
"#;
    let setup = Gateway::setup(database).file(COMMANDS).setting("WAKEPOST_SWEEP_AFTER_S", "0");
    let mut gateway = setup.setting("WAKEPOST_SHUTDOWN_GRACE_S", "1").start().await;
    let run = fired(json!({"kind": "exec", "name": "wait"}));
    let id = gateway.admin().job_with(json!({"input": 1, "executor": run})).await;
    let began = gateway.directory().join("began");
    until("it runs", || async { began.exists().then_some(()) }).await;
    gateway.terminate();
    gateway.ended().await;
    std::fs::write(gateway.directory().join("go"), "").expect("a file");
    gateway.restart().await;
    let done = job_is(&gateway.admin(), &id, "succeeded").await;
    assert_eq!((&done["reply"], &done["attempts"]), (&json!("done"), &json!(1)));
    assert_eq!(done["runs"].as_array().map(Vec::len), Some(2), "{done}");
}

async fn what_fails_is_fired_for_again_when_it_is_due(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let count = AtomicUsize::new(0);
    let agent = Receiver::start(move |_| match count.fetch_add(1, Ordering::Relaxed) {
        0 | 1 => Reply::new(500, "not yet"),
        _ => Reply::new(200, "{}"),
    })
    .await;
    let fields = json!({"executor": posted(agent.url("/run")), "backoff_s": [0, 1],
        "max_attempts": 3});
    let source = api.source_with("stripe", fields).await;
    let id = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    assert_eq!(job_is(&api, &id, "succeeded").await["attempts"], 3);
    let later = json!({"input": 1, "delay_s": 1, "executor": posted(agent.url("/later"))});
    let id = api.job_with(later).await;
    job_is(&api, &id, "succeeded").await;
}

async fn no_more_run_at_once_than_the_source_allows(database: Database) {
    const COMMANDS: &str = r#"
[exec.alone]
command = ["sh", "-c", "mkdir DIRECTORY/lock || exit 64; sleep 0.1; rmdir DIRECTORY/lock"]
concurrency = 8
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let run = fired(json!({"kind": "exec", "name": "alone"}));
    let fields = json!({"executor": run, "concurrency": 1});
    let source = api.source_with("stripe", fields).await;
    let mut ids = Vec::new();
    for n in 0..8 {
        let sent = gateway.send(&source, &source.event(&format!("e-{n}"))).await.is(202);
        ids.push(sent.text("job_id"));
    }
    for id in ids {
        let done = job_is(&api, &id, "succeeded").await;
        assert_eq!(done["attempts"], 1);
    }
}

async fn a_job_that_was_never_fired_for_is_swept_up(database: Database) {
    let setup = Gateway::setup(database).setting("WAKEPOST_SWEEP_AFTER_S", "2");
    let gateway = setup.failpoints("wake.lost=error").start().await;
    let api = gateway.admin();
    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    let source = api.source_with("stripe", json!({"executor": posted(agent.url("/run"))})).await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let swept = api.post("/admin/sweep", json!({})).await.is(200).json();
    assert_eq!(swept["fired"], 0, "it may still be on its way");
    assert_eq!(api.show_job(&sent.text("job_id")).await["status"], "pending");
    until("the sweep finds it", || async {
        let swept = api.post("/admin/sweep", json!({})).await.is(200).json();
        (swept["fired"] == 1).then_some(())
    })
    .await;
    let done = job_is(&api, &sent.text("job_id"), "succeeded").await;
    assert_eq!((&done["attempts"], agent.seen("/run").len()), (&json!(1), 1));
}

/// A way to a server that can be shut: connections are then dropped.
struct Door {
    url: String,
    is_open: Arc<AtomicBool>,
}

impl Door {
    /// A door that is shut. It leads to whatever address is sent later.
    async fn new() -> (Door, tokio::sync::oneshot::Sender<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let is_open = Arc::new(AtomicBool::new(false));
        let open = is_open.clone();
        let (tell, told) = tokio::sync::oneshot::channel::<String>();
        tokio::spawn(async move {
            let Ok(to) = told.await else { return };
            while let Ok((mut from, _)) = listener.accept().await {
                if !open.load(Ordering::Relaxed) {
                    continue;
                }
                let to = to.clone();
                tokio::spawn(async move {
                    let mut to = TcpStream::connect(&to).await.expect("the server");
                    let _ = copy_bidirectional(&mut from, &mut to).await;
                });
            }
        });
        (Door { url, is_open }, tell)
    }
}

async fn a_server_that_cannot_reach_itself_says_so_and_goes_on_once_it_can(database: Database) {
    let (door, leads_to) = Door::new().await;
    let gateway = Gateway::setup(database).setting("WAKEPOST_PUBLIC_URL", &door.url).start().await;
    leads_to.send(gateway.url().trim_start_matches("http://").to_owned()).expect("a door");
    let api = gateway.admin();
    let headers = || {
        let key = format!("Bearer {}", gateway.admin_key());
        HeaderMap::from_iter([(header::AUTHORIZATION, key.parse().expect("a key"))])
    };
    let status = gateway.ask(Method::GET, "/integrations/slack/status", headers()).await;
    let status = status.is(200).json();
    assert_eq!(status["self_webhook"]["url"], format!("{}{PATH}", door.url));
    assert_eq!(status["self_webhook"]["reachable"], false);
    assert!(status["self_webhook"]["error"].is_string());

    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    let id = api.job_with(json!({"input": 1, "executor": posted(agent.url("/run"))})).await;
    until("a call was in vain", || async {
        let metrics = gateway.ask(Method::GET, "/metrics", headers()).await.is(200);
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        text.contains("wakepost_self_webhooks_total{word=\"failed\"}").then_some(())
    })
    .await;
    assert_eq!(api.show_job(&id).await["attempts"], 0);
    door.is_open.store(true, Ordering::Relaxed);
    let done = job_is(&api, &id, "succeeded").await;
    assert_eq!((&done["attempts"], agent.seen("/run").len()), (&json!(1), 1));
}

async fn any_node_may_answer_the_call(database: Database) {
    let nowhere = nowhere().await;
    let first =
        Gateway::setup(database).setting("WAKEPOST_PUBLIC_URL", &nowhere.url("")).start().await;
    let second = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(first.node().await),
    };
    let agent = Receiver::start(|_| Reply::new(200, "{}")).await;
    let job = json!({"input": 1, "executor": posted(agent.url("/run"))});
    let id = first.admin().job_with(job).await;
    let token = token_for(&nowhere, &id).await;
    let answering = second.as_ref().unwrap_or(&first);
    let answer = call(answering, "", Some(&token), &id).await.is(200).json();
    assert_eq!((&answer["status"], &answer["ran"]), (&json!("succeeded"), &json!(true)));
    let calls = nowhere.seen(PATH).len();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let about_it = nowhere.seen(PATH).split_off(calls);
    assert!(about_it.iter().all(|call| call.json()["task_id"] != id), "it is done");
}

async fn an_executor_that_cannot_run_within_a_request_is_refused(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let http = json!({"kind": "http", "url": "https://agent.example/run"});
    for (executor, field) in [
        (fired(json!({"kind": "pull"})), "executor.run.kind"),
        (fired(fired(http.clone())), "executor.run.kind"),
        (fired(json!({"kind": "exec", "name": "none"})), "executor.run.name"),
        (fired(json!({"kind": "http", "url": "ftp://a"})), "executor.run.url"),
        (json!({"kind": "self_webhook", "run": http, "budget_s": 0}), "executor.budget_s"),
        (json!({"kind": "self_webhook", "run": http, "budget_s": 3601}), "executor.budget_s"),
    ] {
        let source = json!({"provider": "github", "executor": executor});
        api.post("/sources", source).await.refuses_field(field);
        let job = json!({"input": 1, "executor": executor});
        api.post("/jobs", job).await.refuses_field(field);
    }
    let missing = json!({"input": 1, "executor": {"kind": "self_webhook"}});
    api.post("/jobs", missing).await.refuses(422, "invalid_request");
    // A tenant's operator names no private address, by whatever way.
    let acme = api.tenant("acme").await;
    let private = json!({"input": 1, "executor": posted("http://127.0.0.1:1/run".to_owned())});
    acme.post("/jobs", private).await.refuses_field("executor.run.url");
}
