//! The demo's other direction: an event of one's own, sent to a subscriber that fails at first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_providers::{Check, Request, registry};

use super::http::Http;

const PATIENCE: Duration = Duration::from_secs(20);

/// A subscriber that is down when the first delivery comes.
#[derive(Default)]
struct Subscriber {
    came: Mutex<Vec<(HeaderMap, Bytes)>>,
}

async fn take(
    State(subscriber): State<Arc<Subscriber>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, [(&'static str, &'static str); 1], &'static str) {
    let is_ping = body.windows(12).any(|part| part == b"webhook.ping");
    let mut came = subscriber.came.lock();
    if !is_ping {
        came.push((headers, body));
    }
    match came.len() {
        1 => (StatusCode::SERVICE_UNAVAILABLE, [("retry-after", "1")], "not yet"),
        _ => (StatusCode::OK, [("x-served-by", "demo")], "thanks"),
    }
}

/// Tells of an event that reaches its subscriber at the second try, signed, under one id.
pub async fn tell(http: &Http, say: &impl Fn(String)) -> anyhow::Result<()> {
    let subscriber = Arc::<Subscriber>::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/hooks", listener.local_addr()?);
    let app = Router::new().route("/hooks", post(take)).with_state(subscriber.clone());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });

    let webhook = json!({"url": url, "events": ["report.*"], "description": "demo subscriber"});
    let webhook = http.call(Method::POST, "/api/v1/webhooks", Some(webhook)).await?;
    let secret = webhook["secret"].as_str().context("a webhook's secret is shown once")?;
    let id = webhook["id"].as_str().context("a webhook has an id")?;
    say(format!("webhook   {id} wants report.*"));

    let event = json!({"type": "report.finished", "data": {"report": 7, "rows": 1200},
                       "dedup_key": "report-7"});
    let first = http.call(Method::POST, "/api/v1/events", Some(event.clone())).await?;
    let again = http.call(Method::POST, "/api/v1/events", Some(event)).await?;
    anyhow::ensure!(first["id"] == again["id"], "one publication made two events");
    let event = first["id"].as_str().context("an event has an id")?;
    say(format!("publish   report.finished twice with one key: {event}"));

    let delivery = wait_for(http, event).await?;
    for attempt in delivery["attempts"].as_array().into_iter().flatten() {
        say(format!(
            "delivery  attempt {}: {} {:?} in {} ms",
            attempt["attempt"],
            attempt["status_code"],
            attempt["body"].as_str().unwrap_or_default(),
            attempt["timings"]["total_ms"],
        ));
    }
    let came = subscriber.came.lock().clone();
    anyhow::ensure!(came.len() == 2, "the subscriber saw {} deliveries", came.len());
    anyhow::ensure!(came[0].1 == came[1].1, "two tries said different things");
    for (headers, body) in &came {
        verify(headers, body, secret)?;
    }
    say(format!(
        "verified  both tries have the same body and webhook-id {}, each its own signature",
        came[1].0["webhook-id"].to_str().unwrap_or_default()
    ));
    serving.abort();
    Ok(())
}

/// As a subscriber does, by Standard Webhooks.
fn verify(headers: &HeaderMap, body: &[u8], secret: &str) -> anyhow::Result<()> {
    let scheme = registry::find("standard-webhooks").context("the scheme is known")?;
    let request = Request { method: &Method::POST, url: "", headers, body, fetched: None };
    let (settings, tolerance) = (Default::default(), Duration::from_secs(60));
    let now = Timestamp::from_secs(jiff::Timestamp::now().as_second());
    let check = Check { secrets: &[secret], settings: &settings, now, tolerance };
    let verdict = scheme.verify(&request, &check);
    anyhow::ensure!(verdict.is_ok(), "a delivery's signature does not verify");
    Ok(())
}

/// Waits until the event's delivery was taken, and shows it whole.
async fn wait_for(http: &Http, event: &str) -> anyhow::Result<Value> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let path = format!("/api/v1/events/{event}/deliveries");
        let all = http.call(Method::GET, &path, None).await?;
        let delivery = &all["data"][0];
        if delivery["status"] == "succeeded" {
            let id = delivery["id"].as_str().context("a delivery has an id")?;
            return http.call(Method::GET, &format!("/api/v1/deliveries/{id}"), None).await;
        }
        anyhow::ensure!(Instant::now() < deadline, "the delivery did not arrive: {delivery}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
