//! Backing up: a copy taken under load restores to a state in which every invariant holds (D6).

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use wakepost_tests::{
    Database, Gateway, Receiver, Reply, Source, on_both, random_master_key, random_text, within,
};

on_both!(
    a_backup_under_load_restores_to_a_state_in_which_every_invariant_holds,
    a_backup_that_cannot_be_used_is_refused_and_nothing_changes,
    doctor_is_content_with_a_server_at_work_and_finds_what_is_wrong,
    a_backup_with_its_master_key_restores_where_there_is_none,
    a_backup_with_its_master_key_amid_a_rotation_has_both_keys_or_is_none,
);

/// Long enough for what was under way at the backup to be rescued, and to end.
const PATIENCE: Duration = Duration::from_secs(90);
const LEASE_S: u64 = 2;

fn setup(database: Database) -> wakepost_tests::Setup {
    Gateway::setup(database)
        .setting("WAKEPOST_ALLOW_HTTP", "true")
        .setting("WAKEPOST_ALLOW_PRIVATE", "true")
}

/// Where a copy goes: another data directory, and on PostgreSQL another database.
async fn elsewhere(gateway: &Gateway) -> Vec<(String, String)> {
    let name = format!("copy_{}", random_text(12));
    let directory = gateway.directory().join(&name).display().to_string();
    let mut settings = vec![("WAKEPOST_DATA_DIR".to_owned(), directory)];
    if let Some(url) = gateway.database_url() {
        gateway.execute(&format!("CREATE DATABASE {name}")).await;
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (server, _) = base.rsplit_once('/').expect("the address names a database");
        settings.push(("DATABASE_URL".to_owned(), format!("{server}/{name}?{query}")));
    }
    settings
}

