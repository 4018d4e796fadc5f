//! Traces over OTLP (HTTP, JSON): off unless an endpoint is set.
//!
//! What happens is noted as small moments on a bounded queue, which never makes anybody wait: what has no room is dropped
//! and counted. One task makes spans of them, looks up which trace they belong to, and sends them in batches. A collector
//! that is away costs the spans, and nothing else.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, SourceId, TenantId, Timestamp, WorkId};
use wakepost_store::moves::WorkRow;

use super::metrics::Word;
use crate::chains::{self, Origin, span_of};
use crate::context::Context;
use crate::outbound::{AddressPolicy, KeepBody, OutboundRequest, Target, Trust};

/// How many moments may wait.
const WAITING_MAX: usize = 4096;
/// How many spans are sent at once, …
const BATCH_MAX: usize = 512;
/// … and how long the first of them waits for the others.
const LINGER: Duration = Duration::from_secs(1);
/// How long a collector may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long nothing is sent after a failure, at first and at most.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long what still ends is waited for when the server stops.
const LAST: Duration = Duration::from_millis(500);

/// Where spans go, and how many.
#[derive(Clone)]
pub struct TraceSettings {
    /// The collector; `/v1/traces` is added.
    pub endpoint: String,
    /// Headers that it wants, secrets among them.
    pub headers: HeaderMap,
    /// The share of traces that is sent.
    pub ratio: f64,
    /// What this program is called there.
    pub service: String,
}

/// Something that happened.
pub enum Moment {
    /// A request became an event, or was one already.
    Received(Box<Received>),
    /// An event was published.
    Published {
        /// Whose.
        tenant: TenantId,
        /// Which.
        event: EventId,
        /// To how many webhooks it goes.
        deliveries: usize,
        /// Where it comes from.
        origin: Box<Origin>,
        /// When.
        at: Timestamp,
    },
    /// A run ended.
    Ended {
        /// Its lease.
        ticket: Ticket,
        /// What it was a run of.
        kind: WorkKind,
        /// Where that stands now.
        state: State,
        /// When.
        at: Timestamp,
    },
    /// It was decided on an effect.
    Effect {
        /// The run's lease.
        ticket: Ticket,
        /// What was decided.
        decision: &'static str,
        /// When.
        at: Timestamp,
    },
}

/// A request that was taken in.
pub struct Received {
    /// Whose.
    pub tenant: TenantId,
    /// By which source.
    pub source: SourceId,
    /// From which provider.
    pub provider: &'static str,
    /// What it became.
    pub event: EventId,
    /// The event's job.
    pub job: Option<WorkId>,
    /// What it was.
    pub verdict: &'static str,
    /// The trace and the span it came with.
    pub parent: Option<([u8; 16], [u8; 8])>,
    /// When it came.
    pub began: Timestamp,
    /// When it was answered.
    pub ended: Timestamp,
}

/// Where moments are noted.
pub struct Traces {
    queue: Option<mpsc::Sender<Moment>>,
    waiting: Mutex<Option<mpsc::Receiver<Moment>>>,
    spans: Family<Word, Counter>,
}

impl Traces {
    /// On, or off.
    pub fn new(on: bool, spans: Family<Word, Counter>) -> Traces {
        let (queue, waiting) = on.then(|| mpsc::channel(WAITING_MAX)).unzip();
        Traces { queue, waiting: Mutex::new(waiting), spans }
    }

    /// Whether anybody wants to hear of anything.
    pub fn are_wanted(&self) -> bool {
        self.queue.is_some()
    }

    /// Notes something, if there is room.
    pub fn note(&self, moment: Moment) {
        if let Some(queue) = &self.queue
            && queue.try_send(moment).is_err()
        {
            self.count("dropped", 1);
        }
    }

    fn count(&self, word: &'static str, spans: usize) {
        self.spans.get_or_create(&Word { word }).inc_by(spans as u64);
    }
}

