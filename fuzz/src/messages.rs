//! What agents and servers say to each other in messages: of the Model Context Protocol, and as server-sent events.

use futures_util::FutureExt;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use wakepost_client::sse::{Reader, Told};
use wakepost_server::mcp::message::{self, Era, HANDSHAKES, STATELESS};

use crate::input::{Input, lines};

/// The most that is said of what is wrong, its request's id apart.
const FAULT_BYTES_MAX: usize = 2000;

/// Headers up to an empty line, and a message.
pub fn mcp(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let headers = input.headers();
    let body = input.rest();
    let said: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_request = said["method"].is_string() && said.get("id").is_some();
    match message::read(&headers, body) {
        Ok(Some(asked)) => {
            assert!(asked.id.is_string() || asked.id.is_number(), "{asked:?}");
            let default = json!({});
            let params = said.get("params").unwrap_or(&default);
            assert_eq!(
                (&json!("2.0"), &asked.id, &json!(asked.method), &asked.params),
                (&said["jsonrpc"], &said["id"], &said["method"], params)
            );
            let told = told(&headers, "mcp-protocol-version");
            match asked.era {
                Era::Stateless => routed(&headers, &said),
                Era::Handshake => assert!(told.iter().all(|told| HANDSHAKES.contains(told))),
            }
        }
        Ok(None) => assert!(!is_request, "nobody answers {said}"),
        Err((id, era, fault)) => {
            assert!(id.is_null() || id == said["id"], "{id} is answered for {said}");
            let size = id.to_string().len() + FAULT_BYTES_MAX;
            refused(message::refusal(id.clone(), era, &fault), &id, size);
        }
    }
}

/// Whoever routes by headers sees what the message says.
fn routed(headers: &HeaderMap, said: &Value) {
    let version = &said["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    assert_eq!(*version, STATELESS);
    assert_eq!(told(headers, "mcp-protocol-version"), [STATELESS]);
    assert_eq!(told(headers, "mcp-method"), [said["method"].as_str().unwrap_or_default()]);
    if let ("tools/call", Value::String(name)) =
        (said["method"].as_str().unwrap_or_default(), &said["params"]["name"])
    {
        assert_eq!(told(headers, "mcp-name"), [name]);
    }
}

fn told<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap_or("not text")).collect()
}

fn refused(answer: axum::response::Response, id: &Value, size_max: usize) {
    let status = answer.status();
    assert!(status == StatusCode::OK || status.is_client_error(), "{status}");
    let body = answer.into_body().collect().now_or_never().expect("it is all there");
    let body = body.expect("it is all there").to_bytes();
    assert!(body.len() <= size_max, "{} bytes", body.len());
    let answer: Value = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), id));
    assert!(answer["error"]["code"].is_i64() && answer["error"]["message"].is_string());
}

pub fn mcp_seeds() -> Vec<Vec<u8>> {
    let call = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"name":"stats","arguments":{}}}"#;
    vec![
        lines(["", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#]),
        lines([
            "mcp-protocol-version:2025-06-18",
            "",
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#,
        ]),
        lines([
            "mcp-protocol-version:2026-07-28",
            "mcp-method:tools/call",
            "mcp-name:stats",
            "",
            call,
        ]),
        lines(["mcp-protocol-version:2026-07-28", "", call]),
        lines(["", r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#]),
        lines(["", r#"{"jsonrpc":"2.0","id":null,"result":{}}"#]),
        lines(["", r#"[{"jsonrpc":"2.0","id":1.5,"method":"ping"}]"#]),
    ]
}

/// How large the pieces are in which it comes, and a stream.
pub fn streams(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let size = input.text().and_then(|size| size.parse::<usize>().ok()).unwrap_or(1).max(1);
    let stream = input.rest();
    let read = events(stream, stream.len().max(1));
    for size in [1, size] {
        assert_eq!(events(stream, size), read, "in pieces of {size}");
    }
    assert_eq!(read, written(stream));
}

/// What is read, up to what cannot be.
fn events(stream: &[u8], size: usize) -> Vec<Option<Told>> {
    let mut reader = Reader::default();
    let mut all = Vec::new();
    for piece in stream.chunks(size) {
        reader.push(piece);
        while let Some(told) = reader.event().transpose() {
            let told = told.ok();
            all.push(told);
            if all.last().is_some_and(Option::is_none) {
                return all;
            }
        }
    }
    all
}

/// What is written there: each stretch of lines up to an empty one that has data. An id is good until the next event.
fn written(stream: &[u8]) -> Vec<Option<Told>> {
    let text = String::from_utf8_lossy(stream);
    let mut lines: Vec<&str> = text.split('\n').map(|line| line.trim_end_matches('\r')).collect();
    // What has no end is no line.
    lines.pop();
    let mut all = Vec::new();
    let mut id = String::new();
    while let Some(end) = lines.iter().position(|line| line.is_empty()) {
        let stretch: Vec<&str> = lines.drain(..=end).collect();
        let of = |name: &str| {
            let values = stretch.iter().filter_map(|line| match line.split_once(':') {
                Some((field, value)) => {
                    (field == name).then(|| value.strip_prefix(' ').unwrap_or(value))
                }
                None => (*line == name).then_some(""),
            });
            values.collect::<Vec<_>>()
        };
        if let Some(last) = of("id").last() {
            id = (*last).to_owned();
        }
        let data = of("data");
        if data.iter().all(|line| line.is_empty()) {
            continue;
        }
        let event = of("event").last().copied().unwrap_or_default().to_owned();
        let told = serde_json::from_str(&data.join("\n"));
        let told = told.ok().map(|data| Told { id: std::mem::take(&mut id), event, data });
        let is_over = told.is_none();
        all.push(told);
        if is_over {
            break;
        }
    }
    all
}

pub fn stream_seeds() -> Vec<Vec<u8>> {
    vec![
        lines([
            "3",
            "retry: 2000",
            "",
            "id: 7",
            "event: state",
            r#"data: {"status":"running"}"#,
            "",
            "",
        ]),
        lines([
            "1000",
            ":",
            "",
            "id:8\r",
            "event:received\r",
            "data: {\r",
            "data:}\r",
            "\r",
            "id: 9",
            "",
        ]),
        lines(["1", "event: ping", "", "data: 1", "", "data", "data: [", "", ""]),
    ]
}
