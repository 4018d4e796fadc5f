//! `webhookctl dlq purge`

use clap::Args;
use wakepost_client::DeadLetterPurge;

use super::filter::Filter;
use crate::commands::operation::{self, Wait};
use crate::exit::Usage;
use crate::session::Session;

#[derive(Args)]
pub struct Purge {
    /// All there are, where no filter says which
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    wait: Wait,
    /// Who wants it, and why: it stays in the audit trail
    #[arg(long)]
    note: String,
}

impl Purge {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        // What is purged does not come back: a forgotten filter must not mean everything.
        if !self.all && !self.filter.is_given() {
            return Err(Usage("say which, or --all".to_owned()).into());
        }
        let purge = DeadLetterPurge { filter: self.filter.resolve(session), note: self.note };
        operation::begin(session, session.client.purge_dead_letters(&purge), self.wait).await
    }
}
