//! The conformance agents: the same program written with each SDK, as a process.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::gateway::Gateway;
use crate::meeting::Meeting;
use crate::program::{bin_path, in_clean_environment};
use crate::signals::{freeze, signal};
use crate::waiting::PATIENCE;

/// One of our SDKs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sdk {
    /// `crates/client`
    Rust,
    /// `sdks/python`
    Python,
    /// `sdks/typescript`
    TypeScript,
}

impl Sdk {
    /// Its agent, not started yet.
    fn program(self) -> Command {
        match self {
            Sdk::Rust => Command::new(bin_path("examples/conformance_agent")),
            Sdk::Python => {
                let mut python = Command::new("python3");
                python.arg(in_repository("sdks/python/conformance_agent.py"));
                python
            }
            Sdk::TypeScript => {
                let mut node = Command::new("node");
                node.arg(in_repository("sdks/typescript/dist/conformance-agent.js"));
                node
            }
        }
    }
}

fn in_repository(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    assert!(path.exists(), "{} is not there: run this through `cargo xtask test`", path.display());
    path
}

/// An agent that works until it is stopped. It ends with the test.
pub struct Agent {
    child: Child,
    // Kept open: an agent that prints into a closed pipe would fail.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Agent {
    /// Starts an agent, and waits until it asks for jobs.
    pub async fn start(
        sdk: Sdk,
        gateway: &Gateway,
        meeting: &Meeting,
        settings: &[(&str, &str)],
    ) -> Agent {
        let mut command = in_clean_environment(sdk.program(), gateway.directory());
        command
            .env("WAKEPOST_URL", gateway.url())
            .env("WAKEPOST_KEY", gateway.admin_key())
            .env("RECEIVER_URL", meeting.url())
            .env("AGENT_NAME", format!("{sdk:?}").to_lowercase())
            .envs(settings.iter().copied())
            .stdout(Stdio::piped());
        if sdk == Sdk::Python {
            // Bytecode stays out of the source tree.
            command.env("PYTHONDONTWRITEBYTECODE", "1");
        }
        let mut child = command.spawn().expect("the agent starts");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output")).lines();
        let ready = tokio::time::timeout(PATIENCE, stdout.next_line()).await;
        let ready = ready.expect("the agent is ready in time").expect("its output");
        assert_eq!(ready.as_deref(), Some("ready"), "the first line of {sdk:?}'s agent");
        Agent { child, _stdout: stdout }
    }

    /// Ends it as the kernel would, and sees it gone.
    pub async fn kill(mut self) {
        signal(&self.child, Signal::KILL);
        self.ended().await;
    }

    /// Stops it where it stands: it lives, but nothing happens.
    pub async fn pause(&self) {
        freeze(&self.child).await;
    }

    /// Lets it go on.
    pub fn resume(&self) {
        signal(&self.child, Signal::CONT);
    }

    /// Asks it to stop, and waits until it has.
    pub async fn stop(mut self) -> ExitStatus {
        signal(&self.child, Signal::TERM);
        self.ended().await
    }

    /// Asks it to stop, and does not wait.
    pub fn terminate(&self) {
        signal(&self.child, Signal::TERM);
    }

    /// Waits until it has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        let ended = tokio::time::timeout(PATIENCE, self.child.wait()).await;
        ended.expect("the agent ends").expect("its status")
    }
}
