//! The HTTP client that goes where the policy lets it, and nowhere else.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpInfo;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::answer::Arrived;
use super::client::{
    HttpClient, OutboundAnswer, OutboundRequest, SendError, SendErrorClass, Trust,
};
use super::connector::{ATTEMPT, Attempt, Connector};
use super::fault::Fault;
use super::identity::Identity;
use super::policy::AddressPolicy;
use super::progress::Progress;
use super::resolve::Resolver;
use super::target::{Target, TargetHost};

type Pool = Client<Connector, Full<Bytes>>;

/// The real [`HttpClient`].
pub struct GuardedClient {
    resolver: Arc<dyn Resolver>,
    guarded: Lane,
    trusted: Lane,
    settings: ClientSettings,
    /// Guarded connections that were opened with a certificate of ours, by whose it is: they carry nobody else's.
    known: Mutex<HashMap<[u8; 32], Pool>>,
}

/// A policy and the connections made under it. Two lanes, since a connection that a trusted
/// request opened to a private address must never carry a guarded one.
struct Lane {
    policy: AddressPolicy,
    pool: Pool,
}

/// How a [`GuardedClient`] is set up.
#[derive(Debug, Clone)]
pub struct ClientSettings {
    /// What guarded requests may reach. Trusted ones may reach everything.
    pub policy: AddressPolicy,
    /// Certificate authorities to trust beside the public ones.
    pub extra_roots: Vec<CertificateDer<'static>>,
    /// The most that opening a connection may take, and then its TLS handshake.
    pub connect_timeout: Duration,
    /// How long a connection is kept without a request.
    pub idle_timeout: Duration,
    /// How many such connections are kept for each host.
    pub idle_per_host_max: usize,
}

impl Default for ClientSettings {
    fn default() -> ClientSettings {
        ClientSettings {
            policy: AddressPolicy::default(),
            extra_roots: Vec::new(),
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(30),
            idle_per_host_max: 256,
        }
    }
}

/// How many certificates have their connections kept apart.
const IDENTITIES_MAX: usize = 256;
/// Names may have many addresses; all are checked, this many are tried.
const ADDRESSES_TRIED_MAX: usize = 8;
/// The head of an answer, read into memory at most.
const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
/// `100 Continue` and a few `103 Early Hints` are honest; a flood would keep a core busy until
/// the deadline.
const INFORMATIONAL_MAX: usize = 32;

/// They frame the message or steer the connection, so only the client may write them.
const OWN_HEADERS: [HeaderName; 7] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::TE,
    header::UPGRADE,
    header::EXPECT,
];

impl GuardedClient {
    /// Fails only where an extra root is no certificate.
    pub fn new(
        resolver: Arc<dyn Resolver>,
        settings: ClientSettings,
    ) -> Result<GuardedClient, rustls::Error> {
        Ok(GuardedClient {
            resolver,
            guarded: Lane { policy: settings.policy.clone(), pool: pool(&settings, None)? },
            trusted: Lane { policy: AddressPolicy::trusted(), pool: pool(&settings, None)? },
            settings,
            known: Mutex::default(),
        })
    }

    /// The connections of a certificate.
    fn pool_of(&self, identity: &Identity) -> Result<Pool, Fault> {
        let mut known = self.known.lock();
        if let Some(pool) = known.get(&identity.fingerprint()) {
            return Ok(pool.clone());
        }
        if known.len() >= IDENTITIES_MAX {
            known.clear();
        }
        let made = pool(&self.settings, Some(identity))
            .map_err(|error| Fault::new(SendErrorClass::Tls, error.to_string()))?;
        known.insert(identity.fingerprint(), made.clone());
        Ok(made)
    }

    async fn exchange(
        &self,
        request: OutboundRequest,
        started: Instant,
        progress: &Arc<Progress>,
        arrived: &mut Option<Arrived>,
    ) -> Result<(), Fault> {
        let lane = match request.trust {
            Trust::Guarded => &self.guarded,
            Trust::Trusted => &self.trusted,
        };
        let addresses = self.checked_addresses(&request.target, &lane.policy, progress).await?;
        let attempt = Attempt { addresses, progress: Arc::clone(progress) };
        let (bytes_max, keep) = (request.body_bytes_max, request.keep);
        let pool = match (request.trust, &request.identity) {
            (Trust::Guarded, Some(identity)) => &self.pool_of(identity)?,
            _ => &lane.pool,
        };
        let response = ATTEMPT.scope(attempt, answer_head(pool, request)).await?;
        let (head, body) = response.into_parts();
        let info = head.extensions.get::<HttpInfo>();
        progress.answered(started.elapsed(), info.map(HttpInfo::local_addr));
        let remote = info.map(HttpInfo::remote_addr);
        arrived
            .insert(Arrived::new(head.status, head.headers, remote))
            .read(body, bytes_max, keep)
            .await
    }

