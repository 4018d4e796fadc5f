//! Executing: how a job reaches an agent that does not ask for it, and how its answer is read.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_providers::{Check, Request, registry};
use wakepost_tests::{
    Api, Database, Gateway, Receiver, Reply, Seen, Worker, now, on_both, until, within,
};

on_both!(
    a_command_gets_its_job_and_its_output_is_the_answer,
    a_commands_exit_code_says_whether_to_try_again,
    what_a_command_says_on_standard_error_becomes_progress,
    a_command_gets_what_it_needs_and_none_of_the_servers_secrets,
    a_command_that_takes_too_long_is_ended_with_everything_it_started,
    a_command_that_will_not_stop_is_gone_before_its_job_runs_again,
    what_a_command_leaves_running_does_not_keep_its_job_from_ending,
    a_command_is_asked_to_stop_when_its_job_is_cancelled,
    a_commands_key_is_good_for_its_own_job_and_dies_with_the_lease,
    only_commands_that_the_operator_wrote_down_can_be_run,
    a_posted_job_is_signed_and_its_answer_completes_it,
    an_agent_that_accepts_a_job_finishes_it_through_the_api,
    an_agents_status_says_whether_to_try_again,
    a_tenants_operator_cannot_have_private_addresses_called,
    of_all_tenants_keys_only_an_admins_may_have_private_addresses_called,
    an_agent_that_says_too_much_is_not_run_again,
    what_a_command_says_is_bounded_and_need_not_be_text,
    a_stubborn_command_is_killed_with_its_children_when_its_job_is_cancelled,
    an_agent_may_say_when_to_come_again_as_a_date,
);

async fn job_is(api: &Api, id: &str, status: &str) -> Value {
    until(&format!("the job is {status}"), || async {
        let shown = api.show_job(id).await;
        (shown["status"] == status).then_some(shown)
    })
    .await
}

fn run_by(name: &str, input: Value) -> Value {
    json!({"input": input, "executor": {"kind": "exec", "name": name}})
}

async fn a_command_gets_its_job_and_its_output_is_the_answer(database: Database) {
    const COMMANDS: &str = r#"
[exec.echo]
command = ["cat"]
directory = "DIRECTORY"

[exec.fields]
command = ["printf", '{"result": {"a": 1}, "reply": "hello", "cost": 2.5}']

[exec.text]
command = ["printf", 'plain words\n']

[exec.nothing]
command = ["true"]

[exec.where]
command = ["sh", "-c", "pwd; echo $GREETING"]
directory = "DIRECTORY"
env = { GREETING = "hello from the file" }
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let executor = json!({"executor": {"kind": "exec", "name": "echo"}});
    let source = api.source_with("stripe", executor).await;
    let event = source.event("e-1");
    let sent = gateway.send(&source, &event).await.is(202);
    let done = job_is(&api, &sent.text("job_id"), "succeeded").await;
    // What it was given is one element of what a lease answers.
    let given = &done["result"];
    assert_eq!(given["id"], done["id"]);
    assert_eq!(given["envelope"]["event_id"], sent.text("event_id"));
    assert_eq!(given["envelope"]["data"]["id"], "e-1");
    for field in ["run_id", "tenant", "lease_token", "lease_expires_at", "kind", "scope"] {
        assert!(given[field].is_string(), "{field} in {given}");
    }
    assert_eq!(given["attempt"], 1);

    let run = |name: &str| {
        let (api, job) = (api.clone(), run_by(name, json!({"n": 1})));
        async move {
            let id = api.job_with(job).await;
            job_is(&api, &id, "succeeded").await
        }
    };
    let fields = run("fields").await;
    assert_eq!(fields["result"], json!({"a": 1}));
    assert_eq!((&fields["reply"], &fields["cost"]), (&json!("hello"), &json!(2.5)));
    let text = run("text").await;
    assert_eq!((&text["reply"], &text["result"]), (&json!("plain words"), &Value::Null));
    let nothing = run("nothing").await;
    assert_eq!((&nothing["reply"], &nothing["result"]), (&Value::Null, &Value::Null));
    let placed = run("where").await["reply"].as_str().expect("a text").to_owned();
    let (directory, greeting) = placed.split_once('\n').expect("two lines");
    assert_eq!(
        Path::new(directory).canonicalize().expect("a directory"),
        gateway.directory().canonicalize().expect("a directory")
    );
    assert_eq!(greeting, "hello from the file");
}

