//! Hanging up: whoever leaves before the answer has been heard, and so is what follows from what it said. What it asked
//! for and did not get is another's.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use wakepost_tests::platform::{Platform, Telegram};
use wakepost_tests::{Answer, Api, Database, Gateway, Lease, Worker, on_both, until, within};

on_both!(
    what_may_run_next_runs_though_its_caller_hung_up,
    what_a_job_says_is_sent_though_its_worker_hung_up,
    a_job_that_nobody_took_is_handed_back_and_counts_no_attempt,
    a_delivery_that_nobody_took_is_handed_back_and_counts_no_attempt,
    whoever_waits_for_work_and_hangs_up_gets_none,
);

/// How long a caller waits for an answer while nothing can be committed.
const PATIENCE: Duration = Duration::from_millis(700);
/// How soon others go on: a server that told nobody looks for itself every twenty seconds.
const SOON: Duration = Duration::from_secs(9);

/// While it is held nobody can write, and everybody can read.
enum Hold {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Hold {
    async fn of(gateway: &Gateway) -> Hold {
        let Some(url) = gateway.database_url() else {
            let file = gateway.data_dir().join("wakepost.db");
            let other = rusqlite::Connection::open(file).expect("the file");
            other.busy_timeout(SOON).expect("a setting");
            other.execute_batch("BEGIN IMMEDIATE").expect("the lock");
            return Hold::Sqlite(other);
        };
        let connected = tokio_postgres::connect(url, tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("a connection");
        tokio::spawn(connection);
        let lock = "BEGIN; LOCK TABLE work IN EXCLUSIVE MODE";
        client.batch_execute(lock).await.expect("the lock");
        Hold::Postgres(client)
    }

    async fn end(self) {
        match self {
            Hold::Sqlite(other) => other.execute_batch("ROLLBACK").expect("the lock is free"),
            Hold::Postgres(client) => {
                client.batch_execute("ROLLBACK").await.expect("the lock is free");
            }
        }
    }
}

/// Makes a call that has to wait for its commit, and hangs up; once more if that was before it came so far.
async fn hangs_up<C>(gateway: &Gateway, call: impl Fn() -> C, is_heard: impl AsyncFn() -> bool)
where
    C: Future<Output = Answer>,
{
    for _ in 0..3 {
        let hold = Hold::of(gateway).await;
        let answered = timeout(PATIENCE, call()).await;
        hold.end().await;
        assert!(answered.is_err(), "it did not wait: {answered:?}");
        let heard = async {
            while !is_heard().await {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if timeout(SOON / 3, heard).await.is_ok() {
            return;
        }
    }
    panic!("it was never heard");
}

/// The chat of Telegram's sample.
const CHAT: i64 = 60_112_233;

/// Somebody waits for the next job of a kind.
fn waits_for(api: &Api, kind: &'static str) -> JoinHandle<Lease> {
    let worker = Worker::new(api, "next");
    tokio::spawn(async move { worker.wait_with(json!({"kinds": [kind]})).await })
}

async fn goes_on(kind: &str, next: JoinHandle<Lease>) -> Lease {
    let lease = timeout(SOON, next).await;
    lease.unwrap_or_else(|_| panic!("nobody heard of it: {kind}")).expect("no panic")
}

async fn take(api: &Api, kind: &str) -> Lease {
    Worker::new(api, "first").wait_with(json!({"kinds": [kind], "lease_s": 300})).await
}

async fn job(api: &Api, kind: &str, mut fields: Value) -> String {
    fields["kind"] = kind.into();
    fields["input"] = 1.into();
    api.job_with(fields).await
}

/// A job that is held, since nobody knows whether it acted.
async fn held(api: &Api, kind: &str) -> String {
    let id = job(api, kind, json!({})).await;
    let lease = take(api, kind).await;
    lease.begin("charge").await.is(200);
    lease.post("fail", json!({"error": "gone", "retry_after_s": 0})).await.is(200);
    let doubt = take(api, kind).await.begin("charge").await.is(200);
    assert_eq!(doubt.text("decision"), "in_doubt");
    id
}

async fn stands(api: &Api, id: &str) -> String {
    api.show_job(id).await["status"].as_str().expect("a state").to_owned()
}

async fn what_may_run_next_runs_though_its_caller_hung_up(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for kind in ["completed", "failed", "cancelled"] {
        let later = if kind == "cancelled" { json!(3600) } else { Value::Null };
        job(&api, kind, json!({"order_key": kind, "delay_s": later})).await;
        job(&api, kind, json!({"order_key": kind})).await;
    }
    let (completed, failed) = (take(&api, "completed").await, take(&api, "failed").await);
    let cancelled = api.list("/jobs?kind=cancelled&status=scheduled").await[0].clone();
    let cancelled = cancelled["id"].as_str().expect("an id");
    let (resolved, released) = (held(&api, "resolved").await, held(&api, "released").await);
    let draft = job(&api, "approved", json!({"mode": "draft"})).await;
    let asked = take(&api, "approved").await.begin("refund").await.is(200).json();
    let proposal = json!([{"key": "refund", "proposal_hash": asked["proposal_hash"]}]);
    for kind in ["replayed", "made"] {
        job(&api, kind, json!({})).await;
        take(&api, kind).await.complete(json!(1)).await.is(200);
    }
    let replayed = api.list("/jobs?kind=replayed").await[0]["id"].clone();
    let replayed = replayed.as_str().expect("an id");
    let source = api.source_with("github", json!({"mode": "draft", "concurrency": 1})).await;
    for event in ["e-1", "e-2"] {
        gateway.send(&source, &source.event(event)).await.is(202);
    }
    let of_source = json!({"sources": [source.id], "lease_s": 300});
    let proposes = Worker::new(&api, "first").wait_with(of_source.clone()).await;

    let api = &api;
    let post = |path: String, body: Value| async move { api.post(&path, body).await };

    let next = waits_for(api, "completed");
    let lease = &completed;
    let is_over = async || stands(api, lease.id()).await == "succeeded";
    hangs_up(&gateway, || lease.complete(json!(1)), is_over).await;
    goes_on("completed", next).await;

    let next = waits_for(api, "failed");
    let lease = &failed;
    let row = json!({"id": lease.id(), "lease_token": lease.token(), "outcome": "fail",
                     "error": "no", "retryable": false});
    let rows = json!({"jobs": [row]});
    let is_over = async || stands(api, lease.id()).await == "dead_letter";
    hangs_up(&gateway, || post("/jobs/finish".to_owned(), rows.clone()), is_over).await;
    goes_on("failed", next).await;

    let next = waits_for(api, "cancelled");
    let path = format!("/jobs/{cancelled}/cancel");
    let is_over = async || stands(api, cancelled).await == "cancelled";
    hangs_up(&gateway, || post(path.clone(), json!({})), is_over).await;
    goes_on("cancelled", next).await;

    let next = waits_for(api, "resolved");
    let path = format!("/jobs/{resolved}/effects/charge/resolve");
    let word = json!({"outcome": "not_done", "note": "it is not on the bill"});
    let goes = async || stands(api, &resolved).await != "held";
    hangs_up(&gateway, || post(path.clone(), word.clone()), goes).await;
    assert_eq!(goes_on("resolved", next).await.id(), resolved);

    let next = waits_for(api, "released");
    let path = format!("/jobs/{released}/release");
    let goes = async || stands(api, &released).await != "held";
    hangs_up(&gateway, || post(path.clone(), json!({"note": "go"})), goes).await;
    assert_eq!(goes_on("released", next).await.id(), released);

    let next = waits_for(api, "approved");
    let path = format!("/jobs/{draft}/approve");
    let goes = async || stands(api, &draft).await != "awaiting_approval";
    hangs_up(&gateway, || post(path.clone(), json!({"effects": proposal})), goes).await;
    assert_eq!(goes_on("approved", next).await.id(), draft);

    let next = waits_for(api, "replayed");
    let path = format!("/jobs/{replayed}/replay");
    let is_done = async || api.show_job(replayed).await["replayed_as"].is_string();
    hangs_up(&gateway, || post(path.clone(), json!({"note": "again"})), is_done).await;
    goes_on("replayed", next).await;

    let next = waits_for(api, "made");
    let new = json!({"kind": "made", "input": 2, "dedup_key": "one"});
    let is_made = async || api.list("/jobs?kind=made").await.len() == 2;
    hangs_up(&gateway, || post("/jobs".to_owned(), new.clone()), is_made).await;
    goes_on("made", next).await;

    // The place of a run that ended for a person is another's.
    let worker = Worker::new(api, "next");
    let next = tokio::spawn(async move { worker.wait_with(of_source).await });
    let lease = &proposes;
    let is_over = async || stands(api, lease.id()).await == "awaiting_approval";
    hangs_up(&gateway, || lease.begin("refund"), is_over).await;
    goes_on("proposed", next).await;
}

async fn what_a_job_says_is_sent_though_its_worker_hung_up(database: Database) {
    let telegram: Platform<Telegram> = Telegram::start("7007:AAE").await;
    telegram.with(|telegram| telegram.hears(CHAT, 365, "Which invoices are still open?"));
    let setup = Gateway::setup(database).setting("WAKEPOST_ALLOW_HTTP", "true");
    let gateway = setup.setting("WAKEPOST_ALLOW_PRIVATE", "true").start().await;
    let settings = json!({"bot_token": "7007:AAE", "api_url": telegram.url("")});
    let source = gateway.admin().source_with("telegram", json!({"settings": settings})).await;
    gateway.send_request(&source.sample("4711")).await;
    let lease = gateway.worker("w").wait_with(json!({"lease_s": 300})).await;
    let api = &gateway.admin();
    let event = lease.job["envelope"]["event_id"].as_str().expect("an event");
    let says = |text: &str| lease.post("reply", json!({"text": text, "update": false}));
    let said = async |text: &str| {
        let is_said = || telegram.with(|chat| chat.said(CHAT).iter().any(|said| said.text == text));
        within(SOON, "it is sent", async || is_said().then_some(())).await;
    };
    // Where it waits is known from here on.
    says("Let me see").await.is(200);
    said("Let me see").await;
    let is_heard = async || {
        let work = api.show_event(event).await["work"].clone();
        let work = work.as_array().expect("work").iter();
        work.filter(|work| work["kind"] == "reply").count() == 2
    };
    hangs_up(&gateway, || says("Two of them"), is_heard).await;
    said("Two of them").await;
}

async fn a_job_that_nobody_took_is_handed_back_and_counts_no_attempt(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = &gateway.admin();
    let id = api.job().await;
    let worker = gateway.worker("gone");
    let is_claimed = async || !api.show_job(&id).await["runs"].as_array().expect("runs").is_empty();
    hangs_up(&gateway, || worker.ask(json!({"lease_s": 300})), is_claimed).await;
    let next = within(SOON, "it is another's", async || gateway.worker("w").lease().await).await;
    assert_eq!((next.id(), next.attempt()), (id.as_str(), 1));
    let runs = api.show_job(&id).await["runs"].clone();
    let run = &runs.as_array().expect("runs")[0];
    assert_eq!(
        (&run["worker"], &run["outcome"]),
        (&json!("gone"), &json!("handed_back")),
        "{runs}"
    );
    next.complete(json!(1)).await.is(200);
}

async fn a_delivery_that_nobody_took_is_handed_back_and_counts_no_attempt(database: Database) {
    let gateway = Gateway::start(database).await;
    let hook = json!({"mode": "pull", "events": ["*"]});
    let api = &gateway.admin();
    let hook = api.post("/webhooks", hook).await.is(201).text("id");
    api.post("/events", json!({"type": "order.created", "data": {}})).await.is(202);
    let path = format!("/webhooks/{hook}/deliveries/lease");
    let rows = api.list(&format!("/webhooks/{hook}/deliveries")).await;
    let shown = format!("/deliveries/{}", rows[0]["id"].as_str().expect("an id"));
    let ask = |worker: &'static str| {
        let (path, wish) = (path.clone(), json!({"worker": worker, "lease_s": 300}));
        async move { api.post(&path, wish).await }
    };
    let is_claimed = async || {
        let shown = api.get(&shown).await.is(200).json();
        !shown["attempts"].as_array().expect("tries").is_empty()
    };
    hangs_up(&gateway, || ask("gone"), is_claimed).await;
    let next = within(SOON, "it is another's", async || {
        ask("w").await.is(200).json()["deliveries"].as_array().expect("deliveries").first().cloned()
    })
    .await;
    assert_eq!(next["attempt"], 1, "{next}");
}

async fn whoever_waits_for_work_and_hangs_up_gets_none(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let gone = gateway.worker("gone");
    let waits = (0..20).map(|_| timeout(PATIENCE, gone.ask(json!({"wait_s": 30}))));
    assert!(join_all(waits).await.iter().all(Result::is_err), "there is no work yet");
    let id = api.job().await;
    let lease = until("it is leased", async || gateway.worker("w").lease().await).await;
    assert_eq!((lease.id(), lease.attempt()), (id.as_str(), 1));
    assert_eq!(api.show_job(&id).await["runs"], json!([]), "it was nobody's before");
}
