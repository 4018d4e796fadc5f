//! `webhookctl jobs approve` and `jobs reject`

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::Context;
use clap::Args;
use wakepost_client::{Effect, Job, Moved, Proposal};

use crate::exit::Usage;
use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Decide {
    /// The job's id, or a reply's
    job: String,
    /// Only this effect; may be repeated. Left out: all that wait
    #[arg(long, value_name = "KEY")]
    effect: Vec<String>,
    /// Who decides, and why: it stays in the audit trail
    #[arg(long)]
    note: Option<String>,
    /// Do not ask whether that is meant
    #[arg(long)]
    yes: bool,
}

impl Decide {
    /// Shows what the job would do, and decides on exactly that.
    pub async fn run(self, session: &Session, approves: bool) -> anyhow::Result<()> {
        let job = session.client.get_job(&self.job).await?;
        let chosen = self.chosen(&job)?;
        for effect in &chosen {
            output::hint(&shown(session, effect));
        }
        if !self.yes && !confirmed(approves)? {
            output::hint("nothing was decided");
            return Ok(());
        }
        let proposals: Vec<Proposal> =
            chosen.iter().filter_map(|effect| effect.proposal()).collect();
        let note = self.note.as_deref();
        let call = match approves {
            true => session.client.approve(&self.job, &proposals, note),
            false => session.client.reject(&self.job, &proposals, note),
        };
        print_moved(session, &self.job, session.answer(call).await?)
    }

    /// The proposals that are decided on.
    fn chosen<'j>(&self, job: &'j Job) -> anyhow::Result<Vec<&'j Effect>> {
        let waiting: Vec<&Effect> = job.proposed().collect();
        let is_waiting = |key: &String| waiting.iter().any(|effect| effect.key == *key);
        if let Some(key) = self.effect.iter().find(|key| !is_waiting(key)) {
            return Err(Usage(format!("no effect {key} of it waits for approval")).into());
        }
        if waiting.is_empty() {
            let status = &job.status;
            return Err(Usage(format!("nothing of it waits for approval: it is {status}")).into());
        }
        let chosen = |effect: &&Effect| self.effect.is_empty() || self.effect.contains(&effect.key);
        Ok(waiting.into_iter().filter(chosen).collect())
    }
}

/// Where a job stands after somebody decided; nothing if the server's own answer was printed.
pub fn print_moved(session: &Session, job: &str, moved: Option<Moved>) -> anyhow::Result<()> {
    let Some(moved) = moved else {
        return Ok(());
    };
    let status = Cell::status(moved.status.as_deref().unwrap_or_default());
    let fields = Fields::default().line("job", Cell::new(job)).line("status", status);
    output::print(&fields.render(session.paint))?;
    Ok(())
}

/// An effect with all it would do, line by line.
fn shown(session: &Session, effect: &Effect) -> String {
    let until = effect.expires_at.as_deref().map(|at| absolute(session.now, at));
    let until = until.map(|at| format!(" (until {at})")).unwrap_or_default();
    let text = effect.description.as_deref().unwrap_or("(it does not say what it would do)");
    let lines = text.lines().map(|line| format!("\n    {}", escape(line)));
    format!("{}{until}{}", escape(&effect.key), lines.collect::<String>())
}

/// Whether the person at the terminal means it. Nobody there: only `--yes` says so.
fn confirmed(approves: bool) -> anyhow::Result<bool> {
    let mut input = io::stdin().lock();
    if !input.is_terminal() {
        let word = "pass --yes: there is no terminal to ask at whether that is meant";
        return Err(Usage(word.to_owned()).into());
    }
    let word = if approves { "approve" } else { "reject" };
    let mut terminal = io::stderr();
    write!(terminal, "{word} this? [y/N] ").and_then(|()| terminal.flush())?;
    let mut answer = String::new();
    input.read_line(&mut answer).context("the answer cannot be read")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
