//! `webhookctl dlq export`

use clap::Args;

use super::filter::Filter;
use crate::output::{self, Progress};
use crate::session::Session;

#[derive(Args)]
pub struct Export {
    #[command(flatten)]
    filter: Filter,
}

impl Export {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let filter = self.filter.resolve(session);
        let mut export = session.client.export_dead_letters(&filter).await?;
        let progress = Progress::beside_output("dead letters", None);
        let mut lines = 0;
        while let Some(piece) = export.next().await? {
            lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
            output::print_exact(&piece)?;
            progress.at(lines, 0);
        }
        Ok(())
    }
}
