//! A job as it goes on: server-sent events, read one by one.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::{HeaderName, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::get;
use crate::{Client, Error};

/// How long the server may say nothing; it shows a sign of life every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The longest line that is read.
const LINE_BYTES_MAX: usize = 1024 * 1024;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

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
pub struct JobEvents {
    body: Incoming,
    read: BytesMut,
    url: String,
}

#[derive(Serialize)]
struct Lasting {
    for_s: Option<u64>,
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
        let after = after.map(HeaderValue::from_str).transpose();
        let after = after.map_err(|_| Error::Request("that is not an event's id".to_owned()))?;
        let body = call.open(|headers| {
            if let Some(after) = after {
                headers.insert(LAST_EVENT_ID, after);
            }
        });
        let body = body.await?;
        Ok(JobEvents { body, read: BytesMut::new(), url: self.url().to_owned() })
    }
}

impl JobEvents {
    /// The next event; `None` once the server has ended the stream.
    pub async fn next(&mut self) -> Result<Option<JobEvent>, Error> {
        let (mut id, mut event, mut data) = (String::new(), String::new(), String::new());
        while let Some(line) = self.line().await? {
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => value.clone_into(&mut id),
                "event" => value.clone_into(&mut event),
                "data" => {
                    if !data.is_empty() {
                        data.push('\n');
                    }
                    data.push_str(value);
                }
                // An empty line ends an event; without data it was only a sign of life.
                "" if line.is_empty() && !data.is_empty() => {
                    let data = serde_json::from_str(&data)
                        .map_err(|error| Error::Protocol(error.to_string()))?;
                    return Ok(Some(JobEvent { id, event, data }));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The next line, without its end. What is cut off at the end of the stream is no line.
    async fn line(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(end);
                self.read.advance(1);
                let line = String::from_utf8_lossy(&line);
                return Ok(Some(line.trim_end_matches('\r').to_owned()));
            }
            if self.read.len() > LINE_BYTES_MAX {
                return Err(Error::Protocol("a line of the stream is too long".to_owned()));
            }
            let unreachable = |reason| Error::Unreachable { url: self.url.clone(), reason };
            let frame = tokio::time::timeout(SILENCE_MAX, self.body.frame()).await;
            match frame.map_err(|_| unreachable("the stream fell silent".to_owned()))? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    self.read.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
                }
                Some(Err(error)) => {
                    return Err(unreachable(format!("the stream broke off: {error}")));
                }
            }
        }
    }
}
