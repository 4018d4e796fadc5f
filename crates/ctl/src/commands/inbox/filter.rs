//! Which events: the flags that several commands share.

use clap::Args;
use serde_json::{Map, Value};
use wakepost_client::InboxQuery;

use crate::output::when::When;
use crate::session::Session;

/// What events are told apart by, whenever they came.
#[derive(Args)]
pub struct Kind {
    /// Of this source
    #[arg(long, value_name = "SRC")]
    source: Option<String>,
    /// Of this provider
    #[arg(long)]
    provider: Option<String>,
    /// Of this event type, or with this beginning (issues.*)
    #[arg(long = "type", value_name = "TYPE")]
    event_type: Option<String>,
    /// Of this conversation
    #[arg(long)]
    thread: Option<String>,
    /// About this subject (provider:kind:id)
    #[arg(long)]
    subject: Option<String>,
    /// Whose id, type, subject or dedup key begins so
    #[arg(long, value_name = "TEXT")]
    q: Option<String>,
}

impl From<Kind> for InboxQuery {
    fn from(kind: Kind) -> InboxQuery {
        InboxQuery {
            source: kind.source,
            provider: kind.provider,
            event_type: kind.event_type,
            thread: kind.thread,
            subject: kind.subject,
            q: kind.q,
            ..InboxQuery::default()
        }
    }
}

/// Events that are there.
#[derive(Args)]
pub struct Filter {
    #[command(flatten)]
    kind: Kind,
    /// In this status
    #[arg(long)]
    status: Option<String>,
    /// With this dedup key
    #[arg(long, value_name = "KEY")]
    dedup_key: Option<String>,
    /// Received since: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    since: Option<When>,
    /// Received before: 30m, 2h, 7d ago, or a date or time
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,
}

impl Filter {
    /// As the server is asked.
    pub fn resolve(self, session: &Session) -> InboxQuery {
        InboxQuery {
            status: self.status,
            dedup_key: self.dedup_key,
            since: self.since.map(|when| when.ago(session.now)),
            until: self.until.map(|when| when.ago(session.now)),
            ..self.kind.into()
        }
    }
}

/// The same, as bulk work takes it.
pub fn as_map(query: &InboxQuery) -> anyhow::Result<Map<String, Value>> {
    let Value::Object(mut fields) = serde_json::to_value(query)? else {
        return Ok(Map::new());
    };
    fields.retain(|_, value| !value.is_null());
    Ok(fields)
}
