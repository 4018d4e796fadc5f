//! `cargo xtask newcomer`: the way of somebody who has just found the README, with its commands as they stand there.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use xtask::process::{self, cargo};
use xtask::workspace;

/// How long any command may take after the build; ten seconds are usual.
const COMMAND_TIME_MAX: Duration = Duration::from_secs(60);

/// What the README tells newcomers to clone. Here it is this repository.
const REPOSITORY: &str = "https://github.com/wakepost/wakepost";

/// The two commands from nothing to an event that was answered.
const FIRST_COMMANDS: usize = 2;

/// Follow the README from a fresh clone to the first event that is answered.
///
/// What is committed is cloned and built in a temporary directory; then the README's own commands are run, and timed.
#[derive(clap::Args)]
pub struct Newcomer {
    /// Build into this directory, to build less
    #[arg(long, value_name = "DIR")]
    target_dir: Option<PathBuf>,
    /// Use a debug build, which is built faster
    #[arg(long)]
    debug: bool,
}

/// Where the commands are run, and with which build.
struct Place {
    directory: PathBuf,
    target: PathBuf,
    release: bool,
}

impl Place {
    /// The README's command, on this build.
    fn here(&self, command: &str) -> String {
        let built = self.target.display();
        if self.release {
            return command.replace("target/release/", &format!("{built}/release/"));
        }
        command.replace(" --release", "").replace("target/release/", &format!("{built}/debug/"))
    }

    /// A shell that is to run the README's command here.
    fn shell(&self, command: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", &self.here(command)]).current_dir(&self.directory);
        // Nothing of this machine's own set-up; and `cargo run` sets some that build scripts would notice.
        let others = ["WAKEPOST_", "DATABASE_URL", "CARGO_PKG_", "CARGO_MANIFEST_"];
        for (name, _) in std::env::vars_os() {
            if others.iter().any(|start| name.to_string_lossy().starts_with(start)) {
                shell.env_remove(name);
            }
        }
        shell.env("CARGO_TARGET_DIR", &self.target);
        shell
    }
}

impl Newcomer {
    /// Clones, builds, and follows the README.
    pub fn run(self) -> anyhow::Result<()> {
        let temporary = tempfile::tempdir().context("making a temporary directory")?;
        let readme = readme(workspace::root())?;
        let commands = commands(&readme, "See it");
        let clone = commands.first().context("the README has no first command")?;
        ensure!(clone.contains(REPOSITORY), "the first command clones something else: {clone}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{clone} >&2 && pwd")]).current_dir(&temporary);
        // The command as it stands, with Git taking this repository for the one that it names.
        let instead = format!("url.{}.insteadOf", workspace::root().display());
        let settings = [("COUNT", "1"), ("KEY_0", instead.as_str()), ("VALUE_0", REPOSITORY)];
        shell.envs(settings.map(|(name, value)| (format!("GIT_CONFIG_{name}"), value)));
        let out = shell.output().with_context(|| format!("running `{clone}`"))?;
        ensure!(out.status.success(), "`{clone}`: {}", String::from_utf8_lossy(&out.stderr));
        let directory = PathBuf::from(String::from_utf8(out.stdout)?.trim());
        let target = self.target_dir.unwrap_or_else(|| directory.join("target"));
        let place = Place { directory, target: std::path::absolute(target)?, release: !self.debug };
        // What the first section needs; the rest is for its own commands to build.
        let mut build = cargo();
        build.args(["build", "-p", "wakepost-server"]).args(place.release.then_some("--release"));
        build.current_dir(&place.directory).env("CARGO_TARGET_DIR", &place.target);
        process::run(&mut build)?;
        follow(&place)
    }

    /// The same in this very directory, with the debug build: a step of CI.
    pub fn short() -> anyhow::Result<()> {
        let programs = ["build", "-p", "wakepost-server", "-p", "wakepost-ctl"];
        process::run(cargo().args(programs))?;
        let target = workspace::bin_dir("debug")?.parent().context("it has a parent")?.to_owned();
        follow(&Place { directory: workspace::root().to_owned(), target, release: false })
    }
}

/// Runs the commands of both sections, with the times that they took.
fn follow(place: &Place) -> anyhow::Result<()> {
    let readme = readme(&place.directory)?;
    let first = commands(&readme, "See it");
    ensure!(
        first.len() == FIRST_COMMANDS,
        "{FIRST_COMMANDS} commands must do, and the README has {}",
        first.len()
    );
    let mut demo = Running::start(place, &first[1], &[])?;
    let answered = demo.wait_for("202 accepted")?;
    let finished = demo.wait_for("effects   1 committed, once")?;
    demo.end_by_itself()?;
    println!(
        "{} commands; after the build {:.1} s to the first event that is answered, {:.1} s to the end",
        first.len(),
        answered.as_secs_f64(),
        finished.as_secs_f64()
    );
    own_server(place, &commands(&readme, "Run it"))
}

