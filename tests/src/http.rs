//! Requests: over a pool of connections, or byte by byte for what no client would send.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long an answer may take: longer than any long poll.
const LIMIT: Duration = Duration::from_secs(60);

/// How long an idle connection is kept: less than the server keeps it, so that no request is sent into one
/// that is being closed.
const IDLE: Duration = Duration::from_secs(5);

/// A client with a pool of connections.
#[derive(Clone)]
pub struct Http {
    pool: Client<HttpConnector, Full<Bytes>>,
}

/// What was answered.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// Panics if the status is another one.
    #[track_caller]
    pub fn is(self, status: u16) -> Answer {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "the answer was {text}");
        self
    }

    /// Panics unless it is this refusal, as RFC 9457 has it.
    #[track_caller]
    pub fn refuses(self, status: u16, code: &str) -> Answer {
        let answer = self.is(status);
        let problem = answer.json();
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
        answer
    }

    /// Panics unless it is a 422 about this field.
    #[track_caller]
    pub fn refuses_field(self, field: &str) -> Answer {
        let answer = self.refuses(422, "invalid_request");
        assert_eq!(answer.json()["errors"][0]["field"], field);
        answer
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// A field of the body that must be a text.
    #[track_caller]
    pub fn text(&self, field: &str) -> String {
        let json = self.json();
        json[field].as_str().unwrap_or_else(|| panic!("{field} is not a text in {json}")).to_owned()
    }

    /// The events that an answer to a provider speaks of, whatever its words are.
    #[track_caller]
    pub fn event_ids(&self) -> Vec<String> {
        let named = self.header("wakepost-event-id");
        if !named.is_empty() {
            return named.split(", ").map(str::to_owned).collect();
        }
        let said = self.json();
        let one = |value: &Value| value["event_id"].as_str().expect("an id").to_owned();
        match said["events"].as_array() {
            Some(events) => events.iter().map(one).collect(),
            None => vec![one(&said)],
        }
    }

    /// A header, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Default for Http {
    fn default() -> Http {
        let mut builder = Client::builder(TokioExecutor::new());
        Http { pool: builder.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).build_http() }
    }
}

impl Http {
    /// A client that speaks HTTP/2 and nothing else.
    pub fn version_2() -> Http {
        Http { pool: Client::builder(TokioExecutor::new()).http2_only(true).build_http() }
    }

    /// Sends a request. An error is what a sender sees when the server dies.
    pub async fn try_send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Result<Answer, String> {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.uri_mut() = url.parse().expect("a URL");
        *request.headers_mut() = headers;
        let exchange = async {
            let response = self.pool.request(request).await.map_err(|error| {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                format!("{error}: {}", cause.unwrap_or_default())
            })?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|error| error.to_string())?;
            Ok(Answer {
                status: parts.status.as_u16(),
                headers: parts.headers,
                body: body.to_bytes(),
            })
        };
        match tokio::time::timeout(LIMIT, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("no answer within {LIMIT:?}")),
        }
    }

    /// Sends a request that must be answered.
    pub async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: impl Into<Bytes>,
    ) -> Answer {
        self.try_send(method.clone(), url, headers, body)
            .await
            .unwrap_or_else(|error| panic!("{method} {url}: {error}"))
    }
}

/// Writes these bytes to a server and reads until it closes: the last request must ask it to.
pub async fn raw_exchange(base_url: &str, bytes: &[u8]) -> String {
    exchange(base_url, bytes, false).await
}

/// As [`raw_exchange`], but the writing side is closed after the bytes: no more will come.
pub async fn cut_off_exchange(base_url: &str, bytes: &[u8]) -> String {
    exchange(base_url, bytes, true).await
}

async fn exchange(base_url: &str, bytes: &[u8], cut_off: bool) -> String {
    let address = base_url.trim_start_matches("http://");
    let stream = TcpStream::connect(address).await.expect("a connection");
    let (mut reading, mut writing) = stream.into_split();
    let (bytes, mut answer) = (bytes.to_vec(), Vec::new());
    let writer = tokio::spawn(async move {
        // A server that refuses early may have closed already.
        let _ = writing.write_all(&bytes).await;
        if cut_off {
            let _ = writing.shutdown().await;
        }
        writing
    });
    let read = tokio::time::timeout(LIMIT, reading.read_to_end(&mut answer))
        .await
        .expect("the server closes the connection");
    writer.abort();
    if let Err(error) = read {
        let nothing = answer.is_empty();
        assert!(!nothing, "the connection broke without an answer: {error}");
    }
    String::from_utf8_lossy(&answer).into_owned()
}