fn borrowed(settings: &[(String, String)]) -> Vec<(&str, &str)> {
    settings.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// What doctor says, and that nothing but the settings of the tests' own PostgreSQL is wrong.
async fn well(gateway: &Gateway, further: &[(&str, &str)], args: &[&str]) -> Value {
    let said = gateway.run(further, &[&["doctor", "--json"], args].concat()).await.json();
    let mut checks = said["checks"].as_array().expect("checks").iter();
    let wrong = checks.find(|one| {
        one["level"] == "fail" && one["name"] != "fsync" && one["name"] != "full_page_writes"
    });
    assert!(wrong.is_none(), "{wrong:?}");
    said
}

/// What clients were told.
#[derive(Default)]
struct Told {
    /// Events that were acknowledged: the sender's id, ours, and the body.
    events: Mutex<Vec<(String, String, Vec<u8>)>>,
    published: Mutex<Vec<String>>,
}

async fn send(gateway: &Gateway, source: &Source, told: &Told, done: &AtomicBool) {
    for turn in 0.. {
        if done.load(Ordering::Relaxed) {
            return;
        }
        let id = format!("event-{turn}");
        let event = source.event(&id);
        let sent = gateway.send(source, &event).await.is(202);
        told.events.lock().expect("no panic").push((id, sent.text("event_id"), event.body));
    }
}

async fn publish(gateway: &Gateway, told: &Told, done: &AtomicBool) {
    let api = gateway.admin();
    while !done.load(Ordering::Relaxed) {
        let event = json!({"type": "order.created", "data": {"n": 1}});
        let id = api.post("/events", event).await.is(202).text("id");
        told.published.lock().expect("no panic").push(id);
    }
}

/// Works until there is nothing to do and nobody makes more. Some runs are left where they are.
async fn work(gateway: &Gateway, done: &AtomicBool) {
    let worker = gateway.worker("agent");
    let mut turn = 0;
    while !done.load(Ordering::Relaxed) {
        let ask = json!({"lease_s": LEASE_S, "wait_s": 1});
        for lease in worker.lease_many(ask).await {
            turn += 1;
            lease.begin("mail").await;
            if turn % 7 == 0 {
                continue;
            }
            lease.commit("mail", json!({"sent": turn})).await;
            if turn % 5 != 0 {
                lease.complete(json!("done")).await;
            }
        }
    }
}

async fn a_backup_under_load_restores_to_a_state_in_which_every_invariant_holds(
    database: Database,
) {
    let mut gateway = setup(database).start().await;
    let receiver = Receiver::start(|_| Reply::new(200, "").after(Duration::from_millis(20))).await;
    let hook = json!({"url": receiver.url("/hook"), "events": ["*"]});
    gateway.admin().post("/webhooks", hook).await.is(201);
    let source = gateway.admin().source_with("github", json!({"max_attempts": 50})).await;
    let copy = gateway.directory().join("backup").display().to_string();
    let (told, done) = (Told::default(), AtomicBool::new(false));
    let (mut before, mut published) = (Vec::new(), Vec::new());
    let backup = async {
        within(PATIENCE, "there is a load", async || {
            let enough = told.events.lock().expect("no panic").len() > 60
                && told.published.lock().expect("no panic").len() > 60;
            enough.then_some(())
        })
        .await;
        before = told.events.lock().expect("no panic").clone();
        published = told.published.lock().expect("no panic").clone();
        let made = gateway.run(&[], &["backup", &copy]).await.ends_with(0);
        assert!(made.stderr.contains("cannot be read without the master key"), "{}", made.stderr);
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(
        send(&gateway, &source, &told, &done),
        publish(&gateway, &told, &done),
        work(&gateway, &done),
        backup
    );
    let after = told.events.lock().expect("no panic").len();
    assert!(after > before.len(), "there was a load during the backup");

    // Elsewhere, while the first server runs on.
    let there = elsewhere(&gateway).await;
    let restored = gateway.run(&borrowed(&there), &["restore", &copy]).await.ends_with(0);
    assert!(!restored.stdout.contains("FAIL"), "{}", restored.stdout);
    let again = gateway.run(&borrowed(&there), &["restore", &copy]).await.ends_with(1);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    well(&gateway, &borrowed(&there), &["--full"]).await;

    // And in its place: what came later is gone, and everything else goes on.
    let lease = gateway.worker("old").lease_many(json!({"lease_s": 600})).await.pop();
    gateway.kill().await;
    let forced = gateway.run(&[], &["restore", "--force", &copy]).await.ends_with(0);
    assert!(forced.stdout.contains("what was there is in"), "{}", forced.stdout);
    gateway.restart().await;
    if let Some(lease) = lease {
        let zombie = lease.through(&gateway.admin()).complete(json!("late")).await;
        assert!(zombie.status >= 400, "a lease from before the restore is void: {}", zombie.status);
    }
    let api = gateway.admin();
    for (id, event, body) in &before {
        let raw = api.get(&format!("/inbox/{event}/raw")).await.is(200);
        assert_eq!(&raw.body[..], &body[..], "{id}");
        let repeat = gateway.send(&source, &source.event(id)).await.is(200);
        assert_eq!(repeat.text("event_id"), *event, "{id} is known");
    }
    let kept = HashSet::<String>::from_iter(
        api.list("/inbox").await.iter().map(|row| row["id"].as_str().unwrap_or("").to_owned()),
    );
    let ends = AtomicBool::new(false);
    let drained = async {
        within(PATIENCE, "everything ends", async || {
            let live = "SELECT count(*) FROM work WHERE state <> 4";
            (gateway.count(live).await == 0).then_some(())
        })
        .await;
        ends.store(true, Ordering::Relaxed);
    };
    tokio::join!(finish(&gateway, &ends), drained);
    // In doubt at the backup: held, for a person to say whether it was done.
    let held = gateway.count("SELECT count(*) FROM work WHERE state = 4").await;
    let in_doubt = "SELECT count(DISTINCT scope) FROM effects WHERE state = 0";
    assert_eq!(held, gateway.count(in_doubt).await);
    let jobs = "SELECT count(*) FROM (SELECT id FROM work WHERE kind = 0
                UNION ALL SELECT id FROM work_done WHERE kind = 0) AS j";
    assert_eq!(gateway.count(jobs).await, kept.len() as i64, "one job each");
    each_is_delivered(&gateway, &receiver, &published).await;
    well(&gateway, &[], &["--full"]).await;
}

/// What was acknowledged to publishers is there, each with one delivery, which the receiver has seen.
async fn each_is_delivered(gateway: &Gateway, receiver: &Receiver, published: &[String]) {
    let api = gateway.admin();
    let came = receiver.seen("/hook");
    let came = HashSet::<&str>::from_iter(came.iter().map(|seen| seen.header("webhook-id")));
    for id in published {
        let shown = api.get(&format!("/events/{id}")).await.is(200).json();
        let deliveries = shown["deliveries"].as_array().expect("deliveries");
        assert_eq!(deliveries.len(), 1, "{shown}");
        assert_eq!(deliveries[0]["status"], "succeeded", "{shown}");
        assert!(came.contains(id.as_str()), "{id} never came");
    }
}

/// Ends whatever there is to do.
async fn finish(gateway: &Gateway, done: &AtomicBool) {
    let worker = gateway.worker("agent");
    while !done.load(Ordering::Relaxed) {
        for lease in worker.lease_many(json!({"lease_s": 30, "wait_s": 1, "max": 50})).await {
            let begun = lease.begin("mail").await;
            if begun.status == 200 && begun.json()["decision"] == "execute" {
                lease.commit("mail", json!("sent")).await;
            }
            lease.complete(json!("done")).await;
        }
    }
}

async fn a_backup_that_cannot_be_used_is_refused_and_nothing_changes(database: Database) {
    let gateway = setup(database).start().await;
    let source = gateway.with_source("github").await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    let copy = gateway.directory().join("backup");
    let path = copy.display().to_string();
    gateway.run(&[], &["backup", &path]).await.ends_with(0);
    let twice = gateway.run(&[], &["backup", &path]).await.ends_with(1);
    assert!(twice.stderr.contains("is there already"), "{}", twice.stderr);
    let manifest = std::fs::read_to_string(copy.join("manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(manifest["rows"]["events"], 1);
    let there = elsewhere(&gateway).await;
    let mut other = borrowed(&there);
    let wrong = random_master_key();
    other.push(("WAKEPOST_MASTER_KEY", &wrong));
    let refused = gateway.run(&other, &["restore", &path]).await.ends_with(1);
    assert!(refused.stderr.contains("opens with master key mk_"), "{}", refused.stderr);
    other.pop();
    other.push(("WAKEPOST_MASTER_KEY", ""));
    let none = gateway.run(&other, &["restore", &path]).await.ends_with(1);
    assert!(none.stderr.contains("there is no master key"), "{}", none.stderr);
    let file = copy.join(manifest["file"].as_str().expect("a file"));
    let mut bytes = std::fs::read(&file).expect("the data");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).expect("damaged");
    other.pop();
    let damaged = gateway.run(&other, &["restore", &path]).await.ends_with(1);
    assert!(damaged.stderr.contains("is damaged"), "{}", damaged.stderr);
    // No secret is in a backup.
    let secret = gateway.master_key().as_bytes().to_vec();
    for entry in std::fs::read_dir(&copy).expect("the backup") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        assert!(!bytes.windows(secret.len()).any(|part| part == secret));
    }
}

async fn doctor_is_content_with_a_server_at_work_and_finds_what_is_wrong(database: Database) {
    let gateway = setup(database).start().await;
    let source = gateway.with_source("github").await;
    for turn in 0..5 {
        gateway.send(&source, &source.event(&format!("e-{turn}"))).await.is(202);
    }
    gateway.worker("w").wait().await;
    gateway.admin().job_with(json!({"input": {}, "dedup_key": "mine"})).await;
    let well = well(&gateway, &[], &[]).await;
    if database == Database::Sqlite {
        assert_eq!(well["status"], "warn", "{well}");
    }
    let checks = well["checks"].as_array().expect("checks");
    for name in ["database", "master key", "records", "L1", "D2", "clock", "invariants"] {
        assert!(
            checks.iter().any(|one| one["name"] == name && one["level"] == "ok"),
            "{name}: {well}"
        );
    }
    let open = checks.iter().find(|one| one["name"] == "allow_private").expect("a warning");
    assert!(open["next"].as_str().is_some_and(|next| next.contains("10.1.0.0/16")));
    let wrong = random_master_key();
    let closed = gateway.run(&[("WAKEPOST_MASTER_KEY", &wrong)], &["doctor"]).await.ends_with(1);
    assert!(closed.stdout.contains("data keys do not open"), "{}", closed.stdout);
    gateway.execute("UPDATE work SET lease_expires_at = NULL WHERE state = 5").await;
    // The newest body and the secrets of the source, cut short.
    for (table, column) in [("bodies", "content"), ("sources", "secrets")] {
        let cut =
            format!("UPDATE {table} SET {column} = substr({column}, 1, length({column}) - 1)");
        gateway.execute(&cut).await;
    }
    let found = gateway.run(&[], &["doctor"]).await.ends_with(1);
    let line =
        found.stdout.lines().find(|line| line.starts_with("FAIL") && line.contains("records"));
    let line = line.unwrap_or_else(|| panic!("{}", found.stdout));
    for named in ["2 of 2 do not open", "the body of evt_", "the secrets of src_"] {
        assert!(line.contains(named), "{line}");
    }
    let line = found.stdout.lines().find(|line| line.starts_with("FAIL") && line.contains("L1"));
    assert!(line.is_some_and(|line| line.contains("not so: what runs")), "{}", found.stdout);
    gateway.fetch("/readyz").await.is(200);
}

async fn a_backup_with_its_master_key_restores_where_there_is_none(database: Database) {
    let mut gateway = setup(database).setting("WAKEPOST_MASTER_KEY", "").start().await;
    let source = gateway.with_source("github").await;
    let event = source.event("e-1");
    let id = gateway.send(&source, &event).await.is(202).text("event_id");
    let copy = gateway.directory().join("backup");
    let path = copy.display().to_string();
    gateway.run(&[], &["backup", "--with-master-key", &path]).await.ends_with(0);
    let key = std::fs::read(gateway.data_dir().join("master.key")).expect("the key");
    let theirs = copy.join("master.key");
    assert_eq!(std::fs::read(&theirs).expect("the key in the backup"), key);
    let mode = |path: &std::path::Path| {
        let about = std::fs::metadata(path).expect("it is there");
        std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o777
    };
    assert_eq!((mode(&copy), mode(&theirs)), (0o700, 0o600));

    // Where there is no key, the backup's is taken over; where there is another, it stays, and nothing is restored.
    let there = elsewhere(&gateway).await;
    let directory = std::path::PathBuf::from(&there[0].1);
    let restored = gateway.run(&borrowed(&there), &["restore", &path]).await.ends_with(0);
    assert!(!restored.stdout.contains("FAIL"), "{}", restored.stdout);
    assert_eq!(std::fs::read(directory.join("master.key")).expect("the key"), key);
    assert_eq!(mode(&directory.join("master.key")), 0o600);
    well(&gateway, &borrowed(&there), &["--full"]).await;
    let other = elsewhere(&gateway).await;
    let directory = std::path::PathBuf::from(&other[0].1);
    std::fs::create_dir(&directory).expect("a directory");
    let foreign = random_master_key();
    std::fs::write(directory.join("master.key"), &foreign).expect("another key");
    let refused = gateway.run(&borrowed(&other), &["restore", &path]).await.ends_with(1);
    assert!(refused.stderr.contains("opens with master key mk_"), "{}", refused.stderr);
    assert_eq!(std::fs::read_to_string(directory.join("master.key")).expect("a key"), foreign);

    // A key that is kept elsewhere is not there to be put beside the data.
    gateway.restart().await;
    let raw = gateway.admin().get(&format!("/inbox/{id}/raw")).await.is(200);
    assert_eq!(&raw.body[..], &event.body[..]);
    std::fs::remove_file(gateway.data_dir().join("master.key")).expect("removed");
    let elsewhere = gateway.directory().join("another").display().to_string();
    let key = String::from_utf8(key).expect("text");
    let kept = [("WAKEPOST_MASTER_KEY", key.trim())];
    let refused =
        gateway.run(&kept, &["backup", "--with-master-key", &elsewhere]).await.ends_with(1);
    assert!(
        refused.stderr.contains("a key from elsewhere is kept elsewhere"),
        "{}",
        refused.stderr
    );
    assert!(!std::path::Path::new(&elsewhere).exists());
}

async fn a_backup_with_its_master_key_amid_a_rotation_has_both_keys_or_is_none(database: Database) {
    let gateway = setup(database).setting("WAKEPOST_MASTER_KEY", "").start().await;
    let source = gateway.with_source("github").await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    // As a rotation leaves it that ended before it wrapped anything anew.
    let files = |directory: &std::path::Path| {
        ["master.key", "master.key.previous"].map(|name| directory.join(name))
    };
    let [key, previous] = files(gateway.data_dir());
    std::fs::rename(&key, &previous).expect("renamed");
    std::fs::write(&key, random_master_key()).expect("a new key");
    let copy = gateway.directory().join("backup").display().to_string();
    gateway.run(&[], &["backup", "--with-master-key", &copy]).await.ends_with(0);

    // Where there is no key, both are taken over, and the rotation goes on.
    let there = elsewhere(&gateway).await;
    let restored = gateway.run(&borrowed(&there), &["restore", &copy]).await.ends_with(0);
    assert!(!restored.stdout.contains("FAIL"), "{}", restored.stdout);
    let taken = files(std::path::Path::new(&there[0].1));
    for (ours, taken) in [&key, &previous].into_iter().zip(&taken) {
        assert_eq!(std::fs::read(ours).expect("a key"), std::fs::read(taken).expect("a key"));
    }
    let rotated = gateway.run(&borrowed(&there), &["master-key", "rotate"]).await.ends_with(0);
    assert!(rotated.stdout.contains("the old one may go"), "{}", rotated.stdout);
    std::fs::remove_file(&taken[1]).expect("removed");
    well(&gateway, &borrowed(&there), &["--full"]).await;

    // Without one of them it would be a backup that does not open.
    std::fs::remove_file(&previous).expect("removed");
    let another = gateway.directory().join("another").display().to_string();
    let refused = gateway.run(&[], &["backup", "--with-master-key", &another]).await.ends_with(1);
    assert!(refused.stderr.contains("opens with master key mk_"), "{}", refused.stderr);
    assert!(!std::path::Path::new(&another).exists());
    assert!(!std::path::Path::new(&another).with_extension("draft").exists());
}
