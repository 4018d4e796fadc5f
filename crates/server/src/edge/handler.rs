//! The handler, in the strict order of the spec.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::digest;
use axum::body::Body;
use axum::extract::{ConnectInfo, Path, State};
use axum::response::Response;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Method, Request, StatusCode, header};
use wakepost_domain::figures::Figure;
use wakepost_domain::receipt::Verdict;
use wakepost_domain::{ReceiptId, SourceId, Timestamp, limits};
use wakepost_providers::{Answer, Check, Refusal, Why};
use wakepost_store::StoreError;
use wakepost_store::moves::NewReceipt;

use super::accept::{Outcome, Passed, accept};
use super::body::{self, NoBody};
use super::describe::{BodyRefused, NoHandshake, Received, Refusals};
use super::secret::keep_secret;
use super::{Forged, answer, peer};
use crate::chains;
use crate::context::Context;
use crate::directory::LiveSource;
use crate::rates::Limit;
use crate::schema;
use crate::telemetry::metrics::Receipt;
use crate::telemetry::story;

const JSON: &str = "application/json";
/// How much of a retry header is kept.
const RETRY_BYTES_MAX: usize = 40;

/// A refusal on its way out: what the sender sees, what the operator sees.
struct Refused {
    status: StatusCode,
    verdict: Verdict,
    reason: String,
    /// When to come again.
    wait: Option<Duration>,
    /// What to look into later.
    forged: Option<Box<Forged>>,
}

impl Refused {
    fn new(status: StatusCode, verdict: Verdict, reason: impl ToString) -> Refused {
        Refused { status, verdict, reason: reason.to_string(), wait: None, forged: None }
    }
}

/// Receives one request of a provider.
///
/// The body and its signature are whatever the source's provider sends. An answer comes after the commit. Where
/// a provider prescribes the answer, it gets that one.
#[utoipa::path(
    post, path = "/in/{source_id}", operation_id = "receive", tag = "ingress", security(()),
    params(("source_id" = schema::SourceId, Path)),
    request_body(content = serde_json::Value, content_type = "*/*",
        description = "Whatever the provider sends: kept byte for byte, and read as that provider says."),
    responses(
        (status = 202, description = "New: it is stored, with its job.", body = Received),
        (status = 200, description = "A duplicate, or stored without a job; or what the provider prescribes.",
         body = Received),
        Refusals, BodyRefused,
    )
)]
pub async fn receive(
    State(context): State<Arc<Context>>,
    Path(source): Path<String>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    let arrived = Instant::now();
    let found = match source.parse::<SourceId>() {
        Ok(id) => context.directory.source(id).await,
        Err(_) => return answer::refusal(StatusCode::NOT_FOUND),
    };
    match found {
        Ok(Some(live)) => admit(&context, &live, peer.ip(), request, arrived).await,
        Ok(None) => answer::refusal(StatusCode::NOT_FOUND),
        Err(error) => answer::lookup_failed(&error),
    }
}

/// Takes a request to a source that was found: the rest of the way.
pub async fn admit(
    context: &Arc<Context>,
    live: &Arc<LiveSource>,
    peer: IpAddr,
    request: Request<Body>,
    arrived: Instant,
) -> Response {
    if !live.source.config.enabled {
        return answer::refusal(StatusCode::NOT_FOUND);
    }
    let (parts, body) = request.into_parts();
    let sender = peer::address(peer, &parts.headers, &context.config.trusted_proxies);
    let receipt = receipt(context, live, sender);
    match take_in(context, live, parts, body, sender, receipt.clone(), arrived).await {
        Ok((verdict, response)) => {
            if verdict == Verdict::Handshake {
                let receipt = NewReceipt { verdict, latency_us: micros(arrived), ..receipt };
                context.rejections.leave(receipt, None);
            }
            count(context, live, verdict, Some(arrived.elapsed()));
            response
        }
        Err(refused) => {
            count(context, live, refused.verdict, None);
            let receipt = NewReceipt {
                verdict: refused.verdict,
                latency_us: micros(arrived),
                detail: Some(refused.reason),
                ..receipt
            };
            context.rejections.leave(receipt, refused.forged);
            match refused.wait {
                Some(wait) => answer::later(refused.status, wait),
                None => answer::refusal(refused.status),
            }
        }
    }
}

/// Answers a provider's handshake, for those that begin with one.
#[utoipa::path(
    get, path = "/in/{source_id}", operation_id = "answer_challenge", tag = "ingress", security(()),
    params(("source_id" = schema::SourceId, Path)),
    responses((status = 200, description = "What the provider prescribes.", body = String,
         content_type = "text/plain"), Refusals, NoHandshake)
)]
pub async fn challenge(
    context: State<Arc<Context>>,
    source: Path<String>,
    peer: ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    receive(context, source, peer, request).await
}

