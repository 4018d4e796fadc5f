//! One request over HTTP or HTTPS: sent, answered in time, and read up to a limit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::Error;

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A pool of connections.
#[derive(Clone)]
pub(crate) struct Transport {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

/// An answer, read whole.
pub(crate) struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Transport {
    pub(crate) fn new() -> Result<Transport, Error> {
        let mut http = HttpConnector::new();
        http.set_connect_timeout(Some(CONNECT_TIMEOUT));
        http.set_nodelay(true);
        http.enforce_http(false);
        // Given explicitly: the process-wide default depends on who else is linked in.
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)
            .map_err(|error| Error::Request(format!("TLS cannot be set up: {error}")))?
            .https_or_http()
            .enable_all_versions()
            .wrap_connector(http);
        let pool = Pool::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .build(connector);
        Ok(Transport { pool })
    }

    /// Sends one request, and waits for the head of its answer.
    pub(crate) async fn open(
        &self,
        request: Request<Full<Bytes>>,
        base: &str,
        timeout: Duration,
    ) -> Result<Response<Incoming>, Error> {
        let unreachable = |reason: String| Error::Unreachable { url: base.to_owned(), reason };
        match tokio::time::timeout(timeout, self.pool.request(request)).await {
            Ok(answered) => answered.map_err(|error| unreachable(root_cause(&error))),
            Err(_) => Err(unreachable(format!("no answer within {timeout:?}"))),
        }
    }

    /// Sends one request. Redirects are answers like any other, so the key goes nowhere else.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
        base: &str,
        timeout: Duration,
        body_bytes_max: usize,
    ) -> Result<Answer, Error> {
        let unreachable = |reason: String| Error::Unreachable { url: base.to_owned(), reason };
        let exchange = async {
            let response = self
                .pool
                .request(request)
                .await
                .map_err(|error| unreachable(root_cause(&error)))?;
            let (parts, body) = response.into_parts();
            let body = match Limited::new(body, body_bytes_max).collect().await {
                Ok(collected) => collected.to_bytes(),
                Err(error) if error.is::<LengthLimitError>() => {
                    return Err(Error::Protocol(format!(
                        "it is longer than {body_bytes_max} bytes"
                    )));
                }
                Err(error) => return Err(unreachable(format!("the answer broke off: {error}"))),
            };
            Ok(Answer { status: parts.status, headers: parts.headers, body })
        };
        tokio::time::timeout(timeout, exchange)
            .await
            .unwrap_or_else(|_| Err(unreachable(format!("no answer within {timeout:?}"))))
    }
}

impl Transport {
    /// Sends one request and returns the answer as it comes; a refusal whole.
    pub(crate) async fn begin(
        &self,
        request: Request<Full<Bytes>>,
        base: &str,
        timeout: Duration,
        body_bytes_max: usize,
    ) -> Result<Result<Pieces, Answer>, Error> {
        let unreachable = |reason: String| Error::Unreachable { url: base.to_owned(), reason };
        let late = |_| unreachable(format!("no answer within {timeout:?}"));
        let response = tokio::time::timeout(timeout, self.pool.request(request)).await;
        let response = response.map_err(late)?.map_err(|error| unreachable(root_cause(&error)))?;
        let (parts, body) = response.into_parts();
        if parts.status.is_success() {
            return Ok(Ok(Pieces { body, url: base.to_owned(), timeout }));
        }
        let whole = Limited::new(body, body_bytes_max).collect();
        let whole = tokio::time::timeout(timeout, whole).await.map_err(late)?;
        let body = whole.map(|whole| whole.to_bytes()).unwrap_or_default();
        Ok(Err(Answer { status: parts.status, headers: parts.headers, body }))
    }
}

/// An answer that is read piece by piece, since it may be larger than memory.
#[derive(Debug)]
pub struct Pieces {
    body: Incoming,
    url: String,
    timeout: Duration,
}

impl Pieces {
    /// The next piece; `None` after the last. An error says that the answer is not whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = tokio::time::timeout(self.timeout, self.body.frame()).await;
            match frame {
                Ok(None) => return Ok(None),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Ok(Some(Err(error))) => return Err(self.broken(error.to_string())),
                Err(_) => return Err(self.broken(format!("nothing more in {:?}", self.timeout))),
            }
        }
    }

    fn broken(&self, why: String) -> Error {
        Error::Unreachable { url: self.url.clone(), reason: format!("the answer broke off: {why}") }
    }
}

/// The innermost reason: the outer ones only say "client error (Connect)".
fn root_cause(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