async fn a_commands_exit_code_says_whether_to_try_again(database: Database) {
    const COMMANDS: &str = r#"
[exec.code]
command = ["sh", "-c", '''
code=$(sed 's/.*"code":\([0-9]*\).*/\1/')
[ "$code" = 9 ] && kill -9 $$
exit "$code"
''']

[exec.missing]
command = ["DIRECTORY/no-such-program"]
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    for (code, status) in [
        (0, "succeeded"),
        (1, "retrying"),
        (64, "dead_letter"),
        (78, "dead_letter"),
        (75, "retrying"),
        (79, "retrying"),
        (9, "retrying"),
    ] {
        let id = api.job_with(run_by("code", json!({"code": code}))).await;
        let shown = job_is(&api, &id, status).await;
        let error = shown["last_error"].as_str().unwrap_or_default();
        let said = match code {
            0 => error.is_empty(),
            9 => error.contains("signal"),
            _ => error.ends_with(&format!("exit code {code}")),
        };
        assert!(said, "{code}: {error}");
    }
    let id = api.job_with(run_by("missing", json!({}))).await;
    let shown = job_is(&api, &id, "retrying").await;
    assert!(shown["last_error"].as_str().expect("an error").starts_with("cannot start"));
}

async fn what_a_command_says_on_standard_error_becomes_progress(database: Database) {
    const COMMANDS: &str = r#"
[exec.talk]
command = ["sh", "-c", "echo one >&2; echo >&2; echo two >&2; printf three >&2; echo done"]
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let id = api.job_with(run_by("talk", json!({}))).await;
    let done = job_is(&api, &id, "succeeded").await;
    assert_eq!(done["reply"], "done");
    assert_eq!(gateway.count("SELECT count(*) FROM progress").await, 3);
}

async fn a_command_gets_what_it_needs_and_none_of_the_servers_secrets(database: Database) {
    const COMMANDS: &str = r#"
[exec.env]
command = ["env"]
"#;
    let setup = Gateway::setup(database).file(COMMANDS);
    let gateway = setup.setting("SECRET_OF_THE_HOST", "do-not-pass-on").start().await;
    let api = gateway.admin();
    let acme = api.tenant("acme").await;
    let executor = json!({"executor": {"kind": "exec", "name": "env"}});
    let source = acme.source_with("stripe", executor).await;
    let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
    let done = job_is(&acme, &sent.text("job_id"), "succeeded").await;
    let text = done["reply"].as_str().expect("a text").to_owned();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("{name} is missing in {text}")).to_owned()
    };
    assert_eq!(value("WAKEPOST_URL"), gateway.url());
    assert_eq!(value("WAKEPOST_JOB_ID"), sent.text("job_id"));
    assert_eq!(value("WAKEPOST_EVENT_ID"), sent.text("event_id"));
    assert_eq!(value("WAKEPOST_TENANT"), "acme");
    assert_eq!(value("WAKEPOST_RUN_ID"), done["runs"][0]["id"]);
    assert!(value("WAKEPOST_LEASE_TOKEN").starts_with("lt_"));
    assert!(!value("WAKEPOST_KEY").is_empty() && !value("PATH").is_empty());
    let trace = done["trace_id"].as_str().expect("a trace");
    assert!(value("TRACEPARENT").starts_with(&format!("00-{trace}-")));
    assert!(value("WAKEPOST_CHAIN").starts_with("wpc_"));
    for secret in [gateway.admin_key(), gateway.master_key(), "do-not-pass-on", source.secret()] {
        assert!(!text.contains(secret), "{text}");
    }
    for name in ["DATABASE_URL", "WAKEPOST_ADMIN_KEY", "WAKEPOST_DATA_DIR", "WAKEPOST_FAILPOINTS"] {
        assert!(!text.contains(name), "{text}");
    }
}

