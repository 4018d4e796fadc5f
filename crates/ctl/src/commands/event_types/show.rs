//! `webhookctl event-types show`

use clap::Args;
use serde_json::Value;
use wakepost_client::EventType;

use crate::output::{self, Cell, Fields, Table, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Show {
    /// The type's name
    name: String,
}

impl Show {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Some(shown) = session.answer(session.client.get_event_type(&self.name)).await? else {
            return Ok(());
        };
        let mut text = summary(&shown).render(session.paint);
        if let Some(table) = versions(&shown) {
            text.push('\n');
            text.push_str(&table.render(session.paint));
        }
        if let Some((_, latest)) = shown.versions.last_key_value() {
            for (what, value) in [("schema", &latest.schema), ("example", &latest.example)] {
                if let Some(value) = value.as_ref().filter(|value| !value.is_null()) {
                    text.push('\n');
                    text.push_str(&document(session, what, value)?);
                }
            }
        }
        output::print(&text)?;
        Ok(())
    }
}

/// A type in short.
pub fn summary(shown: &EventType) -> Fields {
    let mut fields = Fields::default()
        .line("type", Cell::toned(Tone::Bold, &shown.name))
        .line("description", Cell::maybe(Some(&shown.description)));
    for warning in &shown.warnings {
        fields = fields.line("warning", Cell::toned(Tone::Warn, warning));
    }
    fields
}

fn versions(shown: &EventType) -> Option<Table> {
    let mut table = Table::new(&["VERSION", "SCHEMA", "EXAMPLE", "CHANGE"]);
    let there = |value: &Option<Value>| Cell::new(if value.is_some() { "yes" } else { "no" });
    for (name, version) in shown.versions.iter().rev() {
        table.row([
            Cell::new(name),
            there(&version.schema),
            there(&version.example),
            Cell::maybe(version.change.as_deref()),
        ]);
    }
    (!shown.versions.is_empty()).then_some(table)
}

fn document(session: &Session, what: &str, value: &Value) -> anyhow::Result<String> {
    let title = Cell::toned(Tone::Dim, what).render(session.paint);
    Ok(format!("{title}\n{}", output::json::pretty(&value.to_string())?))
}
