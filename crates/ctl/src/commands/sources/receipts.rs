//! `webhookctl sources receipts`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::Receipt;

use crate::commands::paging::Paging;
use crate::output::{Cell, Row};
use crate::session::Session;

/// The latest requests that were refused or repeated.
#[derive(Args)]
pub struct Receipts {
    /// The source's id
    source: String,
    #[command(flatten)]
    paging: Paging,
}

impl Receipts {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.source_receipts(&self.source, &self.paging.into());
        session.list(call).await
    }
}

impl Row for Receipt {
    const THINGS: &'static str = "refused or repeated requests";
    const COLUMNS: &'static [&'static str] =
        &["WHEN", "VERDICT", "CLASS", "FROM", "LATENCY", "DETAIL"];

    fn cells(&self, now: Timestamp) -> Vec<Cell> {
        let latency = self.latency_us.map(duration);
        vec![
            Cell::ago(now, self.received_at.as_deref()),
            Cell::new(&self.verdict),
            Cell::maybe(self.class.as_deref()),
            Cell::maybe(self.address.as_deref()),
            Cell::maybe(latency.as_deref()),
            Cell::maybe(self.detail.as_deref()),
        ]
    }
}

/// `850 µs`, `12 ms`, `1.5 s`
fn duration(us: i64) -> String {
    match us {
        ..1000 => format!("{us} µs"),
        1000..1_000_000 => format!("{} ms", us / 1000),
        _ => format!("{}.{} s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_fits() {
        for (us, said) in
            [(0, "0 µs"), (999, "999 µs"), (1000, "1 ms"), (12_900, "12 ms"), (1_560_000, "1.5 s")]
        {
            assert_eq!(duration(us), said);
        }
    }
}