/// Answers a provider that asks whether it may send, for those that do.
#[utoipa::path(
    options, path = "/in/{source_id}", operation_id = "answer_preflight", tag = "ingress",
    security(()), params(("source_id" = schema::SourceId, Path)),
    responses((status = 200, description = "What the provider prescribes."), Refusals, NoHandshake)
)]
pub async fn preflight(
    context: State<Arc<Context>>,
    source: Path<String>,
    peer: ConnectInfo<SocketAddr>,
    request: Request<Body>,
) -> Response {
    receive(context, source, peer, request).await
}

async fn take_in(
    context: &Arc<Context>,
    live: &Arc<LiveSource>,
    parts: Parts,
    body: Body,
    sender: IpAddr,
    receipt: NewReceipt,
    arrived: Instant,
) -> Result<(Verdict, Response), Refused> {
    let url = format!(
        "{}{}",
        context.base_url,
        parts.uri.path_and_query().map_or("/", |path| path.as_str())
    );
    let declared = before_body(context, live, &parts, sender)?;
    if parts.method != Method::POST {
        let asked = wakepost_providers::Request {
            method: &parts.method,
            url: &url,
            headers: &parts.headers,
            body: b"",
            fetched: None,
        };
        return match live.provider.handshake(&asked, &live.settings) {
            Some(prescribed) => Ok((Verdict::Handshake, answer::prescribed(prescribed))),
            None => {
                Err(Refused::new(StatusCode::METHOD_NOT_ALLOWED, Verdict::Malformed, "only POST"))
            }
        };
    }
    let body = body::read(body, declared, live.body_bytes_max()).await.map_err(no_body)?;
    let (now, read) = (context.now(), Instant::now());
    let asked = wakepost_providers::Request {
        method: &parts.method,
        url: &url,
        headers: &parts.headers,
        body: &body,
        fetched: None,
    };
    if let Some(secret) = sent_secret(live, &asked) {
        return match keep_secret(context, live, secret).await {
            Ok(()) => Ok((Verdict::Handshake, answer::prescribed(Answer::ok(JSON, "{}")))),
            Err(error) => Err(unavailable(live, error)),
        };
    }
    let signed_at = match live.source.config.unsigned {
        true => None,
        false => verify(live, &asked, now)
            .map_err(|refusal| refuse(context, live, &asked, &body, now, refusal))?,
    };
    if let Some(prescribed) = live.provider.signed_handshake(&asked, &live.settings) {
        return Ok((Verdict::Handshake, answer::prescribed(prescribed)));
    }
    let prescribed = live.provider.prescribed(&asked, &live.settings);
    let parent = context.traces.are_wanted().then(|| chains::given(&parts.headers)).flatten();
    let hash = digest::digest(&digest::SHA256, &body);
    let passed = Passed {
        hash: hash.as_ref().try_into().expect("SHA-256 has 32 bytes"),
        signature: signed_at.and_then(|_| proof(live, &asked)),
        retry: retry(live, &parts.headers),
        read,
        source: live.clone(),
        headers: parts.headers,
        body,
        fetched: None,
        url,
        receipt: NewReceipt { latency_us: micros(arrived), ..receipt },
        now,
    };
    let outcomes = accept(context, passed).await.map_err(|error| unavailable(live, error))?;
    for Outcome { event, job, verdict } in &outcomes {
        let what = (*event, *job, verdict.as_str());
        story::received(context, live, parent, arrived, what).await;
    }
    let verdict = together(&outcomes);
    if let Some(prescribed) = prescribed {
        return Ok((verdict, answer::prescribed_for(prescribed, &outcomes)));
    }
    let status = match verdict {
        Verdict::Accepted => {
            StatusCode::from_u16(live.facts.accepted_status).unwrap_or(StatusCode::ACCEPTED)
        }
        _ => StatusCode::OK,
    };
    Ok((verdict, answer::stored(status, verdict, &outcomes)))
}

/// The verdict on a request: the best of its events'.
fn together(outcomes: &[Outcome]) -> Verdict {
    let verdicts = outcomes.iter().map(|outcome| outcome.verdict);
    // Their codes stand in this order: accepted, duplicate, ignored, unmapped.
    verdicts.min_by_key(|verdict| *verdict as i16).unwrap_or(Verdict::Unmapped)
}

/// Everything that can be refused before the body is read. Answers the declared length.
fn before_body(
    context: &Context,
    live: &LiveSource,
    parts: &Parts,
    sender: IpAddr,
) -> Result<Option<usize>, Refused> {
    let known = matches!(parts.method, Method::POST | Method::GET | Method::HEAD | Method::OPTIONS);
    if !known {
        return Err(Refused::new(
            StatusCode::METHOD_NOT_ALLOWED,
            Verdict::Malformed,
            format!("the method was {}", parts.method),
        ));
    }
    if !live.allows(sender) {
        let reason = format!("{sender} is not in allow_from");
        return Err(Refused::new(StatusCode::NOT_FOUND, Verdict::AddressRefused, reason));
    }
    let limit = live.source.config.rate_per_s;
    let turn =
        limit.map_or(Ok(()), |rate| context.rates.take(live.source.id, Limit::per_second(rate)));
    turn.map_err(|wait| Refused {
        wait: Some(wait),
        ..Refused::new(
            StatusCode::TOO_MANY_REQUESTS,
            Verdict::RateLimited,
            "more requests in a second than rate_per_s allows",
        )
    })?;
    let declared = parts
        .headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse().ok());
    // What is compressed would have to be inflated before anything is verified.
    let encoding = parts.headers.get(header::CONTENT_ENCODING);
    if encoding.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Refused::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Verdict::Malformed,
            "the body has a content encoding",
        ));
    }
    Ok(declared)
}

