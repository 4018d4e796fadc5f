//! Operating: what the person in charge types and sees.

use std::collections::HashSet;

use serde_json::{Value, json};
use wakepost_tests::{Database, Gateway, on_both, random_master_key, until, wakepost, webhookctl};

on_both!(
    an_operator_sets_up_a_source_and_follows_an_event_from_the_command_line,
    the_command_line_says_by_its_exit_code_what_went_wrong,
    migrations_can_be_looked_at_before_they_are_applied,
    health_and_readiness_are_open_and_metrics_need_a_key,
    a_long_list_is_read_page_by_page,
    a_wrong_master_key_stops_the_start,
    a_new_tenant_is_known_on_every_node_at_once,
);

/// Its key works wherever it is used first, also before the other nodes heard of the tenant.
async fn a_new_tenant_is_known_on_every_node_at_once(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let far = nodes.last().expect("a node").admin();
    for number in 0..20 {
        let made = nodes[0].admin().tenant(&format!("acme-{number}")).await;
        let theirs = far.with_key(made.key());
        theirs.post("/events", json!({"type": "a.b", "data": {}})).await.is(202);
        let key = json!({"name": "second", "role": "viewer", "tenant": format!("acme-{number}")});
        far.post("/keys", key).await.is(201);
    }
}

async fn an_operator_sets_up_a_source_and_follows_an_event_from_the_command_line(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let (url, key) = (gateway.url(), gateway.admin_key());
    let made = webhookctl(url, key, &["sources", "create", "github", "--name", "shop", "--json"]);
    let made = made.await.ends_with(0).json();
    assert!(made["ingest_url"].as_str().expect("a URL").starts_with(url));
    let secret = made["secret"].as_str().expect("a secret");
    let id = made["id"].as_str().expect("an id");
    let told = webhookctl(url, key, &["sources", "create", "github"]).await.ends_with(0);
    assert!(told.stdout.contains("/in/src_"), "{}", told.stdout);
    assert!(told.stderr.contains("Add webhook"), "{}", told.stderr);

    // A sender that was set up with what was printed is believed.
    let mut sender = gateway.with_source("github").await.with_secret(secret);
    id.clone_into(&mut sender.id);
    let sent = gateway.send(&sender, &sender.event("delivery-1")).await.is(202);
    let (event, job) = (sent.text("event_id"), sent.text("job_id"));

    let list = webhookctl(url, key, &["inbox", "list", "--source", id]).await.ends_with(0);
    assert!(list.stdout.contains(&event) && list.stdout.contains("issues.opened"));
    let none = webhookctl(url, key, &["inbox", "list", "--status", "held"]).await.ends_with(0);
    assert!(!none.stdout.contains(&event), "{}", none.stdout);
    let rows = webhookctl(url, key, &["inbox", "list", "--json"]).await.ends_with(0).json();
    assert_eq!(rows["data"][0]["id"], event);
    let story = webhookctl(url, key, &["inbox", "inspect", &event]).await.ends_with(0);
    for word in ["github", "pending", "delivery-1", "retry-safe", &event, &job] {
        assert!(story.stdout.contains(word), "{word} in {}", story.stdout);
    }
    let jobs = webhookctl(url, key, &["jobs", "list", "--status", "pending"]).await.ends_with(0);
    assert!(jobs.stdout.contains(&job), "{}", jobs.stdout);
    let lease = gateway.worker("w").wait().await;
    lease.post("fail", json!({"error": "no luck", "retryable": false})).await.is(200);
    let story = webhookctl(url, key, &["inbox", "inspect", &event]).await.ends_with(0);
    assert!(story.stdout.contains("dead_letter") && story.stdout.contains("no luck"));

    let new = ["keys", "create", "ci", "--role", "viewer", "--tenant", "default", "--json"];
    let new = webhookctl(url, key, &new).await.ends_with(0).json();
    let viewer = new["key"].as_str().expect("a key, shown once");
    webhookctl(url, viewer, &["jobs", "list"]).await.ends_with(0);
    let keys = webhookctl(url, key, &["keys", "list"]).await.ends_with(0);
    assert!(keys.stdout.contains("ci") && !keys.stdout.contains(viewer));
}

async fn the_command_line_says_by_its_exit_code_what_went_wrong(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let (url, key) = (gateway.url().to_owned(), gateway.admin_key().to_owned());
    let nobody = "evt_00000000000000000000000000";
    webhookctl(&url, &key, &["inbox", "inspect", nobody]).await.ends_with(3);
    webhookctl(&url, &key, &["inbox", "list", "--tenant", "nobody"]).await.ends_with(3);
    let wrong = webhookctl(&url, "wrong", &["inbox", "list"]).await.ends_with(4);
    assert!(wrong.stderr.contains("next: check the key"), "{}", wrong.stderr);
    let viewer = gateway.admin().role("viewer", "default").await;
    webhookctl(&url, viewer.key(), &["keys", "list"]).await.ends_with(4);
    webhookctl(&url, &key, &["inbox", "list", "--rubbish"]).await.ends_with(2);
    webhookctl(&url, "", &["inbox", "list"]).await.ends_with(2);
    webhookctl(&url, &key, &["sources", "create", "nobody"]).await.ends_with(1);
    gateway.kill().await;
    let gone = webhookctl(&url, &key, &["inbox", "list"]).await.ends_with(5);
    assert!(gone.stderr.contains("wakepost serve"), "{}", gone.stderr);
}

