//! `--bodies-days` and its like: how long a tenant's history is kept.

use clap::Args;
use wakepost_client::Retention;

/// The flags, which are also what `--reset` takes.
pub const FLAGS: [&str; 5] =
    ["bodies-days", "events-days", "runs-days", "dead-letters-days", "receipts-days"];

#[derive(Args)]
pub struct Keeping {
    /// How many days bodies are kept, at most as long as the server keeps them
    #[arg(long, value_name = "DAYS")]
    bodies_days: Option<u32>,
    /// How many days events are kept
    #[arg(long, value_name = "DAYS")]
    events_days: Option<u32>,
    /// How many days finished work is kept, with its runs and effects
    #[arg(long, value_name = "DAYS")]
    runs_days: Option<u32>,
    /// How many days dead letters are kept, with their event and its body
    #[arg(long, value_name = "DAYS")]
    dead_letters_days: Option<u32>,
    /// How many days receipts are kept
    #[arg(long, value_name = "DAYS")]
    receipts_days: Option<u32>,
}

impl Keeping {
    /// What was said, if anything was.
    pub fn retention(&self) -> Option<Retention> {
        let said = Retention {
            bodies_days: self.bodies_days,
            events_days: self.events_days,
            runs_days: self.runs_days,
            dead_letters_days: self.dead_letters_days,
            receipts_days: self.receipts_days,
        };
        Some(said).filter(|said| *said != Retention::default())
    }
}

/// What was said, by name: `bodies_days` and so on.
pub fn named(said: &Retention) -> impl Iterator<Item = (&'static str, u32)> {
    [
        ("bodies_days", said.bodies_days),
        ("events_days", said.events_days),
        ("runs_days", said.runs_days),
        ("dead_letters_days", said.dead_letters_days),
        ("receipts_days", said.receipts_days),
    ]
    .into_iter()
    .filter_map(|(name, days)| Some((name, days?)))
}
