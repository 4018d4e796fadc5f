//! The bare HTTP client: that of the gateway, posting one prepared delivery again and again, with nothing around it.

use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::task::JoinSet;

/// The headers of a delivery, in form and size.
const HEADERS: [(&str, &str); 6] = [
    ("content-type", "application/json"),
    ("user-agent", "wakepost-bench/1"),
    ("webhook-id", "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV"),
    ("webhook-timestamp", "1790000000"),
    ("webhook-signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="),
    ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
];

type Pool = Client<HttpConnector, Full<Bytes>>;

/// Posts over so many connections until the end, on a runtime like that of the gateway.
pub async fn post(
    url: String,
    body: String,
    connections: usize,
    end: Instant,
) -> anyhow::Result<()> {
    let all = move || {
        let runtime = crate::serve::runtime()?;
        runtime.block_on(all(url, Bytes::from(body), connections, end))
    };
    tokio::task::spawn_blocking(all).await?
}

async fn all(url: String, body: Bytes, connections: usize, end: Instant) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Pool =
        Client::builder(TokioExecutor::new()).pool_max_idle_per_host(connections).build(connector);
    let uri: http::Uri = url.parse()?;
    let headers: HeaderMap = HEADERS
        .map(|(name, value)| (name.parse(), HeaderValue::from_static(value)))
        .into_iter()
        .filter_map(|(name, value)| Some((name.ok()?, value)))
        .collect();
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (client, uri, headers, body) =
            (client.clone(), uri.clone(), headers.clone(), body.clone());
        tasks.spawn(async move {
            while Instant::now() < end {
                let mut request = Request::new(Full::new(body.clone()));
                *request.method_mut() = Method::POST;
                *request.uri_mut() = uri.clone();
                *request.headers_mut() = headers.clone();
                let answer = client.request(request).await.context("the bare client")?;
                anyhow::ensure!(answer.status().is_success(), "answered {}", answer.status());
                answer.into_body().collect().await?;
            }
            Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
