//! `webhookctl webhooks`

mod create;
mod delete;
mod deliveries;
mod fields;
mod flags;
mod list;
mod replaying;
mod rotate;
mod show;
mod stats;
mod summary;
mod switch;
mod test;
mod update;

use clap::Subcommand;

use self::replaying::Replaying;
use self::switch::{Move, Pause, Switch};
use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Subcommand)]
pub enum Webhooks {
    /// Subscribe a receiver to events; its secret is shown once
    Create(Box<create::Create>),
    /// List webhooks
    List(Paging),
    /// Show one webhook, and how its circuit stands
    Show(show::Show),
    /// Change a webhook
    Update(Box<update::Update>),
    /// Delete a webhook
    Delete(delete::Delete),
    /// Send a sample now, and show what the receiver answers
    Test(test::Test),
    /// Make a new secret; the old one signs too for a while longer
    Rotate(rotate::Rotate),
    /// Let the old secret sign no more, from now on
    RevokePrevious(Switch),
    /// Send nothing for now; events are kept until it is resumed
    Pause(Pause),
    /// Go on after a pause
    Resume(Switch),
    /// Send again, after it was disabled
    Enable(Switch),
    /// Send nothing any more; what waits goes to the dead letters
    Disable(Switch),
    /// Deliver again what failed since a time
    Recover(Replaying),
    /// Deliver events since a time that were never sent to it
    Backfill(Replaying),
    /// List a webhook's deliveries, newest first
    Deliveries(deliveries::Deliveries),
    /// Show how a webhook does, in numbers
    Stats(stats::Stats),
}

impl Webhooks {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Webhooks::Create(command) => command.run(session).await,
            Webhooks::List(page) => session.list(session.client.list_webhooks(&page.into())).await,
            Webhooks::Show(command) => command.run(session).await,
            Webhooks::Update(command) => command.run(session).await,
            Webhooks::Delete(command) => command.run(session).await,
            Webhooks::Test(command) => command.run(session).await,
            Webhooks::Rotate(command) => command.run(session).await,
            Webhooks::RevokePrevious(command) => command.run(session, Move::RevokePrevious).await,
            Webhooks::Pause(command) => command.run(session).await,
            Webhooks::Resume(command) => command.run(session, Move::Resume).await,
            Webhooks::Enable(command) => command.run(session, Move::Enable).await,
            Webhooks::Disable(command) => command.run(session, Move::Disable).await,
            Webhooks::Recover(command) => command.recover(session).await,
            Webhooks::Backfill(command) => command.backfill(session).await,
            Webhooks::Deliveries(command) => command.run(session).await,
            Webhooks::Stats(command) => command.run(session).await,
        }
    }
}