/// Sends what is noted, until the server stops and nothing more ends.
pub async fn run(context: Arc<Context>) {
    let Some(settings) = context.config.traces.clone() else { return };
    let Some(mut waiting) = context.traces.waiting.lock().take() else { return };
    let mut pause = PAUSE;
    let mut moments = Vec::with_capacity(BATCH_MAX);
    loop {
        if !gather(&context, &mut waiting, &mut moments).await {
            return;
        }
        let mut spans = Vec::with_capacity(moments.len());
        for moment in moments.drain(..) {
            spans.extend(span(&context, &settings, moment).await);
        }
        if spans.is_empty() {
            continue;
        }
        let count = spans.len();
        match send(&context, &settings, spans).await {
            Ok(()) => {
                context.traces.count("sent", count);
                pause = PAUSE;
            }
            Err(error) => {
                context.traces.count("dropped", count);
                tracing::debug!(%error, "spans could not be sent");
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = context.stop.cancelled() => {}
                }
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }
}

/// Waits for moments, and a little for more of them. Answers whether there may be any after these.
async fn gather(
    context: &Context,
    waiting: &mut mpsc::Receiver<Moment>,
    moments: &mut Vec<Moment>,
) -> bool {
    let first = tokio::select! {
        biased;
        first = waiting.recv() => first,
        () = context.stop.cancelled() => {
            tokio::time::timeout(LAST, waiting.recv()).await.ok().flatten()
        }
    };
    let Some(first) = first else { return false };
    moments.push(first);
    let until = Instant::now() + LINGER;
    while moments.len() < BATCH_MAX && !context.stop.is_cancelled() {
        match tokio::time::timeout_at(until, waiting.recv()).await {
            Ok(Some(moment)) => moments.push(moment),
            _ => break,
        }
    }
    true
}

/// The span of a moment, if its trace is among those that are sent.
async fn span(context: &Context, settings: &TraceSettings, moment: Moment) -> Option<Value> {
    let tenant_of = |moment: &Moment| match moment {
        Moment::Received(received) => received.tenant,
        Moment::Published { tenant, .. } => *tenant,
        Moment::Ended { ticket, .. } | Moment::Effect { ticket, .. } => ticket.tenant,
    };
    let tenant = context.directory.tenant(tenant_of(&moment)).await.ok().flatten();
    let mut attributes = vec![attribute("wakepost.tenant", &tenant?.slug)];
    let made = match moment {
        Moment::Received(received) => {
            let Received { event, job, parent, .. } = &*received;
            attributes.push(attribute("wakepost.source_id", &received.source.to_string()));
            attributes.push(attribute("wakepost.provider", received.provider));
            attributes.push(attribute("wakepost.event_id", &event.to_string()));
            attributes.push(attribute("wakepost.verdict", received.verdict));
            if let Some(job) = job {
                attributes.push(attribute("wakepost.job_id", &job.text(WorkKind::Job)));
            }
            let trace = trace_of_received(context, received.tenant, *event, *job).await;
            // A repeat is not what made the event: it has a span of its own.
            let id = match received.verdict {
                "duplicate" => random(context),
                _ => span_of(&event.to_bytes()),
            };
            let parent = parent.filter(|(of, _)| hex::encode(of) == trace).map(|(_, span)| span);
            Made { trace, id, parent, name: "receive", kind: SERVER, ok: true }
                .between(received.began, received.ended)
        }
        Moment::Published { event, deliveries, origin, at, .. } => {
            attributes.push(attribute("wakepost.event_id", &event.to_string()));
            attributes.push(attribute("wakepost.deliveries", &deliveries.to_string()));
            if let Some(job) = &origin.job {
                attributes.push(attribute("wakepost.job_id", job));
            }
            let given = origin.trace.as_deref();
            let trace = chains::trace_id(given, Some(event), WorkId::first_of(event));
            let (id, parent) = (span_of(&event.to_bytes()), origin.span);
            Made { trace, id, parent, name: "publish", kind: PRODUCER, ok: true }.at(at)
        }
        Moment::Ended { ticket, kind, state, at } => {
            let row = context.store.work(ticket.tenant, ticket.work).await.ok().flatten()?;
            let trace = trace_of_work(context, &row).await;
            attributes.push(attribute("wakepost.id", &ticket.work.text(kind)));
            attributes.push(attribute("wakepost.run_id", &ticket.run_id().to_string()));
            attributes.push(attribute("wakepost.attempt", &ticket.attempt.to_string()));
            attributes.push(attribute("wakepost.state", state.as_str()));
            if let Some(event) = row.event {
                attributes.push(attribute("wakepost.event_id", &event.to_string()));
            }
            let (name, span_kind) = match kind {
                WorkKind::Job => ("run", CONSUMER),
                WorkKind::Delivery => ("deliver", CLIENT),
                WorkKind::Reply => ("reply", CLIENT),
                WorkKind::Callback => ("callback", CLIENT),
            };
            let ok = !matches!(state, State::Retrying | State::DeadLetter);
            let parent = row.event.map(|event| span_of(&event.to_bytes()));
            let id = span_of(&ticket.run_id().to_bytes());
            Made { trace, id, parent, name, kind: span_kind, ok }.between(ticket.started_at, at)
        }
        Moment::Effect { ticket, decision, at } => {
            let row = context.store.work(ticket.tenant, ticket.work).await.ok().flatten()?;
            let trace = chains::trace_id(row.meta.trace.as_deref(), row.event, row.id);
            attributes.push(attribute("wakepost.run_id", &ticket.run_id().to_string()));
            attributes.push(attribute("wakepost.decision", decision));
            let parent = Some(span_of(&ticket.run_id().to_bytes()));
            let id = random(context);
            Made { trace, id, parent, name: "effect", kind: INTERNAL, ok: true }.at(at)
        }
    };
    is_sent(&made.0.trace, settings.ratio).then(|| made.json(attributes))
}

/// The trace of a received event. One that joined another event's job is in that one's trace.
async fn trace_of_received(
    context: &Context,
    tenant: TenantId,
    event: EventId,
    job: Option<WorkId>,
) -> String {
    let row = match job {
        Some(job) => context.store.work(tenant, job).await.ok().flatten(),
        None => None,
    };
    if let Some(row) = row {
        return trace_of_work(context, &row).await;
    }
    let row = context.store.event(tenant, event).await.ok().flatten();
    let given = row.and_then(|row| row.trace);
    chains::trace_id(given.as_deref(), Some(event), WorkId::first_of(event))
}

/// The trace of an item. What tells a job's outcome is in the job's, as its receiver hears.
async fn trace_of_work(context: &Context, row: &WorkRow) -> String {
    let told_of = row.meta.parent_id.as_deref().filter(|_| row.kind == WorkKind::Callback);
    let job = match told_of.and_then(|text| WorkId::parse(text, WorkKind::Job).ok()) {
        Some(job) => context.store.work(row.tenant, job).await.ok().flatten(),
        None => None,
    };
    let row = job.as_ref().unwrap_or(row);
    chains::trace_id(row.meta.trace.as_deref(), row.event, row.id)
}

const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
const PRODUCER: u8 = 4;
const CONSUMER: u8 = 5;

struct Made {
    trace: String,
    id: [u8; 8],
    parent: Option<[u8; 8]>,
    name: &'static str,
    kind: u8,
    ok: bool,
}

struct Timed(Made, Timestamp, Timestamp);

impl Made {
    fn between(self, began: Timestamp, ended: Timestamp) -> Timed {
        Timed(self, began, ended.max(began))
    }

    fn at(self, at: Timestamp) -> Timed {
        Timed(self, at, at)
    }
}

impl Timed {
    /// As OTLP has it in JSON: ids in hex, times as texts of nanoseconds.
    fn json(self, attributes: Vec<Value>) -> Value {
        let Timed(made, began, ended) = self;
        let nanos = |at: Timestamp| format!("{}000000", at.as_millis().max(0));
        let mut span = json!({
            "traceId": made.trace,
            "spanId": hex::encode(made.id),
            "name": made.name,
            "kind": made.kind,
            "startTimeUnixNano": nanos(began),
            "endTimeUnixNano": nanos(ended),
            "attributes": attributes,
            "status": {"code": if made.ok { 1 } else { 2 }},
        });
        if let Some(parent) = made.parent {
            span["parentSpanId"] = hex::encode(parent).into();
        }
        span
    }
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn random(context: &Context) -> [u8; 8] {
    let mut bytes = [0; 8];
    context.entropy.fill(&mut bytes);
    bytes
}

/// Whether a trace is among those that are sent: by its own id, so that all nodes agree.
fn is_sent(trace: &str, ratio: f64) -> bool {
    let chance = trace.get(16..32).and_then(|half| u64::from_str_radix(half, 16).ok());
    chance.is_some_and(|chance| (chance >> 11) as f64 / ((1u64 << 53) as f64) < ratio)
}

async fn send(
    context: &Context,
    settings: &TraceSettings,
    spans: Vec<Value>,
) -> Result<(), String> {
    let url = format!("{}/v1/traces", settings.endpoint.trim_end_matches('/'));
    let target =
        Target::parse(&url, &AddressPolicy::trusted()).map_err(|error| error.to_string())?;
    let version = env!("CARGO_PKG_VERSION");
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": [
            attribute("service.name", &settings.service),
            attribute("service.version", version),
        ]},
        "scopeSpans": [{"scope": {"name": "wakepost", "version": version}, "spans": spans}],
    }]});
    let mut headers = settings.headers.clone();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let request = OutboundRequest {
        target,
        trust: Trust::Trusted,
        identity: None,
        method: Method::POST,
        headers,
        body: Bytes::from(body.to_string()),
        timeout: TIMEOUT,
        body_bytes_max: 1024,
        keep: KeepBody::Prefix,
    };
    match context.client.send(request).await {
        Ok(answer) if answer.status.is_success() => Ok(()),
        Ok(answer) => Err(format!("the collector answered {}", answer.status)),
        Err(error) => Err(error.to_string()),
    }
}

