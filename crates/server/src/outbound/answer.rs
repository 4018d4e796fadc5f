//! Reading an answer, from a peer that may send anything.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::client::{KeepBody, OutboundAnswer, SendErrorClass, Timings};
use super::fault::Fault;

/// hyper reads heads up to 64 KiB; a record of an attempt needs far less.
const HEADER_BYTES_KEPT_MAX: usize = 8 * 1024;

/// What has arrived so far. It lives outside the reading, which the deadline may cut short.
pub(super) struct Arrived {
    status: StatusCode,
    headers: HeaderMap,
    remote: Option<SocketAddr>,
    body: BytesMut,
    complete: bool,
}

impl Arrived {
    pub(super) fn new(status: StatusCode, headers: HeaderMap, remote: Option<SocketAddr>) -> Self {
        Arrived {
            status,
            headers: bounded(headers),
            remote,
            body: BytesMut::new(),
            complete: false,
        }
    }

    /// Reads up to `bytes_max`. Beyond it `body` is dropped, and the connection with it.
    pub(super) async fn read(
        &mut self,
        mut body: Incoming,
        bytes_max: usize,
        keep: KeepBody,
    ) -> Result<(), Fault> {
        let keep = if self.status.is_success() { keep } else { KeepBody::Prefix };
        if keep == KeepBody::Whole && body.size_hint().lower() > bytes_max as u64 {
            return Err(too_large(bytes_max));
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Fault::from_exchange(&error))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let room = bytes_max - self.body.len();
            self.body.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                return match keep {
                    KeepBody::Prefix => Ok(()),
                    KeepBody::Whole => Err(too_large(bytes_max)),
                };
            }
        }
        self.complete = true;
        Ok(())
    }

    pub(super) fn into_answer(self, timings: Timings) -> OutboundAnswer {
        OutboundAnswer {
            status: self.status,
            headers: self.headers,
            body: Bytes::from(self.body),
            truncated: !self.complete,
            remote: self.remote,
            timings,
        }
    }
}

fn too_large(bytes_max: usize) -> Fault {
    Fault::new(SendErrorClass::TooLarge, format!("the answer is larger than {bytes_max} bytes"))
}

/// Keeps headers in their order while they fit, and a sensible `Retry-After` in any case.
fn bounded(headers: HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    let mut room = HEADER_BYTES_KEPT_MAX;
    let wish = headers.get(RETRY_AFTER).filter(|value| value.len() <= 64);
    if let Some(value) = wish {
        kept.insert(RETRY_AFTER, value.clone());
    }
    for (name, value) in &headers {
        let size = name.as_str().len() + value.len();
        if name != RETRY_AFTER && size <= room {
            room -= size;
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn retry_after_is_kept_whatever_else_was_sent() {
        let mut headers = HeaderMap::new();
        for _ in 0..20 {
            headers.append("x-noise", HeaderValue::from_str(&"n".repeat(1000)).unwrap());
        }
        headers.insert("x-small", HeaderValue::from_static("kept"));
        headers.insert(RETRY_AFTER, HeaderValue::from_static("120"));
        let kept = bounded(headers);
        assert_eq!(kept[RETRY_AFTER], "120");
        assert_eq!(kept["x-small"], "kept");
        assert_eq!(kept.get_all("x-noise").iter().count(), 8);
    }
}
