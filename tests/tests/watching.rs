//! Watching: whoever follows a job hears each thing once, from any node, and misses none by coming again.

use std::time::Duration;

use serde_json::{Value, json};
use wakepost_client::JobEvent;
use wakepost_tests::{Api, Database, Gateway, Receiver, Reply, Worker, on_both, until, webhookctl};

on_both!(
    a_job_is_told_from_its_beginning_to_its_end,
    a_watcher_hears_of_things_as_they_happen,
    whoever_comes_again_goes_on_just_where_it_was,
    a_watcher_goes_on_at_another_node_and_after_a_restart,
    an_operators_word_is_told,
    the_oldest_progress_goes_and_the_rest_is_told_in_order,
    a_worker_watches_its_own_run_and_no_other,
    what_is_said_on_a_platform_is_told,
    logs_are_lines_and_inspect_shows_the_way_of_a_job,
);

/// All there is to hear now, after the event with this id.
async fn heard(gateway: &Gateway, job: &str, after: Option<&str>) -> Vec<JobEvent> {
    let mut events = gateway.client().watch_job(job, after, Some(0)).await.expect("a stream");
    let mut heard = Vec::new();
    while let Some(event) = events.next().await.expect("an event") {
        heard.push(event);
    }
    heard
}

/// What comes within a time that no look needs.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("in time")
}

