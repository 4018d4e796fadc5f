//! Calling back: whoever asked for it is told a job's outcome, whatever that is, at least once and always the same.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use wakepost_providers::{Check, Request, registry};
use wakepost_tests::{Api, Database, Gateway, Receiver, Reply, Seen, now, on_both, until};

on_both!(
    every_end_is_told_once_and_signed,
    a_job_may_name_its_own_address,
    a_receiver_that_fails_is_tried_again_with_the_same_words,
    what_cannot_succeed_is_a_dead_letter_and_can_be_replayed,
    a_receiver_that_hangs_delays_no_other,
    a_server_that_is_killed_tells_it_after_all,
    a_tenant_cannot_have_private_addresses_called,
);

/// The job's one callback, once it stands somewhere.
async fn callback_is(api: &Api, job: &str, status: &str) -> Value {
    until(&format!("the callback of {job} is {status}"), || async {
        let id = callback_id(api, job).await?;
        let shown = api.show_job(&id).await;
        (shown["status"] == status).then_some(shown)
    })
    .await
}

/// By its event, which lists all work about it.
async fn callback_id(api: &Api, job: &str) -> Option<String> {
    let event = api.show_job(job).await["event_id"].as_str()?.to_owned();
    let work = api.show_event(&event).await["work"].as_array()?.clone();
    let mut callbacks = work.iter().filter(|item| item["kind"] == "callback");
    let of_job = callbacks.find(|item| item["parent_id"] == job)?;
    Some(of_job["id"].as_str()?.to_owned())
}

fn is_signed(seen: &Seen, secret: &str) {
    let provider = registry::find("standard-webhooks").expect("the scheme");
    let request = Request {
        method: &http::Method::POST,
        url: "",
        headers: &seen.headers,
        body: &seen.body,
        fetched: None,
    };
    let (settings, tolerance) = (Default::default(), Duration::from_secs(60));
    let check = Check { secrets: &[secret], settings: &settings, now: now(), tolerance };
    assert!(provider.verify(&request, &check).is_ok(), "{:?}", seen.headers);
}

async fn every_end_is_told_once_and_signed(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(200, "thanks")).await;
    let fields = json!({"callback_url": receiver.url("/done")});
    let source = api.source_with("stripe", fields).await;
    let secret = source.made["callback_secret"].as_str().expect("a secret, shown once");
    let shown = api.get(&format!("/sources/{}", source.id)).await.is(200);
    assert!(!String::from_utf8_lossy(&shown.body).contains(secret));
    assert_eq!(shown.json()["callback_url"], receiver.url("/done"));
    let worker = gateway.worker("w");
    let send =
        async |name: &str| gateway.send(&source, &source.event(name)).await.is(202).text("job_id");

    let first = send("e-1").await;
    let lease = worker.wait().await;
    lease
        .post("complete", json!({"result": {"ok": true}, "reply": "Done.", "cost": 0.5}))
        .await
        .is(200);
    // The answer got lost.
    lease
        .post("complete", json!({"result": {"ok": true}, "reply": "Done.", "cost": 0.5}))
        .await
        .is(200);
    let second = send("e-2").await;
    let lease = worker.wait().await;
    lease.post("fail", json!({"error": "no such city", "retryable": false})).await.is(200);
    let third = send("e-3").await;
    api.post(&format!("/jobs/{third}/cancel"), json!({"note": "not now"})).await.is(200);
    let fourth = send("e-4").await;
    let lease = worker.wait_with(json!({"lease_s": 60})).await;
    assert_eq!(lease.id(), fourth);
    api.post(&format!("/jobs/{fourth}/cancel"), json!({})).await.is(200);
    assert_eq!(lease.heartbeat().await.is(200).json()["cancel_requested"], true);
    lease.fail("stopped").await.is(200);

    for (job, kind) in [
        (&first, "job.succeeded"),
        (&second, "job.dead_lettered"),
        (&third, "job.cancelled"),
        (&fourth, "job.cancelled"),
    ] {
        let told = callback_is(&api, job, "succeeded").await;
        assert_eq!(told["attempts"], 1);
        assert_eq!(told["result"], json!({"status_code": 200, "body": "thanks"}));
        let seen = receiver.seen("/done");
        let of_job = seen.iter().filter(|seen| seen.json()["data"]["id"] == job.as_str());
        let of_job: Vec<&Seen> = of_job.collect();
        assert_eq!(of_job.len(), 1, "{kind}");
        let (seen, shown) = (of_job[0], api.show_job(job).await);
        is_signed(seen, secret);
        assert_eq!(seen.header("webhook-id"), told["id"]);
        let body = seen.json();
        assert_eq!(body["type"], kind);
        assert_eq!(body["timestamp"], shown["finished_at"]);
        for field in
            ["event_id", "tenant", "kind", "subject", "status", "attempts", "result", "trace_id"]
        {
            assert_eq!(body["data"][field], shown[field], "{kind} {field}");
        }
        let trace = shown["trace_id"].as_str().expect("a trace");
        assert_eq!(seen.header("traceparent").split('-').nth(1), Some(trace));
        assert_eq!(told["input"]["payload"], body, "what was said is kept");
    }
    let body = |job: &str| {
        let seen = receiver.seen("/done");
        seen.iter().map(Seen::json).find(|body| body["data"]["id"] == job).expect("told")
    };
    assert_eq!(body(&first)["data"]["reply"], "Done.");
    assert_eq!(body(&first)["data"]["cost"], 0.5);
    assert_eq!(body(&first)["data"].get("error"), None);
    assert_eq!(body(&second)["data"]["error"], "no such city");
    let count = "SELECT count(*) FROM work_done WHERE kind = 3";
    assert_eq!(gateway.count(count).await, 4);
}

