//! Databases of earlier releases: each kept in a few small files with what its clients were told, and put where a gateway
//! finds it.
//!
//! Nothing of it may depend on how old the files are. What lay ahead when the server was killed lies as far ahead when
//! it is put back; what was over stays over, and so does what would have been over soon.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;
use wakepost_domain::Timestamp;

use crate::database::Database;
use crate::gateway::Gateway;
use crate::setup::Prepared;
use crate::source::now;

/// Where the migrations are.
const MIGRATIONS: &str = "crates/store/migrations";
/// The list of a release's.
const SUMS: &str = "migrations.sha256";
/// What fell due within this time after the kill is due when the data is put back.
const SOON_MS: i64 = 30 * 60 * 1000;
/// What lies further ahead is no moment, but "for ever".
const EVER_MS: i64 = 20 * 366 * 24 * 3600 * 1000;
/// More than any fixture unpacks to.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Moments that may lie ahead, by table: the columns of v0.1.0. A column that a later release adds joins them when a
/// fixture of that release does.
const AHEAD: [(&str, &str); 16] = [
    ("dedup_keys", "expires_at"),
    ("threads", "expires_at"),
    ("sequences", "expires_at"),
    ("idempotency", "expires_at"),
    ("work", "run_at"),
    ("work", "lease_expires_at"),
    ("work", "run_deadline"),
    ("effects", "expires_at"),
    ("effects", "undecided_until"),
    ("schedules", "next_at"),
    ("lanes", "shut_until"),
    ("webhooks", "due_at"),
    ("source_states", "expires_at"),
    ("source_states", "renew_at"),
    ("operations", "busy_until"),
    ("turns", "free_at"),
];

/// A database as a release left it.
pub struct Past {
    directory: PathBuf,
    database: Database,
}

impl Past {
    /// Of a release, such as `v0.1.0`.
    pub fn of(release: &str, database: Database) -> Past {
        Past { directory: Past::directory(release), database }
    }

    /// Where everything of a release is.
    pub fn directory(release: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(release)
    }

    /// What clients were told by the server that made it.
    pub fn told(&self) -> Value {
        let told = read(&self.file("told.json.gz"));
        serde_json::from_slice(&told).expect("JSON")
    }