/// The size of a file that somebody writes to.
fn size(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

/// Waits until nobody writes to a file any more.
async fn is_silent(path: &Path) {
    within(Duration::from_secs(20), "nobody writes any more", || async {
        let before = size(path);
        tokio::time::sleep(Duration::from_millis(400)).await;
        (size(path) == before).then_some(())
    })
    .await;
}

async fn a_command_that_takes_too_long_is_ended_with_everything_it_started(database: Database) {
    const COMMANDS: &str = r#"
[exec.slow]
command = ["sh", "-c", '''
( trap '' TERM; while [ -e DIRECTORY/wakepost.toml ]; do echo x >> DIRECTORY/ticks; sleep 0.05; done ) &
wait
''']
timeout_s = 3
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let id = api.job_with(run_by("slow", json!({}))).await;
    let ticks = gateway.directory().join("ticks");
    until("it runs", || async { (size(&ticks) > 0).then_some(()) }).await;
    let shown = job_is(&api, &id, "retrying").await;
    assert_eq!(shown["last_error"], "the command took too long");
    is_silent(&ticks).await;
}

async fn a_command_that_will_not_stop_is_gone_before_its_job_runs_again(database: Database) {
    const COMMANDS: &str = r#"
[exec.stubborn]
command = ["sh", "-c", '''
trap '' TERM
while [ -e DIRECTORY/wakepost.toml ]; do echo "$WAKEPOST_RUN_ID" >> DIRECTORY/ticks; sleep 0.05; done
''']
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let limits = json!({"executor": {"kind": "exec", "name": "stubborn"},
        "run_timeout_s": 3, "backoff_s": [0], "max_attempts": 2});
    let source = api.source_with("stripe", limits).await;
    let id = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    let shown = job_is(&api, &id, "dead_letter").await;
    assert_eq!(shown["attempts"], 2);
    let ticks = std::fs::read_to_string(gateway.directory().join("ticks")).expect("it ran");
    let mut runs: Vec<&str> = ticks.lines().collect();
    runs.dedup();
    assert_eq!(runs.len(), 2, "two runs at once: {runs:?}");
}

async fn what_a_command_leaves_running_does_not_keep_its_job_from_ending(database: Database) {
    const COMMANDS: &str = r#"
[exec.leaves]
command = ["sh", "-c", '''
( while [ -e DIRECTORY/wakepost.toml ]; do echo x >> DIRECTORY/ticks; sleep 0.05; done ) &
while [ ! -s DIRECTORY/ticks ]; do sleep 0.05; done
echo '{"done": true}'
''']
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let id = api.job_with(run_by("leaves", json!({}))).await;
    let done = job_is(&api, &id, "succeeded").await;
    assert_eq!(done["result"], json!({"done": true}));
    is_silent(&gateway.directory().join("ticks")).await;
}

async fn a_command_is_asked_to_stop_when_its_job_is_cancelled(database: Database) {
    const COMMANDS: &str = r#"
[exec.polite]
command = ["sh", "-c", '''
trap 'touch DIRECTORY/asked; exit 0' TERM
touch DIRECTORY/begun
while [ -e DIRECTORY/wakepost.toml ]; do sleep 0.05; done
''']
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let id = api.job_with(run_by("polite", json!({}))).await;
    let begun = gateway.directory().join("begun");
    until("it runs", || async { begun.exists().then_some(()) }).await;
    let answer = api.post(&format!("/jobs/{id}/cancel"), json!({})).await.is(200);
    assert_eq!(answer.json()["cancel_requested"], true);
    let shown = job_is(&api, &id, "cancelled").await;
    assert_eq!(shown["attempts"], 1);
    assert!(gateway.directory().join("asked").exists());
}

async fn a_commands_key_is_good_for_its_own_job_and_dies_with_the_lease(database: Database) {
    const COMMANDS: &str = r#"
[exec.keep]
command = ["sh", "-c", '''
printf '%s %s' "$WAKEPOST_KEY" "$WAKEPOST_LEASE_TOKEN" > "DIRECTORY/writing.$WAKEPOST_JOB_ID"
mv "DIRECTORY/writing.$WAKEPOST_JOB_ID" "DIRECTORY/$WAKEPOST_JOB_ID"
while [ -e DIRECTORY/wakepost.toml ] && [ ! -e DIRECTORY/finish ]; do sleep 0.05; done
''']
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let mut jobs = Vec::new();
    for _ in 0..2 {
        let id = api.job_with(run_by("keep", json!({"n": 1}))).await;
        let path = gateway.directory().join(&id);
        let text = until("it runs", || async { std::fs::read_to_string(&path).ok() }).await;
        let (key, token) = text.split_once(' ').expect("a key and a token");
        jobs.push((id, api.with_key(key), token.to_owned()));
    }
    let [(own, key, token), (other, _, foreign)] = &jobs[..] else {
        panic!("two jobs");
    };
    let call = |id: &str, what: &str| format!("/jobs/{id}/{what}");
    let with = |token: &str| json!({"lease_token": token});
    assert_eq!(key.get(&format!("/jobs/{own}")).await.is(200).json()["status"], "running");
    key.post(&call(own, "heartbeat"), with(token)).await.is(200);
    key.put(&call(own, "checkpoint"), json!({"lease_token": token, "state": 1})).await.is(200);
    let effect = json!({"lease_token": token, "key": "mail"});
    key.post(&call(own, "effects"), effect).await.is(200);

    key.get(&format!("/jobs/{other}")).await.is(404);
    for answer in [
        key.post(&call(other, "heartbeat"), with(foreign)).await,
        key.post(&call(other, "complete"), with(foreign)).await,
        key.post(&call(own, "heartbeat"), with(foreign)).await,
    ] {
        assert!(matches!(answer.status, 404 | 409), "{}", answer.json());
    }
    key.post("/jobs", json!({"input": 1})).await.is(403);
    key.get("/jobs").await.is(403);
    key.get("/inbox").await.is(403);
    Worker::new(key, "w").ask(json!({})).await.is(403);
    key.post(&call(own, "cancel"), json!({})).await.is(403);

    std::fs::write(gateway.directory().join("finish"), "").expect("a file");
    job_is(&api, own, "succeeded").await;
    for answer in [
        key.get(&format!("/jobs/{own}")).await,
        key.post(&call(own, "heartbeat"), with(token)).await,
        key.post(&call(own, "effects"), json!({"lease_token": token, "key": "late"})).await,
        key.put(&call(own, "checkpoint"), json!({"lease_token": token, "state": 2})).await,
    ] {
        assert!(matches!(answer.status, 401 | 404 | 409), "{}", answer.json());
    }
}

async fn only_commands_that_the_operator_wrote_down_can_be_run(database: Database) {
    let gateway = Gateway::setup(database).file("[exec.known]\ncommand = [\"true\"]").start().await;
    let api = gateway.admin();
    for name in ["unknown", "sh", "", "../known"] {
        let job = api.post("/jobs", run_by(name, json!({}))).await;
        job.refuses_field("executor.name");
        let source = json!({"provider": "github", "executor": {"kind": "exec", "name": name}});
        api.post("/sources", source).await.refuses_field("executor.name");
    }
    let extra =
        json!({"input": 1, "executor": {"kind": "exec", "name": "known", "command": ["id"]}});
    api.post("/jobs", extra).await.is(422);
    let id = api.job_with(run_by("known", json!({}))).await;
    job_is(&api, &id, "succeeded").await;
}

/// Checks a posted job as an agent would, with the secret it was given once.
#[track_caller]
fn is_signed(seen: &Seen, secret: &str) {
    let provider = registry::find("standard-webhooks").expect("the scheme");
    let request = Request {
        method: &http::Method::POST,
        url: "",
        headers: &seen.headers,
        body: &seen.body,
        fetched: None,
    };
    let settings = Default::default();
    let check = |secrets: &[&str]| {
        let tolerance = Duration::from_secs(60);
        let check = Check { secrets, settings: &settings, now: now(), tolerance };
        provider.verify(&request, &check).is_ok()
    };
    assert!(check(&[secret]), "{:?}", seen.headers);
    assert!(!check(&["whsec_c29tZWJvZHkgZWxzZQ=="]));
}

async fn a_posted_job_is_signed_and_its_answer_completes_it(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|seen| match seen.path.as_str() {
        "/fields" => Reply::new(200, r#"{"result": {"a": 1}, "reply": "hi", "cost": 3}"#),
        "/other" => Reply::new(201, r#"{"reply": "hi", "more": 1}"#),
        "/text" => Reply::new(200, "plain words"),
        _ => Reply::new(204, ""),
    })
    .await;
    for (path, result, reply) in [
        ("/fields", json!({"a": 1}), json!("hi")),
        ("/other", json!({"reply": "hi", "more": 1}), Value::Null),
        ("/text", json!("plain words"), Value::Null),
        ("/nothing", Value::Null, Value::Null),
    ] {
        let executor = json!({"executor": {"kind": "http", "url": receiver.url(path)}});
        let source = api.source_with("stripe", executor).await;
        let secret = source.made["executor_secret"].as_str().expect("a secret, shown once");
        let sent = gateway.send(&source, &source.event("e-1")).await.is(202);
        let id = sent.text("job_id");
        let done = job_is(&api, &id, "succeeded").await;
        assert_eq!((&done["result"], &done["reply"]), (&result, &reply), "{path}");
        let seen = receiver.seen(path);
        assert_eq!(seen.len(), 1);
        is_signed(&seen[0], secret);
        for name in ["webhook-id", "idempotency-key", "wakepost-job-id"] {
            assert_eq!(seen[0].header(name), id, "{name}");
        }
        let given = seen[0].json();
        assert_eq!(given["id"], id);
        assert_eq!(given["envelope"]["event_id"], sent.text("event_id"));
        assert_eq!(seen[0].header("wakepost-lease-token"), given["lease_token"]);
        assert_eq!(seen[0].header("wakepost-run-id"), given["run_id"]);
        assert_eq!(seen[0].header("traceparent"), given["traceparent"]);
        let shown = api.get(&format!("/sources/{}", source.id)).await.is(200);
        assert!(!String::from_utf8_lossy(&shown.body).contains(secret));
    }

    // A laptop's agent may also be named by a job itself.
    let executor = json!({"kind": "http", "url": receiver.url("/own")});
    let id = api.job_with(json!({"input": {"n": 1}, "executor": executor})).await;
    job_is(&api, &id, "succeeded").await;
    assert_eq!(receiver.seen("/own")[0].json()["input"], json!({"n": 1}));
}

async fn an_agent_that_accepts_a_job_finishes_it_through_the_api(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(202, "")).await;
    let executor =
        json!({"executor": {"kind": "http", "url": receiver.url("/later")}, "lease_s": 3});
    let source = api.source_with("stripe", executor).await;
    let id = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    let first = receiver.wait("/later", 1).await.remove(0);
    let worker = api.role("worker", "default").await;
    let with = |seen: &Seen| json!({"lease_token": seen.header("wakepost-lease-token")});
    let beat = worker.post(&format!("/jobs/{id}/heartbeat"), with(&first)).await;
    beat.is(200);
    assert_eq!(api.show_job(&id).await["status"], "running");

    // Without heartbeats the lease runs out, and the job is posted again.
    let second = receiver.wait("/later", 2).await.remove(1);
    assert_eq!(second.header("webhook-id"), first.header("webhook-id"));
    assert_ne!(second.header("wakepost-run-id"), first.header("wakepost-run-id"));
    let complete = format!("/jobs/{id}/complete");
    worker.post(&complete, with(&first)).await.refuses(409, "lease_lost");
    let mut ending = with(&second);
    ending["result"] = json!("by hand");
    worker.post(&complete, ending).await.is(200);
    let done = api.show_job(&id).await;
    assert_eq!((&done["status"], &done["result"]), (&json!("succeeded"), &json!("by hand")));
}

async fn an_agents_status_says_whether_to_try_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let count = std::sync::atomic::AtomicUsize::new(0);
    let receiver = Receiver::start(move |seen| match seen.path.as_str() {
        "/busy" => Reply::new(429, "slow down").with_header("retry-after", 1200),
        "/moved" => Reply::new(302, "").with_header("location", "/elsewhere"),
        "/flaky" if count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
            Reply::new(503, "not yet").with_header("retry-after", 1)
        }
        "/flaky" => Reply::new(200, r#"{"ok": true}"#),
        path => Reply::new(path[1..].parse().expect("a status"), "the agent's own words"),
    })
    .await;
    let post = |path: &str| {
        let executor = json!({"kind": "http", "url": receiver.url(path)});
        let (api, job) = (api.clone(), json!({"input": 1, "executor": executor}));
        async move { api.job_with(job).await }
    };
    for (path, status) in [
        ("/500", "retrying"),
        ("/502", "retrying"),
        ("/408", "retrying"),
        ("/425", "retrying"),
        ("/400", "dead_letter"),
        ("/404", "dead_letter"),
        ("/410", "dead_letter"),
    ] {
        let shown = job_is(&api, &post(path).await, status).await;
        let error = shown["last_error"].as_str().expect("an error");
        assert!(error.contains(&path[1..]) && error.contains("the agent's own words"), "{error}");
    }
    let busy = job_is(&api, &post("/busy").await, "retrying").await;
    let again: Timestamp = busy["run_at"].as_str().expect("a time").parse().expect("a time");
    let wait = again.since(now());
    assert!((Duration::from_secs(1100)..=Duration::from_secs(1200)).contains(&wait), "{wait:?}");

    let flaky = post("/flaky").await;
    let done = job_is(&api, &flaky, "succeeded").await;
    assert_eq!(done["attempts"], 2);
    let seen = receiver.seen("/flaky");
    assert_eq!(seen[0].header("webhook-id"), seen[1].header("webhook-id"));
    assert_eq!(seen[0].header("idempotency-key"), seen[1].header("idempotency-key"));

    // A redirect is a failure, and is not followed.
    let moved = post("/moved").await;
    until("the redirect failed", || async {
        let shown = api.show_job(&moved).await;
        ["retrying", "dead_letter"].contains(&shown["status"].as_str()?).then_some(())
    })
    .await;
    assert!(receiver.seen("/elsewhere").is_empty());
}

