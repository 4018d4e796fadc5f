//! Leasing: each job is one worker's at a time, and a worker that lost it can change nothing.

use std::collections::HashSet;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use wakepost_domain::Timestamp;
use wakepost_tests::{Answer, Api, Database, Gateway, Lease, Worker, now, on_both, until, within};

on_both!(
    each_job_is_leased_to_one_worker_however_many_ask,
    a_worker_that_lost_its_lease_is_told_so_and_changes_nothing,
    an_expired_lease_cannot_be_revived_and_the_job_is_soon_free_again,
    leases_that_cannot_be_ended_keep_no_other_from_being_rescued,
    a_waiting_worker_gets_a_job_as_soon_as_it_arrives,
    what_a_worker_may_ask_for_is_bounded,
    many_heartbeats_and_many_endings_are_answered_one_by_one,
    a_repeat_of_the_call_that_ended_a_job_is_welcome_and_changes_nothing,
    what_a_stopping_worker_hands_back_is_free_at_once_and_costs_no_attempt,
    a_worker_gets_only_the_kinds_and_sources_it_asks_for,
    a_tenants_worker_never_gets_another_tenants_job,
    a_job_that_cannot_be_read_fails_alone_and_keeps_no_other_from_its_worker,
    a_lease_never_passes_the_runs_last_moment,
    what_one_run_saves_the_next_one_gets,
    never_more_jobs_run_at_once_than_their_source_and_tenant_allow,
    jobs_of_one_order_key_run_one_after_the_other,
);

async fn each_job_is_leased_to_one_worker_however_many_ask(database: Database) {
    const WORKERS: usize = 20;
    const JOBS: usize = 60;
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let workers: Vec<Worker> =
        (0..WORKERS).map(|n| nodes[n % nodes.len()].worker(&format!("w{n}"))).collect();

    let only = api.job().await;
    let asked = workers.iter().map(|worker| worker.lease_many(json!({"wait_s": 1})));
    let got: Vec<Lease> = join_all(asked).await.into_iter().flatten().collect();
    assert_eq!(got.len(), 1, "one job, one worker");
    assert_eq!(got[0].id(), only);
    got[0].complete(json!(1)).await.is(200);

    let jobs: Vec<Value> = (0..JOBS).map(|n| json!({"input": n})).collect();
    let made = api.post("/jobs", jobs.into()).await.is(201).json();
    let made = made["data"].as_array().expect("jobs").iter();
    let made: HashSet<String> =
        made.map(|job| job["id"].as_str().expect("an id").to_owned()).collect();
    let leased = Mutex::new(Vec::new());
    until("every job is leased", || async {
        let asked = workers.iter().map(|worker| worker.lease_many(json!({"max": 2})));
        let round = join_all(asked).await.into_iter().flatten();
        let mut leased = leased.lock().expect("one task");
        leased.extend(round.map(|lease| lease.id().to_owned()));
        (leased.len() >= JOBS).then_some(())
    })
    .await;
    let leased = leased.into_inner().expect("one task");
    let different: HashSet<String> = leased.iter().cloned().collect();
    assert_eq!(leased.len(), JOBS, "a job was leased twice");
    assert_eq!(different, made);
    for worker in &workers {
        assert!(worker.lease().await.is_none());
    }
}

/// A job whose first worker stalled, leased again by a second one.
async fn stalled(gateway: &Gateway) -> (Lease, Lease) {
    let first = gateway.worker("stalled");
    let first = first.wait_with(json!({"lease_s": 1})).await;
    let second = gateway.worker("second").wait_with(json!({"lease_s": 60})).await;
    assert_eq!(first.id(), second.id());
    (first, second)
}