    /// The master key that opens it. It is for tests, and everybody may know it.
    pub fn master_key(&self) -> String {
        let path = self.file("test-only.master.key");
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Keeps the database of a gateway that was killed.
    pub async fn keep(&self, gateway: &Gateway, told: &Value) {
        let parent = self.file("told.json.gz");
        std::fs::create_dir_all(parent.parent().expect("a directory")).expect("a directory");
        write(&self.file("told.json.gz"), &serde_json::to_vec_pretty(told).expect("JSON"));
        let (name, copy) = self.data();
        let taken = gateway.directory().join(copy);
        gateway.copy_database(&taken).await;
        write(&self.file(name), &std::fs::read(&taken).expect("the copy"));
        let key = self.file("test-only.master.key");
        std::fs::write(key, gateway.master_key()).expect("the key");
    }

    /// Puts it where a gateway finds it, with the master key beside it. Where the old server was told to send
    /// things to its `receiver`, this one is told to send them to another.
    pub async fn put(&self, prepared: &Prepared, receiver: &str) {
        let (name, copy) = self.data();
        let bytes = read(&self.file(name));
        std::fs::create_dir_all(prepared.data_dir()).expect("a data directory");
        std::fs::write(prepared.data_dir().join("master.key"), self.master_key()).expect("a key");
        match self.database {
            Database::Sqlite => {
                std::fs::write(prepared.data_dir().join(copy), bytes).expect("the database");
            }
            Database::Postgres => {
                let dump = String::from_utf8(bytes).expect("SQL");
                prepared.execute(&dump).await;
            }
        }
        let told = self.told();
        self.move_ahead(prepared, &told).await;
        let theirs = told["receiver"].as_str().expect("an address");
        for table in ["sources", "webhooks"] {
            let config = format!("config = replace(config, '{theirs}', '{receiver}')");
            prepared.execute(&format!("UPDATE {table} SET {config}")).await;
        }
    }

    async fn move_ahead(&self, prepared: &Prepared, told: &Value) {
        let then = moment(&told["killed_at"]);
        let passed = now().since(then);
        let start = then.as_millis();
        let (soon, ever) = (start + SOON_MS, start + EVER_MS);
        let by = i64::try_from(passed.as_millis()).expect("a time this side of the end");
        for (table, column) in AHEAD {
            let due = format!("{column} > {start} AND {column} <= {soon}");
            prepared.execute(&format!("UPDATE {table} SET {column} = {start} WHERE {due}")).await;
            let ahead = format!("{column} > {soon} AND {column} < {ever}");
            let moved = format!("{column} = {column} + {by}");
            prepared.execute(&format!("UPDATE {table} SET {moved} WHERE {ahead}")).await;
        }
        // Circuits know their own moments.
        let circuits = "SELECT circuit FROM webhooks WHERE circuit LIKE '%open_until\":\"%'";
        for text in prepared.texts(circuits).await {
            let mut circuit: Value = serde_json::from_str(&text).expect("JSON");
            for name in ["opened_at", "first_opened_at", "open_until"] {
                if circuit[name].is_string() {
                    circuit[name] = moment(&circuit[name]).after(passed).to_string().into();
                }
            }
            let (old, new) = (quoted(&text), quoted(&circuit.to_string()));
            let set = format!("UPDATE webhooks SET circuit = {new} WHERE circuit = {old}");
            prepared.execute(&set).await;
        }
    }

    /// The name of the kept data, and of what it is when unpacked.
    fn data(&self) -> (&'static str, &'static str) {
        match self.database {
            Database::Sqlite => ("wakepost.db.gz", "wakepost.db"),
            Database::Postgres => ("wakepost.sql.gz", "wakepost.sql"),
        }
    }

    /// The migrations of a release, as [`migrations`] says them, by the list that `sha256sum -c` takes.
    pub fn migrations(release: &str) -> BTreeMap<String, String> {
        let path = Past::directory(release).join(SUMS);
        let list = std::fs::read_to_string(&path);
        let list = list.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines = list.lines().map(|line| line.split_once("  ").expect("a sum and a path"));
        lines.map(|(sum, path)| (path.to_owned(), sum.to_owned())).collect()
    }

    /// Keeps what the migrations are.
    pub fn keep_migrations(release: &str) {
        let lines = migrations().into_iter().map(|(path, sum)| format!("{sum}  {path}\n"));
        let list: String = lines.collect();
        std::fs::write(Past::directory(release).join(SUMS), list).expect("the list");
    }

    fn file(&self, name: &str) -> PathBuf {
        let database = match self.database {
            Database::Sqlite => "sqlite",
            Database::Postgres => "postgres",
        };
        self.directory.join(database).join(name)
    }
}

/// What the migrations are now: of each file its path in the repository and its SHA-256.
pub fn migrations() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut sums = BTreeMap::new();
    for database in ["postgres", "sqlite"] {
        let directory = format!("{MIGRATIONS}/{database}");
        for entry in std::fs::read_dir(root.join(&directory)).expect("the migrations") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().into_string().expect("a plain name");
            let bytes = std::fs::read(entry.path()).expect("a migration");
            sums.insert(format!("{directory}/{name}"), hex::encode(digest(&SHA256, &bytes)));
        }
    }
    sums
}

fn moment(value: &Value) -> Timestamp {
    value.as_str().expect("a time").parse().expect("a time")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn read(path: &Path) -> Vec<u8> {
    let file = std::fs::File::open(path);
    let file = file.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    GzDecoder::new(file).take(BYTES_MAX).read_to_end(&mut bytes).expect("a packed file");
    bytes
}

fn write(path: &Path, bytes: &[u8]) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes).expect("memory");
    std::fs::write(path, packed.finish().expect("memory")).expect("a file");
}
