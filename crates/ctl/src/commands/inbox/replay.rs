//! `webhookctl inbox replay`

use clap::Args;
use wakepost_client::{ReplayMany, Scope};

use super::filter::{Filter, as_map};
use crate::commands::operation::{self, Wait};
use crate::commands::replaying::{self, ReplayFlags};
use crate::exit::Usage;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Replay {
    /// The event's id; left out with --all
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    event: Option<String>,
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
        let filter = as_map(&self.filter.resolve(session))?;
        if let Some(event) = self.event {
            if !filter.is_empty() || self.wait.wait {
                return Err(Usage("filters and --wait go with --all".to_owned()).into());
            }
            let call = session.client.replay_event(&event, &replay);
            return replaying::replay(session, &event, call).await;
        }
        let scope = replay.scope.map(|scope| match scope {
            Scope::Same => "same".to_owned(),
            Scope::Fresh => "fresh".to_owned(),
        });
        let dry_run = self.dry_run.then_some(true);
        let many = ReplayMany { filter, note: replay.note, scope, dry_run };
        let call = session.client.replay_inbox(&many);
        if !self.dry_run {
            return operation::begin(session, call, self.wait).await;
        }
        let id = call.await?.operation_id;
        let over = operation::end_of(session, &id).await?;
        if let Some(counted) = session.answer(session.client.get_operation(&over.id)).await? {
            output::print(&format!("{} would be run again", counted.matched))?;
        }
        Ok(())
    }
}
