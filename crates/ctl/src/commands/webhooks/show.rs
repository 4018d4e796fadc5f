//! `webhookctl webhooks show`

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;
use wakepost_client::Webhook;

use super::flags::circuit_words;
use super::list::{place, state};
use crate::commands::secret_age::secret_age;
use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, Table, Tone};
use crate::session::Session;

/// As many moves of the circuit as are worth a look.
const HISTORY_MAX: usize = 10;

#[derive(Args)]
pub struct Show {
    /// The webhook's id
    webhook: String,
}

impl Show {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Some(webhook) = session.answer(session.client.get_webhook(&self.webhook)).await? else {
            return Ok(());
        };
        let mut text = fields(session.now, &webhook).render(session.paint);
        if let Some(table) = history(session.now, &webhook.circuit.history) {
            text.push('\n');
            text.push_str(&table.render(session.paint));
        }
        output::print(&text)?;
        Ok(())
    }
}

fn fields(now: Timestamp, webhook: &Webhook) -> Fields {
    let text = |text: &Option<String>| text.as_deref().map(Cell::new);
    let seconds = |s: Option<u64>| s.map(|s| Cell::new(&format!("{s} s")));
    let retries = webhook.retry_s.as_ref().map(|waits| {
        let waits: Vec<String> = waits.iter().map(u64::to_string).collect();
        format!("{} s", waits.join(", "))
    });
    let failing = (webhook.circuit.failures > 0)
        .then(|| Cell::toned(Tone::Warn, &format!("{} in a row", webhook.circuit.failures)));
    let auth = webhook.auth.as_ref().and_then(|auth| auth.get("type")?.as_str());
    let circuit = circuit_words(&webhook.circuit_settings);
    let created = webhook.created_at.as_deref().map(|at| Cell::new(&absolute(now, at)));
    let mut fields = Fields::default()
        .line("webhook", Cell::new(&webhook.id))
        .line("url", place(webhook))
        .line("events", Cell::maybe(Some(&webhook.events.join(", "))))
        .line("state", state(now, webhook))
        .line_if("failures", failing)
        .line_if("warning", webhook.warning.as_deref().map(|text| Cell::toned(Tone::Warn, text)))
        .line_if("description", text(&webhook.description))
        .line_if("signature", text(&webhook.signature))
        .line_if("public key", text(&webhook.public_key))
        .line_if("secret", webhook.secret_age_days.map(secret_age))
        .line_if("auth", auth.map(Cell::new))
        .line_if("rate", webhook.rate_per_s.map(|rate| Cell::new(&format!("{rate} per s"))))
        .line_if("in order", webhook.order.map(|on| Cell::new(if on { "yes" } else { "no" })))
        .line_if("timeout", seconds(webhook.timeout_s))
        .line_if("tries after", retries.map(|text| Cell::new(&text)))
        .line_if("circuit", (!circuit.is_empty()).then(|| Cell::new(&circuit)))
        .line_if("created by", text(&webhook.created_by))
        .line_if("created", created);
    for (name, value) in &webhook.headers {
        fields = fields.line("header", Cell::new(&format!("{name}: {value}")));
    }
    for (name, value) in &webhook.metadata {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        fields = fields.line("metadata", Cell::new(&format!("{name} = {value}")));
    }
    fields
}

/// How the circuit moved, the latest last. An entry in a form that is not known is shown as it is.
fn history(now: Timestamp, moves: &[Value]) -> Option<Table> {
    let mut table = Table::new(&["CIRCUIT", "WHEN", "WHY"]);
    for entry in &moves[moves.len().saturating_sub(HISTORY_MAX)..] {
        let field = |name: &str| entry.get(name).and_then(Value::as_str);
        let at = field("at").map(|at| absolute(now, at));
        match field("state") {
            Some(state) => table.row([
                Cell::new(&state.replace('_', " ")),
                Cell::maybe(at.as_deref()),
                Cell::maybe(field("reason")),
            ]),
            None => table.row([Cell::new(&entry.to_string())]),
        }
    }
    (!moves.is_empty()).then_some(table)
}
