//! `webhookctl jobs resolve`

use clap::Args;
use serde_json::Value;
use wakepost_client::{EffectOutcome, Resolution};

use super::decide::print_moved;
use crate::session::Session;

#[derive(Args)]
pub struct Resolve {
    /// The job's id, or a reply's
    job: String,
    /// The effect in doubt
    effect: String,
    #[command(flatten)]
    outcome: Outcome,
    /// What it returned, as JSON: later runs get it
    #[arg(long, value_name = "JSON", conflicts_with = "not_done", value_parser = json)]
    result: Option<Value>,
    /// Who says so, and why: it stays in the audit trail
    #[arg(long)]
    note: String,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Outcome {
    /// It happened
    #[arg(long)]
    committed: bool,
    /// It did not
    #[arg(long)]
    not_done: bool,
}

fn json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))
}

impl Resolve {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let outcome = match self.outcome.committed {
            true => EffectOutcome::Committed,
            false => EffectOutcome::NotDone,
        };
        let result = self.result.unwrap_or_default();
        let word = Resolution { outcome, result, note: self.note };
        let call = session.client.resolve_effect(&self.job, &self.effect, &word);
        print_moved(session, &self.job, session.answer(call).await?)
    }
}
