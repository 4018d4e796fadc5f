//! `webhookctl webhooks recover` and `webhookctl webhooks backfill`

use clap::Args;

use crate::commands::operation::{self, Wait};
use crate::commands::period::PeriodFlags;
use crate::session::Session;

#[derive(Args)]
pub struct Replaying {
    /// The webhook's id
    webhook: String,
    #[command(flatten)]
    period: PeriodFlags,
    #[command(flatten)]
    wait: Wait,
}

impl Replaying {
    pub async fn recover(self, session: &Session) -> anyhow::Result<()> {
        let period = self.period.resolve(session);
        let call = session.client.recover_webhook(&self.webhook, &period);
        operation::begin(session, call, self.wait).await
    }

    pub async fn backfill(self, session: &Session) -> anyhow::Result<()> {
        let period = self.period.resolve(session);
        let call = session.client.backfill_webhook(&self.webhook, &period);
        operation::begin(session, call, self.wait).await
    }
}