    /// The addresses of the target, if each of them is allowed. One refused address refuses the
    /// name: else a name with a public and a private address would get in by chance.
    async fn checked_addresses(
        &self,
        target: &Target,
        policy: &AddressPolicy,
        progress: &Progress,
    ) -> Result<Arc<[SocketAddr]>, Fault> {
        // The target may have been read under a policy that has since become stricter.
        target.check(policy).map_err(|why| refused(target, why.to_string(), why.to_string()))?;
        let started = Instant::now();
        let mut addresses = match target.host() {
            TargetHost::Ip(ip) => {
                progress.resolved(None);
                vec![*ip]
            }
            TargetHost::Name(name) => {
                let found = self.resolver.resolve(name, target.port()).await.map_err(|error| {
                    Fault::new(
                        SendErrorClass::Resolve,
                        format!("the name did not resolve: {error}"),
                    )
                })?;
                progress.resolved(Some(started.elapsed()));
                found
            }
        };
        for ip in &addresses {
            if let Some(why) = policy.refusal(*ip) {
                let detail = format!("{} resolves to {ip}, which is {why}", target.host());
                return Err(refused(target, "the address is not allowed".to_owned(), detail));
            }
        }
        if addresses.is_empty() {
            return Err(Fault::new(SendErrorClass::Resolve, "the name has no address"));
        }
        addresses.truncate(ADDRESSES_TRIED_MAX);
        let with_port = |ip: IpAddr| SocketAddr::new(ip, target.port());
        Ok(addresses.into_iter().map(with_port).collect())
    }
}

#[async_trait]
impl HttpClient for GuardedClient {
    async fn send(&self, request: OutboundRequest) -> Result<OutboundAnswer, SendError> {
        let started = Instant::now();
        let progress = Arc::new(Progress::default());
        let mut arrived = None;
        let limit = request.timeout;
        let exchange = self.exchange(request, started, &progress, &mut arrived);
        let outcome = timeout(limit, exchange).await.unwrap_or_else(|_| {
            let text = format!("timed out {}", progress.stage().phrase());
            Err(Fault::new(SendErrorClass::Timeout, text))
        });
        let timings = progress.timings(started.elapsed());
        let answer = arrived.map(|arrived| arrived.into_answer(timings));
        let Fault { class, text, operator_text } = match outcome {
            Ok(()) => return Ok(answer.expect("an exchange succeeds only once its head arrived")),
            Err(fault) => fault,
        };
        Err(SendError { class, text, operator_text, timings, partial: answer.map(Box::new) })
    }
}

fn pool(settings: &ClientSettings, identity: Option<&Identity>) -> Result<Pool, rustls::Error> {
    let connector = Connector::new(&settings.extra_roots, settings.connect_timeout, identity)?;
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(settings.idle_timeout)
        .pool_max_idle_per_host(settings.idle_per_host_max)
        .http1_max_buf_size(HEAD_BYTES_MAX)
        .http1_max_headers(HEADERS_MAX)
        .build(connector))
}

/// Sends the request and waits for the head of its answer.
async fn answer_head(pool: &Pool, request: OutboundRequest) -> Result<Response<Incoming>, Fault> {
    let flood = Arc::new(Notify::new());
    let request = http_request(request, Arc::clone(&flood));
    tokio::select! {
        answer = pool.request(request) => answer.map_err(|error| Fault::from_exchange(&error)),
        () = flood.notified() => Err(Fault::protocol("too many informational answers")),
    }
}

fn http_request(request: OutboundRequest, flood: Arc<Notify>) -> Request<Full<Bytes>> {
    let mut message = Request::new(Full::new(request.body));
    *message.method_mut() = request.method;
    *message.uri_mut() = request.target.uri().clone();
    *message.headers_mut() = without_own(request.headers);
    let seen = AtomicUsize::new(0);
    hyper::ext::on_informational(&mut message, move |_| {
        if seen.fetch_add(1, Ordering::Relaxed) >= INFORMATIONAL_MAX {
            flood.notify_one();
        }
    });
    message
}

fn without_own(mut headers: HeaderMap) -> HeaderMap {
    for name in &OWN_HEADERS {
        headers.remove(name);
    }
    headers
}

/// Says why to the operator; the tenant reads less.
fn refused(target: &Target, text: String, operator_text: String) -> Fault {
    tracing::warn!(host = %target.host(), why = operator_text, "outbound request refused");
    Fault::refused(text, operator_text)
}