async fn migrations_can_be_looked_at_before_they_are_applied(database: Database) {
    let prepared = Gateway::setup(database).prepare().await;
    let missing = prepared.run(&["migrate", "--check"]).await.ends_with(1);
    assert!(missing.stdout.contains("missing: 0001"), "{}", missing.stdout);
    prepared.run(&["migrate", "--check"]).await.ends_with(1);
    let applied = prepared.run(&["migrate"]).await.ends_with(0);
    assert!(applied.stdout.contains("applied: 0001"), "{}", applied.stdout);
    let check = prepared.run(&["migrate", "--check"]).await.ends_with(0);
    assert!(check.stdout.contains("up to date"), "{}", check.stdout);
    prepared.run(&["migrate"]).await.ends_with(0);
    let gateway = prepared.start().await;
    let source = gateway.with_source("github").await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    // A running server does not mind being looked at.
    gateway.run(&[], &["migrate", "--check"]).await.ends_with(0);
}

async fn health_and_readiness_are_open_and_metrics_need_a_key(database: Database) {
    let gateway = Gateway::start(database).await;
    assert_eq!(gateway.fetch("/healthz").await.is(200).json()["status"], "ok");
    assert_eq!(gateway.fetch("/readyz").await.is(200).json()["status"], "ready");
    gateway.fetch("/metrics").await.refuses(401, "unauthorized");
    let source = gateway.with_source("github").await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    gateway.send(&source, &source.event("e-1")).await.is(200);
    let viewer = gateway.admin().role("viewer", "*").await;
    let key = format!("Bearer {}", viewer.key()).parse().expect("a header");
    let headers = [("authorization".parse().expect("a name"), key)].into_iter().collect();
    let metrics = wakepost_tests::Http::default();
    let url = format!("{}/metrics", gateway.url());
    let metrics = metrics.send(http::Method::GET, &url, headers, "").await.is(200);
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let samples: Vec<&str> = samples.collect();
    assert!(samples.iter().all(|line| line.starts_with("wakepost_")), "{text}");
    for (verdict, count) in [("accepted", " 1"), ("duplicate", " 1")] {
        let found = samples
            .iter()
            .any(|line| line.contains(&format!("\"{verdict}\"")) && line.ends_with(count));
        assert!(found, "{verdict} in {text}");
    }
}

#[tokio::test]
async fn while_the_database_is_away_nothing_is_acknowledged_and_afterwards_all_goes_on_on_postgres()
{
    let gateway = Gateway::start(Database::Postgres).await;
    let source = gateway.with_source("github").await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    gateway.lose_database().await;
    until("it is not ready", || async {
        (gateway.fetch("/readyz").await.status == 503).then_some(())
    })
    .await;
    assert_eq!(gateway.fetch("/healthz").await.status, 200);
    let refused = gateway.send(&source, &source.event("e-2")).await.is(503);
    assert_eq!(refused.header("retry-after"), "1");
    let call = gateway.admin().get("/inbox").await.is(503);
    assert_eq!(call.header("retry-after"), "1");

    gateway.regain_database().await;
    until("it is ready again", || async {
        (gateway.fetch("/readyz").await.status == 200).then_some(())
    })
    .await;
    gateway.send(&source, &source.event("e-2")).await.is(202);
    let mut got = HashSet::new();
    while got.len() < 2 {
        let lease = gateway.worker("w").wait().await;
        lease.complete(json!(1)).await.is(200);
        got.insert(lease.id().to_owned());
    }
}

async fn a_long_list_is_read_page_by_page(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let jobs: Vec<Value> = (0..8).map(|n| json!({"input": n})).collect();
    api.post("/jobs", jobs.into()).await.is(201);
    let (mut ids, mut cursor, mut sizes) = (Vec::new(), String::new(), Vec::new());
    loop {
        let page = api.get(&format!("/jobs?limit=3{cursor}")).await.is(200).json();
        let rows = page["data"].as_array().expect("rows");
        sizes.push(rows.len());
        ids.extend(rows.iter().map(|row| row["id"].as_str().expect("an id").to_owned()));
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(sizes, [3, 3, 2]);
    let mut sorted = ids.clone();
    sorted.sort_by(|a, b| b.cmp(a));
    sorted.dedup();
    assert_eq!(ids, sorted, "newest first, each once");
    for (query, field) in [("limit=0", "limit"), ("limit=501", "limit"), ("cursor=x", "cursor")] {
        api.get(&format!("/jobs?{query}")).await.refuses_field(field);
    }
    api.get("/jobs?colour=red").await.is(422);
}

async fn a_wrong_master_key_stops_the_start(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let source = gateway.with_source("github").await;
    gateway.kill().await;
    let other = random_master_key();
    let args = ["serve", "--listen", "127.0.0.1:0"];
    for key in [other.as_str(), "rubbish"] {
        let further = [("WAKEPOST_MASTER_KEY", key)];
        let refused = gateway.run(&further, &args).await.ends_with(1);
        assert!(refused.stderr.to_lowercase().contains("key"), "{}", refused.stderr);
        assert!(!refused.stdout.contains("listening"), "{}", refused.stdout);
    }
    gateway.restart().await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
}

#[tokio::test]
async fn a_second_process_on_the_same_directory_is_refused_on_sqlite() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let refused = gateway.run(&[], &["serve", "--listen", "127.0.0.1:0"]).await.ends_with(1);
    assert!(refused.stderr.contains("another wakepost already uses"), "{}", refused.stderr);
    assert!(!refused.stdout.contains("listening"), "{}", refused.stdout);
    gateway.fetch("/readyz").await.is(200);
}