async fn a_tenants_operator_cannot_have_private_addresses_called(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    admin.tenant("acme").await;
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    for role in ["operator", "admin"] {
        let api = admin.role(role, "acme").await;
        for url in [
            receiver.url("/").as_str(),
            "https://127.0.0.1/",
            "https://127.1/",
            "https://2130706433/",
            "https://[::1]/",
            "https://[::ffff:127.0.0.1]/",
            "https://10.0.0.1/",
            "https://192.168.1.1/",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1/",
            "http://example.com/",
            "ftp://example.com/",
            "https://user:password@example.com/",
            "rubbish",
        ] {
            let executor = json!({"kind": "http", "url": url});
            let source = json!({"provider": "github", "executor": executor});
            api.post("/sources", source).await.refuses_field("executor.url");
            let job = json!({"input": 1, "executor": executor});
            api.post("/jobs", job).await.refuses_field("executor.url");
        }
        let source = api.source("github").await;
        let executor = json!({"executor": {"kind": "http", "url": receiver.url("/")}});
        let change = api.patch(&format!("/sources/{}", source.id), executor).await;
        change.refuses_field("executor.url");

        // A name is judged by what it leads to, when it is called.
        let name = json!({"kind": "http", "url": "https://localhost/"});
        let answer = api.post("/jobs", json!({"input": 1, "executor": name})).await;
        if answer.status == 201 {
            let shown = job_is(&api, &answer.text("id"), "dead_letter").await;
            let error = shown["last_error"].as_str().expect("an error");
            assert!(error.contains("refused"), "{error}");
        } else {
            answer.refuses_field("executor.url");
        }
    }
    assert!(receiver.seen("/").is_empty());
}

