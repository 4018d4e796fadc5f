//! An older program keeps away from what a newer one wrote: it says so in one sentence, and writes nothing.

use serde_json::Value;
use wakepost_tests::{Database, Gateway, Prepared, on_both};

use super::upgraded::Upgraded;

on_both!(
    an_older_program_refuses_a_newer_schema_and_writes_nothing,
    a_backup_of_a_newer_program_is_refused_and_nothing_changes,
);

/// A schema that no program of today knows.
const NEWER: i64 = 9000;

/// What a newer program would leave in a database's own record of its schema.
fn from_the_future(database: Database) -> String {
    match database {
        Database::Sqlite => format!("PRAGMA user_version = {NEWER}"),
        Database::Postgres => {
            format!("INSERT INTO schema_migrations (version, name) VALUES ({NEWER}, 'future')")
        }
    }
}

/// All data: every row, or SQLite's file and its log.
async fn data(prepared: &Prepared, database: Database) -> Vec<u8> {
    if database == Database::Postgres {
        return prepared.stored().await;
    }
    let file = |name: &str| std::fs::read(prepared.data_dir().join(name)).unwrap_or_default();
    [file("wakepost.db"), file("wakepost.db-wal")].concat()
}

#[track_caller]
fn is_clear(said: &str) {
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("schema")).collect();
    assert_eq!(lines.len(), 1, "one sentence: {said}");
    let version = env!("CARGO_PKG_VERSION");
    for word in [
        &format!("has schema {NEWER}"),
        "made by a newer wakepost",
        &format!("this is wakepost {version}, which knows schemas up to"),
        "start the newer program",
        "restore the backup from before the upgrade",
    ] {
        assert!(lines[0].contains(word), "{word:?} in {said}");
    }
}

async fn an_older_program_refuses_a_newer_schema_and_writes_nothing(database: Database) {
    let (prepared, _receiver, _) = Upgraded::prepare(database).await;
    prepared.run(&["migrate"]).await.ends_with(0);
    prepared.execute(&from_the_future(database)).await;
    let before = data(&prepared, database).await;
    let backup = prepared.data_dir().with_file_name("backup").display().to_string();
    for command in [
        &["serve", "--listen", "127.0.0.1:0"][..],
        &["migrate", "--check"],
        &["migrate"],
        &["doctor"],
        &["backup", &backup],
        &["master-key", "status"],
    ] {
        let ran = prepared.run(command).await.ends_with(1);
        is_clear(&format!("{}{}", ran.stdout, ran.stderr));
        assert!(data(&prepared, database).await == before, "{command:?} wrote something");
    }
    assert!(!std::path::Path::new(&backup).exists(), "there is no half a backup");
}

async fn a_backup_of_a_newer_program_is_refused_and_nothing_changes(database: Database) {
    let mut gateway = Gateway::start(database).await;
    let copy = gateway.directory().join("backup");
    let path = copy.display().to_string();
    gateway.run(&[], &["backup", &path]).await.ends_with(0);
    let manifest = copy.join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let mut about: Value = serde_json::from_str(&text).expect("JSON");
    about["schema"] = NEWER.into();
    std::fs::write(&manifest, about.to_string()).expect("written");
    gateway.kill().await;
    let jobs = gateway.count("SELECT count(*) FROM tenants").await;
    let refused = gateway.run(&[], &["restore", "--force", &path]).await.ends_with(1);
    assert!(!refused.stdout.contains("what was there is in"), "{}", refused.stdout);
    let said = refused.stderr;
    assert!(said.contains(&format!("the backup has schema {NEWER}")), "{said}");
    assert!(said.contains("restore it with the program that made it"), "{said}");
    assert_eq!(gateway.count("SELECT count(*) FROM tenants").await, jobs);
    gateway.restart().await;
}