/// An event in two words.
fn word(event: &JobEvent) -> String {
    let data = &event.data;
    let thing = match event.event.as_str() {
        "progress" => &data["message"],
        "effect" => return format!("{} {}", text(&data["key"]), text(&data["status"])),
        _ => &data["status"],
    };
    format!("{} {}", event.event, text(thing))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

fn words(events: &[JobEvent]) -> Vec<String> {
    events.iter().map(word).collect()
}

/// A job that failed once, did something, and was done.
async fn eventful(api: &Api) -> String {
    let job = api.job().await;
    let worker = Worker::new(api, "ada");
    let lease = worker.wait().await;
    lease.progress("first try").await.is(200);
    lease.post("fail", json!({"error": "no luck", "retry_after_s": 0})).await.is(200);
    let lease = worker.wait().await;
    lease.begin("mail").await.is(200);
    lease.commit("mail", json!({"sent": 1})).await.is(200);
    lease.begin("call").await.is(200);
    lease.abort("call", "nobody there").await.is(200);
    let last = json!({"message": "nearly done", "percent": 90, "step": "2", "data": {"n": 1}});
    lease.post("progress", last).await.is(200);
    lease.complete(json!(1)).await.is(200);
    job
}

/// What is told of it besides its effects: the clock need not tell which came first of an effect and a word.
const EVENTFUL: [&str; 7] = [
    "state pending",
    "state running",
    "progress first try",
    "state retrying",
    "state running",
    "progress nearly done",
    "state succeeded",
];
const EFFECTS: [&str; 4] = ["mail begun", "mail committed", "call begun", "call aborted"];

#[track_caller]
fn is_eventful(events: &[JobEvent]) {
    let (effects, others): (Vec<JobEvent>, Vec<JobEvent>) =
        events.iter().cloned().partition(|event| event.event == "effect");
    assert_eq!(
        (words(&others), words(&effects)),
        (EVENTFUL.map(str::to_owned).to_vec(), EFFECTS.map(str::to_owned).to_vec())
    );
    assert!(events.last().expect("an end").is_last());
}

async fn a_job_is_told_from_its_beginning_to_its_end(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = eventful(&api).await;
    // It ends by itself, since the job has.
    let mut events = gateway.client().watch_job(&job, None, None).await.expect("a stream");
    let mut all = Vec::new();
    while let Some(event) = events.next().await.expect("an event") {
        all.push(event);
    }
    is_eventful(&all);
    let found = |wanted: &str, nth: usize| {
        let mut all = all.iter().filter(|event| word(event) == wanted);
        all.nth(nth).unwrap_or_else(|| panic!("no {wanted}")).data.clone()
    };
    let shown = api.show_job(&job).await;
    let runs = [&shown["runs"][0]["id"], &shown["runs"][1]["id"]];
    let retrying = found("state retrying", 0);
    assert_eq!((&retrying["reason"], &retrying["attempt"]), (&json!("no luck"), &json!(1)));
    let began = [found("state running", 0), found("state running", 1)];
    assert_eq!((&began[0]["run_id"], &began[1]["run_id"]), (runs[0], runs[1]));
    assert_eq!(began[1]["worker"], "ada");
    let progress = [found("progress first try", 0), found("progress nearly done", 0)];
    assert_eq!((&progress[0]["run_id"], &progress[1]["run_id"]), (runs[0], runs[1]));
    assert_eq!((&progress[1]["percent"], &progress[1]["step"]), (&json!(90.0), &json!("2")));
    assert_eq!(progress[1]["data"], json!({"n": 1}));
    assert_eq!(found("mail committed", 0)["run_id"], *runs[1]);
    assert_eq!(found("call aborted", 0)["error"], "nobody there");
    for event in &all {
        assert!(event.data["at"].is_string(), "{event:?}");
    }
    api.get(&format!("/jobs/{job}/events?for_s=901")).await.is(422);
    api.get(&format!("/jobs/{job}/events?limit=1")).await.is(422);
    let raw = api.get(&format!("/jobs/{job}/events")).await.is(200);
    assert_eq!(raw.header("content-type"), "text/event-stream");
    let refused = gateway.client().watch_job(&job, Some("rubbish"), None).await;
    assert_eq!(refused.expect_err("a refusal").problem().expect("a problem").status, 422);
}

async fn a_watcher_hears_of_things_as_they_happen(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = api.job().await;
    let mut events = gateway.client().watch_job(&job, None, None).await.expect("a stream");
    let mut next =
        async || word(&soon(events.next()).await.expect("an event").expect("no end yet"));
    assert_eq!(next().await, "state pending");
    let lease = Worker::new(&api, "ada").wait().await;
    assert_eq!(next().await, "state running");
    lease.progress("half").await.is(200);
    assert_eq!(next().await, "progress half");
    lease.begin("mail").await.is(200);
    assert_eq!(next().await, "mail begun");
    lease.commit("mail", json!(1)).await.is(200);
    assert_eq!(next().await, "mail committed");
    lease.complete(json!(1)).await.is(200);
    assert_eq!(next().await, "state succeeded");
    assert_eq!(soon(events.next()).await.expect("an end"), None);
}

async fn whoever_comes_again_goes_on_just_where_it_was(database: Database) {
    let gateway = Gateway::start(database).await;
    let job = eventful(&gateway.admin()).await;
    let all = heard(&gateway, &job, None).await;
    is_eventful(&all);
    for (index, event) in all.iter().enumerate() {
        let rest = heard(&gateway, &job, Some(&event.id)).await;
        assert_eq!(rest, all[index + 1..], "after {}", word(event));
    }
}

async fn a_watcher_goes_on_at_another_node_and_after_a_restart(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = api.job().await;
    let lease = Worker::new(&api, "ada").wait().await;
    lease.progress("one").await.is(200);
    let first = heard(&gateway, &job, None).await;
    assert_eq!(words(&first), ["state pending", "state running", "progress one"]);
    let last = first.last().expect("an event").id.clone();
    lease.progress("two").await.is(200);
    if database == Database::Postgres {
        let other = gateway.node().await;
        assert_eq!(words(&heard(&other, &job, Some(&last)).await), ["progress two"]);
        let mut live = other.client().watch_job(&job, Some(&last), None).await.expect("a stream");
        assert_eq!(word(&live.next().await.expect("an event").expect("one")), "progress two");
        lease.progress("three").await.is(200);
        let three = soon(live.next()).await.expect("an event").expect("one");
        assert_eq!(word(&three), "progress three", "told at one node, heard at another");
    } else {
        lease.progress("three").await.is(200);
    }
    gateway.kill().await;
    gateway.restart().await;
    let rest = heard(&gateway, &job, Some(&last)).await;
    assert_eq!(words(&rest), ["progress two", "progress three"]);
}

async fn an_operators_word_is_told(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = api.job().await;
    let worker = Worker::new(&api, "ada");
    let lease = worker.wait().await;
    lease.begin("pay").await.is(200);
    lease.post("fail", json!({"error": "lost the line", "retry_after_s": 0})).await.is(200);
    let lease = worker.wait().await;
    assert_eq!(lease.begin("pay").await.is(200).json()["decision"], "in_doubt");
    let all = heard(&gateway, &job, None).await;
    let held = all.last().expect("an event");
    assert_eq!((word(held).as_str(), &held.data["reason"]), ("state held", &json!("in_doubt")));
    let word_of = json!({"outcome": "committed", "note": "Ada: asked the bank"});
    api.post(&format!("/jobs/{job}/effects/pay/resolve"), word_of).await.is(200);
    let rest = heard(&gateway, &job, Some(&held.id)).await;
    let mut told = words(&rest);
    told.sort();
    assert_eq!(told, ["pay committed", "state pending"]);
    let last = rest.last().expect("an event").id.clone();
    api.post(&format!("/jobs/{job}/cancel"), json!({"note": "enough"})).await.is(200);
    let end = heard(&gateway, &job, Some(&last)).await;
    assert_eq!(words(&end), ["state cancelled"]);
    let after = heard(&gateway, &job, Some(&end[0].id)).await;
    assert!(after.is_empty(), "{after:?}");
}

async fn the_oldest_progress_goes_and_the_rest_is_told_in_order(database: Database) {
    const KEPT: usize = 1000;
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = api.job().await;
    let lease = Worker::new(&api, "ada").wait().await;
    for n in 0..KEPT + 5 {
        lease.progress(&format!("{n}")).await.is(200);
    }
    lease.complete(json!(1)).await.is(200);
    let all = heard(&gateway, &job, None).await;
    let said = all.iter().filter(|event| event.event == "progress");
    let said: Vec<usize> =
        said.map(|event| text(&event.data["message"]).parse().expect("a number")).collect();
    assert_eq!(said, (5..KEPT + 5).collect::<Vec<_>>());
    assert_eq!(word(all.last().expect("an end")), "state succeeded");
}

async fn a_worker_watches_its_own_run_and_no_other(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let api = admin.role("worker", "default").await;
    let (job, other) = (admin.job().await, admin.job().await);
    let lease = Worker::new(&api, "ada").wait().await;
    assert_eq!(lease.id(), job);
    let client = wakepost_client::Client::new(gateway.url(), api.key()).expect("a client");
    let refused = client.watch_job(&other, None, None).await.expect_err("nobody leases it");
    assert_eq!(refused.problem().expect("a problem").status, 404);
    let mut events = client.watch_job(&job, None, None).await.expect("a stream");
    for expected in ["state pending", "state running"] {
        assert_eq!(word(&soon(events.next()).await.expect("an event").expect("one")), expected);
    }
    lease.post("fail", json!({"error": "no", "retry_after_s": 600})).await.is(200);
    assert_eq!(word(&soon(events.next()).await.expect("an event").expect("one")), "state retrying");
    assert_eq!(soon(events.next()).await.expect("the end of its run"), None);
    let publisher = admin.role("publisher", "default").await;
    publisher.get(&format!("/jobs/{job}/events")).await.refuses(403, "forbidden");
}

async fn what_is_said_on_a_platform_is_told(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let platform = Receiver::start(|_| Reply::new(400, r#"{"ok": false}"#)).await;
    let fields =
        json!({"quiet_ms": 0, "settings": {"bot_token": "7:t", "api_url": platform.url("")}});
    let source = api.source_with("telegram", fields).await;
    let test = format!("/sources/{}/test", source.id);
    api.post(&test, json!({"event_type": "message"})).await.is(200);
    let lease = Worker::new(&api, "ada").wait().await;
    let reply = lease.post("reply", json!({"text": "Working on it…"})).await.is(200).text("id");
    let job = lease.id().to_owned();
    let told = until("the reply ended", || async {
        let all = heard(&gateway, &job, None).await;
        let told: Vec<JobEvent> = all.into_iter().filter(|event| event.event == "reply").collect();
        (told.len() == 2).then_some(told)
    })
    .await;
    assert_eq!((&told[0].data["id"], &told[0].data["status"]), (&json!(reply), &json!("pending")));
    assert_eq!(told[1].data["id"], reply);
    assert_eq!(told[1].data["status"], "dead_letter", "{:?}", told[1]);
    let shown = api.show_job(&job).await;
    assert_eq!(api.show_job(&reply).await["trace_id"], shown["trace_id"], "one trace");
    // A reply can be watched as a job can.
    let of_reply = words(&heard(&gateway, &reply, None).await);
    assert_eq!(of_reply.first().map(String::as_str), Some("state pending"));
    assert_eq!(of_reply.last().map(String::as_str), Some("state dead_letter"));
}

async fn logs_are_lines_and_inspect_shows_the_way_of_a_job(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let job = eventful(&api).await;
    let run = async |args: &[&str]| {
        let ran = webhookctl(gateway.url(), gateway.admin_key(), args).await;
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        ran.stdout
    };
    for args in [&["jobs", "logs", &job][..], &["jobs", "logs", "-f", &job]] {
        let printed = run(args).await;
        assert_eq!(printed.lines().count(), EVENTFUL.len() + EFFECTS.len(), "{printed}");
        assert!(!printed.contains('\u{1b}'), "plain when piped");
        for part in
            ["retrying (attempt 1): no luck", "progress  90 % 2: nearly done", "mail committed"]
        {
            assert!(printed.contains(part), "{part:?} in {printed}");
        }
    }
    let printed = run(&["jobs", "logs", &job, "--json"]).await;
    let lines: Vec<JobEvent> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    is_eventful(&lines);

    // Whoever follows waits for the end.
    let later = api.job().await;
    let followed = {
        let (url, key, job) =
            (gateway.url().to_owned(), gateway.admin_key().to_owned(), later.clone());
        tokio::spawn(async move { webhookctl(&url, &key, &["jobs", "logs", "-f", &job]).await })
    };
    let lease = Worker::new(&api, "ada").wait().await;
    lease.complete(json!(1)).await.is(200);
    let ran = soon(followed).await.expect("its end");
    assert!(ran.stdout.lines().last().expect("a line").ends_with("succeeded (attempt 1)"));

    let printed = run(&["jobs", "inspect", &job]).await;
    let shown = api.show_job(&job).await;
    let way = format!("{job} → {} → 2 effects", text(&shown["runs"][1]["id"]));
    assert!(printed.contains(&way), "{way:?} in {printed}");
}
