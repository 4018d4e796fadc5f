//! Messages: JSON-RPC 2.0 over HTTP, in the two ways that the protocol's revisions have.

use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value, json};
use wakepost_domain::limits::truncate;

/// The revision in which each request stands for itself.
pub const STATELESS: &str = "2026-07-28";
/// The revisions that begin with a handshake, newest first.
pub const HANDSHAKES: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

const VERSION: &str = "mcp-protocol-version";
const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const NO_SUCH_METHOD: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const HEADER_MISMATCH: i32 = -32020;
const UNSUPPORTED_VERSION: i32 = -32022;

/// Which way of speaking a request is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// Up to 2025-11-25: a handshake, then requests.
    Handshake,
    /// From 2026-07-28 on: each request says what it needs.
    Stateless,
}

/// A request.
#[derive(Debug)]
pub struct Asked {
    /// What its answer carries.
    pub id: Value,
    /// What is wanted.
    pub method: String,
    /// With what.
    pub params: Value,
    /// In which way it was asked.
    pub era: Era,
}

/// Why a request cannot be answered.
#[derive(Debug)]
pub struct Fault {
    code: i32,
    message: String,
    data: Option<Value>,
}

impl Fault {
    fn new(code: i32, message: impl Into<String>) -> Fault {
        Fault { code, message: message.into(), data: None }
    }

    /// Nobody answers to that.
    pub fn no_such_method(method: &str) -> Fault {
        Fault::new(NO_SUCH_METHOD, format!("there is no method {}", truncate(method, 100)))
    }

    /// What came with it cannot be used.
    pub fn invalid_params(message: impl Into<String>) -> Fault {
        Fault::new(INVALID_PARAMS, message)
    }

    fn unsupported(version: &str) -> Fault {
        let mut known = vec![STATELESS];
        known.extend(HANDSHAKES);
        let data = json!({"supported": known, "requested": truncate(version, 100)});
        Fault {
            data: Some(data),
            ..Fault::new(UNSUPPORTED_VERSION, "unsupported protocol version")
        }
    }
}

/// Reads a message. A notification, or an answer to nothing, is `None`.
pub fn read(headers: &HeaderMap, body: &[u8]) -> Result<Option<Asked>, (Value, Era, Fault)> {
    let versions = headers.get_all(VERSION).iter().map(|value| value.to_str().unwrap_or_default());
    let versions: Vec<&str> = versions.collect();
    let nobody = |fault| (Value::Null, Era::Handshake, fault);
    let message: Map<String, Value> = match serde_json::from_slice(body) {
        Ok(Value::Object(message)) => message,
        Ok(_) => {
            return Err(nobody(Fault::new(INVALID_REQUEST, "one message at a time, as an object")));
        }
        Err(error) => {
            return Err(nobody(Fault::new(PARSE_ERROR, format!("the body is not JSON: {error}"))));
        }
    };
    let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
    let told = id.clone().unwrap_or_default();
    if message.get("jsonrpc") != Some(&json!("2.0")) {
        return Err((
            told,
            Era::Handshake,
            Fault::new(INVALID_REQUEST, "`jsonrpc` must be \"2.0\""),
        ));
    }
    let method = match message.get("method") {
        Some(Value::String(method)) => method.clone(),
        None if message.contains_key("result") || message.contains_key("error") => return Ok(None),
        _ => {
            let fault = Fault::new(INVALID_REQUEST, "`method` must be a text");
            return Err((told, Era::Handshake, fault));
        }
    };
    let params = message.get("params").cloned().unwrap_or_else(|| json!({}));
    let meta = &params["_meta"];
    let is_stateless = !meta[VERSION_KEY].is_null()
        || versions.contains(&STATELESS)
        || method == "server/discover";
    let era = if is_stateless { Era::Stateless } else { Era::Handshake };
    let Some(id) = id else {
        return match message.contains_key("id") {
            true => Err((
                Value::Null,
                era,
                Fault::new(INVALID_REQUEST, "`id` must be a text or a number"),
            )),
            false => Ok(None),
        };
    };
    let refused = |fault| Err((id.clone(), era, fault));
    if !params.is_object() {
        return refused(Fault::invalid_params("`params` must be an object"));
    }
    if let Some(fault) = match era {
        Era::Stateless => odd_envelope(headers, &method, &params),
        Era::Handshake => {
            let unknown = versions.into_iter().find(|version| !HANDSHAKES.contains(version));
            unknown.map(Fault::unsupported)
        }
    } {
        return refused(fault);
    }
    Ok(Some(Asked { id, method, params, era }))
}

