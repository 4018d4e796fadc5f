//! Requests as bytes: whatever pieces they come in, HTTP's parser reads what a plain reading of them says, and no request
//! that it takes says its length twice.

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use http::{Method, Request, Uri};
use tokio::io::{AsyncRead, AsyncReadExt, join, sink};
use tokio::runtime::Runtime;
use tokio_util::io::StreamReader;
use wakepost_server::listener::{Framed, serve_stream};

use crate::input::Input;

const PEER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
/// What HTTP/2 begins with. It frames without words.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static RUNTIME: LazyLock<Mutex<Runtime>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    Mutex::new(runtime.expect("a runtime"))
});

/// A request that was taken.
#[derive(Debug, PartialEq)]
struct Taken {
    method: Method,
    uri: Uri,
    /// None if it broke off, or could not be read.
    body: Option<Bytes>,
}

/// A request as it is written.
#[derive(Debug)]
struct Written<'a> {
    line: &'a [u8],
    /// The names of its headers, in lower case, and their values.
    headers: Vec<(Vec<u8>, &'a [u8])>,
    body: Option<Vec<u8>>,
}

/// How large the pieces are in which they come, and requests.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let size = input.text().and_then(|size| size.parse::<usize>().ok()).unwrap_or(1).max(1);
    let sent = input.rest();
    let seen = passed_on(sent, sent.len().max(1));
    for size in [1, size] {
        assert!(passed_on(sent, size) == seen, "in pieces of {size} it is another request");
    }
    let spoiled = sent.iter().zip(&seen).filter(|(sent, seen)| sent != seen);
    assert!(sent.len() == seen.len() && spoiled.clone().all(|(_, seen)| *seen == 0));
    if sent.starts_with(HTTP_2) {
        assert_eq!(spoiled.count(), 0, "HTTP/2 was touched");
        return;
    }
    let written = written(&seen);
    for (number, taken) in taken(sent, size).into_iter().enumerate() {
        let Some(written) = written.get(number) else { panic!("{taken:?} was never sent") };
        written.is(&taken);
        let lengths = written.lengths();
        assert!(lengths <= 1, "{taken:?} says its length {lengths} times");
    }
}

/// The bytes, as they come.
fn pieces(sent: &[u8], size: usize) -> impl AsyncRead + Send + Unpin + 'static {
    let pieces: Vec<_> = sent.chunks(size).map(Bytes::copy_from_slice).map(Ok).collect();
    StreamReader::new(stream::iter(pieces).map(|piece: std::io::Result<Bytes>| piece))
}

/// What the parser is given.
fn passed_on(sent: &[u8], size: usize) -> Vec<u8> {
    let mut seen = Vec::new();
    let mut framed = Framed::new(join(pieces(sent, size), sink()));
    let read = framed.read_to_end(&mut seen).now_or_never();
    read.expect("nothing is waited for").expect("nothing breaks");
    seen
}

/// What the server takes for requests.
fn taken(sent: &[u8], size: usize) -> Vec<Taken> {
    let all = Arc::<Mutex<Vec<Taken>>>::default();
    let takes = all.clone();
    let router = Router::new().fallback(async move |request: Request<Body>| {
        let (head, body) = request.into_parts();
        let number = {
            let mut all = takes.lock().expect("nobody panics while holding it");
            all.push(Taken { method: head.method, uri: head.uri, body: None });
            all.len() - 1
        };
        let body = to_bytes(body, usize::MAX).await.ok();
        takes.lock().expect("nobody panics while holding it")[number].body = body;
    });
    let stream = join(pieces(sent, size), sink());
    RUNTIME.lock().expect("one at a time").block_on(serve_stream(stream, PEER, router));
    std::mem::take(&mut all.lock().expect("nobody panics while holding it"))
}

