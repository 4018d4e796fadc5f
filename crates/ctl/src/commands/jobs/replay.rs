//! `webhookctl jobs replay`

use clap::Args;

use crate::commands::replaying::{self, ReplayFlags};
use crate::session::Session;

#[derive(Args)]
pub struct Replay {
    /// The job's id
    job: String,
    #[command(flatten)]
    flags: ReplayFlags,
}

impl Replay {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.replay_job(&self.job, &self.flags.into());
        replaying::replay(session, &self.job, call).await
    }
}