async fn what_a_command_says_is_bounded_and_need_not_be_text(database: Database) {
    const COMMANDS: &str = r#"
[exec.odd]
command = ["sh", "-c", '''
head -c 10000 /dev/zero | tr '\0' x >&2; echo >&2
printf 'caf\351 \377\n' >&2
printf '\033[2Jlast\n' >&2
printf '\377\376' 
''']

[exec.chatty]
command = ["sh", "-c", "i=0; while [ $i -lt 700 ]; do echo $i >&2; i=$((i+1)); done"]

[exec.endless]
command = ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x"]
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    let said = async |job: &str| {
        let mut events = gateway.client().watch_job(job, None, Some(0)).await.expect("a stream");
        let mut said = Vec::new();
        while let Some(event) = events.next().await.expect("an event") {
            said.extend(event.data["message"].as_str().map(str::to_owned));
        }
        said
    };
    let odd = api.job_with(run_by("odd", json!({}))).await;
    let done = job_is(&api, &odd, "succeeded").await;
    assert_eq!(done["reply"], "\u{fffd}\u{fffd}");
    let lines = said(&odd).await;
    // A long line comes in pieces, none of it lost.
    let long: usize = lines.iter().filter(|line| line.starts_with('x')).map(String::len).sum();
    assert_eq!(long, 10_000);
    assert!(lines.iter().all(|line| line.len() <= 4096));
    assert!(lines.contains(&"caf\u{fffd} \u{fffd}".to_owned()), "{lines:?}");
    assert_eq!(lines.last().map(String::as_str), Some("\u{1b}[2Jlast"));

    let chatty = api.job_with(run_by("chatty", json!({}))).await;
    job_is(&api, &chatty, "succeeded").await;
    let lines = said(&chatty).await;
    assert_eq!((lines.len(), lines[499].as_str()), (500, "499"));

    let endless = api.job_with(run_by("endless", json!({}))).await;
    let shown = job_is(&api, &endless, "dead_letter").await;
    assert_eq!(shown["last_error"], "the command's output is too large");
}

