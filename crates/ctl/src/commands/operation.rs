//! Bulk work: begun, and waited for where that is wanted.

use std::time::Duration;

use clap::Args;
use wakepost_client::{Call, Operation, OperationBegun};

use crate::output::{self, Cell, Fields, Progress, escape};
use crate::session::Session;

/// How often a waiting command asks how far it is.
const LOOK: Duration = Duration::from_millis(500);
/// How many looks in a row may fail: a server that is restarted goes on with its bulk work.
const FAILURES_MAX: u32 = 20;

#[derive(Args)]
pub struct Wait {
    /// Wait until it is through, and say how far it is meanwhile
    #[arg(long)]
    pub wait: bool,
}

/// Begins bulk work and names it; or waits for its end, which is a failure if any of it failed.
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
            output::hint(&format!("next: webhookctl operations wait {}", escape(id)));
        }
        return Ok(());
    }
    let id = call.await?.operation_id;
    // First of all, so that whoever stops waiting can ask later.
    output::hint(&format!("operation {}", escape(&id)));
    wait_for(session, &id).await
}

/// Says how far bulk work is.
pub async fn show(session: &Session, id: &str) -> anyhow::Result<()> {
    if let Some(shown) = session.answer(session.client.get_operation(id)).await? {
        output::print(&summary(&shown).render(session.paint))?;
    }
    Ok(())
}

/// Waits for the end of bulk work, which is a failure if any of it failed.
pub async fn wait_for(session: &Session, id: &str) -> anyhow::Result<()> {
    let over = end_of(session, id).await?;
    show(session, id).await?;
    match over.failed {
        0 => Ok(()),
        failed => Err(anyhow::anyhow!("{failed} of {} failed", over.matched)),
    }
}

/// Waits until bulk work is through, and says how far it is meanwhile.
pub async fn end_of(session: &Session, id: &str) -> anyhow::Result<Operation> {
    let progress = Progress::beside_nothing("done");
    let (mut told, mut failures) = (0, 0);
    loop {
        match session.client.get_operation(id).await {
            Ok(shown) if shown.status != "running" => return Ok(shown),
            Ok(shown) => {
                failures = 0;
                progress.at(shown.done, shown.failed);
                // One line whenever there is news: it reads well in a log.
                if !progress.is_shown() && told != shown.done + shown.failed {
                    told = shown.done + shown.failed;
                    output::hint(&format!("{} done, {} failed so far", shown.done, shown.failed));
                }
            }
            Err(error) if failures == FAILURES_MAX || !error.is_transient() => {
                return Err(error.into());
            }
            Err(_) => failures += 1,
        }
        tokio::time::sleep(LOOK).await;
    }
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
