//! Where a gateway keeps its data, for the length of one test.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls};

use crate::program::random_text;
use crate::waiting::PATIENCE;

/// Names the server that databases are made on.
const SERVER: &str = "WAKEPOST_TEST_DATABASE_URL";

/// The name of SQLite's file in a data directory.
const SQLITE_FILE: &str = "wakepost.db";

/// Which database a test runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    /// Embedded, for one process.
    Sqlite,
    /// A server, for many.
    Postgres,
}

/// A directory, and on PostgreSQL a database of its own. Both go when it is dropped.
pub(crate) struct Storage {
    // Dropped first: a server that still lives would otherwise write into a directory that is gone.
    postgres: Option<PostgresDatabase>,
    directory: TempDir,
}

impl Storage {
    /// On PostgreSQL the database is made on `server`, or else on that of all tests.
    pub(crate) async fn new(database: Database, server: Option<String>) -> Storage {
        Storage {
            postgres: match database {
                Database::Sqlite => None,
                Database::Postgres => Some(PostgresDatabase::create(server).await),
            },
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn url(&self) -> Option<&str> {
        self.postgres.as_ref().map(|database| database.url.as_str())
    }

    /// Cuts every connection to the database, and lets none in.
    pub(crate) async fn lose(&self) {
        let PostgresDatabase { server, name, .. } = self.postgres.as_ref().expect("PostgreSQL");
        execute(server, &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS false")).await;
        self.cut().await;
    }

    /// Makes connections from now on read-only ones, or not.
    pub(crate) async fn read_only(&self, on: bool) {
        let PostgresDatabase { server, name, .. } = self.postgres.as_ref().expect("PostgreSQL");
        let set = format!("ALTER DATABASE {name} SET default_transaction_read_only = {on}");
        execute(server, &set).await;
    }

    /// Cuts every connection to the database.
    pub(crate) async fn cut(&self) {
        let PostgresDatabase { server, name, .. } = self.postgres.as_ref().expect("PostgreSQL");
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname";
        execute(server, &format!("{cut} = '{name}'")).await;
    }

    /// Lets connections in again.
    pub(crate) async fn regain(&self) {
        let PostgresDatabase { server, name, .. } = self.postgres.as_ref().expect("PostgreSQL");
        execute(server, &format!("ALTER DATABASE {name} ALLOW_CONNECTIONS true")).await;
    }

    /// Changes the database behind the gateway's back.
    pub(crate) async fn execute(&self, data_dir: &Path, statement: &str) {
        let Some(url) = self.url() else {
            let connection = Connection::open(data_dir.join(SQLITE_FILE)).expect("the database");
            connection.busy_timeout(PATIENCE).expect("a limit");
            return connection
                .execute_batch(statement)
                .unwrap_or_else(|error| panic!("{statement}: {error}"));
        };
        execute(url, statement).await;
    }

    /// The one number a query answers.
    pub(crate) async fn count(&self, data_dir: &Path, query: &str) -> i64 {
        let Some(url) = self.url() else {
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
            let path = data_dir.join(SQLITE_FILE);
            let connection = Connection::open_with_flags(path, flags).expect("the database");
            return connection
                .query_row(query, [], |row| row.get(0))
                .unwrap_or_else(|error| panic!("{query}: {error}"));
        };
        let (client, connection) = connect(url).await;
        let row = client.query_one(query, &[]).await;
        connection.abort();
        row.unwrap_or_else(|error| panic!("{query}: {error}")).get(0)
    }

    /// The texts a query answers.
    pub(crate) async fn texts(&self, data_dir: &Path, query: &str) -> Vec<String> {
        let Some(url) = self.url() else {
            let connection = Connection::open(data_dir.join(SQLITE_FILE)).expect("the database");
            let mut query = connection.prepare(query).expect("a query");
            let rows = query.query_map([], |row| row.get(0)).expect("the rows");
            return rows.map(|row| row.expect("a text")).collect();
        };
        let (client, connection) = connect(url).await;
        let rows = client.query(query, &[]).await;
        connection.abort();
        let rows = rows.unwrap_or_else(|error| panic!("{query}: {error}"));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Writes all of it into one file: SQLite's, without a log, or statements that any PostgreSQL since 15 takes.
    pub(crate) async fn copy(&self, data_dir: &Path, to: &Path) {
        let path = to.to_str().expect("a plain path");
        let Some(url) = self.url() else {
            return self.execute(data_dir, &format!("VACUUM INTO '{path}'")).await;
        };
        let dumped = Command::new("pg_dump")
            .args(["--no-owner", "--inserts", "--rows-per-insert=100", "--dbname", url])
            .output()
            .await
            .expect("pg_dump starts");
        assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
        let dump = String::from_utf8(dumped.stdout).expect("text");
        // What only psql understands, or only its own version.
        let own =
            |line: &&str| !line.starts_with('\\') && !line.starts_with("SET transaction_timeout");
        let plain: Vec<&str> = dump.lines().filter(own).collect();
        std::fs::write(to, plain.join("\n")).expect("a file");
    }

    /// All that is stored: the bytes of SQLite's files, or every row of PostgreSQL's tables as text, in
    /// which bytes are written in hexadecimal digits.
    pub(crate) async fn contents(&self, data_dir: &Path) -> Vec<u8> {
        let Some(url) = self.url() else {
            return files(data_dir);
        };
        let (client, connection) = connect(url).await;
        let tables = "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables \
                      WHERE schemaname NOT IN ('pg_catalog', 'information_schema')";
        let mut contents = Vec::new();
        for table in client.query(tables, &[]).await.expect("the tables") {
            let table: String = table.get(0);
            let rows = format!("SELECT t::text FROM {table} t");
            for row in client.query(&rows, &[]).await.expect("the rows") {
                contents.extend_from_slice(row.get::<_, String>(0).as_bytes());
                contents.push(b'\n');
            }
        }
        connection.abort();
        contents
    }
}

fn files(directory: &Path) -> Vec<u8> {
    let mut contents = Vec::new();
    for entry in std::fs::read_dir(directory).expect("the data directory") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            contents.extend(std::fs::read(&path).expect("a file"));
        }
    }
    contents
}

struct PostgresDatabase {
    server: String,
    name: String,
    url: String,
}

impl PostgresDatabase {
    async fn create(server: Option<String>) -> PostgresDatabase {
        let server = server
            .or_else(|| std::env::var(SERVER).ok())
            .unwrap_or_else(|| panic!("{SERVER} is not set: run this through `cargo xtask test`"));
        let name = format!("wakepost_{}", random_text(12));
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (front, database) = server.rsplit_once('/').expect("the URL names a database");
        // Settings after the name, such as which of several servers is meant.
        let settings = database.find('?').map_or("", |at| &database[at..]);
        PostgresDatabase { url: format!("{front}/{name}{settings}"), name, server }
    }
}

impl Drop for PostgresDatabase {
    fn drop(&mut self) {
        // The test's own runtime may be ending: the last word is said on another.
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropping = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime")
                .block_on(execute(&server, &format!("DROP DATABASE {name} WITH (FORCE)")));
        });
        // A panic here would hide the one that may be under way.
        if dropping.join().is_err() {
            eprintln!("the test database {} is left behind", self.name);
        }
    }
}

async fn connect(url: &str) -> (Client, JoinHandle<()>) {
    let (client, connection) =
        tokio_postgres::connect(url, NoTls).await.expect("the test server answers");
    let connection = tokio::spawn(async move {
        let _ = connection.await;
    });
    (client, connection)
}

async fn execute(server: &str, statement: &str) {
    let (client, connection) = connect(server).await;
    client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    connection.abort();
}