async fn a_stubborn_command_is_killed_with_its_children_when_its_job_is_cancelled(
    database: Database,
) {
    const COMMANDS: &str = r#"
[exec.stubborn]
command = ["sh", "-c", '''
trap '' TERM
(while [ -e DIRECTORY/wakepost.toml ]; do printf . >> DIRECTORY/ticks; sleep 0.05; done) &
while [ -e DIRECTORY/wakepost.toml ]; do sleep 0.05; done
''']
"#;
    let gateway = Gateway::setup(database).file(COMMANDS).start().await;
    let api = gateway.admin();
    // What is left of a short lease is all the grace it gets.
    let fields = json!({"executor": {"kind": "exec", "name": "stubborn"}, "lease_s": 2});
    let source = api.source_with("stripe", fields).await;
    let id = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    let ticks = gateway.directory().join("ticks");
    until("it runs", || async { (size(&ticks) > 0).then_some(()) }).await;
    api.post(&format!("/jobs/{id}/cancel"), json!({})).await.is(200);
    job_is(&api, &id, "cancelled").await;
    is_silent(&ticks).await;
}

async fn an_agent_may_say_when_to_come_again_as_a_date(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| {
        Reply::new(503, "").with_header("retry-after", "Fri, 31 Dec 2100 23:59:59 GMT")
    })
    .await;
    let executor = json!({"kind": "http", "url": receiver.url("/")});
    let id = api.job_with(json!({"input": 1, "executor": executor})).await;
    let shown = job_is(&api, &id, "retrying").await;
    let again: Timestamp = shown["run_at"].as_str().expect("a time").parse().expect("a time");
    // Far beyond the usual backoff, and bounded.
    assert!(again.since(now()) > Duration::from_secs(3600), "{again}");
}

