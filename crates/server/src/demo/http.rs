//! The demo's own HTTP client: it speaks to the server as anybody would.

use anyhow::Context as _;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// A client of one server.
#[derive(Clone)]
pub struct Http {
    client: Client<HttpConnector, Full<Bytes>>,
    base: String,
    key: String,
}

impl Http {
    /// A client with a key.
    pub fn new(base: &str, key: &str) -> Http {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Http { client, base: base.to_owned(), key: key.to_owned() }
    }

    /// Sends JSON and reads JSON; anything but 2xx is an error.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> anyhow::Result<Value> {
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let (status, answer) = self.send(method, path, HeaderMap::new(), body.into()).await?;
        anyhow::ensure!(status.is_success(), "{path} answered {status}: {answer}");
        Ok(answer)
    }

    /// Sends a request with its own headers.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Value)> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("authorization", format!("Bearer {}", self.key))
            .body(Full::new(body))?;
        request.headers_mut().extend(headers);
        let answer =
            self.client.request(request).await.with_context(|| format!("cannot reach {path}"))?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        Ok((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
    }
}
