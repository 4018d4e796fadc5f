//! `webhookctl webhooks deliveries`

use clap::Args;
use wakepost_client::DeliveryQuery;

use crate::commands::deliveries::rows::ToWebhook;
use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Args)]
pub struct Deliveries {
    /// The webhook's id
    webhook: String,
    /// In this status: pending, running, retrying, succeeded, dead_letter …
    #[arg(long)]
    status: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

impl Deliveries {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = DeliveryQuery {
            status: self.status,
            limit: self.paging.limit,
            cursor: self.paging.cursor,
        };
        let call = session.client.webhook_deliveries(&self.webhook, &query);
        session.list_as::<_, ToWebhook>(call).await
    }
}