async fn a_worker_that_lost_its_lease_is_told_so_and_changes_nothing(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let (gateway, other) = (&nodes[0], &nodes[nodes.len() - 1]);
    let api = gateway.admin();
    let id = api.job().await;
    let (stale, live) = stalled(gateway).await;
    assert_eq!((stale.attempt(), live.attempt()), (1, 2));
    assert!(live.fence() > stale.fence());
    live.begin("mail").await.is(200);
    live.checkpoint(json!({"step": 1})).await.is(200);

    let before = api.show_job(&id).await;
    assert_eq!(before["status"], "running");
    assert_eq!(before["lease"]["worker"], "second");
    for stale in [stale.clone(), stale.through(&other.admin())] {
        let row =
            json!({"jobs": [{"id": id, "lease_token": stale.token(), "outcome": "complete"}]});
        let beat = json!({"jobs": [{"id": id, "lease_token": stale.token()}]});
        for answer in [
            stale.heartbeat().await,
            stale.checkpoint(json!({"step": 99})).await,
            stale.progress("I am still here").await,
            stale.begin("mail").await,
            stale.begin("another").await,
            stale.commit("mail", json!("sent twice")).await,
            stale.abort("mail", "no").await,
            stale.complete(json!("mine")).await,
            stale.fail("mine").await,
            // What else is wrong with a call is no news to who lost the lease.
            stale.post("fail", json!({"error": "x", "hand_back": true, "retryable": true})).await,
            stale.post("reply", json!({"text": "hello"})).await,
        ] {
            answer.refuses(409, "lease_lost");
        }
        for answer in [api.post("/jobs/finish", row).await, api.post("/jobs/heartbeat", beat).await]
        {
            let rows = answer.is(200).json();
            let expected = json!({"id": id, "ok": false, "code": "lease_lost"});
            assert_eq!(rows["jobs"], json!([expected]));
        }
    }
    assert_eq!(api.show_job(&id).await, before);

    live.commit("mail", json!({"sent": 1})).await.is(200);
    live.complete(json!("done")).await.is(200);
    stale.complete(json!("mine")).await.refuses(409, "lease_lost");
    stale.fail("mine").await.refuses(409, "lease_lost");
    let after = api.show_job(&id).await;
    assert_eq!(after["status"], "succeeded");
    assert_eq!(after["result"], "done");
    assert_eq!(after["effects"][0]["result"], json!({"sent": 1}));
    let outcomes: Vec<_> = after["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .map(|run| run["outcome"].as_str().expect("a word"))
        .collect();
    assert!(outcomes.contains(&"lease_expired") && outcomes.contains(&"succeeded"));
}

async fn an_expired_lease_cannot_be_revived_and_the_job_is_soon_free_again(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let id = api.job().await;
    let lease = nodes[0].worker("first").wait_with(json!({"lease_s": 1})).await;
    let expires = lease.job["lease_expires_at"].as_str().expect("a time");
    let expires: Timestamp = expires.parse().expect("a time");
    tokio::time::sleep(expires.since(now()) + Duration::from_millis(20)).await;
    lease.heartbeat().await.refuses(409, "lease_lost");
    lease.complete(json!(1)).await.refuses(409, "lease_lost");

    let second = nodes[nodes.len() - 1].worker("second");
    let second = second.wait_with(json!({"lease_s": 60})).await;
    let waited = now().since(expires);
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    assert_eq!(second.id(), id);
    assert_eq!(second.attempt(), 2);
    let shown = api.show_job(&id).await;
    assert_eq!(shown["attempts"], 2);
    assert_eq!(shown["runs"][0]["outcome"], "lease_expired");

    // One that is alive can be kept as long as there are heartbeats.
    let until = second.post("heartbeat", json!({"extend_s": 600})).await;
    let until: Timestamp = until.is(200).text("lease_expires_at").parse().expect("a time");
    assert!(until.since(now()) > Duration::from_secs(500));
}

/// Whatever ends a run of this lane fails, as if its row were damaged.
fn stuck(database: Database, lane: i64) -> String {
    let each = |event: &str| {
        match database {
        Database::Sqlite => format!(
            "CREATE TRIGGER stuck_{event} BEFORE {event} ON work WHEN OLD.lane = {lane} AND OLD.state = 5
             BEGIN SELECT RAISE(ABORT, 'stuck'); END;"
        ),
        Database::Postgres => format!(
            "CREATE TRIGGER stuck_{event} BEFORE {event} ON work FOR EACH ROW
             WHEN (OLD.lane = {lane} AND OLD.state = 5) EXECUTE FUNCTION is_stuck();"
        ),
    }
    };
    let function = "CREATE FUNCTION is_stuck() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'stuck'; END $$;";
    let first = if database == Database::Postgres { function } else { "" };
    format!("{first}{}{}", each("UPDATE"), each("DELETE"))
}

fn unstuck(database: Database) -> &'static str {
    match database {
        Database::Sqlite => "DROP TRIGGER stuck_UPDATE; DROP TRIGGER stuck_DELETE",
        Database::Postgres => {
            "DROP TRIGGER stuck_UPDATE ON work; DROP TRIGGER stuck_DELETE ON work"
        }
    }
}

