//! `webhookctl inbox replay`

use clap::Args;

use crate::commands::replaying::{self, ReplayFlags};
use crate::session::Session;

#[derive(Args)]
pub struct Replay {
    /// The event's id
    event: String,
    #[command(flatten)]
    flags: ReplayFlags,
}

impl Replay {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.replay_event(&self.event, &self.flags.into());
        replaying::replay(session, &self.event, call).await
    }
}
