//! The command line beside a real server: listening, watching, exporting, replaying many.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};
use wakepost_tests::{
    Database, Gateway, PATIENCE, Receiver, Reply, on_both, webhookctl, webhookctl_started,
};

on_both!(
    a_local_program_gets_events_as_they_were_received,
    whoever_listens_misses_nothing_while_the_server_restarts,
    top_shows_what_waits_runs_and_died,
    many_events_are_exported_and_replayed,
    changes_are_told_by_the_audit_trail,
);

/// A command that goes on.
struct Listening {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Listening {
    /// Starts it, and waits until it listens.
    async fn start(gateway: &Gateway, args: &[&str]) -> Listening {
        let mut command = webhookctl_started(gateway.url(), gateway.admin_key(), args);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut hints = BufReader::new(child.stderr.take().expect("its hints")).lines();
        let greeting = hints.next_line().await.expect("a line").expect("a greeting");
        assert!(greeting.starts_with("listening to "), "{greeting}");
        // Whoever is not read from may wait for ever.
        tokio::spawn(async move { while let Ok(Some(_)) = hints.next_line().await {} });
        Listening { child, lines }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        line.expect("a line in time").expect("a line").expect("it goes on")
    }

    /// Presses Ctrl-C, and waits for its end.
    async fn interrupt(mut self) -> Option<i32> {
        let pid = Pid::from_raw(self.child.id().expect("it lives") as i32).expect("a process");
        kill_process(pid, Signal::INT).expect("interrupted");
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("it ends").expect("a status").code()
    }
}

async fn a_local_program_gets_events_as_they_were_received(database: Database) {
    let gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let local = Receiver::start(|_| Reply::new(201, "")).await;
    let to = local.url("/hook");
    let args = ["listen", "--forward", &to, "--source", &source.id, "--type", "issues.*"];
    let mut listening = Listening::start(&gateway, &args).await;
    let request = source.sign(&source.event("d-1"));
    let event = gateway.send_request(&request).await.is(202).text("event_id");
    let line = listening.line().await;
    assert!(line.contains("github    issues.opened"), "{line}");
    assert!(line.contains(&event[event.len() - 8..]) && line.contains("  201  "), "{line}");
    let seen = local.seen("/hook");
    assert_eq!((seen.len(), &seen[0].body[..]), (1, &request.body[..]));
    assert_eq!(seen[0].header("wakepost-event-id"), event);
    for name in ["x-hub-signature-256", "x-github-event", "content-type"] {
        assert_eq!(seen[0].headers.get(name), request.headers.get(name), "{name}");
    }
    assert!(seen[0].headers.get("authorization").is_none());
    assert_eq!(listening.interrupt().await, Some(0));
}

async fn whoever_listens_misses_nothing_while_the_server_restarts(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    let mut listening = Listening::start(&gateway, &["listen", "--json"]).await;
    let id = |line: String| {
        let line: Value = serde_json::from_str(&line).expect("JSON");
        line["event"]["id"].as_str().expect("an id").to_owned()
    };
    for turn in 0..3 {
        let event = source.event(&format!("d-{turn}"));
        let sent = gateway.send(&source, &event).await.is(202).text("event_id");
        if turn == 1 {
            // It is stored, and may be told of only afterwards.
            gateway.kill().await;
            gateway.start_again_there().await;
        }
        assert_eq!(id(listening.line().await), sent);
    }
    assert_eq!(listening.interrupt().await, Some(0));
}

async fn top_shows_what_waits_runs_and_died(database: Database) {
    let gateway = Gateway::start(database).await;
    let (url, key) = (gateway.url(), gateway.admin_key());
    let source = gateway.with_source("github").await;
    for name in ["d-1", "d-2", "d-3"] {
        gateway.send(&source, &source.event(name)).await.is(202);
    }
    let worker = gateway.worker("ada");
    let dead = worker.wait().await;
    dead.post("fail", json!({"error": "no luck", "retryable": false})).await.is(200);
    let _running = worker.wait().await;
    let pulls = json!({"mode": "pull", "events": ["*"]});
    let pulls = gateway.admin().post("/webhooks", pulls).await.is(201).text("id");
    let event = json!({"type": "order.created", "data": {}});
    gateway.admin().post("/events", event).await.is(202);
    let top = webhookctl(url, key, &["top", "--once"]).await.ends_with(0);
    assert!(top.stdout.contains(&pulls), "{pulls} in {}", top.stdout);
    for word in ["pending 2", "running 1", "dead letters  1", "issues.opened", "ada", "received "] {
        assert!(top.stdout.contains(word), "{word} in {}", top.stdout);
    }
    let told = webhookctl(url, key, &["top", "--json"]).await.ends_with(0).json();
    assert_eq!(told["dead_letters"]["count"], 1);
    assert_eq!(told["rates_of"], "node");
    let lanes = told["stats"]["lanes"].as_array().expect("lanes");
    let delivers = lanes.iter().find(|lane| lane["work"] == "delivery").expect("a lane");
    assert_eq!((&delivers["webhook"], &delivers["source"]), (&json!(pulls), &json!(null)));
    // A tenant's own key does not see the node, and is shown the rest all the same.
    let viewer = gateway.admin().role("viewer", "default").await;
    let told = webhookctl(url, viewer.key(), &["top", "--json"]).await.ends_with(0).json();
    assert_eq!(
        (&told["rates_of"], &told["stats"]["tenant"]),
        (&json!("tenant"), &json!("default"))
    );
}

async fn many_events_are_exported_and_replayed(database: Database) {
    let gateway = Gateway::start(database).await;
    let (url, key) = (gateway.url(), gateway.admin_key());
    let source = gateway.with_source("github").await;
    for name in ["d-1", "d-2"] {
        gateway.send(&source, &source.event(name)).await.is(202);
        gateway.worker("w").wait().await.complete(json!(1)).await.is(200);
    }
    let export = ["inbox", "export", "--bodies", "--source", &source.id];
    let export = webhookctl(url, key, &export).await.ends_with(0);
    let lines: Vec<Value> =
        export.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[1]["dedup_key"], "d-1");
    let body = lines[1]["body"].as_str().expect("a body").as_bytes();
    assert_eq!(body, source.sign(&source.event("d-1")).body);