fn no_body(reason: NoBody) -> Refused {
    match reason {
        NoBody::TooLarge => Refused::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Verdict::Oversize,
            "the body is larger than max_body_bytes",
        ),
        NoBody::TooSlow => Refused::new(
            StatusCode::REQUEST_TIMEOUT,
            Verdict::TooSlow,
            "the body did not arrive in time",
        ),
        NoBody::Broken => {
            Refused::new(StatusCode::BAD_REQUEST, Verdict::Malformed, "the body was cut off")
        }
    }
}

fn verify(
    live: &LiveSource,
    asked: &wakepost_providers::Request<'_>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Refusal> {
    let secrets: Vec<&str> = live.source.secrets.live(now).collect();
    let check =
        Check { secrets: &secrets, settings: &live.settings, now, tolerance: live.tolerance() };
    Ok(live.provider.verify(asked, &check)?.signed_at)
}

fn refuse(
    context: &Context,
    live: &Arc<LiveSource>,
    asked: &wakepost_providers::Request<'_>,
    body: &Bytes,
    now: Timestamp,
    refusal: Refusal,
) -> Refused {
    let status = match &refusal {
        Refusal::Signature(_) => StatusCode::UNAUTHORIZED,
        Refusal::Stale { .. } => StatusCode::FORBIDDEN,
        Refusal::Unready(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let refused = Refused::new(status, refusal.verdict(), &refusal);
    let is_forged = refusal == Refusal::Signature(Why::Mismatch);
    // Asked first: a flood must not cost a copy of each request.
    if !is_forged || !context.rejections.explains(body) {
        return refused;
    }
    let forged = Forged {
        source: live.clone(),
        method: asked.method.clone(),
        url: asked.url.to_owned(),
        headers: asked.headers.clone(),
        body: body.clone(),
        now,
        refusal,
    };
    Refused { forged: Some(Box::new(forged)), ..refused }
}

/// The secret that a first request brings, where the source has none and its provider sends it so.
fn sent_secret(live: &LiveSource, asked: &wakepost_providers::Request<'_>) -> Option<String> {
    let waits = live.source.secrets.current.is_none() && !live.source.config.unsigned;
    waits.then(|| live.provider.sent_secret(asked)).flatten()
}

/// A short hash of the signature as the request carries it.
fn proof(live: &LiveSource, asked: &wakepost_providers::Request<'_>) -> Option<i64> {
    let proof = live.provider.proof(asked, &live.settings)?;
    let hash = digest::digest(&digest::SHA256, proof.as_bytes());
    let short = hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
    Some(i64::from_be_bytes(*short))
}

/// What the provider's retry header says.
fn retry(live: &LiveSource, headers: &HeaderMap) -> Option<String> {
    let value = headers.get(live.facts.retry_header?)?.to_str().ok()?;
    Some(limits::truncate(value, RETRY_BYTES_MAX).to_owned())
}

fn unavailable(live: &LiveSource, error: StoreError) -> Refused {
    let (tenant, source_id) = (live.source.tenant.0, live.source.id);
    tracing::warn!(%error, tenant, %source_id, "an event could not be stored");
    Refused::new(StatusCode::SERVICE_UNAVAILABLE, Verdict::Unavailable, error)
}

fn receipt(context: &Context, live: &LiveSource, sender: IpAddr) -> NewReceipt {
    NewReceipt {
        id: ReceiptId(context.new_id()),
        tenant: live.source.tenant,
        source: live.source.id,
        remote_addr: Some(sender.to_string()),
        verdict: Verdict::Accepted,
        latency_us: 0,
        detail: None,
    }
}

fn micros(since: Instant) -> i32 {
    i32::try_from(since.elapsed().as_micros()).unwrap_or(i32::MAX)
}

/// Counts a request; `took` if it was not refused.
fn count(context: &Context, live: &LiveSource, verdict: Verdict, took: Option<Duration>) {
    let labels = Receipt { provider: live.provider.name(), verdict: verdict.as_str() };
    context.metrics.received.get_or_create(&labels).inc();
    let acked = took.filter(|_| verdict == Verdict::Accepted);
    if let Some(took) = acked {
        context.metrics.ack_seconds.observe(took.as_secs_f64());
    }
    context.tally.note(live.source.tenant, context.now(), |figures| {
        figures.count(Figure::Received, 1);
        match (verdict, took) {
            (Verdict::Accepted, _) => figures.count(Figure::Accepted, 1),
            (Verdict::Duplicate, _) => figures.count(Figure::Duplicates, 1),
            (_, None) => figures.count(Figure::Rejected, 1),
            _ => {}
        }
        if let Some(took) = acked {
            figures.ack.observe(took);
        }
    });
}
