//! `webhookctl inbox tail`

use clap::Args;
use wakepost_client::{Arrived, InboxQuery};

use super::filter::Kind;
use crate::commands::following::{self, COUNT_MAX, LAST_MAX};
use crate::output::{self, Cell, Tone};
use crate::session::Session;

/// As wide as most providers' names, and as most types.
const PROVIDER_WIDTH: usize = 10;
const TYPE_WIDTH: usize = 28;
const STATUS_WIDTH: usize = 9;

#[derive(Args)]
pub struct Tail {
    #[command(flatten)]
    kind: Kind,
    /// Begin with so many that are there already
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(0..=LAST_MAX))]
    last: u32,
    /// End after so many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: Option<u64>,
}

impl Tail {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query: InboxQuery = self.kind.into();
        let mut stop = following::Stop::new()?;
        let mut arriving = following::begin(session, query, self.last).await?;
        let mut left = self.count.unwrap_or(u64::MAX);
        while left > 0 {
            let arrived = tokio::select! {
                () = stop.wanted() => return Ok(()),
                arrived = arriving.recv() => arrived,
            };
            let Some(arrived) = arrived.transpose()? else {
                return Ok(());
            };
            let text = match session.is_json() {
                true => output::json::line(&arrived.data)?,
                false => line(&arrived).render(session.paint),
            };
            if !output::print_while_read(&text)? {
                return Ok(());
            }
            left -= 1;
        }
        Ok(())
    }
}

/// One event, on one line, with its whole id, so that it can be copied.
fn line(arrived: &Arrived) -> Cell {
    let envelope = &arrived.event.envelope;
    Cell::toned(Tone::Dim, &following::clock(envelope.received_at.as_deref()))
        .then(Tone::Plain, "  ")
        .then_padded(Tone::Plain, &envelope.provider, PROVIDER_WIDTH)
        .then_padded(Tone::Bold, &envelope.event_type, TYPE_WIDTH)
        .then(Tone::Plain, &arrived.id)
        .then(Tone::Plain, "  ")
        .then_padded(Tone::of_status(&arrived.event.status), &arrived.event.status, STATUS_WIDTH)
        .then(Tone::Plain, arrived.event.subject.as_deref().unwrap_or_default())
}
