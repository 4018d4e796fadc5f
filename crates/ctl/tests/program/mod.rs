//! The program, run as a person would, with a clean environment.

#![allow(dead_code)]

use std::io::Write;
use std::process::{Command, Stdio};

/// A run to be.
pub struct Run {
    command: Command,
    stdin: String,
}

/// A run that was.
pub struct Ran {
    /// Its exit code.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it told people.
    pub stderr: String,
}

/// The program, pointed at a server by its environment, with the key `k`.
pub fn webhookctl(url: &str) -> Run {
    let mut run = bare();
    run.command.env("WAKEPOST_URL", url).env("WAKEPOST_KEY", "k");
    run
}

/// The program without a server and key.
pub fn bare() -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_webhookctl"));
    let known = ["WAKEPOST_URL", "WAKEPOST_KEY", "WAKEPOST_PROFILE", "WAKEPOST_SOURCE_SECRET"];
    for variable in known {
        command.env_remove(variable);
    }
    // Nobody's own profiles count here.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    Run { command, stdin: String::new() }
}

impl Run {
    /// Adds arguments.
    pub fn args<const N: usize>(mut self, args: [&str; N]) -> Run {
        self.command.args(args);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Run {
        self.command.env(name, value);
        self
    }

    /// What it reads.
    pub fn stdin(mut self, text: &str) -> Run {
        text.clone_into(&mut self.stdin);
        self
    }

    /// Runs it to its end.
    pub fn run(mut self) -> Ran {
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = child.stdin.take().expect("its input");
        // It may end without reading.
        let _ = stdin.write_all(self.stdin.as_bytes());
        drop(stdin);
        let output = child.wait_with_output().expect("it ends");
        Ran {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

impl Ran {
    /// Panics if it ended with another code.
    #[track_caller]
    pub fn ends_with(&self, code: i32) {
        let (out, err) = (&self.stdout, &self.stderr);
        assert_eq!(self.code, Some(code), "stdout: {out}\nstderr: {err}");
    }
}