async fn a_job_may_name_its_own_address(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|_| Reply::new(204, "")).await;
    let new = json!({"kind": "report", "input": 1, "callback_url": receiver.url("/own?of=a")});
    let made = api.post("/jobs", new.clone()).await.is(201).json();
    let secret = made["callback_secret"].as_str().expect("a secret, shown once");
    let again = api.post("/jobs", new).await.is(201).json();
    assert_eq!(again["callback_secret"], secret, "of one address it is always the same");
    gateway.worker("w").wait().await.complete(json!({"n": 7})).await.is(200);
    gateway.worker("w").wait().await.complete(json!({"n": 7})).await.is(200);
    let seen = receiver.wait("/own", 2).await;
    assert_eq!(seen[0].query, "of=a");
    for seen in &seen {
        is_signed(seen, secret);
        let data = &seen.json()["data"];
        assert_eq!((&data["kind"], &data["result"]), (&json!("report"), &json!({"n": 7})));
    }
    assert_ne!(seen[0].header("webhook-id"), seen[1].header("webhook-id"));
    // A replay of the job is told too, in its own words.
    let note = json!({"note": "once more"});
    let id = made["id"].as_str().expect("an id");
    let replay = api.post(&format!("/jobs/{id}/replay"), note).await.is(202).text("job_id");
    gateway.worker("w").wait().await.complete(json!({"n": 8})).await.is(200);
    let third = receiver.wait("/own", 3).await.remove(2);
    assert_eq!(third.json()["data"]["id"], replay);
}

async fn a_receiver_that_fails_is_tried_again_with_the_same_words(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let calls = AtomicUsize::new(0);
    let receiver = Receiver::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::new(503, "come again").with_header("retry-after", 1),
        1 => Reply::new(429, "").with_header("retry-after", 1),
        _ => Reply::new(200, ""),
    })
    .await;
    let source = api.source_with("stripe", json!({"callback_url": receiver.url("/cb")})).await;
    let secret = source.made["callback_secret"].as_str().expect("a secret").to_owned();
    let job = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    gateway.worker("w").wait().await.complete(json!(1)).await.is(200);
    let told = callback_is(&api, &job, "succeeded").await;
    assert_eq!((&told["attempts"], &told["max_attempts"]), (&json!(3), &json!(10)));
    assert_eq!(told["runs"].as_array().expect("runs").len(), 3);
    let error = told["runs"][0]["error"].as_str().expect("an error");
    assert_eq!(error, "the receiver answered 503: come again");
    let seen = receiver.seen("/cb");
    assert_eq!(seen.len(), 3);
    for again in &seen[1..] {
        assert_eq!(again.header("webhook-id"), seen[0].header("webhook-id"));
        assert_eq!(again.body, seen[0].body);
        assert_ne!(again.header("webhook-timestamp"), seen[0].header("webhook-timestamp"));
        is_signed(again, &secret);
    }
}

