//! HTTP/2 floods, frame by frame. The listener stands before any database.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use wakepost_tests::{Database, Gateway, Http};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `GET /` and `POST /in/x`, in HPACK.
const GET: &[u8] = b"\x82\x84\x86\x41\x01x";
const POST: &[u8] = b"\x83\x44\x05/in/x\x86\x41\x01x";
/// Less than any timeout: it must be the flood that ends the connection.
const LIMIT: Duration = Duration::from_secs(8);

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame").to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Sends it all, and says whether the server ended the connection.
async fn is_closed_by(gateway: &Gateway, flood: Vec<u8>) -> bool {
    let address = gateway.url().trim_start_matches("http://");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (mut reading, mut writing) = stream.into_split();
    let writer = tokio::spawn(async move {
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let _ = writing.write_all(&hello).await;
        let _ = writing.write_all(&flood).await;
        // Held open: only the server ends this.
        std::future::pending::<()>().await;
    });
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(LIMIT, reading.read_to_end(&mut answer)).await;
    writer.abort();
    ended.is_ok()
}

async fn closes_on(flood: Vec<u8>) {
    let gateway = Gateway::start(Database::Sqlite).await;
    assert!(is_closed_by(&gateway, flood).await, "the connection is still open after {LIMIT:?}");
    // Nobody else noticed.
    let source = gateway.with_source("github").await;
    let request = source.sign(&source.event("e-1"));
    let url = format!("{}{}", gateway.url(), request.url);
    let http = Http::version_2();
    http.send(request.method, &url, request.headers, request.body).await.is(202);
    assert_eq!(gateway.admin().list("/inbox").await.len(), 1);
}

#[tokio::test]
async fn a_connection_that_opens_and_resets_streams_in_a_flood_is_closed() {
    let flood = (0..20_000u32).flat_map(|n| {
        let headers = frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, GET);
        [headers, frame(RST_STREAM, 0, 2 * n + 1, &8u32.to_be_bytes())].concat()
    });
    closes_on(flood.collect()).await;
}

#[tokio::test]
async fn a_connection_that_sends_empty_pieces_without_end_is_closed() {
    let mut flood = frame(HEADERS, END_HEADERS, 1, POST);
    (0..200_000).for_each(|_| flood.extend(frame(DATA, 0, 1, &[])));
    closes_on(flood).await;
}

#[tokio::test]
async fn a_connection_whose_headers_go_on_and_on_is_closed() {
    let mut flood = frame(HEADERS, 0, 1, GET);
    (0..10_000).for_each(|_| flood.extend(frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b")));
    closes_on(flood).await;
}
