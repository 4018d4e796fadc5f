//! What a gateway is made of before it runs: settings, a directory, an empty database.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::database::{Database, Storage};
use crate::gateway::{FAILPOINTS, Gateway};
use crate::http::Http;
use crate::program::{Ran, random_text, wakepost};

/// What a gateway is started with.
#[derive(Debug, Clone)]
pub struct Setup {
    database: Database,
    settings: Vec<(String, String)>,
    file: Option<String>,
    failpoints: String,
    server: Option<String>,
    disk: Option<&'static str>,
}

impl Setup {
    pub(crate) fn new(database: Database) -> Setup {
        Setup {
            database,
            settings: Vec::new(),
            file: None,
            failpoints: String::new(),
            server: None,
            disk: None,
        }
    }

    /// On this PostgreSQL server, and not on that of all tests.
    pub fn server(mut self, url: &str) -> Setup {
        self.server = Some(url.to_owned());
        self
    }

    /// With its data directory on a disk of its own, in memory, of this size. It is gone with the process.
    pub fn disk(mut self, size: &'static str) -> Setup {
        self.disk = Some(size);
        self
    }

    /// With a setting of the environment.
    pub fn setting(mut self, name: &str, value: &str) -> Setup {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With this `wakepost.toml`. `DIRECTORY` in it stands for the test's own directory. A command in it that
    /// goes on and on must end when the file is gone: nobody else ends it if the server is killed.
    pub fn file(mut self, text: &str) -> Setup {
        self.file = Some(text.to_owned());
        self
    }

    /// With failpoints in the first process.
    pub fn failpoints(mut self, text: &str) -> Setup {
        text.clone_into(&mut self.failpoints);
        self
    }

    /// Starts it.
    pub async fn start(self) -> Gateway {
        self.prepare().await.start().await
    }

    /// Makes everything but the process.
    pub async fn prepare(self) -> Prepared {
        let storage = Storage::new(self.database, self.server).await;
        if let Some(text) = &self.file {
            let directory = storage.directory().display().to_string();
            let text = text.replace("DIRECTORY", &directory);
            std::fs::write(storage.directory().join("wakepost.toml"), text).expect("a file");
        }
        let cluster = Cluster {
            storage,
            admin_key: format!("admin-{}", random_text(40)),
            master_key: random_master_key(),
            settings: self.settings,
            disk: self.disk,
            http: Http::default(),
            nodes: AtomicUsize::new(0),
        };
        Prepared { cluster: Arc::new(cluster), failpoints: self.failpoints }
    }
}

/// A gateway that was never started: a directory, an empty database, and settings.
pub struct Prepared {
    cluster: Arc<Cluster>,
    failpoints: String,
}

impl Prepared {
    /// Runs `wakepost` to its end, with the settings the gateway will have.
    pub async fn run(&self, args: &[&str]) -> Ran {
        self.run_with(&[], args).await
    }

    /// As [`Prepared::run`], with further settings.
    pub async fn run_with(&self, further: &[(&str, &str)], args: &[&str]) -> Ran {
        let data_dir = self.cluster.data_dir(0);
        let mut environment = self.cluster.environment(&data_dir);
        environment.extend(further);
        wakepost(self.cluster.storage.directory(), &environment, args).await
    }

    /// The data directory of the process it starts with.
    pub fn data_dir(&self) -> PathBuf {
        self.cluster.data_dir(0)
    }

    /// Runs statements on its database.
    pub async fn execute(&self, statements: &str) {
        self.cluster.storage.execute(&self.data_dir(), statements).await;
    }

    /// The texts a query answers.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        self.cluster.storage.texts(&self.data_dir(), query).await
    }

    /// Everything that is stored, as bytes: the files, or every row as text.
    pub async fn stored(&self) -> Vec<u8> {
        self.cluster.storage.contents(&self.data_dir()).await
    }

    /// Starts it.
    pub async fn start(self) -> Gateway {
        let own = [(FAILPOINTS, self.failpoints.as_str())];
        Gateway::launch(self.cluster, &own).await
    }

    /// The same with settings of its own, which it keeps until it is restarted, in place of failpoints.
    pub async fn start_with(self, own: &[(&str, &str)]) -> Gateway {
        Gateway::launch(self.cluster, own).await
    }
}

/// A master key that nobody else has.
pub fn random_master_key() -> String {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).expect("random bytes");
    STANDARD.encode(bytes)
}

/// What the nodes of one gateway share.
pub(crate) struct Cluster {
    pub(crate) storage: Storage,
    pub(crate) admin_key: String,
    pub(crate) master_key: String,
    settings: Vec<(String, String)>,
    pub(crate) disk: Option<&'static str>,
    pub(crate) http: Http,
    nodes: AtomicUsize,
}

impl Cluster {
    /// The data directory of the process that is started next.
    pub(crate) fn next_data_dir(&self) -> PathBuf {
        self.data_dir(self.nodes.fetch_add(1, Ordering::Relaxed))
    }

    fn data_dir(&self, node: usize) -> PathBuf {
        self.storage.directory().join(format!("data-{node}"))
    }

    /// The settings of a process, as its environment.
    pub(crate) fn environment<'a>(&'a self, data_dir: &'a Path) -> Vec<(&'a str, &'a str)> {
        let mut environment = vec![
            ("WAKEPOST_ADMIN_KEY", self.admin_key.as_str()),
            ("WAKEPOST_MASTER_KEY", self.master_key.as_str()),
            ("WAKEPOST_DATA_DIR", data_dir.to_str().expect("a plain path")),
            ("WAKEPOST_SHUTDOWN_GRACE_S", "5"),
        ];
        environment.extend(self.storage.url().map(|url| ("DATABASE_URL", url)));
        let own = self.settings.iter();
        environment.extend(own.map(|(name, value)| (name.as_str(), value.as_str())));
        environment
    }
}
