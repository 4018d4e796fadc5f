//! `webhookctl webhooks stats`

use clap::Args;
use serde_json::{Map, Value};

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Stats {
    /// The webhook's id
    webhook: String,
}

impl Stats {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Some(stats) = session.answer(session.client.webhook_stats(&self.webhook)).await? else {
            return Ok(());
        };
        output::print(&fields(&stats).render(session.paint))?;
        Ok(())
    }
}

/// Whatever the server counts, under its own names: it may count more than this program knows.
fn fields(stats: &Map<String, Value>) -> Fields {
    stats.iter().fold(Fields::default(), |fields, (name, value)| {
        fields.line(words(name), Cell::maybe(Some(&said(value))))
    })
}

fn words(name: &str) -> String {
    name.replace('_', " ")
}

fn said(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) => all.iter().map(said).collect::<Vec<_>>().join("; "),
        Value::Object(parts) => {
            let part =
                |(name, value): (&String, &Value)| format!("{} {}", words(name), said(value));
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        number => number.to_string(),
    }
}
