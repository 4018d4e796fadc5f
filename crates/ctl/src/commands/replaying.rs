//! The flags and the answer of every replay.

use clap::{Args, ValueEnum};
use wakepost_client::{Call, Replay, Replayed, Scope};

use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct ReplayFlags {
    /// Who wants it, and why: it stays in the audit trail
    #[arg(long)]
    note: String,
    /// Whether effects that were committed are done again
    #[arg(long, value_enum)]
    scope: Option<ScopeFlag>,
}

#[derive(Clone, Copy, ValueEnum)]
enum ScopeFlag {
    /// Committed effects are skipped (the default)
    Same,
    /// Every effect is done again
    Fresh,
}

impl From<ReplayFlags> for Replay {
    fn from(flags: ReplayFlags) -> Replay {
        Replay {
            note: flags.note,
            scope: flags.scope.map(|scope| match scope {
                ScopeFlag::Same => Scope::Same,
                ScopeFlag::Fresh => Scope::Fresh,
            }),
        }
    }
}

/// Makes the replay, and says what it made.
pub async fn replay(session: &Session, id: &str, call: Call<Replayed>) -> anyhow::Result<()> {
    let Some(replayed) = session.answer(call).await? else {
        return Ok(());
    };
    let made = replayed.job_id.as_deref();
    let fields =
        Fields::default().line("replayed", Cell::new(id)).line_if("as", made.map(Cell::new));
    output::print(&fields.render(session.paint))?;
    if let Some(job) = made.filter(|made| made.starts_with("job_")) {
        let follow = format!("next: webhookctl jobs inspect {}", output::escape(job));
        output::hint(&follow);
    }
    Ok(())
}
