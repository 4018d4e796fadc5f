//! One call of the API: built by a [`Client`] method, sent when it is awaited.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::backoff::Backoff;
use crate::transport::{Answer, Pieces};
use crate::{Client, Error, Problem};

const AGENT: &str = concat!("wakepost-client/", env!("CARGO_PKG_VERSION"));
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const CHAIN: HeaderName = HeaderName::from_static("wakepost-chain");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// As much of a refusal as is read where the answer is a stream.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
/// How often a call is sent at most, where a repeat is harmless.
const TRIES_MAX: u32 = 4;
/// The longest wait between two tries, whatever the server asks for.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// A call whose answer is a `T`. Await it, or take the answer as the server wrote it with [`Call::text`].
#[must_use = "a call is sent when it is awaited"]
pub struct Call<T> {
    client: Client,
    // An argument that cannot be sent is told when the call is awaited, so that building never fails.
    request: Result<Request<Full<Bytes>>, Error>,
    timeout: Duration,
    tries_max: u32,
    answer: PhantomData<fn() -> T>,
}

impl<T> Call<T> {
    /// Makes a repeat of this call harmless: the same key and body get the first answer again.
    pub fn idempotency_key(self, key: &str) -> Call<T> {
        self.header(IDEMPOTENCY_KEY, "the idempotency key", key)
    }

    /// Says which job's agent makes this call: the `chain` it was given. What comes of it knows what led to it, and
    /// agents that call each other without end are stopped.
    pub fn chain(self, chain: &str) -> Call<T> {
        self.header(CHAIN, "the chain", chain)
    }

    /// Says which trace this call belongs to: the `traceparent` its maker was given (W3C Trace Context).
    pub fn traceparent(self, traceparent: &str) -> Call<T> {
        self.header(TRACEPARENT, "the traceparent", traceparent)
    }

    fn header(mut self, name: HeaderName, what: &str, value: &str) -> Call<T> {
        self.request = self.request.and_then(|mut request| {
            let value = HeaderValue::from_str(value)
                .map_err(|_| Error::Request(format!("{what} is not plain text")))?;
            request.headers_mut().insert(name, value);
            Ok(request)
        });
        self
    }

    /// Waits this much longer for the answer, for a call that is slow on purpose.
    pub fn and_wait(mut self, more: Duration) -> Call<T> {
        self.timeout += more;
        self
    }

    /// Says that sending it twice is harmless: it is sent again if no answer comes, or the server has trouble.
    pub(crate) fn repeatable(mut self) -> Call<T> {
        self.tries_max = TRIES_MAX;
        self
    }

    /// Sends it, and returns the answer's bytes.
    pub async fn bytes(self) -> Result<Bytes, Error> {
        let Call { client, request, timeout, tries_max, .. } = self;
        let request = request?;
        let mut backoff = Backoff::default();
        for _ in 1..tries_max {
            match send(&client, request.clone(), timeout).await {
                Err(error) if error.is_transient() => {
                    let asked = error.problem().and_then(|problem| problem.retry_after_s);
                    let asked = Duration::from_secs(asked.unwrap_or_default()).min(PAUSE_MAX);
                    tokio::time::sleep(backoff.next().max(asked)).await;
                }
                answered => return answered,
            }
        }
        send(&client, request, timeout).await
    }

    /// Sends it, and returns the answer piece by piece: it may be larger than memory.
    pub(crate) async fn pieces(self) -> Result<Pieces, Error> {
        let client = &self.client;
        let (request, max) = (self.request?, client.body_bytes_max);
        let begun = client.transport.begin(request, client.url(), self.timeout, max).await?;
        begun.map_err(|refusal| Error::Api(Box::new(problem(&refusal))))
    }

    /// Sends it with further headers, and returns the answer's body as it comes.
    pub(crate) async fn open(
        self,
        further: impl FnOnce(&mut HeaderMap),
    ) -> Result<Incoming, Error> {
        let client = &self.client;
        let mut request = self.request?;
        further(request.headers_mut());
        let response = client.transport.open(request, client.url(), self.timeout).await?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(body);
        }
        let body = Limited::new(body, REFUSAL_BYTES_MAX).collect().await;
        let body = body.map(|whole| whole.to_bytes()).unwrap_or_default();
        let answer = Answer { status: parts.status, headers: parts.headers, body };
        Err(Error::Api(Box::new(problem(&answer))))
    }

    /// Sends it, and returns the answer as the server wrote it.
    pub async fn text(self) -> Result<String, Error> {
        String::from_utf8(self.bytes().await?.into())
            .map_err(|_| Error::Protocol("it is not UTF-8".to_owned()))
    }
}

impl<T: DeserializeOwned> Call<T> {
    /// Reads an answer that [`Call::text`] returned.
    pub fn read(text: &str) -> Result<T, Error> {
        let text = if text.trim().is_empty() { "null" } else { text };
        serde_json::from_str(text).map_err(|error| Error::Protocol(error.to_string()))
    }
}

impl<T: DeserializeOwned + 'static> IntoFuture for Call<T> {
    type Output = Result<T, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Call::<T>::read(&self.text().await?) })
    }
}

