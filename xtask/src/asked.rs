//! A program that is asked: a line of JSON to it, a line of JSON from it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;
use serde::de::DeserializeOwned;
use xtask::interrupt::{self, Interrupted};
use xtask::process::POLL_INTERVAL;

/// How long an answer may take; the first waits for all that the program loads.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);
/// How much is shown of an answer that cannot be read.
const SHOWN_MAX: usize = 500;

/// The process. It ends when its input does, so with us, however we end.
pub struct Asked {
    child: Child,
    questions: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
}

impl Asked {
    /// Starts the program.
    pub fn start(mut program: Command) -> anyhow::Result<Asked> {
        let mut child = program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting {}", program.get_program().display()))?;
        let questions = child.stdin.take().context("it has no input")?;
        let lines = BufReader::new(child.stdout.take().context("it has no output")?).lines();
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || lines.map(|line| sender.send(line)).all(|sent| sent.is_ok()));
        Ok(Asked { child, questions, answers })
    }

    /// Asks, and waits for the answer.
    pub fn ask<A: DeserializeOwned>(&mut self, question: &impl Serialize) -> anyhow::Result<A> {
        let mut line = serde_json::to_vec(question)?;
        line.push(b'\n');
        self.questions.write_all(&line).context("it ended")?;
        let line = self.line()?;
        let shown =
            || format!("it answered {:?}", line.chars().take(SHOWN_MAX).collect::<String>());
        serde_json::from_str(&line).with_context(shown)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let deadline = Instant::now() + ANSWER_TIME_MAX;
        loop {
            match self.answers.recv_timeout(POLL_INTERVAL) {
                Ok(line) => return Ok(line?),
                Err(RecvTimeoutError::Disconnected) => bail!("it ended"),
                Err(RecvTimeoutError::Timeout) if interrupt::take() => bail!(Interrupted),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(RecvTimeoutError::Timeout) => {
                    bail!("it did not answer in {} s", ANSWER_TIME_MAX.as_secs())
                }
            }
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_ends_is_an_error() {
        let mut asked = Asked::start(Command::new("true")).unwrap();
        assert!(asked.ask::<String>(&"?").is_err());
    }

    #[test]
    fn an_answer_that_is_not_what_was_asked_for_is_shown() {
        let mut asked = Asked::start(Command::new("cat")).unwrap();
        assert_eq!(asked.ask::<String>(&"!").unwrap(), "!");
        let error = asked.ask::<u32>(&"!").unwrap_err();
        assert_eq!(error.to_string(), r#"it answered "\"!\"""#);
    }
}
