//! `webhookctl events deliveries`

use clap::Args;

use crate::commands::deliveries::rows::OfEvent;
use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Args)]
pub struct Deliveries {
    /// The event's id
    event: String,
    #[command(flatten)]
    paging: Paging,
}

impl Deliveries {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.published_deliveries(&self.event, &self.paging.into());
        session.list_as::<_, OfEvent>(call).await
    }
}