async fn what_cannot_succeed_is_a_dead_letter_and_can_be_replayed(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let receiver = Receiver::start(|seen| match seen.path.as_str() {
        "/moved" => Reply::new(302, "").with_header("location", "/elsewhere"),
        "/refuses" => Reply::new(410, "gone"),
        _ => Reply::new(200, ""),
    })
    .await;
    let mut dead = Vec::new();
    for path in ["/moved", "/refuses"] {
        let source = api.source_with("stripe", json!({"callback_url": receiver.url(path)})).await;
        let job = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
        gateway.worker("w").wait().await.complete(json!(1)).await.is(200);
        let told = callback_is(&api, &job, "dead_letter").await;
        assert_eq!((&told["attempts"], receiver.seen(path).len()), (&json!(1), 1));
        dead.push((source, told));
    }
    assert!(receiver.seen("/elsewhere").is_empty(), "redirects are not followed");
    let listed = api.list("/dead-letters?kind=callback").await;
    assert_eq!(listed.len(), 2);
    let (source, told) = &dead[1];
    let of_source = api.list(&format!("/dead-letters?source={}", source.id)).await;
    assert_eq!((of_source.len(), &of_source[0]["id"]), (1, &told["id"]));

    // Its owner repaired the address.
    let right = json!({"callback_url": receiver.url("/right")});
    api.patch(&format!("/sources/{}", source.id), right).await.is(200);
    let id = told["id"].as_str().expect("an id");
    let note = json!({"note": "the address is right now"});
    let new = api.post(&format!("/dead-letters/{id}/replay"), note).await.is(202).text("job_id");
    let seen = receiver.wait("/right", 1).await.remove(0);
    let first = receiver.seen("/refuses").remove(0);
    assert_eq!(seen.body, first.body);
    assert_eq!(seen.header("webhook-id"), first.header("webhook-id"), "the receiver can tell");
    until("the replay has succeeded", || async {
        (api.show_job(&new).await["status"] == "succeeded").then_some(())
    })
    .await;
    assert_eq!(api.list("/dead-letters?kind=callback").await.len(), 1);

    // The other one among many.
    let right = json!({"callback_url": receiver.url("/right")});
    api.patch(&format!("/sources/{}", dead[0].0.id), right).await.is(200);
    let all = json!({"filter": {"kind": "callback"}, "note": "and this one"});
    api.post("/dead-letters/replay", all).await.is(202);
    let seen = receiver.wait("/right", 2).await.remove(1);
    assert_eq!(seen.body, receiver.seen("/moved")[0].body);
    assert!(api.list("/dead-letters").await.is_empty());
}

async fn a_receiver_that_hangs_delays_no_other(database: Database) {
    const DEADLINE: Duration = Duration::from_secs(15);
    let setup = Gateway::setup(database).setting("WAKEPOST_PUSH_CONCURRENCY", "20");
    let gateway = setup.start().await;
    let api = gateway.admin();
    let slow = Receiver::start(|_| Reply::none()).await;
    let quick = Receiver::start(|_| Reply::new(200, "")).await;
    let job = |kind: &str, url: String| json!({"kind": kind, "input": 1, "callback_url": url});
    let many: Vec<Value> = (0..40).map(|_| job("slow", slow.url("/slow"))).collect();
    api.post("/jobs", json!(many)).await.is(201);
    let worker = gateway.worker("w");
    let began = Instant::now();
    for _ in 0..40 {
        worker.wait_with(json!({"kinds": ["slow"]})).await.complete(json!(1)).await.is(200);
    }
    slow.wait("/slow", 16).await;
    api.job_with(job("quick", quick.url("/quick"))).await;
    worker.wait_with(json!({"kinds": ["quick"]})).await.complete(json!(1)).await.is(200);
    quick.wait("/quick", 1).await;
    // Unless this machine is so busy that the slow one's time was over meanwhile.
    if began.elapsed() < DEADLINE {
        assert_eq!(slow.seen("/slow").len(), 16, "one receiver has so many at once and no more");
    }
}

