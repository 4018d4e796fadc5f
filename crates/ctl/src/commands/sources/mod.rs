//! `webhookctl sources`

mod create;
mod delete;
mod fields;
pub mod flags;
mod list;
mod next_step;
mod receipts;
mod rotate;
mod setup;
mod show;
mod status;
mod summary;
mod switch;
mod update;

use clap::Subcommand;
use serde_json::Value;

pub use flags::Setting;

use crate::commands::paging::Paging;
use crate::session::Session;

#[derive(Subcommand)]
pub enum Sources {
    /// Make a source: an address that webhooks can be sent to
    Create(Box<create::Create>),
    /// List sources
    List(Paging),
    /// Show one source
    Show(show::Show),
    /// Change a source
    Update(Box<update::Update>),
    /// Say whether a source is ready, and what is missing
    Status(status::Status),
    /// Register a source at its provider, or say how to
    Setup(setup::Setup),
    /// Take a new secret; the old one is accepted for a while longer
    Rotate(rotate::Rotate),
    /// Accept requests again
    Enable(switch::Switch),
    /// Answer requests with 404 from now on
    Disable(switch::Switch),
    /// Delete a source; its events and jobs stay
    Delete(delete::Delete),
    /// List a source's latest requests that were refused or repeated
    Receipts(receipts::Receipts),
}

impl Sources {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Sources::Create(command) => command.run(session).await,
            Sources::List(page) => session.list(session.client.list_sources(&page.into())).await,
            Sources::Show(command) => command.run(session).await,
            Sources::Update(command) => command.run(session).await,
            Sources::Status(command) => command.run(session).await,
            Sources::Setup(command) => command.run(session).await,
            Sources::Rotate(command) => command.run(session).await,
            Sources::Enable(command) => command.run(session, true).await,
            Sources::Disable(command) => command.run(session, false).await,
            Sources::Delete(command) => command.run(session).await,
            Sources::Receipts(command) => command.run(session).await,
        }
    }
}

/// An executor, as the flag that makes it.
fn executor_words(executor: &Value) -> String {
    let field = |name: &str| executor.get(name).and_then(Value::as_str);
    if let Some(run) = executor.get("run") {
        return format!("self:{}", executor_words(run));
    }
    match (field("kind"), field("name").or_else(|| field("url"))) {
        (Some(kind), Some(what)) => format!("{kind}:{what}"),
        (Some(kind), None) => kind.to_owned(),
        (None, _) => executor.to_string(),
    }
}
