//! A bare server behind the gateway's own listener: reads the body and answers 202.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;
use wakepost_domain::limits::BODY_BYTES_MAX;
use wakepost_server::listener;

/// Serves until SIGTERM.
pub async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let stop = super::stop_at_sigterm()?;
    println!("listening on http://{}", listener.local_addr()?);
    let router = Router::new().route("/in/{source_id}", post(receive));
    listener::serve(listener, router, 10_000, stop, Duration::from_secs(1)).await;
    Ok(())
}

async fn receive(Path(_source): Path<String>, body: Body) -> StatusCode {
    match to_bytes(body, BODY_BYTES_MAX).await {
        Ok(_) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}
