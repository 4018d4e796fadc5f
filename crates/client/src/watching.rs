//! A job, and the inbox, as they go on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::get;
use crate::sse::{Lasting, Stream};
use crate::{Client, Error, Event, InboxQuery};

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct JobEvent {
    /// What to go on after: see [`Client::watch_job`].
    pub id: String,
    /// `state`, `progress`, `effect` or `reply`.
    pub event: String,
    /// What happened.
    pub data: Value,
}

impl JobEvent {
    /// Whether it is the job's last state.
    pub fn is_last(&self) -> bool {
        let ended = ["succeeded", "cancelled", "dead_letter"];
        let status = self.data["status"].as_str().unwrap_or_default();
        self.event == "state" && ended.contains(&status)
    }
}

/// What happens to a job, as it happens.
#[derive(Debug)]
pub struct JobEvents(Stream);

/// Events as they arrive in the inbox.
#[derive(Debug)]
pub struct InboxEvents(Stream);

/// An event that arrived.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Arrived {
    /// What to go on after: see [`Client::watch_inbox`].
    pub id: String,
    /// The event, as lists show it.
    pub event: Event,
    /// The same, as the server wrote it.
    pub data: Value,
}

#[derive(Serialize)]
struct InboxWatch<'a> {
    #[serde(flatten)]
    query: &'a InboxQuery,
    #[serde(flatten)]
    lasting: Lasting,
}

impl Client {
    /// `GET /jobs/{id}/events`: from its beginning, or after the event with the id `after`. The server ends it after
    /// the job's last state, or after `for_s` seconds (0: what there is; at most 900): come again then.
    pub async fn watch_job(
        &self,
        id: &str,
        after: Option<&str>,
        for_s: Option<u64>,
    ) -> Result<JobEvents, Error> {
        let call = self.call::<Value>(get(&["jobs", id, "events"]).query(&Lasting { for_s }));
        Stream::open(self, call, after).await.map(JobEvents)
    }

    /// `GET /inbox/stream`: events that fit the query, as they arrive from now on, or from the event with the id
    /// `after` on. The server ends it after `for_s` seconds (0: what there is; at most 900): come again then.
    pub async fn watch_inbox(
        &self,
        query: &InboxQuery,
        after: Option<&str>,
        for_s: Option<u64>,
    ) -> Result<InboxEvents, Error> {
        // A stream has no pages.
        let query = &InboxQuery { limit: None, cursor: None, ..query.clone() };
        let asked = InboxWatch { query, lasting: Lasting { for_s } };
        let call = self.call::<Value>(get(&["inbox", "stream"]).query(&asked));
        Stream::open(self, call, after).await.map(InboxEvents)
    }
}

impl JobEvents {
    /// The next event; `None` once the server has ended the stream.
    pub async fn next(&mut self) -> Result<Option<JobEvent>, Error> {
        let told = self.0.next().await?;
        Ok(told.map(|told| JobEvent { id: told.id, event: told.event, data: told.data }))
    }
}

impl InboxEvents {
    /// The next event; `None` once the server has ended the stream.
    pub async fn next(&mut self) -> Result<Option<Arrived>, Error> {
        while let Some(told) = self.0.next().await? {
            // What a newer server tells besides is not for us.
            if told.event != "received" {
                continue;
            }
            let event = serde_json::from_value(told.data.clone());
            let event = event.map_err(|error| Error::Protocol(error.to_string()))?;
            return Ok(Some(Arrived { id: told.id, event, data: told.data }));
        }
        Ok(None)
    }
}
