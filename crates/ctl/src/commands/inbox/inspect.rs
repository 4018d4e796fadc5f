//! `webhookctl inbox inspect`

use clap::Args;
use wakepost_client::{Error, Event, Job};

use super::story::story;
use crate::output;
use crate::session::Session;

#[derive(Args)]
pub struct Inspect {
    /// The event's id
    event: String,
}

impl Inspect {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.get_event(&self.event);
        let Some(event) = session.answer(call).await? else {
            return Ok(());
        };
        let job = job(session, &event).await?;
        let fields = story(session.now, &event, job.as_ref());
        output::print(&fields.render(session.paint))?;
        Ok(())
    }
}

/// The job that counts: the last one that was not replayed. A key that may see the event but not its job
/// still gets the event.
async fn job(session: &Session, event: &Event) -> Result<Option<Job>, Error> {
    let jobs = || event.work.iter().filter(|work| work.kind == "job");
    let current = jobs().rfind(|work| work.replayed_as.is_none());
    let Some(work) = current.or_else(|| jobs().next_back()) else {
        return Ok(None);
    };
    match session.client.get_job(&work.id).await {
        Ok(job) => Ok(Some(job)),
        Err(Error::Api(problem)) if matches!(problem.status, 403 | 404) => Ok(None),
        Err(error) => Err(error),
    }
}
