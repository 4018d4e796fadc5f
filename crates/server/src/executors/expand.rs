//! Fetching what events only announced, before an agent gets them.
//!
//! Waiting, leases, retries and dead letters are those of all work: an event's job begins in a lane of this executor
//! and goes on in its own once the event is whole.

use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::digest;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::json;
use wakepost_domain::event::Event;
use wakepost_domain::receipt::Verdict;
use wakepost_domain::{ReceiptId, thread};
use wakepost_providers::{Expanding, Expansion, Request};
use wakepost_store::moves::{Expanded, NewReceipt};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, failpoint};

use super::Finished;
use super::answer::Said;
use super::lease::{self, Stop};
use crate::context::Context;
use crate::directory::LiveSource;
use crate::edge::{Passed, accept};
use crate::exchange::{self, Halt};
use crate::queue::Pushed;
use crate::registering;
use crate::view::Content;

/// How many pages of changes one run reads. The rest is for the next, which follows at once.
const PAGES_MAX: usize = 50;

/// Fetches what an item's event announced.
pub(crate) async fn run(context: &Arc<Context>, item: &Pushed) -> Finished {
    let timeout = item.2.run_timeout;
    tokio::select! {
        finished = expand(context, item) => finished.unwrap_or_else(|error| failed(error.to_string(), true)),
        stopped = lease::keep(context, item, timeout) => match stopped {
            Stop::Lost => Finished::Lost,
            Stop::Cancelled => Finished::Cancelled,
            Stop::TimedOut => failed("it took too long to fetch".to_owned(), true),
            Stop::NodeStops => Finished::HandBack,
        },
    }
}

fn failed(error: String, retryable: bool) -> Finished {
    Finished::Failed { error, retryable, retry_after: None }
}

fn halted(halt: Halt) -> Finished {
    match halt {
        Halt::Failed { error, retryable, retry_after } => {
            Finished::Failed { error, retryable, retry_after }
        }
        address @ Halt::Address(_) => failed(address.to_string(), false),
    }
}

async fn expand(context: &Arc<Context>, item: &Pushed) -> Result<Finished> {
    let (claimed, lane, _) = item;
    let tenant = claimed.ticket.tenant;
    let event = match claimed.event {
        Some(event) => context.store.event(tenant, event).await?,
        None => None,
    };
    let Some(event) = event else {
        return Ok(failed("its event is gone".to_owned(), false));
    };
    let Some(live) = context.directory.source(event.source).await? else {
        return Ok(failed("its source is gone: nothing can be fetched".to_owned(), false));
    };
    let Some(content) = Content::of(context, &event).await? else {
        return Ok(failed("what announced it is no longer stored".to_owned(), false));
    };
    let after = context.directory.lane(lane.key.clone().after_expansion()).await?;
    let thread_of = |fetched: &[u8]| {
        let request = Request { fetched: Some(fetched), ..content.as_request() };
        let mapped = live.provider.map(&request, &live.settings).ok()?.into_iter().next()?;
        let thread = thread::searched(&mapped.message?.thread_id);
        let hidden = live.redaction.apply(&mut live.provider.data(&request, 0));
        (!hidden.is_in(&thread)).then_some(thread)
    };
    let whole = |fetched: &[u8], ignored| Finished::Expanded {
        expanded: Expanded {
            thread: thread_of(fetched),
            event: event.body(),
            content: live.key.seal(Slot::Content(event.body()), &content.encode_with(fetched)),
            lane: after.id,
        },
        ignored,
    };
    // A replay of what was ignored when it was fetched: somebody wants it run all the same.
    if let Some(fetched) = &content.fetched {
        return Ok(whole(fetched, None));
    }
    let (mut found, mut new) = (0, 0);
    for _ in 0..PAGES_MAX {
        let position = registering::position(context, &live).await?;
        let what = Expanding {
            request: content.as_request(),
            settings: &live.settings,
            position: position.as_ref().map(|(position, _)| position),
            now: context.now(),
        };
        let mut exchange = match live.provider.expand(what) {
            Ok(Some(exchange)) => exchange,
            Ok(None) => {
                return Ok(failed("it does not say what is to be fetched".to_owned(), false));
            }
            Err(problem) => return Ok(failed(problem.to_string(), false)),
        };
        let expansion = match exchange::lead(context, &live, exchange.as_mut()).await {
            Ok(expansion) => expansion,
            Err(halt) => return Ok(halted(halt)),
        };
        drop(exchange);
        let page = match expansion {
            Expansion::Rest { fetched, ignored } => return Ok(whole(&fetched, ignored)),
            Expansion::Others { found, position, more } => (found, position, more),
        };
        let (events, next, more) = page;
        found += events.len();
        new += accept_found(context, &live, &event, events).await?;
        failpoint::pass_async("expand.before_position").await?;
        let stands = more && position.as_ref().is_some_and(|(position, _)| *position == next);
        if stands {
            let error = "the provider says that there is more, and not where".to_owned();
            return Ok(failed(error, true));
        }
        let seen = position.map_or(0, |(_, version)| version);
        let sealed = live.key.seal(Slot::Position(live.source.id), next.to_string().as_bytes());
        // If another run was first, it read at least as far, and this one's events are stored all the same.
        context.store.move_position(tenant, live.source.id, sealed, seen).await?;
        if !more {
            let result = json!({"found": found, "new": new}).to_string();
            return Ok(Finished::Done(Said { result: Some(result), ..Said::default() }));
        }
    }
    Ok(Finished::HandBack)
}

/// Takes found events in as if they had been sent, each once; answers how many were new.
async fn accept_found(
    context: &Arc<Context>,
    live: &Arc<LiveSource>,
    announced_by: &Event,
    found: Vec<Vec<u8>>,
) -> Result<usize> {
    let mut new = 0;
    for content in found {
        let hash = digest::digest(&digest::SHA256, &content);
        let passed = Passed {
            source: live.clone(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
            hash: hash.as_ref().try_into().expect("SHA-256 has 32 bytes"),
            fetched: Some(Bytes::from(content)),
            url: String::new(),
            receipt: NewReceipt {
                id: ReceiptId(context.new_id()),
                tenant: live.source.tenant,
                source: live.source.id,
                remote_addr: announced_by.remote_addr.clone(),
                verdict: Verdict::Accepted,
                latency_us: 0,
                detail: Some(format!("found because of {}", announced_by.id)),
            },
            read: Instant::now(),
            now: context.now(),
            signature: None,
            retry: None,
        };
        let outcomes = accept(context, passed).await?;
        new += outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Duplicate).count();
    }
    Ok(new)
}
