//! Scheduling: a tick makes one job, over all nodes, through kills and whatever happens to the clock.

use std::collections::BTreeSet;
use std::path::PathBuf;

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_tests::{Act, Api, Database, Gateway, on_both, until};

on_both!(
    each_tick_makes_one_job_over_all_nodes,
    a_clock_that_is_moved_fires_once_for_all_it_missed_and_nothing_twice,
    a_kill_or_an_error_while_it_fires_doubles_and_loses_no_tick,
    what_is_disabled_does_not_fire_and_begins_anew,
    an_agent_gets_the_input_and_the_tick,
    what_is_wrong_with_a_schedule_is_told,
);

const DAY_MS: i64 = 24 * 3600 * 1000;

async fn made(api: &Api, fields: Value) -> String {
    api.post("/schedules", fields).await.is(201).text("id")
}

/// A schedule that fires every second.
async fn every_second(api: &Api) -> String {
    made(api, json!({"name": "tick", "cron": "* * * * * *", "kind": "tick", "input": 1})).await
}

async fn show(api: &Api, id: &str) -> Value {
    api.get(&format!("/schedules/{id}")).await.is(200).json()
}

/// The ticks of a schedule's jobs, of which no two are the same.
async fn ticks(api: &Api, schedule: &str) -> BTreeSet<String> {
    let jobs = api.list("/jobs").await;
    let own: Vec<&Value> = jobs.iter().filter(|job| job["schedule_id"] == schedule).collect();
    let ticks: BTreeSet<String> =
        own.iter().map(|job| job["scheduled_for"].as_str().expect("a tick").to_owned()).collect();
    assert_eq!(ticks.len(), own.len(), "a tick made two jobs: {own:?}");
    ticks
}

async fn at_least(api: &Api, schedule: &str, count: usize) -> BTreeSet<String> {
    until("it has fired", async || {
        Some(ticks(api, schedule).await).filter(|ticks| ticks.len() >= count)
    })
    .await
}

fn time(value: &Value) -> Timestamp {
    value.as_str().expect("a time").parse().expect("a time")
}

async fn each_tick_makes_one_job_over_all_nodes(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let id = every_second(&api).await;
    let fired = at_least(&api, &id, 5).await;
    assert!(fired.iter().all(|tick| tick.ends_with(".000Z")), "{fired:?}");
    let shown = show(&api, &id).await;
    assert!(time(&shown["next_at"]) > time(&shown["last_at"]));
    let last = api.show_job(shown["last_job_id"].as_str().expect("a job")).await;
    assert_eq!(last["scheduled_for"], shown["last_at"]);
    assert!(time(&last["created_at"]) >= time(&last["scheduled_for"]), "never early");
    api.delete(&format!("/schedules/{id}")).await.is(204);
    api.get(&format!("/schedules/{id}")).await.refuses(404, "not_found");
    assert!(ticks(&api, &id).await.len() >= 5, "its jobs stay");
}

/// The clock of all nodes, and of their database.
struct Clock {
    file: PathBuf,
    _directory: tempfile::TempDir,
}

impl Clock {
    fn new() -> Clock {
        let directory = tempfile::tempdir().expect("a directory");
        Clock { file: directory.path().join("clock"), _directory: directory }
    }

    /// Starts as many nodes as the database can serve, which go by this clock.
    async fn nodes(&self, database: Database) -> Vec<Gateway> {
        let file = self.file.to_str().expect("a plain path");
        let first = Gateway::setup(database).setting("WAKEPOST_CLOCK_FILE", file).start().await;
        if database == Database::Sqlite {
            return vec![first];
        }
        first.execute("CREATE TABLE moved_clock (by_ms bigint NOT NULL)").await;
        first.execute("INSERT INTO moved_clock VALUES (0)").await;
        first
            .execute(
                "CREATE OR REPLACE FUNCTION wakepost_now() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
                 AS $$ SELECT (date_part('epoch', statement_timestamp()) * 1000)::bigint
                              + (SELECT by_ms FROM moved_clock) $$",
            )
            .await;
        vec![first.node().await, first]
    }

