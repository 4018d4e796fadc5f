//! The HTTP listener: real timeouts and limits on everything a peer can do to a connection.

mod framing;
mod patient;
pub mod tls;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use prometheus_client::metrics::gauge::Gauge;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;
use wakepost_store::failpoint;

pub use framing::Framed;
use patient::Patient;
use tls::Tls;

/// How long a peer may take to send its headers; also how long an idle connection is kept.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take for TLS's handshake. It has its place on the listener all the while.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a peer may take nothing of what waits to be sent to it.
const READING_TIMEOUT: Duration = Duration::from_secs(30);
/// How many headers a request may have.
const HEADERS_MAX: usize = 100;
/// How long a request's URI may be.
const URI_BYTES_MAX: usize = 16 * 1024;
/// How large all headers of a request may be together.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// How much of a head is read before it is given up. More than the two above, so that the answer can tell
/// which of them it was.
const HEAD_BYTES_MAX: usize = 128 * 1024;
/// HTTP/2 streams on one connection.
const STREAMS_MAX: u32 = 128;
/// How long accepting pauses after an error such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long such errors go on until they are told of once more: they come again at every try.
const ACCEPT_TOLD: Duration = Duration::from_secs(60);

/// Serves until `stop`, then lets what is under way end, for at most `grace`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    stop: CancellationToken,
    grace: Duration,
) {
    let connections = Gauge::default();
    serve_with(listener, None, router, connections_max, connections, stop, grace).await;
}

/// As [`serve`], behind TLS if there is any, counting those that are open.
pub async fn serve_with(
    listener: TcpListener,
    tls: Option<Arc<Tls>>,
    router: Router,
    connections_max: usize,
    connections: Gauge,
    stop: CancellationToken,
    grace: Duration,
) {
    let places = Arc::new(Semaphore::new(connections_max));
    let graceful = GracefulShutdown::new();
    let mut told: Option<Instant> = None;
    loop {
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place,
            () = stop.cancelled() => break,
        };
        let Ok(place) = place else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if told.is_none_or(|at| at.elapsed() >= ACCEPT_TOLD) {
                    told = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept connections; those who come must wait");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let stream = Patient::new(stream, READING_TIMEOUT);
        let (router, watcher) = (router.clone(), graceful.watcher());
        let acceptor = tls.as_ref().map(|tls| tls.acceptor());
        let connections = connections.clone();
        connections.inc();
        tokio::spawn(async move {
            match acceptor {
                None => connection(stream, peer, router, watcher).await,
                Some(acceptor) => {
                    if let Some(stream) = shake_hands(acceptor, stream, peer).await {
                        connection(stream, peer, router, watcher).await;
                    }
                }
            }
            connections.dec();
            drop(place);
        });
    }
    drop(listener);
    if failpoint::pass_async("shutdown.mid_drain").await.is_err() {
        return;
    }
    if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
        tracing::warn!("some connections did not end within the grace period");
    }
}

/// Serves one connection, whatever carries it, until its peer or a rule ends it.
pub async fn serve_stream(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
) {
    let graceful = GracefulShutdown::new();
    connection(stream, peer, router, graceful.watcher()).await;
}

/// TLS's handshake, in good time.
async fn shake_hands(
    acceptor: TlsAcceptor,
    stream: Patient,
    peer: SocketAddr,
) -> Option<TlsStream<Patient>> {
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some(stream),
        // Plain HTTP, a certificate that is missing or nobody's, or a scan.
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!(%peer, "a TLS handshake took too long");
            None
        }
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: SocketAddr,
    router: Router,
    watcher: Watcher,
) {
    let asked = Arc::new(AtomicBool::new(false));
    let first = asked.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        first.store(true, Ordering::Relaxed);
        let router = router.clone();
        async move {
            if let Some(status) = too_large(&request) {
                return Ok(refusal(status));
            }
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(ConnectInfo(peer));
            let answer: Result<Response<Body>, Infallible> = router.oneshot(request).await;
            answer
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_BYTES_MAX as u32)
        .max_pending_accept_reset_streams(20)
        .max_local_error_reset_streams(Some(100))
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(HEADERS_TIMEOUT);
    let served = builder.serve_connection(TokioIo::new(Framed::new(stream)), service).into_owned();
    let watched = watcher.watch(served);
    // The versions' own timers begin once the version is known: a peer that says nothing, or half of
    // HTTP/2's first line, would otherwise be kept for ever.
    let silent = async move {
        tokio::time::sleep(HEADERS_TIMEOUT).await;
        if asked.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        // A peer that breaks off or breaks the rules is its own business.
        ended = watched => if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection ended badly");
        },
        () = silent => tracing::debug!(%peer, "a connection asked for nothing"),
    }
}

fn too_large(request: &Request<Incoming>) -> Option<StatusCode> {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let headers: usize =
        request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
    if uri > URI_BYTES_MAX {
        Some(StatusCode::URI_TOO_LONG)
    } else if headers > HEADER_BYTES_MAX || request.headers().len() > HEADERS_MAX {
        Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
    } else {
        None
    }
}

/// A status and nothing else; the connection ends with it.
fn refusal(status: StatusCode) -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = status;
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}
