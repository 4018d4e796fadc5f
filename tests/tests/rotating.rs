//! Rotating the master key: under load, killed in the middle, and gone on with; nobody notices.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use wakepost_tests::{Act, Database, Gateway, Source, on_both, random_master_key, wakepost};

on_both!(
    a_rotation_under_load_that_is_killed_goes_on_and_every_body_opens,
    what_derives_from_the_server_outlives_a_rotation,
    the_new_key_may_be_named_by_a_file_or_a_command,
);

/// More than two steps of a rotation.
const TENANTS: usize = 45;

/// Files of keys that a test turns by hand.
struct Files(tempfile::TempDir);

impl Files {
    fn new(current: &str, previous: &str) -> Files {
        let files = Files(tempfile::tempdir().expect("a directory"));
        files.write("previous", previous);
        files.write("current", current);
        files
    }

    fn write(&self, name: &str, text: &str) {
        let draft = self.0.path().join("draft");
        std::fs::write(&draft, text).expect("a file");
        std::fs::rename(draft, self.0.path().join(name)).expect("in its place");
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    async fn start(&self, database: Database) -> Gateway {
        Gateway::setup(database)
            .setting("WAKEPOST_MASTER_KEY", "")
            .setting("WAKEPOST_MASTER_KEY_FILE", &self.path("current"))
            .setting("WAKEPOST_MASTER_KEY_PREVIOUS_FILE", &self.path("previous"))
            .start()
            .await
    }
}

async fn counts(gateway: &Gateway) -> Vec<Value> {
    let status = gateway.run(&[], &["master-key", "status", "--json"]).await.ends_with(0);
    status.json().as_array().expect("rows").clone()
}

async fn a_rotation_under_load_that_is_killed_goes_on_and_every_body_opens(database: Database) {
    let (old, new) = (random_master_key(), random_master_key());
    let files = Files::new(&old, &new);
    let mut gateway = files.start(database).await;
    let second = match database {
        Database::Sqlite => None,
        Database::Postgres => Some(gateway.node().await),
    };
    let mut sources: Vec<(String, Source)> = Vec::new();
    for turn in 0..TENANTS {
        let slug = format!("tenant-{turn}");
        let tenant = json!({"slug": slug, "name": slug});
        gateway.admin().post("/tenants", tenant).await.is(201);
        sources.push((slug.clone(), gateway.admin().of_tenant(&slug).source("github").await));
    }
    files.write("previous", &format!("{new}\n{old}"));
    files.write("current", &new);

    let done = AtomicBool::new(false);
    let load = async {
        let mut told = Vec::new();
        let nodes: Vec<&Gateway> = std::iter::once(&gateway).chain(second.as_ref()).collect();
        while !done.load(Ordering::Relaxed) || told.len() < TENANTS {
            let turn = told.len();
            let (slug, source) = &sources[turn % TENANTS];
            let event = source.event(&format!("event-{turn}"));
            let sent = nodes[turn % nodes.len()].send(source, &event).await.is(202);
            told.push((slug.clone(), sent.text("event_id"), event.body));
        }
        told
    };
    let rotation = async {
        // In the second step: what the first did stays done.
        for act in Act::tried(Act::Kill) {
            let (nth, code) = match act {
                Act::Kill => (30, None),
                Act::Error => (1, Some(1)),
                Act::Delay => (1, Some(0)),
            };
            let failpoint = act.at("rotation.mid_batch", nth);
            let failpoint = [("WAKEPOST_FAILPOINTS", failpoint.as_str())];
            let ran = gateway.run(&failpoint, &["master-key", "rotate"]).await;
            assert_eq!(ran.code, code, "{act:?}: {}", ran.stderr);
            let both = counts(&gateway).await;
            let mixed = both.iter().all(|row| row["data_keys"].as_i64() > Some(0));
            assert!(mixed || act == Act::Delay, "{act:?}: {both:?}");
        }
        let went_on = gateway.run(&[], &["master-key", "rotate"]).await.ends_with(0);
        assert!(went_on.stdout.contains("the old one may go"), "{}", went_on.stdout);
        done.store(true, Ordering::Relaxed);
    };
    let (told, ()) = tokio::join!(load, rotation);
    let after = counts(&gateway).await;
    assert!(after.iter().all(|row| row["role"] == "current" || row["data_keys"] == 0), "{after:?}");

    // The old key is gone for good.
    files.write("previous", &new);
    drop(second);
    gateway.restart().await;
    for (slug, event, body) in &told {
        let api = gateway.admin().of_tenant(slug);
        let raw = api.get(&format!("/inbox/{event}/raw")).await.is(200);
        assert_eq!(&raw.body[..], &body[..], "{event} of {slug}");
    }
    gateway.kill().await;
    files.write("current", &old);
    files.write("previous", &old);
    let refused = gateway.run(&[], &["serve", "--listen", "127.0.0.1:0"]).await.ends_with(1);
    assert!(refused.stderr.contains("wrapped by master key mk_"), "{}", refused.stderr);
    for secret in [&old, &new] {
        assert!(!gateway.logged().contains(secret) && !refused.stderr.contains(secret));
    }
}

async fn what_derives_from_the_server_outlives_a_rotation(database: Database) {
    let (old, new) = (random_master_key(), random_master_key());
    let files = Files::new(&old, &old);
    let mut gateway = files.start(database).await;
    gateway.admin().job().await;
    let lease = gateway.worker("w").wait().await;
    let portal = json!({"expires_s": 600});
    let portal = gateway.admin().post("/portal-links", portal).await.is(201).text("url");
    let (_, portal) = portal.split_once("/p/").expect("a link");
    files.write("current", &new);
    gateway.run(&[], &["master-key", "rotate"]).await.ends_with(0);
    files.write("previous", &new);
    gateway.restart().await;
    lease.through(&gateway.admin()).complete(json!("done")).await.is(200);
    gateway.fetch(&format!("/p/{portal}")).await.is(200);
}

async fn the_new_key_may_be_named_by_a_file_or_a_command(database: Database) {
    let (first, second, third) = (random_master_key(), random_master_key(), random_master_key());
    // Nodes that run know the new keys already, as previous ones.
    let files = Files::new(&first, &format!("{second}\n{third}"));
    files.write("second", &format!("{second}\n"));
    files.write("third", &third);
    let mut gateway = files.start(database).await;
    let source = gateway.with_source("github").await;
    let event = source.event("e-1");
    let id = gateway.send(&source, &event).await.is(202).text("event_id");
    let all_by = async |key: &str| {
        let rows = counts(&gateway).await;
        let wrapping: Vec<&Value> = rows.iter().filter(|row| row["data_keys"] != 0).collect();
        assert_eq!(wrapping.len(), 1, "{key}: {rows:?}");
        wrapping[0]["master_key"].as_str().expect("a name").to_owned()
    };
    let before = all_by("first").await;
    let file = files.path("second");
    let command = json!(["cat", files.path("third")]).to_string();
    let mut seen = vec![before];
    for args in [["--new-key-file", &file], ["--new-key-command", &command]] {
        let rotated = gateway.run(&[], &[&["master-key", "rotate"][..], &args].concat()).await;
        let rotated = rotated.ends_with(0);
        let by = all_by(args[0]).await;
        assert!(!seen.contains(&by), "{by} wraps them already");
        assert!(rotated.stdout.contains(&format!("anew by {by}")), "{}", rotated.stdout);
        assert!(rotated.stdout.contains("the old one may go"), "{}", rotated.stdout);
        for key in [&first, &second, &third] {
            assert!(!rotated.stdout.contains(key) && !rotated.stderr.contains(key));
        }
        seen.push(by);
        // The server did not notice.
        let raw = gateway.admin().get(&format!("/inbox/{id}/raw")).await.is(200);
        assert_eq!(&raw.body[..], &event.body[..]);
    }
    // The old keys may go.
    files.write("current", &third);
    files.write("previous", &third);
    gateway.restart().await;
    let raw = gateway.admin().get(&format!("/inbox/{id}/raw")).await.is(200);
    assert_eq!(&raw.body[..], &event.body[..]);

    let both = ["--new-key-file", &file, "--new-key-command", &command];
    let both =
        gateway.run(&[], &[&["master-key", "rotate"][..], &both].concat()).await.ends_with(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
    let (nowhere, rubbish) = (files.path("nowhere"), files.path("rubbish"));
    files.write("rubbish", "hunter2");
    for (args, says) in [
        (["--new-key-file", nowhere.as_str()], "nowhere"),
        (["--new-key-file", rubbish.as_str()], "32 bytes in base64"),
        (["--new-key-command", "cat it"], "must be a list"),
        (["--new-key-command", "[\"sh\", \"-c\", \"echo sealed >&2; exit 3\"]"], "sealed"),
    ] {
        let refused = gateway.run(&[], &[&["master-key", "rotate"][..], &args].concat()).await;
        let refused = refused.ends_with(1);
        assert!(refused.stderr.contains(says), "{args:?}: {}", refused.stderr);
        assert!(!refused.stderr.contains("hunter2"));
    }
    let rows = counts(&gateway).await;
    assert!(rows.iter().all(|row| row["role"] == "current"), "{rows:?}");
}

#[tokio::test]
async fn the_key_of_the_data_directory_is_turned_under_a_running_server_on_sqlite() {
    let setup = Gateway::setup(Database::Sqlite).setting("WAKEPOST_MASTER_KEY", "");
    let mut gateway = setup.start().await;
    let source = gateway.with_source("github").await;
    gateway.send(&source, &source.event("e-1")).await.is(202);
    let key = gateway.data_dir().join("master.key");
    let before = std::fs::read_to_string(&key).expect("a key");
    let turned = gateway.run(&[], &["master-key", "rotate"]).await.ends_with(0);
    assert!(turned.stdout.contains("master.key.previous"), "{}", turned.stdout);
    let previous = gateway.data_dir().join("master.key.previous");
    assert_eq!(std::fs::read_to_string(&previous).expect("the old key"), before);
    assert_ne!(std::fs::read_to_string(&key).expect("a key"), before);
    for path in [&key, &previous] {
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(path).expect("a file").permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
    let again = gateway.run(&[], &["master-key", "rotate"]).await.ends_with(0);
    assert!(again.stdout.contains("wrapped 0 data key(s)"), "{}", again.stdout);
    // Without a restart: a tenant that is new to the server gets a key under the new master key.
    let acme = gateway.admin().tenant("acme").await;
    acme.source("github").await;
    std::fs::remove_file(&previous).expect("removed");
    let rows = counts(&gateway).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    gateway.restart().await;
    gateway.send(&source, &source.event("e-2")).await.is(202);
    let noted = "SELECT count(*) FROM audit WHERE action = 'master_key.rotate'";
    assert_eq!(gateway.count(noted).await, 2);
}

#[tokio::test]
async fn a_command_gives_the_key_and_what_it_complains_of_is_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, key) = (directory.path(), random_master_key());
    std::fs::write(path.join("secret"), &key).expect("a file");
    let serve = |command: &str| {
        let text = format!("master_key_command = {command}\n");
        std::fs::write(path.join("wakepost.toml"), text).expect("settings");
        run_briefly(path)
    };
    let failed = serve("[\"sh\", \"-c\", \"cat secret; echo the vault is sealed >&2; exit 4\"]");
    let failed = failed.await;
    assert!(failed.contains("the vault is sealed"), "{failed}");
    let rubbish = serve("[\"echo\", \"hunter2\"]").await;
    assert!(rubbish.contains("32 bytes in base64") && !rubbish.contains("hunter2"), "{rubbish}");
    let migrated = wakepost(path, &[], &["migrate"]).await.ends_with(0);
    assert!(migrated.stdout.contains("applied"), "{}", migrated.stdout);
    std::fs::write(path.join("wakepost.toml"), "master_key_command = [\"cat\", \"secret\"]\n")
        .expect("settings");
    let status = wakepost(path, &[], &["master-key", "status"]).await.ends_with(0);
    assert!(status.stdout.contains("current"), "{}", status.stdout);
    assert!(!status.stdout.contains(&key) && !failed.contains(&key));
}

/// What a server that must not start says.
async fn run_briefly(directory: &Path) -> String {
    wakepost(directory, &[], &["serve", "--listen", "127.0.0.1:0"]).await.ends_with(1).stderr
}
