//! A gateway: one process, or several on one database.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::Arc;

use http::Method;
use rustix::process::Signal;
use wakepost_providers::SignedRequest;

use crate::api::Api;
use crate::database::Database;
use crate::http::Answer;
use crate::process::Process;
use crate::program::{Ran, wakepost};
use crate::setup::{Cluster, Setup};
use crate::signals::{freeze, signal};
use crate::source::{Event, Source};
use crate::waiting::PATIENCE;
use crate::worker::Worker;

/// A port that nobody has.
const ANYWHERE: &str = "127.0.0.1:0";
/// Says what happens at which failpoint.
pub(crate) const FAILPOINTS: &str = "WAKEPOST_FAILPOINTS";

/// One process of a gateway.
pub struct Gateway {
    // Dropped first: the process ends before its database and its directory go.
    process: Process,
    data_dir: PathBuf,
    cluster: Arc<Cluster>,
}

impl Gateway {
    /// Starts a gateway on a fresh database.
    pub async fn start(database: Database) -> Gateway {
        Gateway::setup(database).start().await
    }

    /// A gateway to be started with more than the usual settings.
    pub fn setup(database: Database) -> Setup {
        Setup::new(database)
    }

    /// Starts a gateway with as many processes as a database can serve: two, on PostgreSQL.
    pub async fn nodes(database: Database) -> Vec<Gateway> {
        let first = Gateway::start(database).await;
        match database {
            Database::Sqlite => vec![first],
            Database::Postgres => vec![first.node().await, first],
        }
    }

    pub(crate) async fn launch(cluster: Arc<Cluster>, own: &[(&str, &str)]) -> Gateway {
        let data_dir = cluster.next_data_dir();
        let process = Process::start(&cluster, &data_dir, ANYWHERE, own).await;
        Gateway { process, data_dir, cluster }
    }

    /// Starts a further process on the same database.
    pub async fn node(&self) -> Gateway {
        self.node_with(&[]).await
    }

    /// The same with settings of its own, which it keeps until it is restarted.
    pub async fn node_with(&self, own: &[(&str, &str)]) -> Gateway {
        assert!(self.cluster.storage.url().is_some(), "SQLite serves one process");
        Gateway::launch(self.cluster.clone(), own).await
    }

    /// Where it listens, such as `http://127.0.0.1:1234`.
    pub fn url(&self) -> &str {
        &self.process.url
    }

    /// The directory of this test.
    pub fn directory(&self) -> &Path {
        self.cluster.storage.directory()
    }

    /// The data directory of this process.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The database's URL, on PostgreSQL.
    pub fn database_url(&self) -> Option<&str> {
        self.cluster.storage.url()
    }

    /// Runs `wakepost` to its end, with the settings of this process and further ones.
    pub async fn run(&self, further: &[(&str, &str)], args: &[&str]) -> Ran {
        let mut environment = self.cluster.environment(&self.data_dir);
        environment.extend(further);
        wakepost(self.directory(), &environment, args).await
    }

    /// Takes the database away: connections are cut, and no new ones are let in.
    pub async fn lose_database(&self) {
        self.cluster.storage.lose().await;
    }

    /// Makes the database read-only for all who connect from now on, and cuts those who are connected.
    pub async fn make_database_read_only(&self) {
        self.cluster.storage.read_only(true).await;
        self.cluster.storage.cut().await;
    }

    /// Makes the database writable for all who connect from now on; those who are connected stay.
    pub async fn make_database_writable(&self) {
        self.cluster.storage.read_only(false).await;
    }

    /// Gives the database back.
    pub async fn regain_database(&self) {
        self.cluster.storage.regain().await;
    }

    /// Runs a statement on the gateway's database, behind its back.
    pub async fn execute(&self, statement: &str) {
        self.cluster.storage.execute(&self.data_dir, statement).await;
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.process.child.id().expect("the process lives")
    }

    /// What it printed before it was ready.
    pub fn printed(&self) -> &str {
        &self.process.printed
    }

    /// What it logged.
    pub fn logged(&self) -> String {
        self.process.logged()
    }

    /// The first admin key.
    pub fn admin_key(&self) -> &str {
        &self.cluster.admin_key
    }

    /// The master key.
    pub fn master_key(&self) -> &str {
        &self.cluster.master_key
    }

    /// A caller with the first admin key, which reaches all tenants.
    pub fn admin(&self) -> Api {
        let key = Some(self.cluster.admin_key.as_str());
        Api::new(self.cluster.http.clone(), &self.process.url, key)
    }

