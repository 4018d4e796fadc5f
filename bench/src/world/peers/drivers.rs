//! The small programs that drive other queues, and what they need: installed beside this program, never into the source
//! tree, once for each list of versions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use tokio::process::Command;
use tokio::time::timeout;

const DIRECTORY: &str = "bench-peers";
/// Where Python's packages go, within that.
const PACKAGES: &str = "packages";
const INSTALL_TIMEOUT: Duration = Duration::from_secs(300);

const FILES: [(&str, &str); 8] = [
    ("package.json", include_str!("../../../peers/package.json")),
    (Language::Node.list().0, Language::Node.list().1),
    (Language::Python.list().0, Language::Python.list().1),
    ("drain.mjs", include_str!("../../../peers/drain.mjs")),
    ("latency.mjs", include_str!("../../../peers/latency.mjs")),
    ("graphile-worker.mjs", include_str!("../../../peers/graphile-worker.mjs")),
    ("pg-boss.mjs", include_str!("../../../peers/pg-boss.mjs")),
    ("bullmq.mjs", include_str!("../../../peers/bullmq.mjs")),
];
const PYTHON_DRIVER: (&str, &str) =
    ("procrastinate_drain.py", include_str!("../../../peers/procrastinate_drain.py"));

/// What a driver is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Node,
    Python,
}

impl Language {
    /// The list of its packages, in pinned versions.
    const fn list(self) -> (&'static str, &'static str) {
        match self {
            Language::Node => {
                ("package-lock.json", include_str!("../../../peers/package-lock.json"))
            }
            Language::Python => {
                ("requirements.txt", include_str!("../../../peers/requirements.txt"))
            }
        }
    }

    /// Holds the list of what was installed.
    fn installed(self) -> &'static str {
        match self {
            Language::Node => "installed.json",
            Language::Python => "installed.txt",
        }
    }

    /// A driver of a queue, ready to be told what to do. Installs what it needs unless that is there.
    pub async fn driver(self, name: &str) -> anyhow::Result<Command> {
        let directory = self.prepared().await?;
        let mut command = match self {
            Language::Node => Command::new("node"),
            Language::Python => Command::new("python3"),
        };
        match self {
            Language::Node => command.arg(format!("{name}.mjs")),
            Language::Python => command
                .arg(format!("{name}_drain.py"))
                .env("PYTHONPATH", directory.join(PACKAGES))
                .env("PYTHONDONTWRITEBYTECODE", "1"),
        };
        command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
        Ok(command)
    }

    /// Answers where the drivers are.
    async fn prepared(self) -> anyhow::Result<PathBuf> {
        let program = std::env::current_exe()?;
        let directory = program.parent().context("this program has no directory")?.join(DIRECTORY);
        fs::create_dir_all(&directory)?;
        for (name, text) in FILES.into_iter().chain([PYTHON_DRIVER]) {
            fs::write(directory.join(name), text)?;
        }
        let (_, wanted) = self.list();
        let installed = directory.join(self.installed());
        if fs::read_to_string(&installed).is_ok_and(|installed| installed == wanted) {
            return Ok(directory);
        }
        println!("installing the drivers of other queues for {self:?}");
        self.install(&directory).await?;
        fs::write(installed, wanted)?;
        Ok(directory)
    }

    async fn install(self, directory: &Path) -> anyhow::Result<()> {
        let mut command = match self {
            Language::Node => Command::new("npm"),
            Language::Python => Command::new("python3"),
        };
        match self {
            Language::Node => {
                command.args(["ci", "--no-audit", "--no-fund", "--loglevel=error"]);
            }
            Language::Python => {
                // A target of their own needs no rights and leaves the packages of the system alone.
                let target = format!("--target={PACKAGES}");
                command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
                command.args(["--no-deps", "--only-binary=:all:", "--upgrade", &target]);
                command.args(["-r", "requirements.txt"]).env("PIP_ROOT_USER_ACTION", "ignore");
            }
        }
        command.current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
        let program = command.as_std().get_program().to_owned();
        let program = program.display();
        let ended = timeout(INSTALL_TIMEOUT, command.status()).await;
        let status = ended
            .with_context(|| format!("{program} did not end"))?
            .with_context(|| format!("{program} could not be started: is it installed?"))?;
        if !status.success() {
            bail!("{program} could not install them ({status})");
        }
        Ok(())
    }
}
