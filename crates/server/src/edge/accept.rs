//! From a verified request to a committed event.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use wakepost_domain::envelope::{Mapped, Starts};
use wakepost_domain::event::{Event, Part, Route};
use wakepost_domain::lane::{Lane, LaneId, LaneKey};
use wakepost_domain::receipt::{OurFault, Verdict};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, ReceiptId, TenantId, Timestamp, WorkId, thread};
use wakepost_providers::{Announces, Request};
use wakepost_store::moves::{
    Accepted, DedupKey, Lineage, NewEvent, NewJob, NewReceipt, SharedBody,
};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError, failpoint};

use super::bonds::{Bonds, bonds};
use crate::callbacks;
use crate::chains;
use crate::context::Context;
use crate::directory::LiveSource;
use crate::to_the_end::ToTheEnd;
use crate::view::Content;

/// If no commit is confirmed by then the provider is asked to come again; the event may still be stored,
/// and the repeat is then a duplicate.
const COMMIT_PATIENCE: Duration = Duration::from_millis(2500);

/// A request that passed every check.
pub struct Passed {
    pub source: Arc<LiveSource>,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// What stands for a request in an event that we found ourselves.
    pub fetched: Option<Bytes>,
    pub url: String,
    pub receipt: NewReceipt,
    /// When the last byte had come.
    pub read: Instant,
    pub now: Timestamp,
    /// SHA-256 of the body.
    pub hash: [u8; 32],
    /// A hash of the signature, where that covers a time.
    pub signature: Option<i64>,
    /// What the provider's retry header said.
    pub retry: Option<String>,
}

/// What became of one of its events.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub verdict: Verdict,
    pub event: EventId,
    /// The job it made or joined.
    pub job: Option<WorkId>,
}

/// Stores the request's events, all or none, and answers after the commit.
pub async fn accept(context: &Arc<Context>, passed: Passed) -> Result<Vec<Outcome>> {
    failpoint::pass_async("edge.after_verify").await?;
    let new = prepare(context, &passed).await?;
    let keys: Vec<DedupKey> = new.events.iter().flat_map(|new| new.dedup.clone()).collect();
    let answered = store(context, new).await;
    // Whoever is told to come again, or has stopped waiting, comes again because of us.
    if answered.is_err() {
        context.faults.note(&keys, OurFault::Unavailable);
    } else if passed.read.elapsed() > passed.source.facts.patience {
        context.faults.note(&keys, OurFault::Slow);
    }
    answered
}

async fn store(context: &Arc<Context>, new: NewRequest) -> Result<Vec<Outcome>> {
    let stored: Vec<(EventId, Route)> =
        new.events.iter().map(|new| (new.event.id, new.event.route)).collect();
    // A sender that hangs up must not keep the queue from hearing of the commit.
    let commit = ToTheEnd::of(commit(context.clone(), new));
    // Boxed: a timer wants more alignment than the allocator gives a whole request for free.
    let accepted = match Box::pin(tokio::time::timeout(COMMIT_PATIENCE, commit)).await {
        Ok(accepted) => accepted?,
        Err(_) => return Err(StoreError::Unavailable("no commit in time".to_owned())),
    };
    failpoint::pass_async("edge.before_answer").await?;
    let outcome = |((event, route), accepted): ((EventId, Route), Accepted)| match accepted {
        Accepted::Duplicate { of, job } => Outcome { verdict: Verdict::Duplicate, event: of, job },
        new => Outcome { verdict: verdict(new.route(route)), event, job: new.job(event, route) },
    };
    Ok(stored.into_iter().zip(accepted).map(outcome).collect())
}

/// Commits, and tells the queue.
async fn commit(context: Arc<Context>, new: NewRequest) -> Result<Vec<Accepted>> {
    let NewRequest { shared, mut events, lanes, tenant } = new;
    let began = Instant::now();
    let accepted = match shared {
        Some(body) => context.ledger.accept_together(body, events).await,
        None => {
            let only = events.pop().into_iter().collect();
            context.ledger.accept(only).await.into_iter().collect()
        }
    };
    context.metrics.stored("accept", began.elapsed());
    let mut ready: HashMap<LaneId, (Arc<Lane>, usize)> = HashMap::new();
    for (index, lane) in lanes.into_iter().enumerate() {
        let stored = match &accepted {
            Ok(accepted) => {
                matches!(accepted.get(index), Some(Accepted::New | Accepted::NewBefore(_)))
            }
            Err(error) => error.is_unknown(),
        };
        if let (true, Some(lane)) = (stored, lane) {
            ready.entry(lane.id).or_insert((lane, 0)).1 += 1;
        }
    }
    for (lane, count) in ready.into_values() {
        context.queue.hint(&lane, count).await;
    }
    if let Ok(accepted) = &accepted {
        hint_others(&context, tenant, accepted).await;
    }
    accepted
}

