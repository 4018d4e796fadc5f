//! Surviving: whatever dies, and whenever, what was acknowledged is there, once.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_postgres::NoTls;
use wakepost_domain::Timestamp;
use wakepost_tests::{Api, Database, Event, Gateway, Source, now, on_both, until};

on_both!(
    every_acknowledged_event_is_there_once_after_a_kill_in_the_middle_of_a_stream,
    a_kill_just_before_or_just_after_any_commit_loses_and_doubles_nothing,
    a_lease_and_its_job_survive_a_kill_of_the_server,
    a_time_to_run_survives_a_restart_and_is_kept_to_the_second,
    asked_to_stop_it_ends_well_and_loses_nothing,
    asked_twice_it_ends_at_once_and_loses_nothing,
);

/// What a sender was told about each of its events.
#[derive(Default)]
struct Told(Mutex<HashMap<String, String>>);

impl Told {
    fn note(&self, event: &Event, id: String) {
        self.0.lock().expect("one task").insert(event.id.clone(), id);
    }

    fn count(&self) -> usize {
        self.0.lock().expect("one task").len()
    }

    /// Checks that each event is there once, byte for byte, and is the one its sender was told of.
    async fn holds(self, api: &Api, events: &[Event]) {
        let told = self.0.into_inner().expect("one task");
        let mut rows: HashMap<String, Value> = HashMap::new();
        for row in api.list("/inbox").await {
            let key = row["dedup_key"].as_str().expect("a key").to_owned();
            assert!(rows.insert(key.clone(), row).is_none(), "{key} is there twice");
        }
        for event in events {
            let row = rows.remove(&event.id);
            let Some(id) = told.get(&event.id) else {
                assert!(row.is_none(), "{} was never sent", event.id);
                continue;
            };
            let row = row.unwrap_or_else(|| panic!("{} was acknowledged and is lost", event.id));
            assert_eq!(row["id"], *id, "{} was told two ids", event.id);
            let raw = api.get(&format!("/inbox/{id}/raw")).await.is(200);
            assert_eq!(raw.body, event.body);
        }
        assert!(rows.is_empty(), "nobody sent {rows:?}");
        let jobs = api.list("/jobs").await;
        assert_eq!(jobs.len(), told.len(), "one job for each event");
    }
}

fn events(source: &Source, prefix: &str, count: usize) -> Vec<Event> {
    (0..count).map(|n| source.event(&format!("{prefix}-{n}"))).collect()
}

/// Sends events one after the other until the server does not answer; says how many it answered.
async fn send_until_it_dies(
    gateway: &Gateway,
    source: &Source,
    events: &[Event],
    told: &Told,
) -> usize {
    for (count, event) in events.iter().enumerate() {
        match gateway.try_send(source, event).await {
            Ok(answer) if answer.status == 503 => {}
            Ok(answer) => told.note(event, answer.is(202).text("event_id")),
            Err(_) => return count,
        }
    }
    events.len()
}

/// Sends each event again, as a provider does that got no answer; each must be told the id it was told.
async fn send_again(gateway: &Gateway, source: &Source, events: &[Event], told: &Told) {
    for event in events {
        let answer = gateway.send(source, event).await;
        assert!(matches!(answer.status, 200 | 202), "{}", answer.json());
        let id = answer.text("event_id");
        let before = told.0.lock().expect("one task").insert(event.id.clone(), id.clone());
        assert!(before.is_none_or(|before| before == id), "{} was told two ids", event.id);
    }
}

async fn every_acknowledged_event_is_there_once_after_a_kill_in_the_middle_of_a_stream(
    database: Database,
) {
    const SENDERS: usize = 8;
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("stripe").await;
    let streams: Vec<_> = (0..SENDERS).map(|n| events(&source, &format!("s{n}"), 200)).collect();
    let all = streams.concat();
    let told = Told::default();
    let sending = streams.iter().map(|s| send_until_it_dies(&gateway, &source, s, &told));
    let killing = async {
        until("some are acknowledged", || async { (told.count() >= 150).then_some(()) }).await;
        gateway.pause().await;
        // Requests that were taken and not answered are what this is about.
        tokio::time::sleep(Duration::from_millis(20)).await;
        gateway.signal_kill();
    };
    let (sent, ()) = tokio::join!(join_all(sending), killing);
    assert!(sent.iter().any(|count| *count < 200), "the kill came in the middle");
    gateway.ended().await;

    gateway.restart().await;
    let unanswered = streams.iter().zip(sent).flat_map(|(stream, count)| stream.get(count));
    let unanswered: Vec<Event> = unanswered.cloned().collect();
    let some: Vec<Event> = all.iter().step_by(7).take(40).cloned().collect();
    send_again(&gateway, &source, &[unanswered, some].concat(), &told).await;
    told.holds(&gateway.admin(), &all).await;
}