async fn leases_that_cannot_be_ended_keep_no_other_from_being_rescued(database: Database) {
    /// More than the rescuer tries in vain in one look.
    const STUCK: usize = 12;
    const OTHERS: usize = 300;
    let gateway = Gateway::start(database).await;
    let (api, worker) = (gateway.admin(), gateway.worker("gone"));
    let make = async |kind: &str, count: usize| {
        let jobs: Vec<Value> =
            (0..count).map(|n| json!({"input": n, "kind": kind, "max_attempts": 5})).collect();
        for some in jobs.chunks(100) {
            api.post("/jobs", some.to_vec().into()).await.is(201);
        }
    };
    let take = async |kind: &str, count: usize| {
        let mut taken = 0;
        while taken < count {
            let wish = json!({"kinds": [kind], "max": 500, "lease_s": 5, "wait_s": 1});
            taken += worker.lease_many(wish).await.len();
        }
    };
    make("stuck", STUCK).await;
    take("stuck", STUCK).await;
    let lane = gateway.count("SELECT min(lane) FROM work WHERE state = 5").await;
    gateway.execute(&stuck(database, lane)).await;
    make("other", OTHERS).await;
    take("other", OTHERS).await;
    // Their leases run out within five seconds, and a few are for the rest.
    let ended =
        format!("SELECT count(*) FROM work WHERE lane <> {lane} AND state <> 5 AND attempts = 1");
    let all_others = || async { (gateway.count(&ended).await == OTHERS as i64).then_some(()) };
    within(Duration::from_secs(20), "the others are rescued", all_others).await;
    let still = format!("SELECT count(*) FROM work WHERE lane = {lane} AND state = 5");
    assert_eq!(gateway.count(&still).await, STUCK as i64, "nothing of them is lost");
    // One that comes later is rescued as well, and these are once they can be.
    make("later", 1).await;
    take("later", 1).await;
    until("the later one is rescued", || async {
        (gateway.count(&ended).await == OTHERS as i64 + 1).then_some(())
    })
    .await;
    gateway.execute(unstuck(database)).await;
    until("they are rescued", || async { (gateway.count(&still).await == 0).then_some(()) }).await;
}

async fn a_waiting_worker_gets_a_job_as_soon_as_it_arrives(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let source = nodes[0].with_source("stripe").await;
    let far = &nodes[nodes.len() - 1];
    let mut times = Vec::new();
    for round in 0..7 {
        let worker = far.worker("waiting");
        let waiting = tokio::spawn(async move {
            let got = worker.lease_many(json!({"wait_s": 20})).await;
            (got, Instant::now())
        });
        // It must really be waiting when the job comes; that it does cannot be seen from outside.
        tokio::time::sleep(Duration::from_millis(150)).await;
        let event = source.event(&format!("e-{round}"));
        let job = nodes[0].send(&source, &event).await.is(202).text("job_id");
        let sent = Instant::now();
        let (mut got, at) = waiting.await.expect("an answer");
        let lease = got.pop().expect("a job");
        assert_eq!(lease.id(), job);
        assert_eq!(lease.job["envelope"]["data"]["id"], event.id);
        lease.complete(json!({})).await.is(200);
        times.push(at.saturating_duration_since(sent));
    }
    times.sort();
    let median = times[times.len() / 2];
    assert!(median < Duration::from_millis(500), "{times:?}");

    let started = Instant::now();
    assert!(far.worker("w").lease_many(json!({"wait_s": 1})).await.is_empty());
    assert!(started.elapsed() >= Duration::from_secs(1));
}