/// A server of one's own, a source, and an event that Wakepost sends by itself.
fn own_server(place: &Place, commands: &[String]) -> anyhow::Result<()> {
    let data = tempfile::tempdir().context("making a temporary directory")?;
    let data_dir = data.path().display().to_string();
    let [build, serve, tools @ ..] = commands else {
        bail!("the README does not build and start a server");
    };
    process::run(&mut place.shell(build))?;
    // A port and a directory of its own; the commands themselves stay as they are.
    let own = [("WAKEPOST_LISTEN", "127.0.0.1:0"), ("WAKEPOST_DATA_DIR", data_dir.as_str())];
    let mut server = Running::start(place, serve, &own)?;
    server.wait_for("listening on ")?;
    let key = server.said_after("shown once: ")?;
    let url = server.said_after("listening on ")?;
    let told = [("WAKEPOST_KEY", key.as_str()), ("WAKEPOST_URL", url.as_str())];
    // The next ones have ids in them that nobody can know before.
    let tools: Vec<&String> =
        tools.iter().take_while(|line| line.starts_with("target/release/")).collect();
    let mut said = String::new();
    for command in &tools {
        let mut running = Running::start(place, command, &told)?;
        running.end_by_itself()?;
        said = running.said.join("\n");
    }
    ensure!(said.starts_with("202 "), "no event was accepted by `{serve}`: {said}");
    println!("{} commands to an event on a server of one's own", tools.len() + 2);
    Ok(())
}

/// A command of the README, its lines as they come. What it started ends with it.
struct Running {
    command: String,
    child: Child,
    lines: Receiver<String>,
    said: Vec<String>,
    started: Instant,
}

impl Running {
    fn start(place: &Place, command: &str, settings: &[(&str, &str)]) -> anyhow::Result<Running> {
        let shown = command.to_owned();
        let mut shell = place.shell(command);
        shell.process_group(0).envs(settings.iter().copied());
        shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let started = Instant::now();
        let mut child = shell.spawn().with_context(|| format!("running `{shown}`"))?;
        let output = child.stdout.take().context("its output is piped")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let read = BufReader::new(output).lines().map_while(Result::ok);
            read.map(|line| sender.send(line)).all(|sent| sent.is_ok())
        });
        Ok(Running { command: shown, child, lines, said: Vec::new(), started })
    }

    /// Waits for a line with this in it, and says how long after the start it came.
    fn wait_for(&mut self, text: &str) -> anyhow::Result<Duration> {
        while !self.said.last().is_some_and(|line| line.contains(text)) {
            let left = COMMAND_TIME_MAX.saturating_sub(self.started.elapsed());
            match self.lines.recv_timeout(left) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout) => bail!("`{}` never said {text:?}", self.command),
                Err(RecvTimeoutError::Disconnected) => {
                    bail!("`{}` ended without saying {text:?}: {:#?}", self.command, self.said)
                }
            }
        }
        Ok(self.started.elapsed())
    }

    /// The rest of the line that has this in it.
    fn said_after(&self, text: &str) -> anyhow::Result<String> {
        let found = self.said.iter().find_map(|line| line.split_once(text));
        let (_, rest) = found.with_context(|| format!("`{}` never said {text:?}", self.command))?;
        Ok(rest.trim().to_owned())
    }

    fn end_by_itself(&mut self) -> anyhow::Result<()> {
        let left = COMMAND_TIME_MAX.saturating_sub(self.started.elapsed());
        let end = Instant::now() + left;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Timeout) => bail!("`{}` does not end", self.command),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "`{}` failed ({status})", self.command);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

fn readme(directory: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(directory.join("README.md")).context("reading the README")
}

/// The commands of a section: what is indented, unless it is what a command prints. Where a prompt is shown, only lines
/// with it are commands, and the first block, which has none.
fn commands(readme: &str, section: &str) -> Vec<String> {
    let heading = format!("## {section}");
    let lines = readme.lines().skip_while(|line| *line != heading).skip(1);
    let section: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let code = section.iter().filter_map(|line| line.strip_prefix("    "));
    let plain = code.clone().take_while(|line| !line.starts_with("$ ")).map(str::to_owned);
    let prompted = code.filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned);
    plain.chain(prompted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: &str = "# It\n\n## See it\n\n    get it\n    run it\n\nText.\n\n## Run it\n\n    serve\n\nText:\n\n    \
                          $ ask\n    # a remark\n\n    $ again\n    an answer\n\n## More\n\n    other\n";

    #[test]
    fn commands_are_read_by_section() {
        assert_eq!(commands(README, "See it"), ["get it", "run it"]);
        assert_eq!(commands(README, "Run it"), ["serve", "ask", "again"]);
        assert!(commands(README, "Gone").is_empty());
    }

    #[test]
    fn the_readme_has_two_commands_to_begin_with() {
        let readme = readme(workspace::root()).unwrap();
        let commands = commands(&readme, "See it");
        assert_eq!(commands.len(), FIRST_COMMANDS);
        assert!(commands[0].contains(REPOSITORY));
    }
}
