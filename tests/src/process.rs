//! One server process: started, listened to, and gone when it is dropped.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::disk;
use crate::program::program;
use crate::setup::Cluster;
use crate::waiting::PATIENCE;

/// How much of its log is shown when a test fails.
const LOG_SHOWN: usize = 6000;

/// A server that was started. Its log is a file beside its data directory.
pub(crate) struct Process {
    pub(crate) child: Child,
    // Kept open: a server that prints into a closed pipe would fail.
    stdout: Lines<BufReader<ChildStdout>>,
    pub(crate) printed: String,
    pub(crate) url: String,
    log: PathBuf,
}

impl Process {
    /// Starts a server with settings of its own, and waits until it listens.
    pub(crate) async fn start(
        cluster: &Cluster,
        data_dir: &Path,
        listen: &str,
        own: &[(&str, &str)],
    ) -> Process {
        let log = data_dir.with_extension("log");
        let file =
            std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        let directory = cluster.storage.directory();
        let mut program = match cluster.disk {
            None => program("wakepost", directory),
            Some(size) => disk::program_on(size, "wakepost", directory, data_dir),
        };
        let mut child = program
            .args(["serve", "--listen", listen])
            .envs(cluster.environment(data_dir))
            .envs(own.iter().copied())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .expect("wakepost starts");
        let stdout = child.stdout.take().expect("its output");
        let mut process = Process {
            child,
            stdout: BufReader::new(stdout).lines(),
            printed: String::new(),
            url: String::new(),
            log,
        };
        tokio::time::timeout(PATIENCE, process.ready()).await.expect("wakepost listens in time");
        process
    }

    async fn ready(&mut self) {
        loop {
            let line = self.stdout.next_line().await.expect("its output");
            let Some(line) = line else {
                panic!("wakepost did not start: {}", self.logged());
            };
            if let Some(url) = line.strip_prefix("listening on ") {
                url.clone_into(&mut self.url);
                return;
            }
            self.printed.push_str(&line);
            self.printed.push('\n');
        }
    }

    pub(crate) fn logged(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.logged();
            let start = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN));
            eprintln!("--- the end of {}:\n{}", self.log.display(), &log[start..]);
        }
    }
}