async fn what_a_worker_may_ask_for_is_bounded(database: Database) {
    let gateway = Gateway::start(database).await;
    let worker = gateway.worker("w");
    for (fields, field) in [
        (json!({"lease_s": 0}), "lease_s"),
        (json!({"lease_s": 3601}), "lease_s"),
        (json!({"max": 0}), "max"),
        (json!({"max": 501}), "max"),
        (json!({"wait_s": 31}), "wait_s"),
        (json!({"wait": 3}), "wait"),
        (json!({"kinds": vec!["k"; 101]}), "kinds"),
        (json!({"sources": vec!["src_00000000000000000000000000"; 101]}), "sources"),
    ] {
        worker.ask(fields).await.refuses_field(field);
    }
    let nobody = gateway.worker("").ask(json!({})).await;
    nobody.refuses_field("worker");
    let api = gateway.admin();
    api.post("/jobs/lease", json!({})).await.refuses_field("worker");

    for fields in [json!({"lease_s": 3600, "max": 500}), json!({"lease_s": 1})] {
        worker.ask(fields).await.is(200);
    }
    api.job().await;
    let lease = worker.wait().await;
    for extend in [0, 3601] {
        let answer = lease.post("heartbeat", json!({"extend_s": extend})).await;
        answer.refuses_field("extend_s");
    }
    let large = "x".repeat(1024 * 1024 + 1);
    lease.checkpoint(json!(large)).await.refuses_field("state");
    lease.complete(json!(large)).await.refuses_field("result");
    lease.complete(json!(1)).await.is(200);
}

async fn many_heartbeats_and_many_endings_are_answered_one_by_one(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for _ in 0..4 {
        api.job().await;
    }
    let mut leases = Vec::new();
    while leases.len() < 4 {
        leases.extend(gateway.worker("w").lease_many(json!({"max": 4, "wait_s": 5})).await);
    }
    let row = |n: usize| json!({"id": leases[n].id(), "lease_token": leases[n].token()});
    let mut foreign = row(0);
    foreign["lease_token"] = leases[1].token().into();
    let mut rubbish = row(0);
    rubbish["lease_token"] = "lt_rubbish".into();
    let beats = json!({"jobs": [row(0), foreign, rubbish, row(1)]});
    let answer = api.post("/jobs/heartbeat", beats).await.is(200).json();
    let rows = answer["jobs"].as_array().expect("rows");
    let ok: Vec<_> = rows.iter().map(|row| row["ok"].clone()).collect();
    assert_eq!(ok, [true, false, false, true]);
    assert_eq!(rows[1]["code"], "lease_lost");
    assert_eq!(rows[2]["code"], "lease_lost");
    assert!(rows[0]["lease_expires_at"].is_string());

    let ending = |n: usize, fields: Value| {
        let mut row = row(n);
        let fields = fields.as_object().expect("fields").clone();
        row.as_object_mut().expect("fields").extend(fields);
        row
    };
    let endings = json!({"jobs": [
        ending(0, json!({"outcome": "complete", "result": {"n": 0}})),
        ending(1, json!({"outcome": "fail", "error": "no", "retryable": false})),
        ending(2, json!({"outcome": "fail"})),
        ending(3, json!({"outcome": "complete", "reply": "hello"})),
        {"id": leases[0].id(), "lease_token": "lt_rubbish", "outcome": "complete"},
    ]});
    let answer = api.post("/jobs/finish", endings).await.is(200).json();
    let rows = answer["jobs"].as_array().expect("rows");
    let ok: Vec<_> = rows.iter().map(|row| row["ok"].clone()).collect();
    assert_eq!(ok, [true, true, false, true, false], "{answer}");
    assert_eq!(rows[2]["code"], "invalid_request");
    let status = |id: &str| {
        let (api, id) = (api.clone(), id.to_owned());
        async move { api.show_job(&id).await["status"].clone() }
    };
    assert_eq!(status(leases[0].id()).await, "succeeded");
    assert_eq!(status(leases[1].id()).await, "dead_letter");
    assert_eq!(status(leases[2].id()).await, "running");
    assert_eq!(api.show_job(leases[3].id()).await["reply"], "hello");
    let answer = api.post("/jobs/finish", json!({"jobs": []})).await.is(200);
    assert_eq!(answer.json(), json!({"jobs": []}));
}

