//! Reading a body once, bounded in size and in time.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

/// How long a sender may take for the whole body.
pub const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much memory a declared length gets before anything has come: a thousand peers may declare much, send
/// a little, and wait.
const RESERVED_BYTES_MAX: usize = 64 * 1024;

/// How much of a refused body is read so that the sender can finish and read the refusal.
const LINGER_BYTES: usize = 4 * 1024 * 1024;
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoBody {
    /// It is larger than allowed.
    TooLarge,
    /// It did not arrive in time.
    TooSlow,
    /// It was cut off or broken.
    Broken,
}

/// Reads the whole body, or says why not. A body is never cut short and used.
pub async fn read(body: Body, declared: Option<usize>, bytes_max: usize) -> Result<Bytes, NoBody> {
    if declared.is_some_and(|length| length > bytes_max) {
        linger(body);
        return Err(NoBody::TooLarge);
    }
    let mut reading = pin!(collect(body, declared, bytes_max));
    // The usual body is there with its head, and needs no timer.
    let at_once = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
    if let Poll::Ready(read) = at_once {
        return read;
    }
    match Box::pin(tokio::time::timeout(BODY_TIMEOUT, reading)).await {
        Ok(read) => read,
        Err(_) => Err(NoBody::TooSlow),
    }
}

async fn collect(
    mut body: Body,
    declared: Option<usize>,
    bytes_max: usize,
) -> Result<Bytes, NoBody> {
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| NoBody::Broken)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() + first.as_ref().map_or(0, Bytes::len) > bytes_max {
            linger(body);
            return Err(NoBody::TooLarge);
        }
        match first.take() {
            // The usual body comes in one piece and needs no copy.
            None if whole.is_empty() => first = Some(data),
            None => whole.extend_from_slice(&data),
            Some(piece) => {
                whole.reserve(declared.unwrap_or(0).min(RESERVED_BYTES_MAX));
                whole.extend_from_slice(&piece);
                whole.extend_from_slice(&data);
            }
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

/// Goes on reading for a moment after the answer: a sender whose unread data is thrown away gets a reset
/// in place of the answer.
fn linger(mut body: Body) {
    tokio::spawn(tokio::time::timeout(LINGER_TIME, async move {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > LINGER_BYTES {
                break;
            }
        }
    }));
}
