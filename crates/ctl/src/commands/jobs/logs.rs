//! `webhookctl jobs logs`

use std::time::Duration;

use clap::Args;
use serde_json::Value;
use wakepost_client::{Error, JobEvent};

use crate::output::{self, Cell, Tone};
use crate::session::Session;

/// How often a broken stream is taken up again before that is given up.
const TRIES_MAX: u32 = 10;
/// How long to wait before.
const PAUSE: Duration = Duration::from_secs(1);
/// As wide as the longest name of an event, and a gap.
const NAME_WIDTH: usize = 10;

#[derive(Args)]
pub struct Logs {
    /// The job's id
    job: String,
    /// Go on until the job ends
    #[arg(long, short)]
    follow: bool,
}

impl Logs {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let mut last = None;
        if !self.follow {
            self.show(session, &mut last).await?;
            return Ok(());
        }
        let mut failures = 0;
        loop {
            let before = last.clone();
            match self.show(session, &mut last).await {
                Ok(true) => return Ok(()),
                Ok(false) => failures = 0,
                Err(Failed::Calling(error)) if error.is_transient() && failures < TRIES_MAX => {
                    failures = if last == before { failures + 1 } else { 0 };
                    tokio::time::sleep(PAUSE).await;
                }
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    /// Shows what there is after the last event that was shown, and says whether the job has ended.
    async fn show(&self, session: &Session, last: &mut Option<String>) -> Result<bool, Failed> {
        let for_s = (!self.follow).then_some(0);
        let mut events = session.client.watch_job(&self.job, last.as_deref(), for_s).await?;
        while let Some(event) = events.next().await? {
            let text = match session.is_json() {
                true => output::json::line(&event)?,
                false => line(&event).render(session.paint),
            };
            output::print(&text)?;
            if event.is_last() {
                return Ok(true);
            }
            *last = Some(event.id);
        }
        Ok(false)
    }
}

/// Why the logs end early.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Calling(#[from] Error),
    #[error(transparent)]
    Printing(#[from] std::io::Error),
}

/// One thing that happened, on one line.
fn line(event: &JobEvent) -> Cell {
    let text = |field: &str| event.data[field].as_str().filter(|text| !text.is_empty());
    let time = text("at").unwrap_or_default().replacen('T', " ", 1);
    let name = format!("  {:NAME_WIDTH$}", event.event);
    let cell = Cell::toned(Tone::Dim, &time).then(Tone::Plain, &name);
    let more = |words: Vec<String>| match words.is_empty() {
        true => String::new(),
        false => format!(" ({})", words.join(", ")),
    };
    match event.event.as_str() {
        "progress" => cell.then(Tone::Plain, &progress(&event.data)),
        "state" => {
            let status = text("status").unwrap_or_default();
            let attempt = event.data["attempt"].as_u64().filter(|attempt| *attempt > 0);
            let words = attempt.map(|attempt| format!("attempt {attempt}"));
            let words = words.into_iter().chain(text("worker").map(str::to_owned));
            let said = text("reason").map(|reason| format!(": {}", one_line(reason)));
            let more = more(words.collect()) + &said.unwrap_or_default();
            cell.then(Tone::of_status(status), status).then(Tone::Plain, &more)
        }
        _ => {
            let thing = text("key").or(text("id")).unwrap_or_default();
            let status = text("status").unwrap_or_default();
            let words = [text("description"), text("error")].into_iter().flatten();
            let more = more(words.map(one_line).collect());
            cell.then(Tone::Plain, &format!("{thing} "))
                .then(Tone::of_status(status), status)
                .then(Tone::Plain, &more)
        }
    }
}

/// `50 % fetch: page 3 of 6`
fn progress(data: &Value) -> String {
    let percent = data["percent"].as_f64().map(|percent| format!("{percent} %"));
    let step = data["step"].as_str().map(one_line);
    let message = data["message"].as_str().map(one_line);
    let said = match (step, message) {
        (Some(step), Some(message)) => Some(format!("{step}: {message}")),
        (step, message) => step.or(message),
    };
    let rest = (!data["data"].is_null()).then(|| data["data"].to_string());
    [percent, said, rest].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A text of several lines on one.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim_end).collect::<Vec<_>>().join(" ⏎ ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::Paint;

    fn shown(event: &str, data: Value) -> String {
        let event = JobEvent { id: "1-0-0-0-0".to_owned(), event: event.to_owned(), data };
        line(&event).render(Paint(false))
    }

    #[test]
    fn each_thing_is_one_line() {
        let at = "2026-11-15T09:14:22.000Z";
        let state =
            json!({"status": "retrying", "attempt": 1, "reason": "GitHub\nAPI 502", "at": at});
        assert_eq!(
            shown("state", state),
            "2026-11-15 09:14:22.000Z  state     retrying (attempt 1): GitHub ⏎ API 502"
        );
        let running = json!({"status": "running", "attempt": 2, "worker": "ada", "at": at});
        assert!(shown("state", running).ends_with("state     running (attempt 2, ada)"));
        let progress = json!({"message": "page 3", "percent": 50, "step": "fetch", "at": at});
        assert!(shown("progress", progress).ends_with("progress  50 % fetch: page 3"));
        let effect =
            json!({"key": "mail", "status": "committed", "description": "a mail", "at": at});
        assert!(shown("effect", effect).ends_with("effect    mail committed (a mail)"));
        let reply = json!({"id": "rpl_1", "status": "pending", "error": null, "at": at});
        assert!(shown("reply", reply).ends_with("reply     rpl_1 pending"));
    }

    #[test]
    fn what_an_agent_says_cannot_steer_the_terminal() {
        let said = shown("progress", json!({"message": "\u{1b}[2Jgone"}));
        assert!(!said.contains('\u{1b}'), "{said:?}");
    }
}
