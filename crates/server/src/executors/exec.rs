//! The exec executor: a local command per job, in a process group of its own.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;
use wakepost_domain::limits;
use wakepost_domain::work::WorkKind;
use wakepost_store::moves::Progress;
use wakepost_store::vault::Slot;

use super::Finished;
use super::answer::Said;
use super::lease::{self, Stop};
use crate::config::ExecCommand;
use crate::context::Context;
use crate::queue::Pushed;

/// How long a command has to end after it was asked to, at most.
const TERM_PATIENCE: Duration = Duration::from_secs(10);
/// A command that will not end is made to this long before its lease does: the job may then be run again.
const KILL_MARGIN: Duration = Duration::from_millis(500);
/// How long the pipes of a command that ended may stay open: something that left its group holds them.
const DRAIN_PATIENCE: Duration = Duration::from_secs(2);
/// How long what it said may take to be stored after that.
const REPORT_PATIENCE: Duration = Duration::from_secs(10);
/// How many lines of standard error become progress.
const LINES_MAX: usize = 500;
/// What a command inherits from our environment. Everything else may hold secrets of ours.
const INHERITED: [&str; 8] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL"];

/// Exit codes 64 to 78 say that trying again is no use, except 75, "try again later" (sysexits.h).
fn is_final(code: i32) -> bool {
    (64..=78).contains(&code) && code != 75
}

/// Runs the command of a job.
pub(crate) async fn run(context: &Context, item: &Pushed, name: &str, job: &Value) -> Finished {
    let failed =
        |error: String, retryable| Finished::Failed { error, retryable, retry_after: None };
    let Some(command) = context.config.exec.get(name) else {
        return failed(format!("there is no [exec.{name}] on this node"), true);
    };
    let mut child = match start(context, item, command, job) {
        Ok(child) => child,
        Err(error) => {
            return failed(format!("cannot start {}: {error}", command.command[0]), true);
        }
    };
    let group = child.id().and_then(|id| Pid::from_raw(id as i32));
    let policy = &item.2;
    let in_hand = policy.in_hand();
    let timeout = command.timeout.unwrap_or(in_hand).min(in_hand);
    let last_moment = Instant::now() + in_hand;
    let talking = talk(context, item, &mut child, group, job);
    tokio::pin!(talking);
    let stop = tokio::select! {
        outcome = &mut talking => return match outcome {
            Ok((status, output)) => read(status, &output),
            Err(error) => failed(format!("lost touch with the command: {error}"), true),
        },
        stop = lease::keep(context, item, timeout) => stop,
    };
    // A run without a lease must not do one thing more; one with a lease may finish its sentence, and is
    // listened to: whoever writes into a closed pipe is killed by that.
    let mut ended = false;
    if stop != Stop::Lost {
        signal(group, Signal::TERM);
        let left = last_moment.saturating_duration_since(Instant::now());
        let patience =
            TERM_PATIENCE.min(policy.lease * 2 / 3).min(left.saturating_sub(KILL_MARGIN));
        ended = tokio::time::timeout(patience, &mut talking).await.is_ok();
    }
    if !ended {
        signal(group, Signal::KILL);
    }
    match stop {
        Stop::Lost => Finished::Lost,
        Stop::Cancelled => Finished::Cancelled,
        Stop::TimedOut => failed("the command took too long".to_owned(), true),
        Stop::NodeStops => Finished::HandBack,
    }
}

fn start(
    context: &Context,
    item: &Pushed,
    command: &ExecCommand,
    job: &Value,
) -> std::io::Result<Child> {
    let ticket = &item.0.ticket;
    let mut process = Command::new(&command.command[0]);
    process
        .args(&command.command[1..])
        .env_clear()
        .envs(INHERITED.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))))
        .envs(&command.env)
        .env("WAKEPOST_URL", &context.local_url)
        .env("WAKEPOST_KEY", context.tokens.job_key(ticket))
        .env("WAKEPOST_JOB_ID", ticket.work.text(WorkKind::Job))
        .env("WAKEPOST_RUN_ID", ticket.run_id().to_string())
        .env("WAKEPOST_EVENT_ID", job["envelope"]["event_id"].as_str().unwrap_or_default())
        .env("WAKEPOST_TENANT", job["tenant"].as_str().unwrap_or_default())
        .env("WAKEPOST_LEASE_TOKEN", job["lease_token"].as_str().unwrap_or_default())
        .env("WAKEPOST_CHAIN", job["chain"].as_str().unwrap_or_default())
        .env("TRACEPARENT", job["traceparent"].as_str().unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(directory) = &command.directory {
        process.current_dir(directory);
    }
    process.spawn()
}