    /// Sets it to this many days from the real time.
    async fn set(&self, gateway: &Gateway, days: i64) {
        let by = days * DAY_MS;
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, by.to_string()).expect("a file");
        std::fs::rename(&draft, &self.file).expect("a file");
        if gateway.database_url().is_some() {
            gateway.execute(&format!("UPDATE moved_clock SET by_ms = {by}")).await;
        }
    }
}

async fn a_clock_that_is_moved_fires_once_for_all_it_missed_and_nothing_twice(database: Database) {
    let clock = Clock::new();
    let mut nodes = clock.nodes(database).await;
    let api = nodes[0].admin();
    // Daily, and never near the time of this test.
    let hour = (wakepost_tests::now().as_secs() / 3600 + 12) % 24;
    let fields = json!({"name": "daily", "cron": format!("0 {hour} * * *"), "input": 1});
    let daily = made(&api, fields).await;
    assert_eq!(ticks(&api, &daily).await.len(), 0);

    clock.set(&nodes[0], 5).await;
    let fired = at_least(&api, &daily, 1).await;
    let shown = show(&api, &daily).await;
    let (last, next) = (time(&shown["last_at"]), time(&shown["next_at"]));
    assert_eq!(next.as_millis() - last.as_millis(), DAY_MS, "the last tick that was missed");
    assert!(next.as_millis() > wakepost_tests::now().as_millis() + 5 * DAY_MS);
    at_least(&api, &every_second(&api).await, 3).await;
    assert_eq!(ticks(&api, &daily).await, fired, "one for all that was missed");

    clock.set(&nodes[0], 0).await;
    at_least(&api, &every_second(&api).await, 3).await;
    assert_eq!(ticks(&api, &daily).await, fired);
    // Neither a restart nor a change makes it fire a tick again.
    for node in &mut nodes {
        node.restart().await;
    }
    let api = nodes[0].admin();
    for enabled in [false, true] {
        let path = format!("/schedules/{daily}");
        let shown = api.patch(&path, json!({"enabled": enabled})).await.is(200).json();
        if enabled {
            assert_eq!(time(&shown["next_at"]), next, "past the last tick");
        }
    }
    at_least(&api, &every_second(&api).await, 3).await;
    assert_eq!(ticks(&api, &daily).await, fired);

    clock.set(&nodes[0], 7).await;
    assert_eq!(at_least(&api, &daily, 2).await.len(), 2);
}

async fn a_kill_or_an_error_while_it_fires_doubles_and_loses_no_tick(database: Database) {
    for place in ["cron.after_select", "cron.after_enqueue"] {
        let setup = Gateway::setup(database).failpoints(&format!("{place}=kill@2"));
        let mut gateway = setup.start().await;
        let id = every_second(&gateway.admin()).await;
        gateway.ended().await;
        for act in [Act::Error, Act::Delay] {
            let line = format!("failpoint {place} acts");
            let earlier = gateway.logged().matches(&line).count();
            gateway.restart_with(&act.at(place, 1)).await;
            let acted = || gateway.logged().matches(&line).count();
            until("it acts", async || (acted() > earlier).then_some(())).await;
            let api = gateway.admin();
            let before = ticks(&api, &id).await.len();
            let fired = at_least(&api, &id, before + 2).await;
            let shown = show(&api, &id).await;
            let last = api.show_job(shown["last_job_id"].as_str().expect("a job")).await;
            assert_eq!(last["schedule_id"], id.as_str());
            let first: Timestamp = fired.first().expect("a tick").parse().expect("a time");
            assert!(first < time(&shown["last_at"]));
        }
    }
}

async fn what_is_disabled_does_not_fire_and_begins_anew(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"name": "off", "cron": "* * * * * *", "input": null, "enabled": false});
    let off = made(&api, fields).await;
    assert_eq!(show(&api, &off).await["next_at"], Value::Null);
    let on = every_second(&api).await;
    at_least(&api, &on, 3).await;
    let path = format!("/schedules/{on}");
    let shown = api.patch(&path, json!({"enabled": false})).await.is(200).json();
    assert_eq!((&shown["enabled"], &shown["next_at"]), (&json!(false), &Value::Null));
    let fired = ticks(&api, &on).await;
    let enabled = wakepost_tests::now();
    let shown = api.patch(&format!("/schedules/{off}"), json!({"enabled": true})).await.is(200);
    assert!(time(&shown.json()["next_at"]) > Timestamp::from_secs(enabled.as_secs() - 5));
    at_least(&api, &off, 3).await;
    assert_eq!(ticks(&api, &on).await, fired, "it was disabled");
    let trail = api.list("/audit").await;
    let updates = trail.iter().filter(|entry| entry["action"] == "schedule.update");
    assert_eq!(updates.count(), 2);
}

