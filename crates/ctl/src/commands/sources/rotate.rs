//! `webhookctl sources rotate`

use clap::Args;
use wakepost_client::Rotation;

use super::summary::summary;
use crate::commands::input::read_secret;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Rotate {
    /// The source's id
    source: String,
    /// The new secret; - reads it from standard input; by default Wakepost makes one, where the provider allows
    #[arg(long)]
    secret: Option<String>,
    /// How long the old one is still accepted; a day unless told otherwise
    #[arg(long, value_name = "SECONDS")]
    grace_s: Option<u64>,
}

impl Rotate {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let secret = self.secret.map(read_secret).transpose()?;
        let rotation = Rotation { secret, grace_s: self.grace_s };
        let call = session.client.rotate_source(&self.source, &rotation);
        let Some(source) = session.answer(call).await? else {
            return Ok(());
        };
        output::print(&summary(session.now, &source).render(session.paint))?;
        if source.secret.is_some() {
            output::hint("next: enter the new secret at the provider before the old one ends");
        }
        Ok(())
    }
}
