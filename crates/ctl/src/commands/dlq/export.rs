//! `webhookctl dlq export`

use clap::Args;

use super::filter::Filter;
use crate::output;
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
        while let Some(piece) = export.next().await? {
            output::print_exact(&piece)?;
        }
        Ok(())
    }
}
