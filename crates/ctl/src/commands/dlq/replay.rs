//! `webhookctl dlq replay`

use clap::Args;

use crate::commands::replaying::{self, ReplayFlags};
use crate::session::Session;

#[derive(Args)]
pub struct Replay {
    /// The dead letter's id
    id: String,
    #[command(flatten)]
    flags: ReplayFlags,
}

impl Replay {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.replay_dead_letter(&self.id, &self.flags.into());
        replaying::replay(session, &self.id, call).await
    }
}