    /// A client of the Rust SDK with the first admin key.
    pub fn client(&self) -> wakepost_client::Client {
        wakepost_client::Client::new(self.url(), &self.cluster.admin_key).expect("a client")
    }

    /// A worker with the first admin key.
    pub fn worker(&self, name: &str) -> Worker {
        Worker::new(&self.admin(), name)
    }

    /// Makes a source of the default tenant that is ready to receive.
    pub async fn with_source(&self, provider: &str) -> Source {
        self.admin().source(provider).await
    }

    /// Sends an event as its provider would.
    pub async fn send(&self, source: &Source, event: &Event) -> Answer {
        self.send_request(&source.sign(event)).await
    }

    /// Sends an event; an error is what a provider sees when the server dies.
    pub async fn try_send(&self, source: &Source, event: &Event) -> Result<Answer, String> {
        self.try_send_request(&source.sign(event)).await
    }

    /// Sends a request as it is.
    pub async fn send_request(&self, request: &SignedRequest) -> Answer {
        self.try_send_request(request)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", request.url))
    }

    async fn try_send_request(&self, request: &SignedRequest) -> Result<Answer, String> {
        let url = format!("{}{}", self.process.url, request.url);
        let (method, headers) = (request.method.clone(), request.headers.clone());
        let http = &self.cluster.http;
        http.try_send(method, &url, headers, request.body.clone()).await
    }

    /// Any request without a body to a path outside the API.
    pub async fn ask(&self, method: Method, path: &str, headers: http::HeaderMap) -> Answer {
        let url = format!("{}{path}", self.process.url);
        self.cluster.http.send(method, &url, headers, "").await
    }

    /// A request without a key to a path outside the API.
    pub async fn fetch(&self, path: &str) -> Answer {
        let url = format!("{}{path}", self.process.url);
        let http = &self.cluster.http;
        http.send(Method::GET, &url, Default::default(), "").await
    }

    /// A number that only the database knows.
    pub async fn count(&self, query: &str) -> i64 {
        self.cluster.storage.count(&self.data_dir, query).await
    }

    /// Writes all of its database into one file, from which it can be made again.
    pub async fn copy_database(&self, to: &Path) {
        self.cluster.storage.copy(&self.data_dir, to).await;
    }

    /// The texts a query answers.
    pub async fn texts(&self, query: &str) -> Vec<String> {
        self.cluster.storage.texts(&self.data_dir, query).await
    }

    /// Everything that is stored, as bytes: the files, or every row as text.
    pub async fn stored(&self) -> Vec<u8> {
        self.cluster.storage.contents(&self.data_dir).await
    }

    /// Ends the process as the kernel would, and sees it gone.
    pub async fn kill(&mut self) {
        signal(&self.process.child, Signal::KILL);
        self.ended().await;
    }

    /// Sends the signal that nobody survives, and does not wait.
    pub fn signal_kill(&self) {
        signal(&self.process.child, Signal::KILL);
    }

    /// Stops the process where it stands: it lives, but nothing happens.
    pub async fn pause(&self) {
        freeze(&self.process.child).await;
    }

    /// Lets a paused process go on.
    pub fn resume(&self) {
        signal(&self.process.child, Signal::CONT);
    }

    /// Asks the process to stop.
    pub fn terminate(&self) {
        signal(&self.process.child, Signal::TERM);
    }

    /// Waits until the process has ended by itself.
    pub async fn ended(&mut self) -> ExitStatus {
        tokio::time::timeout(PATIENCE, self.process.child.wait())
            .await
            .expect("the process ends")
            .expect("its status")
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.process.child.try_wait().expect("its status").is_some()
    }

    /// Kills the process if it lives, and starts it again, without failpoints.
    pub async fn restart(&mut self) {
        self.restart_with("").await;
    }

    /// As [`Gateway::restart`], with failpoints.
    pub async fn restart_with(&mut self, failpoints: &str) {
        if self.process.child.id().is_some() {
            self.kill().await;
        }
        let own = [(FAILPOINTS, failpoints)];
        self.process = Process::start(&self.cluster, &self.data_dir, ANYWHERE, &own).await;
    }

    /// Starts the process again after its end, where it listened before.
    pub async fn start_again_there(&mut self) {
        let there = self.url().trim_start_matches("http://").to_owned();
        self.process = Process::start(&self.cluster, &self.data_dir, &there, &[]).await;
    }
}