async fn a_server_that_is_killed_tells_it_after_all(database: Database) {
    let calls = AtomicUsize::new(0);
    let receiver = Receiver::start(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Reply::none(),
        _ => Reply::new(200, ""),
    })
    .await;
    // It dies once the end is stored, and before anybody heard of it.
    let setup = Gateway::setup(database).failpoints("settle.after_commit=kill@1");
    let mut gateway = setup.start().await;
    let fields = json!({"callback_url": receiver.url("/cb")});
    let source = gateway.admin().source_with("stripe", fields).await;
    let job = gateway.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    let lease = gateway.worker("w").wait().await;
    let done = json!({"lease_token": lease.token(), "result": 1});
    let path = format!("/jobs/{job}/complete");
    let headers = Default::default();
    let lost = gateway.admin().try_call(http::Method::POST, &path, headers, Some(&done)).await;
    assert!(lost.is_err());
    gateway.ended().await;
    gateway.restart().await;
    // And again while the receiver has it.
    receiver.wait("/cb", 1).await;
    gateway.restart().await;
    let seen = receiver.wait("/cb", 2).await;
    assert_eq!(seen[0].header("webhook-id"), seen[1].header("webhook-id"));
    assert_eq!(seen[0].body, seen[1].body);
    callback_is(&gateway.admin(), &job, "succeeded").await;
    // The worker says it again, as workers do that got no answer.
    gateway.admin().post(&path, done).await.is(200);
    let all = "SELECT count(*) FROM work_done WHERE kind = 3";
    assert_eq!(gateway.count(all).await, 1);
    assert_eq!(gateway.count("SELECT count(*) FROM work WHERE kind = 3").await, 0);
}

async fn a_tenant_cannot_have_private_addresses_called(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let api = admin.tenant("acme").await;
    let receiver = Receiver::start(|_| Reply::new(200, "")).await;
    for url in [receiver.url("/").as_str(), "https://10.0.0.1/", "http://example.com/", "rubbish"] {
        let source = json!({"provider": "github", "callback_url": url});
        api.post("/sources", source).await.refuses_field("callback_url");
        let job = json!({"input": 1, "callback_url": url});
        api.post("/jobs", job).await.refuses_field("callback_url");
    }
    // An administrator of all tenants set it; the tenant changes something else.
    let own = admin.of_tenant("acme");
    let source = own.source_with("github", json!({"callback_url": receiver.url("/ours")})).await;
    api.patch(&format!("/sources/{}", source.id), json!({"name": "mine"})).await.is(200);
    gateway.send(&source, &source.event("e-1")).await.is(202);
    let worker = wakepost_tests::Worker::new(&api, "w");
    worker.wait().await.complete(json!(1)).await.is(200);
    receiver.wait("/ours", 1).await;
    let change = json!({"callback_url": receiver.url("/theirs")});
    api.patch(&format!("/sources/{}", source.id), change).await.refuses_field("callback_url");
    // No longer wanted.
    api.patch(&format!("/sources/{}", source.id), json!({"callback_url": null})).await.is(200);
    gateway.send(&source, &source.event("e-2")).await.is(202);
    worker.wait().await.complete(json!(1)).await.is(200);
    assert_eq!(gateway.count("SELECT count(*) FROM work WHERE kind = 3").await, 0);
    assert_eq!(receiver.seen("/ours").len(), 1);
}