/// Requests, one after the other, for as long as they can be followed.
fn written(mut bytes: &[u8]) -> Vec<Written<'_>> {
    let mut all = Vec::new();
    loop {
        while let Some(rest) = bytes.strip_prefix(b"\r\n").or(bytes.strip_prefix(b"\n")) {
            bytes = rest;
        }
        let Some((request, rest)) = one(bytes) else { return all };
        all.push(request);
        match rest {
            Some(rest) => bytes = rest,
            None => return all,
        }
    }
}

/// The first of some requests, and the bytes behind it if it has an end.
fn one(bytes: &[u8]) -> Option<(Written<'_>, Option<&[u8]>)> {
    let (line, mut rest) = split_line(bytes)?;
    let mut headers = Vec::new();
    loop {
        let (header, after) = split_line(rest)?;
        rest = after;
        if header.is_empty() {
            break;
        }
        let colon = header.iter().position(|byte| *byte == b':')?;
        headers.push((header[..colon].to_ascii_lowercase(), header[colon + 1..].trim_ascii()));
    }
    let of = |wanted: &[u8]| {
        let mut all = headers.iter().filter(move |(name, _)| name == wanted);
        all.next().map(|(_, value)| *value)
    };
    let end = match (of(b"transfer-encoding"), of(b"content-length")) {
        (Some(_), _) => chunks(rest),
        (None, Some(length)) => std::str::from_utf8(length)
            .ok()
            .and_then(|length| length.parse().ok())
            .and_then(|length| rest.split_at_checked(length))
            .map(|(body, rest)| (body.to_vec(), rest)),
        (None, None) => Some((Vec::new(), rest)),
    };
    let (body, rest) = end.unzip();
    Some((Written { line, headers, body }, rest))
}

/// A line, without its end.
fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = &bytes[..end];
    Some((line.strip_suffix(b"\r").unwrap_or(line), &bytes[end + 1..]))
}

/// What chunks come to, and the bytes behind them. Their lines end with CR and LF.
fn chunks(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let line = |bytes: &[u8]| bytes.windows(2).position(|pair| pair == b"\r\n");
    let mut body = Vec::new();
    loop {
        let end = line(rest)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let size = std::str::from_utf8(&rest[..digits]).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        rest = &rest[end + 2..];
        if size == 0 {
            break;
        }
        let (chunk, after) = rest.split_at_checked(size)?;
        body.extend_from_slice(chunk);
        rest = after.strip_prefix(b"\r\n")?;
    }
    loop {
        let end = line(rest)?;
        rest = &rest[end + 2..];
        if end == 0 {
            return Some((body, rest));
        }
    }
}

impl Written<'_> {
    /// How often it says how long it is. Encodings may be on several lines, which are one list.
    fn lengths(&self) -> usize {
        let count = |wanted: &[u8]| self.headers.iter().filter(|(name, _)| name == wanted).count();
        count(b"content-length") + count(b"transfer-encoding").min(1)
    }

    /// Whether this is what was taken.
    fn is(&self, taken: &Taken) {
        let mut words = self.line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let mut word = || words.next().unwrap_or_default();
        assert_eq!(word(), taken.method.as_str().as_bytes(), "{taken:?} for {self:?}");
        let uri = Uri::try_from(word()).expect("an address, since it was taken");
        assert_eq!(uri, taken.uri, "{taken:?} for {self:?}");
        if let Some(body) = &taken.body {
            assert_eq!(self.body.as_deref(), Some(&body[..]), "{taken:?} for {self:?}");
        }
    }
}

/// Good requests of each kind, and those that say their length twice; whole, and in pieces.
pub fn seeds() -> Vec<Vec<u8>> {
    let requests = [
        "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\nGET /readyz HTTP/1.0\n\n",
        "\r\nPOST /in/src_1 HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n\
         1A;content-length: 1\r\nContent-Length: 1\r\nTransfe\r\n\r\n0\r\nContent-Length: 3\r\n\r\n\
         GET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\ncontent-length:3\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nX: y\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n\
         POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
        "POST / HTTP/1.1\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
    ];
    let sized = |size: &str| requests.map(|request| format!("{size}\n{request}").into_bytes());
    [sized("1000"), sized("7")].concat()
}
