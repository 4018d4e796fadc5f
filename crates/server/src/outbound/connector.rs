//! The only door out: opens connections, to checked addresses alone.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::client::SendErrorClass;
use super::fault::Fault;
use super::identity::Identity;
use super::progress::Progress;

tokio::task_local! {
    /// The attempt on whose behalf the pool asks for a connection. The pool's own interface
    /// carries only a URI, and resolving that again here would be a second look-up, whose answer
    /// nobody checked.
    pub(super) static ATTEMPT: Attempt;
}

/// What the connector needs to know of an attempt.
#[derive(Debug, Clone)]
pub(super) struct Attempt {
    /// Checked against the policy of the pool's requests.
    pub(super) addresses: Arc<[SocketAddr]>,
    pub(super) progress: Arc<Progress>,
}

/// Opens connections for one pool.
#[derive(Clone)]
pub(super) struct Connector {
    tls: TlsConnector,
    connect_timeout: Duration,
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

impl Connector {
    pub(super) fn new(
        extra_roots: &[CertificateDer<'static>],
        connect_timeout: Duration,
        identity: Option<&Identity>,
    ) -> Result<Connector, rustls::Error> {
        let mut config = tls_config(extra_roots)?;
        if let Some(identity) = identity {
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity.key()));
        }
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Connector { tls, connect_timeout })
    }

    async fn open(self, uri: Uri, attempt: Attempt) -> Result<Stream, Fault> {
        let Attempt { addresses, progress } = attempt;
        progress.connecting();
        let started = Instant::now();
        let tcp = connect_any(&addresses, self.connect_timeout).await?;
        progress.connected(started.elapsed(), tcp.local_addr().ok());
        if uri.scheme() != Some(&Scheme::HTTPS) {
            progress.ready(None);
            return Ok(MaybeHttpsStream::Http(TokioIo::new(tcp)));
        }
        let started = Instant::now();
        let name = server_name(&uri)?;
        // Bounded here too: the pool may finish a connection after its request has gone.
        let handshake =
            timeout(self.connect_timeout, self.tls.connect(name, TokioIo::new(TokioIo::new(tcp))));
        let stream = match handshake.await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(Fault::new(SendErrorClass::Tls, error.to_string())),
            Err(_) => return Err(Fault::new(SendErrorClass::Tls, "the handshake timed out")),
        };
        progress.ready(Some(started.elapsed()));
        Ok(stream.into())
    }
}

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = Fault;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, Fault>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        match ATTEMPT.try_with(Attempt::clone) {
            Ok(attempt) => Box::pin(self.clone().open(uri, attempt)),
            // Nobody checked an address for this connection, so there is none to connect to.
            Err(_) => {
                let text = "a connection was asked for outside an attempt";
                let fault = Fault::refused("the address is not allowed", text.to_owned());
                Box::pin(std::future::ready(Err(fault)))
            }
        }
    }
}

/// Tries one after the other; each gets its share of what time is left, so that a first address
/// that swallows packets does not use up the time of the others.
pub(super) async fn connect_any(
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<TcpStream, Fault> {
    let started = Instant::now();
    let mut text = "the name has no address".to_owned();
    for (tried, address) in addresses.iter().enumerate() {
        let left = limit.saturating_sub(started.elapsed());
        let share = left / u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Only speed is lost where this fails.
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(error)) => text = error.to_string(),
            Err(_) => text = "connecting timed out".to_owned(),
        }
    }
    Err(Fault::new(SendErrorClass::Connect, text))
}

fn server_name(uri: &Uri) -> Result<ServerName<'static>, Fault> {
    let host = uri.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned())
        .map_err(|_| Fault::new(SendErrorClass::Tls, "no certificate can be for this host"))
}

pub(super) fn tls_config(
    extra_roots: &[CertificateDer<'static>],
) -> Result<ClientConfig, rustls::Error> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    for root in extra_roots {
        roots.add(root.clone())?;
    }
    // Named, because the process-wide default depends on which crates are linked in.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // HTTP/1.1 alone: an answer that goes on too long is ended by dropping its connection, which
    // under HTTP/2 would end other requests too.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_no_attempt_asked_for_is_refused() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let mut connector = Connector::new(&[], Duration::from_secs(1), None).unwrap();
        let outcome = connector.call(uri).await;
        assert_eq!(outcome.map(drop).unwrap_err().class, SendErrorClass::Refused);
        let accepted = timeout(Duration::from_millis(50), listener.accept()).await;
        assert!(accepted.is_err(), "nothing connected");
    }
}