async fn a_repeat_of_the_call_that_ended_a_job_is_welcome_and_changes_nothing(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let id = api.job().await;
    let lease = gateway.worker("w").wait().await;
    lease.complete(json!({"n": 1})).await.is(200);
    let before = api.show_job(&id).await;
    let repeat: Answer = lease.complete(json!({"n": 1})).await.is(200);
    assert_eq!(repeat.json()["status"], "succeeded");
    lease.fail("no").await.is(409);
    lease.heartbeat().await.refuses(409, "lease_lost");
    assert_eq!(api.show_job(&id).await, before);

    let id = api.job().await;
    let lease = gateway.worker("w").wait().await;
    let failure = json!({"error": "no", "retry_after_s": 3600});
    lease.post("fail", failure.clone()).await.is(200);
    let before = api.show_job(&id).await;
    assert_eq!(before["status"], "retrying");
    lease.post("fail", failure).await.is(200);
    assert_eq!(api.show_job(&id).await, before);
}

async fn what_a_stopping_worker_hands_back_is_free_at_once_and_costs_no_attempt(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let id = api.job_with(json!({"input": {}, "max_attempts": 1})).await;
    let first = worker.wait().await;
    let both = json!({"error": "the worker stops", "hand_back": true, "retry_after_s": 1});
    first.post("fail", both).await.refuses_field("hand_back");
    let back = json!({"error": "the worker stops", "hand_back": true});
    let answer = first.post("fail", back.clone()).await.is(200);
    assert_eq!(answer.json()["status"], "pending");
    first.post("fail", back.clone()).await.is(200);
    let second = worker.lease().await.expect("it is free at once");
    assert_eq!((second.id(), second.attempt()), (id.as_str(), 1));
    first.post("fail", back).await.refuses(409, "lease_lost");

    let row = json!({"id": id, "lease_token": second.token(), "outcome": "fail",
        "error": "the worker stops", "hand_back": true});
    let answer = api.post("/jobs/finish", json!({"jobs": [row]})).await.is(200).json();
    assert_eq!(answer["jobs"][0]["status"], "pending", "{answer}");
    worker.lease().await.expect("it is free again").complete(json!(1)).await.is(200);
}

async fn a_worker_gets_only_the_kinds_and_sources_it_asks_for(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let (one, two) = (gateway.with_source("stripe").await, gateway.with_source("stripe").await);
    gateway.send(&one, &one.event("e-1")).await.is(202);
    gateway.send(&two, &two.event("e-2")).await.is(202);
    let mail = api.job_with(json!({"kind": "mail", "input": 1})).await;
    let report = api.job_with(json!({"kind": "report", "input": 1})).await;
    let worker = gateway.worker("w");

    let got = worker.wait_with(json!({"kinds": ["report"], "max": 9})).await;
    assert_eq!((got.id(), &got.job["kind"]), (report.as_str(), &json!("report")));
    assert!(worker.lease_many(json!({"kinds": ["report"]})).await.is_empty());
    let got = worker.wait_with(json!({"sources": [two.id], "max": 9})).await;
    assert_eq!(got.job["source"], two.id);
    assert!(worker.lease_many(json!({"sources": [two.id]})).await.is_empty());
    let kinds = json!({"kinds": ["invoice.paid"], "sources": [two.id]});
    assert!(worker.lease_many(kinds).await.is_empty());
    let got = worker.wait_with(json!({"kinds": ["invoice.paid", "mail"]})).await;
    let other = worker.wait_with(json!({"kinds": ["invoice.paid", "mail"]})).await;
    let got: HashSet<&str> = [got.id(), other.id()].into();
    assert!(got.contains(mail.as_str()));
    assert!(worker.lease().await.is_none());
}