async fn a_kill_just_before_or_just_after_any_commit_loses_and_doubles_nothing(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("stripe").await;
    let told = Told::default();
    let mut all = Vec::new();
    for (place, nth) in
        [("before", 20), ("after", 20), ("before", 27), ("after", 27), ("after", 31)]
    {
        // The count begins at the start, whose own commits come first.
        gateway.restart_with(&format!("store.{place}_commit=kill@{nth}")).await;
        let stream = events(&source, &format!("{place}-{nth}"), 60);
        let sent = send_until_it_dies(&gateway, &source, &stream, &told).await;
        assert!((1..60).contains(&sent), "killed {place} the commit after {sent} events");
        gateway.ended().await;
        gateway.restart().await;
        send_again(&gateway, &source, &stream[sent..=sent], &told).await;
        all.extend(stream);
    }
    told.holds(&gateway.admin(), &all).await;
}

async fn a_lease_and_its_job_survive_a_kill_of_the_server(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let id = gateway.admin().job_with(json!({"input": {"n": 1}})).await;
    let lease = gateway.worker("w").wait().await;
    lease.checkpoint(json!({"step": 3})).await.is(200);
    gateway.restart().await;

    let api = gateway.admin();
    let shown = api.show_job(&id).await;
    assert_eq!((&shown["status"], &shown["lease"]["worker"]), (&json!("running"), &json!("w")));
    assert_eq!(shown["checkpoint"], json!({"step": 3}));
    let lease = lease.through(&api);
    lease.heartbeat().await.is(200);
    assert!(gateway.worker("other").lease().await.is_none());
    lease.complete(json!({"n": 2})).await.is(200);
    // What ended a moment before a kill has ended.
    gateway.restart().await;
    let shown = gateway.admin().show_job(&id).await;
    assert_eq!((&shown["status"], &shown["result"]), (&json!("succeeded"), &json!({"n": 2})));
    lease.through(&gateway.admin()).complete(json!({"n": 2})).await.is(200);
}

async fn a_time_to_run_survives_a_restart_and_is_kept_to_the_second(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let at = now().after(Duration::from_secs(5));
    let absolute = json!({"kind": "absolute", "input": 1, "run_at": at.to_string()});
    let relative = json!({"kind": "relative", "input": 1, "delay_s": 4});
    let both = [api.job_with(absolute).await, api.job_with(relative).await];
    let mut due = HashMap::new();
    for id in both {
        let shown = api.show_job(&id).await;
        assert_eq!(shown["status"], "scheduled");
        let at: Timestamp = shown["run_at"].as_str().expect("a time").parse().expect("a time");
        due.insert(id, at);
    }
    gateway.restart().await;
    let up = now();
    let worker = gateway.worker("w");
    while !due.is_empty() {
        let lease = worker.wait().await;
        let at = due.remove(lease.id()).expect("one of the two");
        let early = at.since(now());
        assert!(early.is_zero(), "{early:?} too early");
        // A second by the promise, and one for a busy machine.
        let late = now().since(at.max(up));
        assert!(late < Duration::from_secs(2), "{late:?} too late");
        lease.complete(json!(1)).await.is(200);
    }
}

const COMMANDS: &str = r#"
[exec.short]
command = ["sh", "-c", "touch DIRECTORY/begun-short; sleep 1; echo '{\"done\": true}'"]

[exec.long]
command = ["sh", "-c", '''
touch DIRECTORY/begun-long
while [ -e DIRECTORY/wakepost.toml ] && [ ! -e DIRECTORY/finish ]; do sleep 0.05; done
echo '{"done": true}'
''']
"#;

