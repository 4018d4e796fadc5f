//! From a verified request to a committed event.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::HeaderMap;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::event::{Event, Route};
use wakepost_domain::lane::{Lane, LaneKey};
use wakepost_domain::receipt::Verdict;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, Timestamp};
use wakepost_providers::Request;
use wakepost_store::moves::{Accepted, DedupKey, NewEvent, NewJob, NewReceipt};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError, failpoint};

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
    pub url: String,
    pub receipt: NewReceipt,
    pub now: Timestamp,
}

/// What became of it.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub verdict: Verdict,
    pub event: EventId,
    pub has_job: bool,
}

/// Stores the event and answers after the commit.
pub async fn accept(context: &Arc<Context>, passed: Passed) -> Result<Outcome> {
    failpoint::pass_async("edge.after_verify").await?;
    let (new, lane) = prepare(context, &passed).await?;
    let (event, route) = (new.event.id, new.event.route);
    // A sender that hangs up must not keep the queue from hearing of the commit.
    let context = context.clone();
    let commit = ToTheEnd::of(async move {
        let accepted =
            context.ledger.accept(vec![new]).await.pop().unwrap_or(Err(StoreError::Busy));
        let stored = match &accepted {
            Ok(accepted) => *accepted == Accepted::New,
            Err(error) => error.is_unknown(),
        };
        if let (true, Some(lane)) = (stored, &lane) {
            context.queue.hint(lane, 1).await;
        }
        accepted
    });
    // Boxed: a timer wants more alignment than the allocator gives a whole request for free.
    let accepted = match Box::pin(tokio::time::timeout(COMMIT_PATIENCE, commit)).await {
        Ok(accepted) => accepted?,
        Err(_) => return Err(StoreError::Unavailable("no commit in time".to_owned())),
    };
    failpoint::pass_async("edge.before_answer").await?;
    Ok(match accepted {
        Accepted::Duplicate { of, has_job } => {
            Outcome { verdict: Verdict::Duplicate, event: of, has_job }
        }
        Accepted::New => Outcome { verdict: verdict(route), event, has_job: route == Route::Job },
    })
}

fn verdict(route: Route) -> Verdict {
    match route {
        Route::Job => Verdict::Accepted,
        Route::Ignored => Verdict::Ignored,
        Route::Unmapped => Verdict::Unmapped,
    }
}

async fn prepare(context: &Context, passed: &Passed) -> Result<(NewEvent, Option<Arc<Lane>>)> {
    let live = &passed.source;
    let config = &live.source.config;
    let request = Request {
        method: &http::Method::POST,
        url: &passed.url,
        headers: &passed.headers,
        body: &passed.body,
    };
    let hash: [u8; 32] = digest::digest(&digest::SHA256, &passed.body)
        .as_ref()
        .try_into()
        .expect("SHA-256 has 32 bytes");
    let (mapped, route) = match live.provider.map(&request, &live.settings) {
        Ok(mapped) if mapped.ignored || !config.wants(&mapped.event_type) => {
            (mapped, Route::Ignored)
        }
        Ok(mapped) => (mapped, Route::Job),
        Err(reason) => {
            tracing::info!(source = %live.source.id, %reason, "a signed request could not be understood");
            (Mapped { event_type: "unmapped".to_owned(), ..Mapped::default() }, Route::Unmapped)
        }
    };
    let job = match route {
        Route::Job => Some(job(context, live, &mapped.event_type).await?),
        Route::Ignored | Route::Unmapped => None,
    };
    let id = EventId(context.new_id());
    let dedup_key =
        mapped.dedup_key.clone().unwrap_or_else(|| format!("sha256:{}", hex::encode(hash)));
    let new = NewEvent {
        dedup: dedup_keys(live, &mapped, &hash),
        dedup_until: passed.now.after(dedup_window(context, live)),
        content: live.key.seal(Slot::Content(id), &Content::encode(&passed.headers, &passed.body)),
        job: job.as_ref().map(|(_, job)| *job),
        receipt: passed.receipt.clone(),
        event: Event {
            id,
            tenant: live.source.tenant,
            source: live.source.id,
            subject: mapped.subject.map(|subject| subject.text(live.provider.name())),
            event_type: mapped.event_type,
            dedup_key,
            route,
            verified: !config.unsigned,
            occurred_at: mapped.occurred_at,
            received_at: id.0.time(),
            payload_hash: hash,
            duplicates: 0,
            remote_addr: passed.receipt.remote_addr.clone(),
            latency_us: passed.receipt.latency_us,
        },
    };
    Ok((new, job.map(|(lane, _)| lane)))
}

async fn job(
    context: &Context,
    live: &LiveSource,
    event_type: &str,
) -> Result<(Arc<Lane>, NewJob)> {
    let key = LaneKey {
        tenant: live.source.tenant,
        kind: WorkKind::Job,
        priority: live.priority(),
        origin: Some(live.source.id.0),
        name: event_type.to_owned(),
        executor: None,
    };
    let lane = context.directory.lane(key).await?;
    let max_attempts = context.directory.max_attempts(&lane, None).await?;
    Ok((lane.clone(), NewJob { lane: lane.id, max_attempts }))
}

/// The keys that make a repeat a duplicate. An event without an id of its own goes by its body's hash.
fn dedup_keys(live: &LiveSource, mapped: &Mapped, hash: &[u8; 32]) -> Vec<DedupKey> {
    let key = |room: &[u8], value: &[u8]| {
        DedupKey::new(live.source.tenant, live.source.id, &[room, value].concat())
    };
    let first = mapped.dedup_key.as_ref().map(|id| key(b"id:", id.as_bytes()));
    let second = mapped.second_key.as_ref().map(|id| key(b"second:", id.as_bytes()));
    let by_body = (mapped.dedup_key.is_none() || live.dedups_body()).then(|| key(b"body:", hash));
    [first, second, by_body].into_iter().flatten().collect()
}

/// A key blocks a repeat for its window, and never for less long than the body is kept.
fn dedup_window(context: &Context, live: &LiveSource) -> Duration {
    let bodies = Duration::from_secs(context.config.retention.bodies_days * 24 * 3600);
    live.source.config.dedup_window().max(bodies)
}