/// What is wrong with what a request of the newer way must carry: whoever routes by headers must see what we see.
fn odd_envelope(headers: &HeaderMap, method: &str, params: &Value) -> Option<Fault> {
    let meta = &params["_meta"];
    let missing: Vec<&str> =
        [VERSION_KEY, CAPABILITIES_KEY].into_iter().filter(|key| meta.get(key).is_none()).collect();
    if !missing.is_empty() {
        let text = format!("`params._meta` is missing {}", missing.join(", "));
        return Some(Fault::invalid_params(text));
    }
    let header = |name: &str| {
        let mut all = headers.get_all(name).iter();
        let only = all.next()?.to_str().ok()?;
        all.next().is_none().then_some(only)
    };
    let mismatch =
        |name: &str| Some(Fault::new(HEADER_MISMATCH, format!("{name} is not what the body says")));
    let version = header(VERSION);
    if version.is_none() || meta[VERSION_KEY] != json!(version) {
        return mismatch("MCP-Protocol-Version");
    }
    if header("mcp-method") != Some(method) {
        return mismatch("Mcp-Method");
    }
    if method == "tools/call"
        && params["name"].is_string()
        && header("mcp-name") != params["name"].as_str()
    {
        return mismatch("Mcp-Name");
    }
    match version {
        Some(STATELESS) => None,
        other => Some(Fault::unsupported(other.unwrap_or_default())),
    }
}

/// This server, in the words of the protocol.
pub fn server_info() -> Value {
    json!({"name": "wakepost", "title": "Wakepost", "version": env!("CARGO_PKG_VERSION")})
}

/// The answer to a request.
pub fn result(id: Value, era: Era, method: &str, mut result: Value) -> Response {
    if era == Era::Stateless {
        result["resultType"] = json!("complete");
        result["_meta"] = json!({SERVER_KEY: server_info()});
        if ["server/discover", "tools/list"].contains(&method) {
            // What a key may do can change at any time.
            result["ttlMs"] = json!(0);
            result["cacheScope"] = json!("private");
        }
    }
    written(StatusCode::OK, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// A refusal of a request.
pub fn refusal(id: Value, era: Era, fault: &Fault) -> Response {
    let status = match (fault.code, era) {
        (PARSE_ERROR | INVALID_REQUEST | UNSUPPORTED_VERSION, _) => StatusCode::BAD_REQUEST,
        (NO_SUCH_METHOD, Era::Stateless) => StatusCode::NOT_FOUND,
        (_, Era::Stateless) => StatusCode::BAD_REQUEST,
        (_, Era::Handshake) => StatusCode::OK,
    };
    let mut error = json!({"code": fault.code, "message": fault.message});
    if let Some(data) = &fault.data {
        error["data"] = data.clone();
    }
    written(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn written(status: StatusCode, message: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (status, headers, message.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_with(headers: &[(&'static str, &str)], body: &Value) -> Result<Option<Asked>, i32> {
        let headers =
            headers.iter().map(|(name, value)| ((*name).parse().unwrap(), value.parse().unwrap()));
        read(&headers.collect(), body.to_string().as_bytes()).map_err(|(_, _, fault)| fault.code)
    }

    #[test]
    fn a_request_is_of_the_way_that_it_says() {
        let old = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        assert_eq!(read_with(&[], &old).unwrap().unwrap().era, Era::Handshake);
        let version = ("mcp-protocol-version", "2025-06-18");
        assert_eq!(read_with(&[version], &old).unwrap().unwrap().era, Era::Handshake);
        assert_eq!(
            read_with(&[("mcp-protocol-version", "1999-01-01")], &old).unwrap_err(),
            UNSUPPORTED_VERSION
        );
        let meta = json!({VERSION_KEY: STATELESS, CAPABILITIES_KEY: {}});
        let new = json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call",
            "params": {"_meta": meta, "name": "stats"}});
        let headers = [
            ("mcp-protocol-version", STATELESS),
            ("mcp-method", "tools/call"),
            ("mcp-name", "stats"),
        ];
        assert_eq!(read_with(&headers, &new).unwrap().unwrap().era, Era::Stateless);
        for lost in 0..3 {
            let fewer: Vec<_> = headers
                .iter()
                .enumerate()
                .filter(|(at, _)| *at != lost)
                .map(|(_, one)| *one)
                .collect();
            assert_eq!(read_with(&fewer, &new).unwrap_err(), HEADER_MISMATCH);
        }
        for other in ["2025-06-18", STATELESS] {
            let twice = [&headers[..], &[("mcp-protocol-version", other)]].concat();
            assert_eq!(read_with(&twice, &new).unwrap_err(), HEADER_MISMATCH);
        }
        let twice = [version, ("mcp-protocol-version", "1999-01-01")];
        assert_eq!(read_with(&twice, &old).unwrap_err(), UNSUPPORTED_VERSION);
    }

    #[test]
    fn what_is_no_message_is_refused_and_a_notification_is_not_answered() {
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert!(read_with(&[], &notification).unwrap().is_none());
        for (body, code) in [
            (json!([]), INVALID_REQUEST),
            (json!({"id": 1, "method": "ping"}), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": 1}), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}), INVALID_REQUEST),
            (json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 1}), INVALID_PARAMS),
        ] {
            assert_eq!(read_with(&[], &body).unwrap_err(), code, "{body}");
        }
        let (.., fault) = read(&HeaderMap::new(), b"{").unwrap_err();
        assert_eq!(fault.code, PARSE_ERROR);
    }
}
