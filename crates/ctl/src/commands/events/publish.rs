//! `webhookctl events publish`

use clap::Args;
use wakepost_client::NewEvent;

use super::show::fields;
use crate::commands::input::read_json;
use crate::output::when::When;
use crate::output::{self, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Publish {
    /// What happened: order.created
    #[arg(value_name = "TYPE")]
    event_type: String,
    /// What it happened to, as JSON; @FILE reads a file, - standard input
    #[arg(long, value_name = "JSON|@FILE|-")]
    data: String,
    /// In which version of the type's schema the data is
    #[arg(long, value_name = "VERSION")]
    api_version: Option<String>,
    /// What changed, as it was before: JSON, @FILE or -
    #[arg(long, value_name = "JSON|@FILE|-")]
    previous_attributes: Option<String>,
    /// Whether it is meant; false: a rehearsal
    #[arg(long, value_name = "true|false")]
    livemode: Option<bool>,
    /// A repeat with this key, within 30 days, publishes nothing
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
    /// Events that share this key arrive in order, at webhooks that want order
    #[arg(long, value_name = "KEY")]
    order_key: Option<String>,
    /// Do not deliver it before: in 30m, 2h, 7d, or a date or time
    #[arg(long, value_name = "WHEN")]
    deliver_at: Option<When>,
    /// A repeat of this command with this key publishes nothing; one is made for each run otherwise
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

impl Publish {
    pub async fn run(self: Box<Self>, session: &Session) -> anyhow::Result<()> {
        let before = self.previous_attributes.as_deref();
        let before = before.map(|given| read_json("--previous-attributes", given)).transpose()?;
        let event = NewEvent {
            event_type: self.event_type,
            data: read_json("--data", &self.data)?,
            api_version: self.api_version,
            previous_attributes: before,
            livemode: self.livemode,
            dedup_key: self.dedup_key,
            order_key: self.order_key,
            deliver_at: self.deliver_at.map(|when| when.ahead(session.now)),
        };
        let mut call = session.client.publish(&event);
        if let Some(key) = &self.idempotency_key {
            call = call.idempotency_key(key);
        }
        let Some(mut published) = session.answer(call).await? else {
            return Ok(());
        };
        // The answer need not repeat what was sent.
        if published.event_type.is_empty() {
            published.event_type = event.event_type;
        }
        output::print(&fields(session.now, &published).render(session.paint))?;
        output::hint(&format!("next: webhookctl events deliveries {}", escape(&published.id)));
        Ok(())
    }
}
