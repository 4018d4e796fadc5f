//! A gateway that can be killed: its nodes, and on PostgreSQL the database server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use serde_json::json;
use tempfile::TempDir;
use wakepost_tests::{Api, Http, Source, random_master_key, random_text};
use xtask::postgres::{Durability, Postgres};

use super::node::Node;
use crate::caller::{Caller, Doors};
use crate::options::{Common, Database};

/// Nodes on PostgreSQL; SQLite serves one process.
const NODES: usize = 2;

/// Where a cluster keeps its data.
pub struct Place<'a> {
    /// Logs, and SQLite's data unless there is a disk.
    pub directory: &'a Path,
    /// The disk whose power is cut.
    pub disk: Option<&'a Path>,
}

/// A gateway that can be killed.
pub struct Cluster {
    // Fields drop in this order: servers end before their database.
    nodes: Vec<Node>,
    postgres: Option<Postgres>,
    doors: Arc<Doors>,
    admin_key: String,
    data: PathBuf,
}

impl Cluster {
    /// Starts a gateway on an empty database, with further settings for its nodes.
    pub async fn start(
        common: &Common,
        place: &Place<'_>,
        durability: Durability,
        further: &[(&str, &str)],
    ) -> anyhow::Result<Cluster> {
        let data = place.disk.unwrap_or(place.directory);
        let postgres = match common.database {
            Database::Sqlite => None,
            Database::Postgres => {
                Some(tokio::task::block_in_place(|| Postgres::start_in(data, durability))?)
            }
        };
        let admin_key = format!("admin-{}", random_text(40));
        let master_key = random_master_key();
        let count = if postgres.is_some() { NODES } else { 1 };
        let nodes = (0..count).map(|number| {
            let name = format!("node-{number}");
            let data_dir = data.join(&name).display().to_string();
            let url = postgres.as_ref().map(|postgres| ("DATABASE_URL", postgres.url()));
            let mut settings = vec![
                ("WAKEPOST_ADMIN_KEY", admin_key.clone()),
                ("WAKEPOST_MASTER_KEY", master_key.clone()),
                ("WAKEPOST_DATA_DIR", data_dir),
            ];
            settings.extend(url);
            settings.extend(further.iter().map(|(name, value)| (*name, (*value).to_owned())));
            let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value));
            Node::new(&common.program, settings.collect(), place.directory, &name)
        });
        let nodes: Vec<Node> = nodes.collect();
        let doors = Arc::default();
        let mut cluster = Cluster { nodes, postgres, doors, admin_key, data: data.to_owned() };
        for number in 0..cluster.nodes.len() {
            cluster.start_node(number).await?;
        }
        Ok(cluster)
    }

    /// A client with the admin key.
    pub fn caller(&self) -> Caller {
        self.caller_with(&self.admin_key)
    }

    /// A client with another key.
    pub fn caller_with(&self, key: &str) -> Caller {
        Caller::new(self.doors.clone(), key)
    }

    /// The API of the first node as it runs now, for what is set up before anything is killed.
    pub async fn api(&mut self) -> anyhow::Result<Api> {
        let url = self.nodes[0].listening().await?;
        Ok(Api::new(Http::default(), &url, Some(&self.admin_key)))
    }

    /// Makes the sources that senders use: one whose jobs may be tried often, one whose jobs die soon.
    pub async fn sources(&mut self) -> anyhow::Result<Vec<Source>> {
        let api = self.api().await?;
        let often = json!({"max_attempts": 15, "backoff_s": [1]});
        let seldom = json!({"max_attempts": 2, "backoff_s": [0]});
        Ok(vec![
            api.source_with("stripe", often).await,
            api.source_with("standard-webhooks", seldom).await,
        ])
    }

    /// How many nodes there are.
    pub fn count(&self) -> usize {
        self.nodes.len()
    }

    /// Starts a node that is not running, and lets clients in.
    pub async fn start_node(&mut self, number: usize) -> anyhow::Result<()> {
        self.launch_node(number)?;
        let url = self.nodes[number].listening().await?;
        self.doors.open(number, &url);
        Ok(())
    }

    /// Starts a node and does not wait for it.
    pub fn launch_node(&mut self, number: usize) -> anyhow::Result<()> {
        self.nodes[number].launch()
    }

    /// Kills a node.
    pub fn kill_node(&mut self, number: usize) {
        self.nodes[number].kill();
        self.doors.close(number);
    }

    /// Stops all nodes where they stand.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.nodes.iter().try_for_each(Node::pause)
    }

    /// Ends everything at once; what is not on the disk is not asked for.
    pub fn end(&mut self) -> anyhow::Result<()> {
        for number in 0..self.nodes.len() {
            self.kill_node(number);
        }
        match &mut self.postgres {
            Some(postgres) => tokio::task::block_in_place(|| postgres.quit()),
            None => Ok(()),
        }
    }

    /// Starts everything again after [`Cluster::end`].
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        self.start_postgres()?;
        for number in 0..self.nodes.len() {
            self.start_node(number).await?;
        }
        Ok(())
    }

    /// Kills the database server: its first process alone, or all at once.
    pub fn kill_postgres(&mut self, first_alone: bool) -> anyhow::Result<()> {
        let Some(postgres) = &mut self.postgres else { bail!("SQLite has no server") };
        tokio::task::block_in_place(|| if first_alone { postgres.kill() } else { postgres.quit() })
    }

    /// Starts the database server again, if there is one.
    pub fn start_postgres(&mut self) -> anyhow::Result<()> {
        match &mut self.postgres {
            Some(postgres) => tokio::task::block_in_place(|| postgres.start_again()),
            None => Ok(()),
        }
    }

    /// A node that ended although nobody killed it.
    pub fn fallen(&mut self) -> anyhow::Result<Option<String>> {
        for node in &mut self.nodes {
            if !node.is_alive()? {
                return Ok(Some(node.log_end()));
            }
        }
        Ok(None)
    }

    /// The file of SQLite's database.
    pub fn sqlite_file(&self) -> PathBuf {
        self.data.join("node-0/wakepost.db")
    }

    /// The database's URL, on PostgreSQL.
    pub fn postgres_url(&self) -> Option<String> {
        self.postgres.as_ref().map(Postgres::url)
    }

    /// Ends everything and leaves the data; says where that of PostgreSQL is.
    pub fn keep(mut self) -> anyhow::Result<Option<PathBuf>> {
        self.end()?;
        self.postgres.take().map(Postgres::keep).transpose()
    }
}

/// A directory of this run, open to the account that runs PostgreSQL.
pub fn new_directory() -> anyhow::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("wakepost-crash-").permissions(Permissions::from_mode(0o711));
    Ok(builder.tempdir()?)
}
