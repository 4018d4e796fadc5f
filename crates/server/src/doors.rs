//! The addresses that the server listens on, and what each of them leads to.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header;
use tokio::net::TcpListener;

use crate::api::{self, ApiError};
use crate::config::Config;
use crate::context::Context;
use crate::listener::tls::{Tls, TlsFiles};

/// One address.
pub struct Door {
    /// Where it is.
    pub address: SocketAddr,
    /// What is behind it.
    pub leads_to: LeadsTo,
    /// The socket.
    pub listener: TcpListener,
    /// Its TLS.
    pub tls: MaybeTls,
}

/// What is behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeadsTo {
    /// All there is.
    Everything,
    /// What the outside world calls: providers, holders of signed links, probes.
    Outside,
    /// The API and the dashboard: everything else.
    Api,
    /// The counters, without a key.
    Metrics,
}

/// Binds what the settings say, and reads the certificates: the first door is that of `listen`.
pub async fn open(config: &Config) -> anyhow::Result<(Vec<Door>, Vec<Arc<Tls>>)> {
    let first = match config.api_listen {
        Some(_) => LeadsTo::Outside,
        None => LeadsTo::Everything,
    };
    let wanted = [
        Some((config.listen, first)),
        config.api_listen.map(|address| (address, LeadsTo::Api)),
        config.metrics_listen.map(|address| (address, LeadsTo::Metrics)),
    ];
    let (public, private) = certificates(config)?;
    let mut doors = Vec::new();
    for (address, leads_to) in wanted.into_iter().flatten() {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        let tls = if leads_to == LeadsTo::Outside { &public } else { &private };
        let address = listener.local_addr()?;
        doors.push(Door { address, leads_to, listener, tls: tls.clone() });
    }
    Ok((doors, [public, private].into_iter().flatten().collect()))
}

/// TLS, if there is any.
type MaybeTls = Option<Arc<Tls>>;

/// TLS for the outside, and for where the API is: only the second asks clients for a certificate, since providers have
/// none.
fn certificates(config: &Config) -> anyhow::Result<(MaybeTls, MaybeTls)> {
    let Some(files) = &config.tls else { return Ok((None, None)) };
    let private = Tls::read(files.clone())?;
    let public = match &files.client_ca {
        None => private.clone(),
        Some(_) => Tls::read(TlsFiles { client_ca: None, ..files.clone() })?,
    };
    Ok((Some(public), Some(private)))
}

impl LeadsTo {
    /// Whether the API is there.
    pub fn has_api(self) -> bool {
        matches!(self, LeadsTo::Everything | LeadsTo::Api)
    }

    /// What it is called when the server starts.
    pub fn name(self) -> &'static str {
        match self {
            LeadsTo::Everything | LeadsTo::Outside => "listening",
            LeadsTo::Api => "API",
            LeadsTo::Metrics => "metrics",
        }
    }

    /// The routes behind it; `all` are those of the whole server.
    pub fn router(self, context: &Arc<Context>, all: &Router) -> Router {
        let only = |wanted: fn(&str) -> bool| {
            let check = move |request: Request, next: Next| async move {
                match wanted(request.uri().path()) {
                    true => next.run(request).await,
                    false => ApiError::not_found().into_response(),
                }
            };
            all.clone().layer(from_fn(check))
        };
        match self {
            LeadsTo::Everything => all.clone(),
            LeadsTo::Outside => only(is_outside),
            LeadsTo::Api => only(|path| !is_outside(path) || is_probe(path)),
            LeadsTo::Metrics => Router::new()
                .route("/metrics", get(metrics))
                .fallback(|| async { ApiError::not_found() })
                .with_state(context.clone()),
        }
    }
}

async fn metrics(State(context): State<Arc<Context>>) -> Response {
    ([(header::CONTENT_TYPE, api::METRICS_TYPE)], context.metrics.text()).into_response()
}

fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Whether a path is one that the outside world calls. What is not known is the API's.
fn is_outside(path: &str) -> bool {
    let path = path.strip_prefix("/_agent-native").unwrap_or(path);
    let of_platform = path.strip_prefix("/integrations/").is_some_and(|rest| {
        rest == "_process-task"
            || rest.strip_suffix("/webhook").is_some_and(|platform| !platform.contains('/'))
    });
    // The portal's pages need the dashboard's files, which tell nothing.
    let signed = ["/in/", "/e/", "/p/", "/assets/", "/.well-known/"];
    is_probe(path) || of_platform || signed.iter().any(|prefix| path.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_outside_calls_is_outside() {
        for path in [
            "/in/src_1",
            "/integrations/slack/webhook",
            "/_agent-native/integrations/slack/webhook",
            "/integrations/_process-task",
            "/healthz",
            "/readyz",
            "/e/x",
            "/p/x",
            "/.well-known/wakepost-keys",
        ] {
            assert!(is_outside(path), "{path}");
        }
        for path in [
            "/",
            "/api/v1/keys",
            "/metrics",
            "/docs",
            "/mcp",
            "/openapi.json",
            "/integrations/status",
            "/integrations/slack/enable",
            "/integrations/a/b/webhook",
            "/in",
            "/inbox",
            "/events",
            "/IN/x",
            "//in/x",
            "/_agent-native/integrations/slack/status",
        ] {
            assert!(!is_outside(path), "{path}");
        }
    }
}
