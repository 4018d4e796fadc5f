//! `webhookctl sources receipts`

use clap::Args;
use wakepost_client::{Receipt, SourceQuery};

use crate::commands::paging::Paging;
use crate::output::when::relative;
use crate::output::{Cell, Table};
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
        let query = SourceQuery { limit: self.paging.limit, cursor: self.paging.cursor };
        let call = session.client.source_receipts(&self.source, &query);
        let things = "refused or repeated requests";
        session.list(call, things, |receipts| table(session, receipts)).await
    }
}

fn table(session: &Session, receipts: &[Receipt]) -> Table {
    let mut table = Table::new(&["WHEN", "VERDICT", "CLASS", "FROM", "LATENCY", "DETAIL"]);
    for receipt in receipts {
        let when = receipt.received_at.as_deref().map(|at| relative(session.now, at));
        let latency = receipt.latency_us.map(duration);
        table.row([
            Cell::maybe(when.as_deref()),
            Cell::new(&receipt.verdict),
            Cell::maybe(receipt.class.as_deref()),
            Cell::maybe(receipt.address.as_deref()),
            Cell::maybe(latency.as_deref()),
            Cell::maybe(receipt.detail.as_deref()),
        ]);
    }
    table
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