async fn a_tenants_worker_never_gets_another_tenants_job(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let (acme, globex) = (admin.tenant("acme").await, admin.tenant("globex").await);
    let theirs = globex.job().await;
    let worker = Worker::new(&admin.role("worker", "acme").await, "acme's");
    assert!(worker.lease_many(json!({"max": 9, "wait_s": 1})).await.is_empty());
    let named: Api = admin.role("worker", "acme").await.of_tenant("globex");
    Worker::new(&named, "w").ask(json!({})).await.refuses(404, "not_found");

    let ours = acme.job().await;
    let lease = worker.wait_with(json!({"max": 9})).await;
    assert_eq!((lease.id(), &lease.job["tenant"]), (ours.as_str(), &json!("acme")));
    // Not even with the token in hand.
    let stranger = lease.through(&admin.role("worker", "globex").await);
    for answer in [
        stranger.heartbeat().await,
        stranger.checkpoint(json!(1)).await,
        stranger.progress("p").await,
        stranger.begin("k").await,
        stranger.commit("k", json!(1)).await,
        stranger.abort("k", "no").await,
        stranger.complete(json!(1)).await,
        stranger.fail("no").await,
    ] {
        answer.refuses(404, "not_found");
    }
    lease.complete(json!(1)).await.is(200);

    // A platform's worker reaches all, or the one it names.
    let platform = admin.role("worker", "*").await;
    let named = Worker::new(&platform.of_tenant("acme"), "platform");
    assert!(named.lease().await.is_none());
    let lease = Worker::new(&platform, "platform").wait().await;
    assert_eq!((lease.id(), &lease.job["tenant"]), (theirs.as_str(), &json!("globex")));
    lease.complete(json!(1)).await.is(200);
}

async fn a_job_that_cannot_be_read_fails_alone_and_keeps_no_other_from_its_worker(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source_with("stripe", json!({"max_attempts": 1})).await;
    let (mut jobs, mut events) = (Vec::new(), Vec::new());
    for n in 0..3 {
        jobs.push(api.job_with(json!({"input": n, "max_attempts": 1})).await);
        let sent = gateway.send(&source, &source.event(&format!("e-{n}"))).await.is(202);
        events.push(sent.text("job_id"));
    }
    // What one is given is sealed for another, and the row of another's event is of a newer program.
    gateway
        .execute(
            "UPDATE job_state SET input = (SELECT input FROM job_state ORDER BY work_id DESC LIMIT 1)
             WHERE work_id = (SELECT work_id FROM job_state ORDER BY work_id LIMIT 1)",
        )
        .await;
    let first = "(SELECT id FROM events ORDER BY id LIMIT 1)";
    gateway.execute(&format!("UPDATE events SET route = 99 WHERE id = {first}")).await;
    let leased = gateway.worker("w").lease_many(json!({"max": 10})).await;
    let leased: HashSet<&str> = leased.iter().map(Lease::id).collect();
    let readable = jobs[1..].iter().chain(&events[1..]);
    assert_eq!(leased, readable.map(String::as_str).collect());
    let errors = gateway.texts("SELECT last_error FROM work_done WHERE state = 8").await;
    assert_eq!(errors, ["the job could not be read"; 2]);
}

async fn a_lease_never_passes_the_runs_last_moment(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let limits = json!({"run_timeout_s": 2, "lease_s": 600});
    let source = api.source_with("stripe", limits).await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    let started = now();
    let lease = gateway.worker("w").wait().await;
    let until = |text: &str| -> Timestamp { text.parse().expect("a time") };
    let expires = until(lease.job["lease_expires_at"].as_str().expect("a time"));
    assert!(expires <= now().after(Duration::from_secs(2)));
    let answer = lease.post("heartbeat", json!({"extend_s": 600})).await;
    if answer.status == 200 {
        assert!(until(&answer.text("lease_expires_at")) <= expires);
    }
    let second = gateway.worker("second").wait().await;
    assert_eq!((second.id(), second.attempt()), (lease.id(), 2));
    assert!(now().since(started) < Duration::from_secs(8));
}

