//! Server-sent events, read one by one.

use std::time::Duration;

use bytes::{Buf, BytesMut};
use http::{HeaderName, HeaderValue};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::Value;

use crate::{Call, Client, Error};

/// How long the server may say nothing; it shows a sign of life every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The longest line that is read, and the most data of one event.
const LINE_BYTES_MAX: usize = 1024 * 1024;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A stream that the server goes on writing.
#[derive(Debug)]
pub(crate) struct Stream {
    body: Incoming,
    read: BytesMut,
    url: String,
}

/// One event of a stream.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// What to go on after.
    pub id: String,
    /// What kind of event.
    pub event: String,
    /// What happened.
    pub data: Value,
}

/// How long the server goes on; a query parameter.
#[derive(Serialize)]
pub(crate) struct Lasting {
    pub for_s: Option<u64>,
}

impl Stream {
    /// Opens a stream, after the event with the id `after` if there is one.
    pub(crate) async fn open(
        client: &Client,
        call: Call<Value>,
        after: Option<&str>,
    ) -> Result<Stream, Error> {
        let after = after.map(HeaderValue::from_str).transpose();
        let after = after.map_err(|_| Error::Request("that is not an event's id".to_owned()))?;
        let body = call.open(|headers| {
            if let Some(after) = after {
                headers.insert(LAST_EVENT_ID, after);
            }
        });
        let body = body.await?;
        Ok(Stream { body, read: BytesMut::new(), url: client.url().to_owned() })
    }

    /// The next event; `None` once the server has ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Told>, Error> {
        let (mut told, mut data) = (Told::default(), String::new());
        while let Some(line) = self.line().await? {
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => value.clone_into(&mut told.id),
                "event" => value.clone_into(&mut told.event),
                "data" => {
                    if !data.is_empty() {
                        data.push('\n');
                    }
                    data.push_str(value);
                    if data.len() > LINE_BYTES_MAX {
                        return Err(Error::Protocol("an event of the stream is too long".into()));
                    }
                }
                // An empty line ends an event; without data it was only a sign of life.
                "" if line.is_empty() && !data.is_empty() => {
                    told.data = serde_json::from_str(&data)
                        .map_err(|error| Error::Protocol(error.to_string()))?;
                    return Ok(Some(told));
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
