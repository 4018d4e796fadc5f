//! `webhookctl webhooks pause`, `resume`, `enable`, `disable` and `revoke-previous`

use clap::Args;
use wakepost_client::{Call, Moved};

use crate::output::{self, Cell, Fields};
use crate::session::Session;

/// What is done to a webhook.
#[derive(Clone, Copy)]
pub enum Move {
    RevokePrevious,
    Resume,
    Enable,
    Disable,
}

#[derive(Args)]
pub struct Switch {
    /// The webhook's id
    webhook: String,
}

#[derive(Args)]
pub struct Pause {
    /// The webhook's id
    webhook: String,
    /// Do not keep its events meanwhile: they are never sent to it
    #[arg(long)]
    drop: bool,
}

impl Switch {
    pub async fn run(self, session: &Session, what: Move) -> anyhow::Result<()> {
        let (client, id) = (&session.client, self.webhook.as_str());
        let (call, hint) = match what {
            Move::RevokePrevious => {
                (client.revoke_previous_secret(id), "only the newest secret signs from now on")
            }
            Move::Resume => (client.resume_webhook(id), "events that were kept are on their way"),
            Move::Enable => (
                client.enable_webhook(id),
                "what it missed: webhookctl webhooks recover and webhookctl webhooks backfill",
            ),
            Move::Disable => (
                client.disable_webhook(id),
                "what waited is among the dead letters; new events make no delivery for it",
            ),
        };
        moved(session, id, call, hint).await
    }
}

impl Pause {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.pause_webhook(&self.webhook, !self.drop);
        let hint = match self.drop {
            true => "events are not kept for it until it is resumed",
            false => "events are kept for it until it is resumed",
        };
        moved(session, &self.webhook, call, hint).await
    }
}

async fn moved(session: &Session, id: &str, call: Call<Moved>, hint: &str) -> anyhow::Result<()> {
    let Some(moved) = session.answer(call).await? else {
        return Ok(());
    };
    let fields = Fields::default()
        .line("webhook", Cell::new(id))
        .line_if("status", moved.status.as_deref().map(Cell::status));
    output::print(&fields.render(session.paint))?;
    output::hint(hint);
    Ok(())
}
