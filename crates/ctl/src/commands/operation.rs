//! Bulk work: begun, and waited for where that is wanted.

use std::time::Duration;

use clap::Args;
use wakepost_client::{Call, Operation, OperationBegun};

use crate::output::{self, Cell, Fields};
use crate::session::Session;

/// How often a waiting command asks how far it is.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Args)]
pub struct Wait {
    /// Wait until it is through, and say how far it is meanwhile
    #[arg(long)]
    pub wait: bool,
}

/// Begins bulk work and names it; or waits for its end.
pub async fn begin(
    session: &Session,
    call: Call<OperationBegun>,
    wait: Wait,
) -> anyhow::Result<()> {
    if !wait.wait {
        if let Some(begun) = session.answer(call).await? {
            let id = &begun.operation_id;
            output::print(
                &Fields::default().line("operation", Cell::new(id)).render(session.paint),
            )?;
        }
        return Ok(());
    }
    let id = call.await?.operation_id;
    let mut told = None;
    loop {
        let shown = session.client.get_operation(&id).await?;
        if shown.status != "running" {
            break;
        }
        // One line whenever there is news: it reads well in a log, too.
        if told != Some(shown.done + shown.failed) {
            told = Some(shown.done + shown.failed);
            output::hint(&format!("{} done, {} failed so far", shown.done, shown.failed));
        }
        tokio::time::sleep(LOOK).await;
    }
    if let Some(over) = session.answer(session.client.get_operation(&id)).await? {
        output::print(&summary(&over).render(session.paint))?;
    }
    Ok(())
}

fn summary(over: &Operation) -> Fields {
    let count = |count: u64| Cell::new(&count.to_string());
    Fields::default()
        .line("operation", Cell::new(&over.id))
        .line("status", Cell::status(&over.status))
        .line("matched", count(over.matched))
        .line("done", count(over.done))
        .line("failed", count(over.failed))
}