async fn begun(gateway: &Gateway, name: &str) {
    let file = gateway.directory().join(format!("begun-{name}"));
    until("the command runs", || async { file.exists().then_some(()) }).await;
}

fn run_by(name: &str) -> Value {
    json!({"kind": name, "input": {}, "executor": {"kind": "exec", "name": name}})
}

async fn asked_to_stop_it_ends_well_and_loses_nothing(database: Database) {
    let setup = Gateway::setup(database).file(COMMANDS).setting("WAKEPOST_SHUTDOWN_GRACE_S", "3");
    let mut gateway = setup.start().await;
    let api = gateway.admin();
    let short = api.job_with(run_by("short")).await;
    let long = api.job_with(run_by("long")).await;
    begun(&gateway, "short").await;
    begun(&gateway, "long").await;
    let pulled = api.job().await;
    let lease = gateway.worker("w").wait().await;
    let waiting = {
        let worker = gateway.worker("waiting");
        tokio::spawn(async move { worker.lease_many(json!({"wait_s": 30})).await })
    };
    // It must really be waiting; that it does cannot be seen from outside.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let asked = Instant::now();
    gateway.terminate();
    assert!(waiting.await.expect("an answer").is_empty(), "a long poll is let go");
    let status = gateway.ended().await;
    assert_eq!(status.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());

    gateway.restart().await;
    let api = gateway.admin();
    let done = api.show_job(&short).await;
    assert_eq!((&done["status"], &done["result"]), (&json!("succeeded"), &json!({"done": true})));
    // The other was handed back without its attempt, and runs anew.
    std::fs::write(gateway.directory().join("finish"), "").expect("a file");
    let done = until("the job that was handed back is done", || async {
        let shown = api.show_job(&long).await;
        (shown["status"] == "succeeded").then_some(shown)
    })
    .await;
    assert_eq!(done["attempts"], 1);
    let runs = done["runs"].as_array().expect("runs").iter();
    let outcomes: Vec<_> = runs.map(|run| run["outcome"].as_str().expect("a word")).collect();
    assert!(outcomes.contains(&"handed_back"), "{outcomes:?}");
    // A pull worker keeps what it has.
    assert_eq!(lease.id(), pulled);
    lease.through(&api).complete(json!(1)).await.is(200);
}

