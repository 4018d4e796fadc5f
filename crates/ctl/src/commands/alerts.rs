//! `webhookctl alerts`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::{Alert, AlertQuery};

use crate::commands::paging::Paging;
use crate::output::when::relative;
use crate::output::{Cell, Row, Tone};
use crate::session::Session;

/// As much of a detail as a table can show.
const DETAIL_CHARS_MAX: usize = 80;

#[derive(Args)]
pub struct Alerts {
    /// Only those that fire now, or that are resolved
    #[arg(long, value_parser = ["firing", "resolved"])]
    status: Option<String>,
    #[command(flatten)]
    paging: Paging,
}

impl Alerts {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let Paging { limit, cursor } = self.paging;
        let query = AlertQuery { status: self.status, limit, cursor };
        session.list(session.client.list_alerts(&query)).await
    }
}

impl Row for Alert {
    const THINGS: &'static str = "alerts";
    const COLUMNS: &'static [&'static str] =
        &["ALERT", "SEVERITY", "STATUS", "FIRED", "SUBJECT", "WHAT"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let status = match self.resolved_at.as_deref() {
            Some(at) => Cell::new("resolved ").then(Tone::Dim, &relative(now, at)),
            None => Cell::toned(Tone::Bad, &self.status),
        };
        let detail = self.detail.as_deref().filter(|detail| !detail.is_empty());
        let what = match detail {
            Some(detail) => format!("{}: {detail}", self.title),
            None => self.title.clone(),
        };
        vec![
            Cell::new(&self.id),
            Cell::toned(severity(&self.severity), &self.severity),
            status,
            Cell::ago(now, self.fired_at.as_deref()),
            Cell::maybe(Some(&self.subject)),
            Cell::clipped(Some(&what), DETAIL_CHARS_MAX),
        ]
    }
}

/// How bad it looks.
pub fn severity(word: &str) -> Tone {
    match word {
        "critical" => Tone::Bad,
        "warning" => Tone::Warn,
        _ => Tone::Plain,
    }
}