/// Tells the queue of what earlier events' jobs may do now. A lost word costs at most one resync.
async fn hint_others(context: &Context, tenant: TenantId, accepted: &[Accepted]) {
    let lane = |accepted: &Accepted| match accepted {
        Accepted::Joined { lane, .. } | Accepted::NewBefore(lane) => Some(*lane),
        Accepted::New | Accepted::Ignored | Accepted::Duplicate { .. } => None,
    };
    let lanes: HashSet<LaneId> = accepted.iter().filter_map(lane).collect();
    if lanes.is_empty() {
        return;
    }
    let lanes: Vec<LaneId> = lanes.into_iter().collect();
    let freed = |accepted: &Accepted| matches!(accepted, Accepted::Joined { freed_cap: true, .. });
    let told = async {
        context.queue.hint_all_nodes(&lanes).await?;
        match accepted.iter().any(freed) {
            true => context.queue.cap_freed(tenant).await,
            false => Ok(()),
        }
    };
    if let Err(error) = told.await {
        tracing::warn!(%error, "the queue could not be told of a message");
    }
}

fn verdict(route: Route) -> Verdict {
    match route {
        Route::Job | Route::Joined | Route::Published => Verdict::Accepted,
        Route::Ignored => Verdict::Ignored,
        Route::Unmapped => Verdict::Unmapped,
    }
}

/// A request on its way into the ledger.
struct NewRequest {
    /// Its body, where several events share it.
    shared: Option<SharedBody>,
    events: Vec<NewEvent>,
    /// Where each event's job will wait, if it can start at once.
    lanes: Vec<Option<Arc<Lane>>>,
    tenant: TenantId,
}

async fn prepare(context: &Context, passed: &Passed) -> Result<NewRequest> {
    let live = &passed.source;
    let request = Request {
        method: &http::Method::POST,
        url: &passed.url,
        headers: &passed.headers,
        body: &passed.body,
        fetched: passed.fetched.as_deref(),
    };
    let mapped = live.provider.map(&request, &live.settings).map_err(|reason| {
        tracing::info!(source_id = %live.source.id, %reason, "a signed request could not be understood");
    });
    let unmapped = || vec![Mapped { event_type: "unmapped".to_owned(), ..Mapped::default() }];
    let is_mapped = mapped.is_ok();
    let mapped = mapped.unwrap_or_else(|()| unmapped());
    let lineage = chains::lineage(context, live.source.tenant, &passed.headers).await?;
    let hidden = live.hidden(passed.now);
    let content = Content::encode(
        &passed.headers,
        &hidden,
        &live.source.config.redact,
        &passed.body,
        passed.fetched.as_deref(),
    );
    let shared = (mapped.len() > 1).then(|| EventId(context.new_id()));
    let mut events = Vec::with_capacity(mapped.len());
    let mut lanes = Vec::with_capacity(mapped.len());
    for (mut mapped, index) in mapped.into_iter().zip(0..) {
        if let Some(template) = live.dedup_key.as_ref().filter(|_| is_mapped) {
            let own = template.fill(live.provider, &request, usize::from(index));
            mapped.dedup_key = own.or(mapped.dedup_key);
        }
        let id = EventId(context.new_id());
        let part = shared.map(|body| Part { body, index });
        let route = if is_mapped { route(live, &mapped) } else { Route::Unmapped };
        let job = match route {
            Route::Job => {
                let bonds = bonds(live, &request, &mapped, usize::from(index));
                Some(job(context, live, &mapped, bonds, lineage.clone()).await?)
            }
            Route::Ignored | Route::Unmapped | Route::Joined | Route::Published => None,
        };
        let (lane, job) = job.unzip();
        let gathers = job
            .as_ref()
            .and_then(|job| job.thread)
            .is_some_and(|thread| thread.policy.gathers() && !thread.quiet.for_.is_zero());
        let content = part.is_none().then(|| live.key.seal(Slot::Content(id), &content));
        let window = live.source.config.dedup_window();
        let dedup_until = passed.now.after(context.config.retention.blocks_for(window));
        let dedup = dedup_keys(passed, &mapped, part);
        let trace = lineage.as_ref().and_then(|lineage| lineage.trace.clone());
        let mut event = event(passed, id, part, mapped, route, trace);
        if !live.redaction.is_empty() {
            redact(&mut event, live, &request, usize::from(index));
        }
        // Each may turn out to be a duplicate, and leave a receipt of its own.
        let receipt = match index {
            0 => passed.receipt.clone(),
            _ => NewReceipt { id: ReceiptId(context.new_id()), ..passed.receipt.clone() },
        };
        events.push(NewEvent {
            our_fault: context.faults.of(&dedup),
            retry: passed.retry.clone(),
            event,
            dedup,
            dedup_until,
            content,
            job,
            deliveries: Vec::new(),
            receipt,
        });
        lanes.push(lane.filter(|_| !gathers));
    }
    let shared = shared.map(|id| SharedBody {
        id,
        tenant: live.source.tenant,
        content: live.key.seal(Slot::Content(id), &content),
    });
    Ok(NewRequest { shared, events, lanes, tenant: live.source.tenant })
}

