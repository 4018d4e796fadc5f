//! A receiver of deliveries behind the gateway's own listener: reads the body, counts, and answers 200.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use wakepost_domain::limits::BODY_BYTES_MAX;
use wakepost_server::listener;

/// Where deliveries go.
pub const HOOK: &str = "/hook";
/// Where it says how many came.
pub const COUNT: &str = "/count";

/// Serves until SIGTERM.
pub async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let stop = super::stop_at_sigterm()?;
    println!("listening on http://{}", listener.local_addr()?);
    let router = Router::new()
        .route(HOOK, post(receive))
        .route(COUNT, get(count))
        .with_state(Arc::<AtomicU64>::default());
    listener::serve(listener, router, 10_000, stop, Duration::from_secs(1)).await;
    Ok(())
}

async fn receive(State(received): State<Arc<AtomicU64>>, body: Body) -> StatusCode {
    match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(_) => {
            received.fetch_add(1, Ordering::Relaxed);
            StatusCode::OK
        }
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

async fn count(State(received): State<Arc<AtomicU64>>) -> String {
    received.load(Ordering::Relaxed).to_string()
}