/// Headers as `OTEL_EXPORTER_OTLP_HEADERS` has them: `name=value`, separated by commas.
pub fn read_headers(text: &str) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let name = HeaderName::try_from(name.trim()).ok()?;
        let mut value = HeaderValue::try_from(value.trim()).ok()?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_as_everybody_writes_them() {
        let headers = read_headers("api-key=s3cret, x-team = a=b ,").unwrap();
        assert_eq!(headers["api-key"], "s3cret");
        assert_eq!(headers["x-team"], "a=b");
        assert!(!format!("{headers:?}").contains("s3cret"));
        assert!(read_headers("").unwrap().is_empty());
        assert!(read_headers("nothing").is_none());
        assert!(read_headers("a b=c").is_none());
    }

    #[test]
    fn a_share_of_traces_is_sent_and_each_wholly_or_not() {
        let traces = (0..1000u64)
            .map(|n| format!("{:032x}", u128::from(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
        let traces: Vec<String> = traces.collect();
        let sent = |ratio: f64| traces.iter().filter(|trace| is_sent(trace, ratio)).count();
        assert_eq!((sent(0.0), sent(1.0)), (0, 1000));
        assert!((200..300).contains(&sent(0.25)), "{}", sent(0.25));
        assert!(!is_sent("short", 1.0));
    }

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let traces = Traces::new(true, Family::default());
        for _ in 0..WAITING_MAX + 10 {
            let event = EventId::from_bytes([1; 16]);
            let (tenant, at) = (TenantId(1), Timestamp::default());
            let origin = Box::default();
            traces.note(Moment::Published { tenant, event, deliveries: 0, origin, at });
        }
        assert_eq!(traces.spans.get_or_create(&Word { word: "dropped" }).get(), 10);
        assert!(!Traces::new(false, Family::default()).are_wanted());
    }
}
