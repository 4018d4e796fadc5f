//! `webhookctl webhooks rotate`

use clap::Args;

use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Rotate {
    /// The webhook's id
    webhook: String,
    /// How long the old one signs too; a day unless told otherwise
    #[arg(long, value_name = "SECONDS")]
    grace_s: Option<u64>,
}

impl Rotate {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.rotate_webhook(&self.webhook, self.grace_s);
        let Some(rotated) = session.answer(call).await? else {
            return Ok(());
        };
        let until = rotated.previous_expires_at.as_deref().map(|at| absolute(session.now, at));
        let fields = Fields::default()
            .line("webhook", Cell::new(&self.webhook))
            .line_if("secret", rotated.secret.as_deref().map(Cell::shown_once))
            .line_if("public key", rotated.public_key.as_deref().map(Cell::new))
            .line_if("old secret", until.map(|at| Cell::new(&format!("signs too until {at}"))));
        output::print(&fields.render(session.paint))?;
        let id = escape(&self.webhook).into_owned();
        output::hint("next: give the receiver the new one before the old one ends");
        output::hint(&format!("then: webhookctl webhooks revoke-previous {id} ends it early"));
        Ok(())
    }
}
