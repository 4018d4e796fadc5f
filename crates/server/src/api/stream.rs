//! The inbox as it fills: events as they arrive, to whoever listens.

use std::collections::{BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, stream};
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use wakepost_domain::access::Right;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{EventId, Timestamp, Ulid};
use wakepost_store::moves::{EventFilter, EventRow, Page};

use super::auth::Caller;
use super::call::Call;
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::inbox::{event_filter, shown_row};
use crate::context::Context;
use crate::replays::EventQuery;
use crate::schema;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(500);
/// How often it shows that it is there.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// How long one stream lasts at most; whoever listens comes again, and misses nothing.
const LASTS_S_MAX: u64 = 900;
/// How far back each look goes: another node's event may be there a little later than its time.
const OVERLAP: Duration = Duration::from_secs(10);
/// How many events one look reads at most.
const PAGE: u32 = 200;
const PAGES_MAX: usize = 10;

/// How long to listen.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Lasting {
    /// End after this many seconds; 0: after one look. 900 if left out, and at most.
    #[param(minimum = 0, maximum = 900)]
    for_s: Option<u64>,
}

impl Lasting {
    /// The parameter's name.
    pub const FOR_S: &str = "for_s";

    /// When to end.
    pub fn until(&self) -> Result<Instant, ApiError> {
        match self.for_s.unwrap_or(LASTS_S_MAX) {
            for_s if for_s > LASTS_S_MAX => {
                Err(ApiError::field(Self::FOR_S, format!("must be at most {LASTS_S_MAX}")))
            }
            for_s => Ok(Instant::now() + Duration::from_secs(for_s)),
        }
    }
}

/// What the client asked to go on after.
pub fn last_event_id(call: &Call) -> Option<&str> {
    call.headers.get("last-event-id").map(|id| id.to_str().unwrap_or_default())
}

/// Events as an answer, with a sign of life in between.
pub fn answer(events: impl Stream<Item = Result<Event, Infallible>> + Send + 'static) -> Response {
    Sse::new(events).keep_alive(KeepAlive::new().interval(SIGN_OF_LIFE)).into_response()
}

/// Tells of events as they arrive.
///
/// Server-sent events named `received`, each with the event's id and, as its data, the event as lists show it. With
/// `Last-Event-ID` it begins after that event (of a long absence, with the latest 2,000), else with what arrives from
/// now on.
#[utoipa::path(
    get, path = "/inbox/stream", operation_id = "stream_inbox", tag = "inbox",
    params(EventQuery, Lasting, describe::Tenant),
    responses(
        (status = 200, description = "Events as they arrive.", body = schema::InboxStreamEvent,
         content_type = "text/event-stream"),
        (status = 503, description = "As many listen already as this node allows: come again."),
        Keyed, Missing,
    )
)]
pub async fn stream(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let (query, lasting) = call.two::<EventQuery, Lasting>(|name| name == Lasting::FOR_S)?;
    let until = lasting.until()?;
    let filter = event_filter(&call.context, &tenant, query).await?;
    let place = call.stream_place()?;
    let from = match last_event_id(&call) {
        None => Ulid::floor(call.context.now()),
        Some(id) => {
            let id = id.parse::<EventId>();
            id.map_err(|_| ApiError::field("Last-Event-ID", "is not the id of an event"))?.0
        }
    };
    let watching = Watching {
        context: call.context.clone(),
        caller: call.caller.clone(),
        tenant,
        filter,
        from,
        horizon: from.time(),
        seen: BTreeSet::new(),
        ready: VecDeque::new(),
        looked: false,
        until,
        _place: place,
    };
    Ok(answer(stream::unfold(watching, Watching::next)))
}

/// One who listens.
struct Watching {
    context: Arc<Context>,
    caller: Caller,
    tenant: Arc<Tenant>,
    filter: EventFilter,
    /// Only what came after this.
    from: Ulid,
    /// What came before this was told.
    horizon: Timestamp,
    /// What was told of what came since.
    seen: BTreeSet<EventId>,
    /// What is to be told.
    ready: VecDeque<Event>,
    looked: bool,
    until: Instant,
    _place: OwnedSemaphorePermit,
}

impl Watching {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Watching)> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some((Ok(event), self));
            }
            let over = Instant::now() >= self.until || self.context.stop.is_cancelled();
            if self.looked && over {
                return None;
            }
            if self.looked {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = self.context.stop.cancelled() => {}
                }
            }
            self.looked = true;
            match self.look().await {
                Ok(true) => {}
                Ok(false) => return None,
                // The next look goes as far back.
                Err(_) => tracing::debug!("a stream could not look for events; it will try again"),
            }
        }
    }

    /// Finds what is to be told, and answers whether the caller may still hear it.
    async fn look(&mut self) -> Result<bool, ApiError> {
        if !self.caller.still_stands(&self.context).await? {
            return Ok(false);
        }
        let now = self.context.now();
        for row in self.found().await? {
            let id = row.event.id;
            let shown = shown_row(&self.context, &self.tenant, row).await?;
            let data = serde_json::to_string(&shown).expect("a view is plain data");
            self.seen.insert(id);
            self.ready.push_back(Event::default().event("received").id(id.to_string()).data(data));
        }
        self.horizon = self.horizon.max(now.before(OVERLAP));
        let horizon = self.horizon;
        self.seen.retain(|id| id.0.time() >= horizon);
        Ok(true)
    }

    /// What was not told yet, the oldest first.
    async fn found(&self) -> Result<Vec<EventRow>, ApiError> {
        let since = Some(self.horizon).max(self.filter.since);
        let filter = EventFilter { since, ..self.filter.clone() };
        let (mut found, mut before) = (Vec::new(), None);
        for _ in 0..PAGES_MAX {
            let page = Page { before, limit: PAGE };
            let rows = self.context.store.events(self.tenant.id, filter.clone(), page).await?;
            let is_last = rows.len() < PAGE as usize;
            before = rows.last().map(|row| row.event.id.0);
            found.extend(rows);
            if is_last {
                break;
            }
        }
        found.retain(|row| row.event.id.0 > self.from && !self.seen.contains(&row.event.id));
        found.reverse();
        Ok(found)
    }
}