/// Gives the job, takes the output, and waits for the end.
async fn talk(
    context: &Context,
    item: &Pushed,
    child: &mut Child,
    group: Option<Pid>,
    job: &Value,
) -> std::io::Result<(ExitStatus, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let give = async {
        if let Some(mut stdin) = stdin {
            // A command that does not read its job is free not to.
            let _ = stdin.write_all(job.to_string().as_bytes()).await;
        }
    };
    let mut output = Vec::new();
    let take = async {
        match stdout {
            Some(stdout) => read_bounded(stdout, &mut output).await,
            None => Ok(()),
        }
    };
    // Apart, since storing a line takes longer than saying it, and what was said is stored after the end, too.
    let (said, heard) = mpsc::channel(LINES_MAX);
    let listen = async move {
        if let Some(stderr) = stderr {
            hear(stderr, said).await;
        }
    };
    let report = report(context, item, heard);
    tokio::pin!(report);
    let end = async {
        let status = child.wait().await;
        // Whatever the command left running in its group ends with it, and lets go of the pipes.
        signal(group, Signal::KILL);
        status
    };
    let talked = async {
        let pipes = async { tokio::join!(give, take, listen).1 };
        tokio::pin!(pipes, end);
        tokio::select! {
            taken = &mut pipes => {
                taken?;
                end.await
            }
            status = &mut end => {
                if let Ok(taken) = tokio::time::timeout(DRAIN_PATIENCE, pipes).await {
                    taken?;
                }
                status
            }
        }
    };
    let mut reported = false;
    let status = {
        tokio::pin!(talked);
        loop {
            tokio::select! {
                status = &mut talked => break status?,
                () = &mut report, if !reported => reported = true,
            }
        }
    };
    if !reported {
        let _ = tokio::time::timeout(REPORT_PATIENCE, report).await;
    }
    Ok((status, output))
}

/// Reads to the end, so that the command can write, and keeps one byte more than is allowed.
async fn read_bounded(mut from: impl AsyncRead + Unpin, kept: &mut Vec<u8>) -> std::io::Result<()> {
    (&mut from).take(limits::DOCUMENT_BYTES_MAX as u64 + 1).read_to_end(kept).await?;
    tokio::io::copy(&mut from, &mut tokio::io::sink()).await?;
    Ok(())
}

/// Reads standard error to its end, so that the command can write, and passes its first lines on.
async fn hear(stderr: impl AsyncRead + Unpin, said: mpsc::Sender<String>) {
    let mut lines = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut count = 0;
    loop {
        line.clear();
        let read =
            (&mut lines).take(limits::ERROR_BYTES_MAX as u64).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        count += 1;
        let text = String::from_utf8_lossy(&line);
        if count <= LINES_MAX && !text.trim().is_empty() {
            // There is room for all of them.
            let _ = said.send(text.trim_end().to_owned()).await;
        }
    }
}

/// Lines of standard error become progress.
async fn report(context: &Context, item: &Pushed, mut heard: mpsc::Receiver<String>) {
    let ticket = item.0.ticket;
    let Ok(key) = context.vault.key(ticket.tenant).await else {
        return;
    };
    while let Some(text) = heard.recv().await {
        let content = json!({"message": text, "run_id": ticket.run_id()}).to_string();
        let content = key.seal(Slot::Progress(ticket.work), content.as_bytes());
        // Progress is for people: a line that gets lost is no reason to stop.
        let _ = context.store.progress(Progress { ticket, content }).await;
    }
}

fn read(status: ExitStatus, output: &[u8]) -> Finished {
    let failed =
        |error: String, retryable| Finished::Failed { error, retryable, retry_after: None };
    match status.code() {
        Some(0) => {
            let said = Said::read(output, true);
            if said.fits() && output.len() <= limits::DOCUMENT_BYTES_MAX {
                Finished::Done(said)
            } else {
                failed("the command's output is too large".to_owned(), false)
            }
        }
        Some(code) => failed(format!("the command ended with exit code {code}"), !is_final(code)),
        None => failed(format!("the command was ended by {status}"), true),
    }
}

fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        // The group may be gone already.
        let _ = kill_process_group(group, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_codes_that_say_so_are_final() {
        let finals: Vec<i32> = (0..=255).filter(|code| is_final(*code)).collect();
        assert_eq!(finals, [64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 76, 77, 78]);
    }
}