async fn asked_twice_it_ends_at_once_and_loses_nothing(database: Database) {
    let setup = Gateway::setup(database).file(COMMANDS).setting("WAKEPOST_SHUTDOWN_GRACE_S", "60");
    let mut gateway = setup.start().await;
    let source = gateway.with_source("stripe").await;
    let policy = json!({"lease_s": 5, "executor": {"kind": "exec", "name": "long"}});
    let runs = gateway.admin().source_with("github", policy).await;
    let long = gateway.send(&runs, &runs.event("long")).await.is(202).text("job_id");
    begun(&gateway, "long").await;
    let pulled = gateway.admin().job().await;
    let lease = gateway.worker("w").wait().await;
    let stream = events(&source, "e", 500);
    let told = Told::default();
    let asking = async {
        until("some are acknowledged", || async { (told.count() >= 30).then_some(()) }).await;
        gateway.terminate();
        // Before that line a second signal is taken for the first.
        until("it stops", || async { gateway.logged().contains("stopping:").then_some(()) }).await;
        let asked = Instant::now();
        gateway.terminate();
        asked
    };
    let (_, asked) = tokio::join!(send_until_it_dies(&gateway, &source, &stream, &told), asking);
    assert_eq!(gateway.ended().await.code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "at once: {:?}", asked.elapsed());

    std::fs::write(gateway.directory().join("finish"), "").expect("a file");
    gateway.restart().await;
    let api = gateway.admin();
    for event in &stream {
        let told = told.0.lock().expect("one task").get(&event.id).cloned();
        let Some(id) = told else { continue };
        let raw = api.get(&format!("/inbox/{id}/raw")).await.is(200);
        assert_eq!(raw.body, event.body);
        let repeat = gateway.send(&source, event).await.is(200);
        assert_eq!(repeat.text("event_id"), id, "it is there once");
    }
    assert_eq!(lease.id(), pulled);
    lease.through(&api).complete(json!(1)).await.is(200);
    until("what it was running is run by the next one", || async {
        (api.show_job(&long).await["status"] == "succeeded").then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_node_takes_over_what_a_killed_node_was_running_on_postgres() {
    let mut first = Gateway::setup(Database::Postgres).file(COMMANDS).start().await;
    let api = first.admin();
    let executor = json!({"lease_s": 3, "executor": {"kind": "exec", "name": "long"}});
    let source = api.source_with("stripe", executor).await;
    let id = first.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    begun(&first, "long").await;
    let pulled = api.job().await;
    let lease = first.worker("w").wait().await;

    let second = first.node().await;
    first.kill().await;
    std::fs::write(second.directory().join("finish"), "").expect("a file");
    let api = second.admin();
    let done = until("the other node runs it", || async {
        let shown = api.show_job(&id).await;
        (shown["status"] == "succeeded").then_some(shown)
    })
    .await;
    assert_eq!(done["attempts"], 2);
    assert_eq!(done["result"], json!({"done": true}));
    // A lease is nobody's but its worker's, whichever node gave it.
    let lease = lease.through(&api);
    lease.heartbeat().await.is(200);
    lease.complete(json!(1)).await.is(200);
    assert_eq!(api.show_job(&pulled).await["status"], "succeeded");
}

#[tokio::test]
async fn a_node_that_was_frozen_cannot_end_what_another_took_over_on_postgres() {
    let first = Gateway::setup(Database::Postgres).file(COMMANDS).start().await;
    let api = first.admin();
    let executor = json!({"lease_s": 2, "executor": {"kind": "exec", "name": "long"}});
    let source = api.source_with("stripe", executor).await;
    let id = first.send(&source, &source.event("e-1")).await.is(202).text("job_id");
    begun(&first, "long").await;
    let second = first.node().await;
    first.pause().await;
    let api = second.admin();
    let taken = until("the other node runs it", || async {
        let shown = api.show_job(&id).await;
        (shown["attempts"] == 2 && shown["status"] == "running").then_some(shown)
    })
    .await;

    // The frozen node wakes with a command that is done.
    std::fs::write(second.directory().join("finish"), "").expect("a file");
    first.resume();
    let done = until("it is done", || async {
        let shown = api.show_job(&id).await;
        (shown["status"] == "succeeded").then_some(shown)
    })
    .await;
    assert_eq!(done["attempts"], 2);
    assert_eq!(done["last_worker"], taken["lease"]["worker"]);
    let runs = done["runs"].as_array().expect("runs").iter();
    let outcomes: Vec<_> = runs.map(|run| run["outcome"].as_str().expect("a word")).collect();
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    assert!(outcomes.contains(&"lease_expired") && outcomes.contains(&"succeeded"));
    // And it works on.
    first.send(&source, &source.event("e-2")).await.is(202);
}

#[tokio::test]
async fn lost_connections_to_the_database_lose_no_acknowledged_event_on_postgres() {
    let gateway = Gateway::start(Database::Postgres).await;
    let source = gateway.with_source("stripe").await;
    let url = gateway.database_url().expect("PostgreSQL");
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    let connection = tokio::spawn(connection);
    let streams: Vec<_> = (0..4).map(|n| events(&source, &format!("s{n}"), 100)).collect();
    let told = Told::default();
    let sending = streams.iter().map(|s| send_until_it_dies(&gateway, &source, s, &told));
    let cutting = async {
        for round in 1..=5 {
            let enough = round * 30;
            until("some are acknowledged", || async { (told.count() >= enough).then_some(()) })
                .await;
            let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
            client.execute(cut, &[]).await.expect("they are cut");
        }
    };
    let (sent, ()) = tokio::join!(join_all(sending), cutting);
    connection.abort();
    assert_eq!(sent, [100; 4], "the server itself lives on");
    let all = streams.concat();
    send_again(&gateway, &source, &all, &told).await;
    told.holds(&gateway.admin(), &all).await;
    // Work still comes to whoever waits for it.
    let lease = gateway.worker("w").wait().await;
    lease.complete(json!(1)).await.is(200);
}
