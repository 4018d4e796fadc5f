//! What is asked of an HTTP client, and what comes back.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

use super::identity::Identity;
use super::target::Target;

/// Sends one request, once. Simulations supply their own.
#[async_trait]
pub trait HttpClient: Send + Sync {
    /// Sends it and reads the answer, all within the request's one deadline.
    async fn send(&self, request: OutboundRequest) -> Result<OutboundAnswer, SendError>;
}

/// One request.
#[derive(Clone)]
pub struct OutboundRequest {
    /// Where to.
    pub target: Target,
    /// Whose URL it is.
    pub trust: Trust,
    /// The certificate that we show, if the receiver wants one.
    pub identity: Option<Arc<Identity>>,
    /// How.
    pub method: Method,
    /// Headers; `Host` and those that frame the message are the client's own and replaced.
    pub headers: HeaderMap,
    /// The body's bytes.
    pub body: Bytes,
    /// The one deadline, from resolving the name to the last byte kept.
    pub timeout: Duration,
    /// How many bytes of the answer's body are kept.
    pub body_bytes_max: usize,
    /// What happens beyond that.
    pub keep: KeepBody,
}

/// Whose URL a request goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// A tenant's: the deployment's address policy applies.
    Guarded,
    /// The operator's, from `wakepost.toml` or an all-tenant admin: any address.
    Trusted,
}

/// What happens to an answer whose body is larger than `body_bytes_max`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeepBody {
    /// The beginning is kept, and marked as truncated.
    #[default]
    Prefix,
    /// Of a success it is an error: a cut JSON body must not be taken for a whole one. Of anything else the beginning
    /// is kept.
    Whole,
}

/// What the receiver answered.
#[derive(Clone, PartialEq, Eq)]
pub struct OutboundAnswer {
    /// The status, whatever it is: a redirect is an answer like any other.
    pub status: StatusCode,
    /// Headers, up to a bound; a `Retry-After` is among them whatever else was sent.
    pub headers: HeaderMap,
    /// The body as sent, never inflated.
    pub body: Bytes,
    /// Whether more body was there, or would have come.
    pub truncated: bool,
    /// The address that answered.
    pub remote: Option<SocketAddr>,
    /// How long each step took.
    pub timings: Timings,
}

/// How long each step took; `None` for a step that was not needed or not finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timings {
    /// Resolving the name. `None` for a written address.
    pub dns: Option<Duration>,
    /// Connecting. `None` on a connection kept from before.
    pub connect: Option<Duration>,
    /// The TLS handshake. `None` without TLS, and on a connection kept from before.
    pub tls: Option<Duration>,
    /// From the start of the whole exchange to the head of the answer.
    pub first_byte: Option<Duration>,
    /// The whole exchange.
    pub total: Duration,
}

/// A request without a usable answer. A retry decision looks at the class.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub struct SendError {
    /// What kind of failure it was.
    pub class: SendErrorClass,
    /// A short text that a tenant may read.
    pub text: String,
    /// More, for the operator only: which address was refused, and why. A tenant must not learn
    /// how names resolve inside the operator's network.
    pub operator_text: Option<String>,
    /// How long each step took, as far as it got.
    pub timings: Timings,
    /// What had arrived, if the answer's head had.
    pub partial: Option<Box<OutboundAnswer>>,
}

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendErrorClass {
    /// The address guard said no; nothing was connected.
    Refused,
    /// The name has no address, or the name server did not say.
    Resolve,
    /// No connection.
    Connect,
    /// A connection, but no trust: a wrong certificate, a failed handshake.
    Tls,
    /// The deadline passed.
    Timeout,
    /// The answer was broken off or malformed.
    Protocol,
    /// It was a success, and larger than the caller can take.
    TooLarge,
}

impl SendErrorClass {
    /// The word for records and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            SendErrorClass::Refused => "refused",
            SendErrorClass::Resolve => "resolve",
            SendErrorClass::Connect => "connect",
            SendErrorClass::Tls => "tls",
            SendErrorClass::Timeout => "timeout",
            SendErrorClass::Protocol => "protocol",
            SendErrorClass::TooLarge => "too_large",
        }
    }
}

/// Without headers and body, which hold secrets.
impl fmt::Debug for OutboundRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundRequest")
            .field("target", &self.target)
            .field("trust", &self.trust)
            .field("method", &self.method)
            .field("body_bytes", &self.body.len())
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

/// Without headers and body, which belong to the tenant.
impl fmt::Debug for OutboundAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboundAnswer")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .field("truncated", &self.truncated)
            .field("remote", &self.remote)
            .field("timings", &self.timings)
            .finish_non_exhaustive()
    }
}