impl<T> fmt::Debug for Call<T> {
    /// Without the body and the headers, which hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.request.as_ref().map(|r| (r.method(), r.uri()));
        f.debug_tuple("Call").field(&line).finish()
    }
}

/// Sends a request once.
async fn send(
    client: &Client,
    request: Request<Full<Bytes>>,
    timeout: Duration,
) -> Result<Bytes, Error> {
    let (base, max) = (client.url(), client.body_bytes_max);
    let answer = client.transport.send(request, base, timeout, max).await?;
    match answer.status {
        status if status.is_success() => Ok(answer.body),
        status if status.as_u16() >= 400 => Err(Error::Api(Box::new(problem(&answer)))),
        status => Err(Error::Protocol(format!(
            "status {status}; is the URL right, https or http included?"
        ))),
    }
}

/// What a call is made of.
pub(crate) struct Parts<'a> {
    method: Method,
    path: &'a [&'a str],
    query: Result<Vec<(String, String)>, Error>,
    body: Option<Result<Vec<u8>, Error>>,
}

pub(crate) fn get<'a>(path: &'a [&'a str]) -> Parts<'a> {
    Parts::new(Method::GET, path)
}

pub(crate) fn post<'a>(path: &'a [&'a str], body: &impl Serialize) -> Parts<'a> {
    Parts::new(Method::POST, path).body(body)
}

pub(crate) fn put<'a>(path: &'a [&'a str], body: &impl Serialize) -> Parts<'a> {
    Parts::new(Method::PUT, path).body(body)
}

pub(crate) fn patch<'a>(path: &'a [&'a str], body: &impl Serialize) -> Parts<'a> {
    Parts::new(Method::PATCH, path).body(body)
}

pub(crate) fn delete<'a>(path: &'a [&'a str]) -> Parts<'a> {
    Parts::new(Method::DELETE, path)
}

impl<'a> Parts<'a> {
    fn new(method: Method, path: &'a [&'a str]) -> Parts<'a> {
        Parts { method, path, query: Ok(Vec::new()), body: None }
    }

    fn body(mut self, body: &impl Serialize) -> Parts<'a> {
        self.body = Some(serde_json::to_vec(body).map_err(not_json));
        self
    }

    /// Adds the fields of a struct as query parameters.
    pub(crate) fn query(mut self, query: &impl Serialize) -> Parts<'a> {
        self.query = query_pairs(query);
        self
    }
}

impl Client {
    /// A call under `/api/v1`.
    pub(crate) fn call<T>(&self, parts: Parts<'_>) -> Call<T> {
        self.call_under(&["api", "v1"], parts)
    }

    pub(crate) fn call_under<T>(&self, prefix: &[&str], parts: Parts<'_>) -> Call<T> {
        Call {
            request: self.request(prefix, parts),
            timeout: self.timeout,
            tries_max: 1,
            client: self.clone(),
            answer: PhantomData,
        }
    }

    fn request(&self, prefix: &[&str], parts: Parts<'_>) -> Result<Request<Full<Bytes>>, Error> {
        let mut url = (*self.base).clone();
        if let Some(bad) = parts.path.iter().find(|s| matches!(**s, "" | "." | "..")) {
            return Err(Error::Request(format!("{bad:?} is not an id")));
        }
        url.path_segments_mut()
            .map_err(|()| Error::Request("the server's URL has no path".to_owned()))?
            .pop_if_empty()
            .extend(prefix)
            .extend(parts.path);
        let pairs = parts.query?;
        if !pairs.is_empty() || self.tenant.is_some() {
            let mut query = url.query_pairs_mut();
            query.extend_pairs(pairs);
            if let Some(tenant) = &self.tenant {
                query.append_pair("tenant", tenant);
            }
        }
        let body = parts.body.transpose()?;
        let mut request = Request::builder()
            .method(parts.method)
            .uri(url.as_str())
            .header(USER_AGENT, AGENT)
            .header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let mut request = request
            .body(Full::from(body.unwrap_or_default()))
            .map_err(|error| Error::Request(error.to_string()))?;
        self.authorize(request.headers_mut());
        Ok(request)
    }
}

fn query_pairs(query: &impl Serialize) -> Result<Vec<(String, String)>, Error> {
    let Value::Object(fields) = serde_json::to_value(query).map_err(not_json)? else {
        return Ok(Vec::new());
    };
    Ok(fields
        .into_iter()
        .filter_map(|(name, value)| match value {
            Value::Null => None,
            Value::Array(values) => {
                Some((name, values.into_iter().map(text).collect::<Vec<_>>().join(",")))
            }
            value => Some((name, text(value))),
        })
        .collect())
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn not_json(error: serde_json::Error) -> Error {
    Error::Request(format!("it cannot be written as JSON: {error}"))
}

/// Reads a refusal. One that is not Wakepost's has no code.
fn problem(answer: &Answer) -> Problem {
    let mut problem: Problem = serde_json::from_slice(&answer.body).unwrap_or_default();
    problem.status = answer.status.as_u16();
    if problem.title.is_empty() {
        problem.title = answer.status.canonical_reason().unwrap_or("refused").to_owned();
    }
    problem.retry_after_s =
        answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    problem
}
