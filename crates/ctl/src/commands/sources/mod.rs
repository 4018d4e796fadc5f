//! `webhookctl sources`

mod create;
mod flags;
mod list;
mod next_step;
mod show;

use clap::Subcommand;
use serde_json::Value;

pub use flags::Setting;

use crate::session::Session;

#[derive(Subcommand)]
pub enum Sources {
    /// Make a source: an address that webhooks can be sent to
    Create(Box<create::Create>),
    /// List sources
    List(list::List),
    /// Show one source
    Show(show::Show),
}

impl Sources {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        match self {
            Sources::Create(command) => command.run(session).await,
            Sources::List(command) => command.run(session).await,
            Sources::Show(command) => command.run(session).await,
        }
    }
}

/// An executor, as the flag that makes it.
fn executor_words(executor: &Value) -> String {
    let field = |name: &str| executor.get(name).and_then(Value::as_str);
    match (field("kind"), field("name").or_else(|| field("url"))) {
        (Some(kind), Some(what)) => format!("{kind}:{what}"),
        (Some(kind), None) => kind.to_owned(),
        (None, _) => executor.to_string(),
    }
}
