//! `webhookctl deliveries show`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::{Attempt, Delivery};

use super::rows::attempts;
use super::timings;
use crate::output::when::absolute;
use crate::output::{self, Cell, Fields, Table, Tone, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Show {
    /// The delivery's id
    delivery: String,
}

impl Show {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.get_delivery(&self.delivery);
        let Some(delivery) = session.answer(call).await? else {
            return Ok(());
        };
        let mut text = fields(session.now, &delivery).render(session.paint);
        if let Some(table) = tries(session.now, &delivery.tries) {
            text.push('\n');
            text.push_str(&table.render(session.paint));
        }
        output::print(&text)?;
        if delivery.status == "dead_letter" && delivery.replayed_as.is_none() {
            let id = escape(&delivery.id);
            output::hint(&format!("next: webhookctl deliveries replay {id}"));
        }
        Ok(())
    }
}

fn fields(now: Timestamp, delivery: &Delivery) -> Fields {
    let time = |at: &Option<String>| at.as_deref().map(|at| Cell::new(&absolute(now, at)));
    let text = |text: &Option<String>| text.as_deref().map(Cell::new);
    let waits = matches!(delivery.status.as_str(), "retrying" | "scheduled");
    let next = time(&delivery.run_at).filter(|_| waits);
    // What the receiver said last is what tells most about a failure.
    let answer = delivery.tries.iter().rev().find_map(|attempt| attempt.body.as_deref());
    Fields::default()
        .line("delivery", Cell::new(&delivery.id))
        .line("status", Cell::status(&delivery.status))
        .line_if("event", text(&delivery.event_id))
        .line_if("type", text(&delivery.event_type))
        .line_if("webhook", text(&delivery.webhook_id))
        .line("attempts", Cell::new(&attempts(delivery)))
        .line_if("next", next)
        .line_if("created", time(&delivery.created_at))
        .line_if("finished", time(&delivery.finished_at))
        .line("last error", Cell::maybe(delivery.last_error.as_deref()))
        .line_if("last answer", answer.filter(|body| !body.is_empty()).map(Cell::new))
        .line_if("replayed as", text(&delivery.replayed_as))
}

fn tries(now: Timestamp, tries: &[Attempt]) -> Option<Table> {
    let mut table = Table::new(&["ATTEMPT", "STARTED", "ANSWER", "TOOK", "ERROR"]);
    for attempt in tries {
        // A probe is no attempt: it asks whether the circuit can be closed.
        let number = match attempt.probe {
            true => Cell::toned(Tone::Dim, "probe"),
            false => Cell::number(attempt.attempt),
        };
        table.row([
            number,
            Cell::maybe(attempt.started_at.as_deref().map(|at| absolute(now, at)).as_deref()),
            status_code(attempt.status_code),
            Cell::maybe(timings(&attempt.timings).as_deref()),
            Cell::maybe(attempt.error.as_deref()),
        ]);
    }
    (!tries.is_empty()).then_some(table)
}

fn status_code(code: Option<u16>) -> Cell {
    match code {
        Some(code @ 200..300) => Cell::toned(Tone::Good, &code.to_string()),
        Some(code) => Cell::toned(Tone::Bad, &code.to_string()),
        None => Cell::maybe(None),
    }
}