async fn what_one_run_saves_the_next_one_gets(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let input = json!({"deep": [1, {"a": "é"}], "large": 12345678901234567890u64});
    let id = api.job_with(json!({"input": input, "subject": "crm:ticket:9"})).await;
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.job["input"], input);
    assert_eq!(lease.job["checkpoint"], Value::Null);
    lease.checkpoint(json!({"step": 1})).await.is(200);
    lease.checkpoint(json!({"step": 2})).await.is(200);
    lease.post("progress", json!({"message": "half", "percent": 50, "step": "two"})).await.is(200);
    lease.post("progress", json!({"percent": 101})).await.refuses_field("percent");
    let failure = json!({"error": "try again", "retry_after_s": 0});
    lease.post("fail", failure).await.is(200);
    let next = gateway.worker("w").wait().await;
    assert_eq!((next.id(), next.attempt()), (id.as_str(), 2));
    assert_eq!(next.job["checkpoint"], json!({"step": 2}));
    assert_ne!(next.job["run_id"], lease.job["run_id"]);
    let ending = json!({"result": {"ok": true}, "reply": "done", "cost": 1.5});
    next.post("complete", ending).await.is(200);
    let shown = api.show_job(&id).await;
    assert_eq!(shown["result"], json!({"ok": true}));
    assert_eq!((&shown["reply"], &shown["cost"]), (&json!("done"), &json!(1.5)));
    assert_eq!(shown["subject"], "crm:ticket:9");
    assert_eq!(shown["runs"].as_array().map(Vec::len), Some(2));
}

async fn never_more_jobs_run_at_once_than_their_source_and_tenant_allow(database: Database) {
    const EVENTS: usize = 8;
    let nodes = Gateway::nodes(database).await;
    let admin = nodes[0].admin();
    let acme = admin.tenant("acme").await;
    admin.patch("/tenants/acme", json!({"concurrency": 3})).await.is(200);
    let capped = acme.source_with("stripe", json!({"concurrency": 2})).await;
    let free = acme.source("stripe").await;
    for n in 0..EVENTS {
        let source = if n % 2 == 0 { &capped } else { &free };
        nodes[0].send(source, &source.event(&format!("e-{n}"))).await.is(202);
    }
    let workers: Vec<Worker> = nodes.iter().map(|node| node.worker("w")).collect();
    let mut running: Vec<Lease> = Vec::new();
    let mut done = 0;
    while done < EVENTS {
        let asked = workers.iter().map(|worker| worker.lease_many(json!({"max": 9, "wait_s": 1})));
        running.extend(join_all(asked).await.into_iter().flatten());
        let of_capped = running.iter().filter(|lease| lease.job["source"] == capped.id).count();
        assert!(running.len() <= 3, "{} of the tenant at once", running.len());
        assert!(of_capped <= 2, "{of_capped} of the source at once");
        // A place that gets free is taken soon: two polls of a second find it.
        if let Some(lease) = running.pop() {
            lease.complete(json!(1)).await.is(200);
            done += 1;
        }
    }
    assert!(workers[0].lease().await.is_none());
}

async fn jobs_of_one_order_key_run_one_after_the_other(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let job = |n: usize| json!({"input": n, "order_key": "customer 7"});
    let made = api.post("/jobs", (0..4).map(job).collect::<Vec<Value>>().into()).await.is(201);
    let made: Vec<String> = made.json()["data"]
        .as_array()
        .expect("jobs")
        .iter()
        .map(|job| job["id"].as_str().expect("an id").to_owned())
        .collect();
    let other = api.post("/jobs", json!({"input": 0, "order_key": "customer 8"})).await.is(201);
    let waiting = api.show_job(&made[1]).await;
    assert_eq!(
        (&waiting["status"], &waiting["waiting_on"]),
        (&json!("pending"), &json!("order_key"))
    );
    assert_eq!(waiting["order_key"], "customer 7");

    let worker = nodes[0].worker("w");
    let first = worker.lease_many(json!({"max": 10, "wait_s": 5})).await;
    let ids: HashSet<&str> = first.iter().map(Lease::id).collect();
    assert_eq!(ids, HashSet::from([made[0].as_str(), other.text("id").as_str()]));
    for lease in &first {
        lease.complete(json!(1)).await.is(200);
    }
    // The next goes as soon as the one before it has ended, to a worker on whichever node waits.
    for (n, id) in made.iter().enumerate().skip(1) {
        let worker = nodes[n % nodes.len()].worker(&format!("w{n}"));
        let got = worker.lease_many(json!({"max": 10, "wait_s": 10})).await;
        assert_eq!(got.iter().map(Lease::id).collect::<Vec<_>>(), [id]);
        got[0].complete(json!(1)).await.is(200);
    }
}
