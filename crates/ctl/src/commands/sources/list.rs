//! `webhookctl sources list`

use clap::Args;
use wakepost_client::{Source, SourceQuery};
use wakepost_providers::{Need, registry};

use crate::commands::paging::Paging;
use crate::output::{Cell, Table, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = SourceQuery { limit: self.paging.limit, cursor: self.paging.cursor };
        session.list(session.client.list_sources(&query), "sources", table).await
    }
}

fn table(sources: &[Source]) -> Table {
    let mut table = Table::new(&["SOURCE", "PROVIDER", "NAME", "STATE", "INGEST URL"]);
    for source in sources {
        table.row([
            Cell::new(&source.id),
            Cell::new(&source.provider),
            Cell::maybe(Some(&source.name)),
            state(source),
            Cell::maybe(source.ingest_url.as_deref()),
        ]);
    }
    table
}

/// Whether it works, and what stands in the way.
pub fn state(source: &Source) -> Cell {
    if source.enabled == Some(false) {
        Cell::toned(Tone::Dim, "disabled")
    } else if let missing = missing_to_receive(source)
        && !missing.is_empty()
    {
        Cell::toned(Tone::Warn, &format!("missing {}", missing.join(", ")))
    } else if source.unsigned {
        Cell::toned(Tone::Warn, "unsigned")
    } else {
        Cell::toned(Tone::Good, "ready")
    }
}

/// What it must be told before it can receive; what only replies need stands in nobody's way.
fn missing_to_receive(source: &Source) -> Vec<&str> {
    let provider = registry::find(&source.provider);
    let only_replies = |name: &str| {
        let mut settings = provider.into_iter().flat_map(|provider| provider.settings());
        settings.any(|setting| setting.name == name && setting.need == Need::Replying)
    };
    let missing = source.missing_settings.iter().map(String::as_str);
    missing.filter(|name| !only_replies(name)).collect()
}