#[tokio::test]
async fn a_key_is_made_for_a_laptop_but_never_for_the_open_network() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = wakepost(path, &[], &["serve", "--listen", address]).await.ends_with(1);
        assert!(refused.stderr.contains("WAKEPOST_ADMIN_KEY"), "{}", refused.stderr);
        assert!(!refused.stdout.contains("listening"), "{}", refused.stdout);
    }
    let short = [("WAKEPOST_ADMIN_KEY", "too-short")];
    let refused = wakepost(path, &short, &["serve", "--listen", "127.0.0.1:0"]).await.ends_with(1);
    assert!(refused.stderr.contains("at least 32 characters"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("too-short"), "{}", refused.stderr);

    // On loopback one is made, shown once, and good from then on.
    let setup = Gateway::setup(Database::Sqlite).setting("WAKEPOST_ADMIN_KEY", "");
    let mut gateway = setup.setting("WAKEPOST_MASTER_KEY", "").start().await;
    let line = gateway.printed().lines().find(|line| line.contains("shown once"));
    let key = line.expect("the key").rsplit(' ').next().expect("the key").to_owned();
    gateway.admin().with_key(&key).get("/sources").await.is(200);
    assert!(gateway.printed().contains("master.key"), "{}", gateway.printed());
    gateway.restart().await;
    assert!(!gateway.printed().contains("shown once"), "{}", gateway.printed());
    gateway.admin().with_key(&key).get("/sources").await.is(200);
}

#[tokio::test]
async fn settings_are_shown_with_their_origin_and_never_a_secret() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let file = path.join("wakepost.toml");
    std::fs::write(&file, "push_concurrency = 7\nlog_level = \"warn\"\n").expect("a file");
    let environment = [
        ("WAKEPOST_ADMIN_KEY", "a-secret-that-nobody-should-ever-see"),
        ("DATABASE_URL", "postgres://user:hunter2@db/wakepost"),
        ("WAKEPOST_LOG_LEVEL", "debug"),
    ];
    let args = ["config", "check", "--listen", "127.0.0.1:9"];
    let shown = wakepost(path, &environment, &args).await.ends_with(0);
    let line = |name: &str| {
        let found = shown.stdout.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("{name} in {}", shown.stdout)).to_owned()
    };
    assert!(line("listen").contains("127.0.0.1:9") && line("listen").ends_with("flag"));
    assert!(
        line("log_level").contains("debug") && line("log_level").contains("WAKEPOST_LOG_LEVEL")
    );
    assert!(line("push_concurrency").contains('7'));
    assert!(line("push_concurrency").ends_with("wakepost.toml"));
    assert!(line("data_dir").ends_with("default"));
    assert!(!shown.stdout.contains("nobody-should") && !shown.stdout.contains("hunter2"));

    for (text, says) in [
        ("lsten = \"127.0.0.1:1\"", "there is no setting lsten; did you mean listen?"),
        ("[exec.a]\ncomand = [\"x\"]", "did you mean command?"),
        ("listen = \"nowhere\"", "listen must be an address"),
        ("not toml at all", "wakepost.toml"),
    ] {
        std::fs::write(&file, text).expect("a file");
        for args in [&["config", "check"][..], &["serve"][..], &["migrate", "--check"][..]] {
            let refused = wakepost(path, &[], args).await.ends_with(1);
            assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
        }
    }
    std::fs::remove_file(&file).expect("no file");
    let misspelt = [("WAKEPOST_PUBLIC_ULR", "https://hooks.example")];
    for args in [&["config", "check"][..], &["serve"][..]] {
        let refused = wakepost(path, &misspelt, args).await.ends_with(1);
        let says = "there is no setting WAKEPOST_PUBLIC_ULR; did you mean WAKEPOST_PUBLIC_URL?";
        assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
    }
    let others =
        [("WAKEPOST_URL", "http://127.0.0.1:8787"), ("WAKEPOST_RETENTION_BODIES_DAYS", "9")];
    let shown = wakepost(path, &others, &["config", "check"]).await.ends_with(0).stdout;
    let bodies = shown.lines().find(|line| line.starts_with("retention.bodies_days"));
    assert!(bodies.is_some_and(|line| line.ends_with("WAKEPOST_RETENTION_BODIES_DAYS")), "{shown}");
}