fn route(live: &LiveSource, mapped: &Mapped) -> Route {
    // Of what only tells of other events, those others are chosen from.
    let wanted = live.provider.announces(mapped) == Some(Announces::Others)
        || live.source.config.wants(&mapped.event_type);
    match mapped.starts {
        // Of a reply the ledger decides: it knows in which threads the agent takes part.
        Starts::Job | Starts::InKnownThread if wanted => Route::Job,
        _ => Route::Ignored,
    }
}

fn event(
    passed: &Passed,
    id: EventId,
    part: Option<Part>,
    mapped: Mapped,
    route: Route,
    trace: Option<String>,
) -> Event {
    let live = &passed.source;
    let thread = mapped.message.map(|message| thread::searched(&message.thread_id));
    let by_hash = || format!("sha256:{}", hex::encode(passed.hash));
    Event {
        id,
        tenant: live.source.tenant,
        source: live.source.id,
        subject: mapped.subject.map(|subject| subject.text(live.provider.name())),
        thread,
        event_type: mapped.event_type,
        dedup_key: mapped.dedup_key.unwrap_or_else(by_hash),
        route,
        verified: !live.source.config.unsigned,
        occurred_at: mapped.occurred_at,
        received_at: id.0.time(),
        payload_hash: passed.hash,
        duplicates: 0,
        remote_addr: passed.receipt.remote_addr.clone(),
        latency_us: passed.receipt.latency_us,
        part,
        signature: passed.signature,
        trace,
    }
}

/// What an event is found by is stored in the clear and shown in lists: what its source hides must not stand there. A
/// subject is left out, since two that are hidden are not the same.
fn redact(event: &mut Event, live: &LiveSource, request: &Request<'_>, part: usize) {
    let hidden = live.redaction.apply(&mut live.provider.data(request, part));
    hidden.hide(&mut event.dedup_key);
    for shown in [&mut event.subject, &mut event.thread] {
        shown.take_if(|text| hidden.is_in(text));
    }
}

async fn job(
    context: &Context,
    live: &LiveSource,
    mapped: &Mapped,
    bonds: Bonds,
    lineage: Option<Lineage>,
) -> Result<(Arc<Lane>, NewJob)> {
    let key = LaneKey {
        tenant: live.source.tenant,
        kind: WorkKind::Job,
        priority: live.priority(),
        origin: Some(live.source.id.0),
        name: mapped.event_type.clone(),
        executor: None,
    };
    let key = match live.provider.announces(mapped) {
        Some(_) => key.before_expansion(),
        None => key,
    };
    let lane = context.directory.lane(key).await?;
    let max_attempts = context.directory.max_attempts(&lane, None).await?;
    let Bonds { order, thread, coalesce } = bonds;
    let callback_lane = callbacks::lane_of_source(context, &live.source).await?;
    let job =
        NewJob { lane: lane.id, max_attempts, order, thread, coalesce, callback_lane, lineage };
    Ok((lane, job))
}

/// The keys that make a repeat a duplicate. An event without an id of its own goes by its body's hash and its
/// place in it.
fn dedup_keys(passed: &Passed, mapped: &Mapped, part: Option<Part>) -> Vec<DedupKey> {
    let live = &passed.source;
    let key = |room: &[u8], value: &[u8]| {
        DedupKey::new(live.source.tenant, live.source.id, &[room, value].concat())
    };
    let of_type = match live.facts.one_type_per_body {
        true => "",
        false => mapped.event_type.as_str(),
    };
    let first = mapped.dedup_key.as_ref();
    let first = first.map(|id| key(b"id:", &[id.as_bytes(), of_type.as_bytes()].concat()));
    let second = mapped.second_key.as_ref().map(|id| key(b"second:", id.as_bytes()));
    let place = part.map_or(Vec::new(), |part| part.index.to_be_bytes().to_vec());
    // Where a time is signed, a captured request is known by its signature, and two events may say the same, unless
    // somebody asked for bodies to be compared.
    let asked = live.source.config.dedup_body == Some(true);
    let captured = match passed.signature {
        Some(signature) if mapped.dedup_key.is_some() && !asked => signature.to_be_bytes().to_vec(),
        _ => passed.hash.to_vec(),
    };
    let by_body = (mapped.dedup_key.is_none() || live.dedups_body())
        .then(|| key(b"body:", &[&captured, &place, of_type.as_bytes()].concat()));
    [first, second, by_body].into_iter().flatten().collect()
}
