//! `webhookctl dlq replay`

use clap::Args;
use wakepost_client::DeadLetterReplay;

use super::filter::Filter;
use crate::commands::operation::{self, Wait};
use crate::commands::replaying::{self, ReplayFlags};
use crate::exit::Usage;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Replay {
    /// The dead letter's id; left out with --all
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    id: Option<String>,
    /// All that fit; without a filter, all there are
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// Only count them
    #[arg(long, requires = "all")]
    dry_run: bool,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    flags: ReplayFlags,
}

impl Replay {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let replay: wakepost_client::Replay = self.flags.into();
        let Some(id) = self.id else {
            let filter = self.filter.resolve(session);
            let many = DeadLetterReplay { filter, note: replay.note, scope: replay.scope };
            return match self.dry_run {
                true => count(session, &many).await,
                false => {
                    let call = session.client.replay_dead_letters(&many);
                    operation::begin(session, call, self.wait).await
                }
            };
        };
        if self.filter.is_given() || self.wait.wait {
            return Err(Usage("filters and --wait go with --all".to_owned()).into());
        }
        let call = session.client.replay_dead_letter(&id, &replay);
        replaying::replay(session, &id, call).await
    }
}

async fn count(session: &Session, many: &DeadLetterReplay) -> anyhow::Result<()> {
    let id = session.client.count_dead_letters(many).await?.operation_id;
    let over = operation::end_of(session, &id).await?;
    if let Some(counted) = session.answer(session.client.get_operation(&over.id)).await? {
        output::print(&format!("{} would be tried again", counted.matched))?;
    }
    Ok(())
}