async fn an_agent_gets_the_input_and_the_tick(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"name": "report", "cron": "* * * * * *", "time_zone": "Australia/Lord_Howe",
        "kind": "report", "input": {"of": ["a", "ä"]}, "priority": "batch", "subject": "own:report:1",
        "order_key": "report", "owner": "ada", "max_attempts": 2});
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_static("once"));
    let create = || api.call_with(Method::POST, "/schedules", headers.clone(), Some(&fields));
    let id = create().await.is(201).text("id");
    let again = create().await.is(201);
    assert_eq!((again.text("id"), again.header("idempotency-replayed")), (id.clone(), "true"));
    assert_eq!(api.list("/schedules").await.len(), 1);
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.job["kind"], "report");
    assert_eq!(lease.job["input"], json!({"of": ["a", "ä"]}));
    let job = api.show_job(lease.id()).await;
    assert_eq!(job["scheduled_for"], lease.job["scheduled_for"]);
    assert_eq!(job["schedule_id"], id.as_str());
    let of = |field: &str| job[field].as_str().map(str::to_owned);
    assert_eq!(of("subject").as_deref(), Some("own:report:1"));
    assert_eq!((of("owner").as_deref(), of("priority").as_deref()), (Some("ada"), Some("batch")));
    assert_eq!(job["max_attempts"], 2);
    // The first has not ended: the next waits behind it.
    at_least(&api, &id, 2).await;
    assert!(gateway.worker("w").lease().await.is_none());
    assert!(!gateway.stored().await.windows(8).any(|bytes| bytes == b"\"of\":[\"a"), "sealed");
    lease.fail("again").await.is(200);
    let plain = api.job().await;
    assert_eq!(api.show_job(&plain).await["schedule_id"], Value::Null);
}

async fn what_is_wrong_with_a_schedule_is_told(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let good = json!({"name": "n", "cron": "@daily", "input": 1});
    for (field, value, named) in [
        ("cron", json!("0 0 30 2 *"), "cron"),
        ("cron", json!("61 * * * *"), "cron"),
        ("cron", json!("* * * *"), "cron"),
        ("cron", json!("1,".repeat(5000)), "cron"),
        ("cron", Value::Null, "cron"),
        ("name", Value::Null, "name"),
        ("name", json!(""), "name"),
        ("time_zone", json!("Mars/Olympus"), "time_zone"),
        ("priority", json!("soon"), "priority"),
        ("executor", json!({"kind": "exec", "name": "nothing"}), "executor"),
        ("max_attempts", json!(0), "max_attempts"),
        ("subject", json!(""), "subject"),
        ("run_at", json!("2030-01-01T00:00:00Z"), "run_at"),
    ] {
        let mut bad = good.clone();
        bad[field] = value;
        let answer = api.post("/schedules", bad).await.refuses(422, "invalid_request").json();
        let told = answer["errors"][0]["field"].as_str().expect("a field");
        assert!(told.starts_with(named), "{answer}");
    }
    let refused =
        api.post("/schedules", json!({"name": "n", "cron": "0 0 30 2 *", "input": 1})).await;
    let told = refused.refuses(422, "invalid_request").json();
    assert!(told["errors"][0]["message"].as_str().expect("a text").contains("never fires"));
    let id = made(&api, good).await;
    let path = format!("/schedules/{id}");
    api.patch(&path, json!({"cron": "0 0 31 4 *"})).await.refuses(422, "invalid_request");
    assert_eq!(show(&api, &id).await["cron"], "@daily");
    let zoned = api.patch(&path, json!({"time_zone": "america/new_york"})).await.is(200).json();
    assert_eq!(zoned["time_zone"], "America/New_York");
    assert_eq!(api.list("/schedules").await[0].get("input"), None);
}