    let all = ["inbox", "replay", "--all", "--type", "issues.*", "--note", "ada: again"];
    let counted = [&all[..], &["--dry-run"]].concat();
    let counted = webhookctl(url, key, &counted).await.ends_with(0);
    assert_eq!(counted.stdout, "2 would be run again\n");
    let done = webhookctl(url, key, &[&all[..], &["--wait"]].concat()).await.ends_with(0);
    assert!(done.stdout.contains("done            2"), "{}", done.stdout);
    let jobs = webhookctl(url, key, &["jobs", "list", "--status", "pending", "--json"]).await;
    assert_eq!(jobs.ends_with(0).json()["data"].as_array().expect("jobs").len(), 2);
    let tail =
        webhookctl(url, key, &["inbox", "tail", "-n", "2", "--count", "2"]).await.ends_with(0);
    assert_eq!(tail.stdout.lines().count(), 2);
    webhookctl(url, key, &["operations", "show", "op_00000000000000000000000000"])
        .await
        .ends_with(3);
}

async fn changes_are_told_by_the_audit_trail(database: Database) {
    let gateway = Gateway::start(database).await;
    let (url, key) = (gateway.url(), gateway.admin_key());
    let create = ["tenants", "create", "acme", "--bodies-days", "7", "--runs-days", "14"];
    webhookctl(url, key, &create).await.ends_with(0);
    let change = ["tenants", "update", "acme", "--weight", "3", "--max-webhooks", "7"];
    webhookctl(url, key, &change).await.ends_with(0);
    let reset = ["tenants", "update", "acme", "--reset", "weight", "--reset", "runs-days"];
    webhookctl(url, key, &reset).await.ends_with(0);
    let shown = webhookctl(url, key, &["tenants", "show", "acme", "--json"]).await.ends_with(0);
    let shown = shown.json();
    assert_eq!((&shown["weight"], &shown["max_webhooks"]), (&json!(1), &json!(7)));
    assert_eq!(shown["retention"], json!({"bodies_days": 7}));
    let audit = webhookctl(url, key, &["audit", "list", "--tenant", "acme"]).await.ends_with(0);
    assert!(audit.stdout.contains("tenant.update"), "{}", audit.stdout);
    // A key for all tenants, also by one who names a tenant otherwise.
    let new = ["keys", "create", "ci", "--role", "viewer", "--tenant", "acme", "--json"];
    let new = webhookctl(url, key, &new).await.ends_with(0).json();
    let viewer = new["key"].as_str().expect("a key");
    webhookctl(url, viewer, &["audit", "list"]).await.ends_with(4);
    webhookctl(url, viewer, &["tenants", "list"]).await.ends_with(4);
}