async fn of_all_tenants_keys_only_an_admins_may_have_private_addresses_called(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    let executor = json!({"kind": "http", "url": receiver.url("/")});
    let job = json!({"input": 1, "executor": executor});
    for role in ["publisher", "worker", "operator"] {
        let api = admin.role(role, "*").await;
        api.post("/jobs", job.clone()).await.refuses_field("executor.url");
        let called_back = json!({"input": 1, "callback_url": receiver.url("/")});
        api.post("/jobs", called_back).await.refuses_field("callback_url");
    }
    let operator = admin.role("operator", "*").await;
    let source = json!({"provider": "github", "executor": executor});
    operator.post("/sources", source).await.refuses_field("executor.url");
    let schedule = json!({"name": "s", "cron": "@yearly", "input": 1, "executor": executor});
    operator.post("/schedules", schedule).await.refuses_field("executor.url");
    assert!(receiver.seen("/").is_empty());
    let id = admin.job_with(job).await;
    job_is(&admin, &id, "succeeded").await;
}

async fn an_agent_that_says_too_much_is_not_run_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|seen| {
        let status = if seen.path == "/done" { 200 } else { 500 };
        Reply::new(status, "x".repeat(1024 * 1024 + 1))
    })
    .await;
    for (path, status) in [("/done", "dead_letter"), ("/failed", "retrying")] {
        let executor = json!({"kind": "http", "url": receiver.url(path)});
        let id = api.job_with(json!({"input": 1, "executor": executor})).await;
        let shown = job_is(&api, &id, status).await;
        let error = shown["last_error"].as_str().expect("an error");
        let said = if path == "/done" { "larger than" } else { "answered 500" };
        assert!(error.contains(said), "{error}");
        assert_eq!(receiver.seen(path).len(), 1);
    }
}
