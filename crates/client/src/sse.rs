//! Server-sent events, read one by one.

use std::mem;
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
    reader: Reader,
    url: String,
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
        Ok(Stream { body, reader: Reader::default(), url: client.url().to_owned() })
    }

    /// The next event; `None` once the server has ended the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<Told>, Error> {
        loop {
            if let Some(told) = self.reader.event()? {
                return Ok(Some(told));
            }
            let unreachable = |reason| Error::Unreachable { url: self.url.clone(), reason };
            let frame = tokio::time::timeout(SILENCE_MAX, self.body.frame()).await;
            match frame.map_err(|_| unreachable("the stream fell silent".to_owned()))? {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    self.reader.push(frame.data_ref().map_or(&[], |data| &data[..]));
                }
                Some(Err(error)) => {
                    return Err(unreachable(format!("the stream broke off: {error}")));
                }
            }
        }
    }
}

/// One event of a stream.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    /// What to go on after.
    pub id: String,
    /// What kind of event.
    pub event: String,
    /// What happened.
    pub data: Value,
}

/// Puts events together from the pieces in which a stream comes.
#[derive(Debug, Default)]
pub struct Reader {
    read: BytesMut,
    /// How much of it is known to have no end of line.
    searched: usize,
    told: Told,
    data: String,
}

impl Reader {
    /// Another piece came.
    pub fn push(&mut self, piece: &[u8]) {
        self.read.extend_from_slice(piece);
    }

    /// The next event, once all of it is there. What is cut off at the end of the stream is none.
    pub fn event(&mut self) -> Result<Option<Told>, Error> {
        while let Some(line) = self.line()? {
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => value.clone_into(&mut self.told.id),
                "event" => value.clone_into(&mut self.told.event),
                "data" => {
                    if !self.data.is_empty() {
                        self.data.push('\n');
                    }
                    self.data.push_str(value);
                    if self.data.len() > LINE_BYTES_MAX {
                        return Err(Error::Protocol("an event of the stream is too long".into()));
                    }
                }
                // An empty line ends an event; without data it was only a sign of life.
                "" if line.is_empty() && self.data.is_empty() => self.told.event.clear(),
                "" if line.is_empty() => {
                    let (told, data) = (mem::take(&mut self.told), mem::take(&mut self.data));
                    let data = serde_json::from_str(&data);
                    let data = data.map_err(|error| Error::Protocol(error.to_string()))?;
                    return Ok(Some(Told { data, ..told }));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// The next line, without its end.
    fn line(&mut self) -> Result<Option<String>, Error> {
        let end = self.read[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = end.map(|end| self.searched + end);
        self.searched = end.unwrap_or(self.read.len());
        if self.searched > LINE_BYTES_MAX {
            return Err(Error::Protocol("a line of the stream is too long".to_owned()));
        }
        let Some(end) = end else { return Ok(None) };
        self.searched = 0;
        let line = self.read.split_to(end);
        self.read.advance(1);
        let line = String::from_utf8_lossy(&line);
        Ok(Some(line.trim_end_matches('\r').to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_leaves_no_kind_to_the_event_after_it() {
        let mut reader = Reader::default();
        reader.push(b"event: ping\n\nid: 7\ndata: {}\n\nid: 8\ndata");
        let told = reader.event().unwrap().unwrap();
        assert_eq!((&*told.id, &*told.event), ("7", ""));
        assert!(reader.event().unwrap().is_none());
        reader.push(b": 1\nevent: b\n\n");
        let told = reader.event().unwrap().unwrap();
        assert_eq!((&*told.id, &*told.event, told.data), ("8", "b", 1.into()));
    }

    #[test]
    fn a_line_is_too_long_however_it_comes() {
        let line = vec![b'x'; LINE_BYTES_MAX + 1];
        for piece in [line.len(), 1000] {
            let mut reader = Reader::default();
            line.chunks(piece).chain([&b"\n"[..]]).for_each(|piece| reader.push(piece));
            assert!(reader.event().is_err());
        }
    }
}
