//! A job as it goes on: its states, progress, effects and replies, to whoever watches.
//!
//! Ids of what is told come from what is stored, never from this node's memory: whoever comes again, here, at
//! another node or after a restart, goes on just where it was.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use wakepost_domain::effect::EffectState;
use wakepost_domain::lease::fence_of;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{RunId, Timestamp, WorkId};
use wakepost_store::moves::{EffectRow, ProgressRow, WorkRow};
use wakepost_store::vault::Slot;

use super::auth::Caller;
use super::call::{At, Call, Nothing};
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::jobs::readable;
use super::stream::{Lasting, answer, last_event_id};
use crate::context::Context;
use crate::schema;
use crate::view::{Entered, open_json, states};

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// How many signs of progress one look tells at most; the next look goes on.
const PROGRESS_PER_LOOK: usize = 200;

/// Tells of a job as it goes on, until it ends.
///
/// Server-sent events, each with an id and JSON as its data: `state` (`status`, `attempt`, `reason`, `run_id`, `worker`,
/// `at`), `progress` (`message`, `percent`, `step`, `data`, `run_id`, `at`), `effect` (`key`, `status`, `description`,
/// `error`, `run_id`, `at`) and `reply` (`id`, `status`, `error`, `at`). It begins with the job's beginning or, with
/// `Last-Event-ID`, after that event, and ends after the job's last state. A worker may watch a job while it leases
/// it.
#[utoipa::path(
    get, path = "/jobs/{id}/events", operation_id = "stream_job", tag = "jobs",
    params(("id" = schema::WorkId, Path), Lasting, describe::Tenant),
    responses(
        (status = 200, description = "What happens to it.", body = schema::JobStreamEvent,
         content_type = "text/event-stream"),
        (status = 503, description = "As many listen already as this node allows: come again."),
        Keyed, Missing,
    )
)]
pub async fn stream(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    let (tenant, row) = readable(&call, &id).await?;
    let (Nothing {}, lasting) = call.two::<Nothing, Lasting>(|name| name == Lasting::FOR_S)?;
    let until = lasting.until()?;
    let told = match last_event_id(&call) {
        None => Told::default(),
        Some(text) => text.parse().map_err(|()| {
            ApiError::field("Last-Event-ID", "is not the id of an event of this stream")
        })?,
    };
    let watching = Watching {
        context: call.context.clone(),
        caller: call.caller.clone(),
        work: row.id,
        // A worker sees no more than its own run.
        only_run: call.is_worker().then_some(row.fence),
        tenant,
        told,
        ready: VecDeque::new(),
        over: false,
        more: true,
        looked: false,
        until,
        _place: call.stream_place()?,
    };
    Ok(answer(stream::unfold(watching, Watching::next)))
}

/// How far a stream is: the place of the last it told, of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Told {
    state: u64,
    progress: u64,
    effect: u64,
    replies_made: u64,
    replies_ended: u64,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { state, progress, effect, replies_made, replies_ended } = self;
        write!(f, "{state}-{progress}-{effect}-{replies_made}-{replies_ended}")
    }
}

impl FromStr for Told {
    type Err = ();

    fn from_str(text: &str) -> Result<Told, ()> {
        let numbers: Result<Vec<u64>, _> = text.split('-').map(str::parse).collect();
        match numbers.map_err(|_| ())?.as_slice() {
            &[state, progress, effect, replies_made, replies_ended] => {
                Ok(Told { state, progress, effect, replies_made, replies_ended })
            }
            _ => Err(()),
        }
    }
}

/// What happened within a run, of which the clock does not say more, stands between its beginning and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Begin,
    Within,
    End,
}

/// Something that happened to a job.
struct Happening {
    name: &'static str,
    at: Timestamp,
    /// Where it stands among what happened in the same millisecond.
    rank: Rank,
    data: Value,
    /// How a stream that told it stands.
    tell: fn(&mut Told, u64),
    place: u64,
}

/// One who watches.
struct Watching {
    context: Arc<Context>,
    caller: Caller,
    tenant: Arc<Tenant>,
    work: WorkId,
    only_run: Option<i32>,
    told: Told,
    ready: VecDeque<Event>,
    over: bool,
    /// Whether there may be more at once.
    more: bool,
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
            let late = Instant::now() >= self.until || self.context.stop.is_cancelled();
            if self.over || self.looked && late && !self.more {
                return None;
            }
            if !self.more {
                tokio::select! {
                    () = tokio::time::sleep(LOOK) => {}
                    () = self.context.stop.cancelled() => {}
                }
            }
            self.looked = true;
            self.more = match self.look().await {
                Ok(more) => more,
                Err(_) => {
                    tracing::debug!("a stream could not look for its job; it will try again");
                    false
                }
            };
        }
    }

    /// Finds what was not told yet, and says whether there may be more at once.
    async fn look(&mut self) -> Result<bool, ApiError> {
        if !self.caller.still_stands(&self.context).await? {
            self.over = true;
            return Ok(false);
        }
        let store = &self.context.store;
        // The row first: once it is final, nothing that is read after it will be followed by more.
        let Some(row) = store.work(self.tenant.id, self.work).await? else {
            self.over = true;
            return Ok(false);
        };
        let runs = store.runs(self.tenant.id, self.work).await?;
        let entered = states(&row, &runs);
        let (progress, more) = self.progress().await?;
        let replies = self.replies(&row).await?;
        let mut kinds = [
            self.states(&entered),
            progress,
            self.effects(&row, &entered).await?,
            replies_made(&replies, self.told.replies_made),
            replies_ended(&replies, self.told.replies_ended),
        ];
        let mut last = match row.state.is_terminal() {
            true => kinds[0].pop_back(),
            false => None,
        };
        while let Some(happening) = earliest(&mut kinds) {
            self.tell(happening);
        }
        if more {
            return Ok(true);
        }
        if let Some(happening) = last.take() {
            self.tell(happening);
        }
        let lost =
            self.only_run.is_some_and(|fence| row.state != State::Running || row.fence != fence);
        self.over = row.state.is_terminal() || lost;
        Ok(false)
    }

    fn tell(&mut self, happening: Happening) {
        (happening.tell)(&mut self.told, happening.place);
        let event = Event::default().event(happening.name).id(self.told.to_string());
        self.ready.push_back(event.data(happening.data.to_string()));
    }

    fn states(&self, entered: &[Entered]) -> VecDeque<Happening> {
        let new = entered.iter().filter(|state| state.place > self.told.state);
        let happening = |state: &Entered| Happening {
            name: "state",
            at: state.at,
            rank: match state.status {
                State::Running => Rank::Begin,
                _ => Rank::End,
            },
            data: serde_json::to_value(state).expect("a state is plain data"),
            tell: |told, place| told.state = place,
            place: state.place,
        };
        new.map(happening).collect()
    }

    async fn progress(&self) -> Result<(VecDeque<Happening>, bool), ApiError> {
        let after = i64::try_from(self.told.progress).unwrap_or(i64::MAX);
        let store = &self.context.store;
        let rows = store.progress_after(self.tenant.id, self.work, after).await?;
        let more = rows.len() > PROGRESS_PER_LOOK;
        let key = self.context.vault.key(self.tenant.id).await?;
        let happening = |row: ProgressRow| -> Result<Happening, ApiError> {
            let said = open_json(&key, Slot::Progress(self.work), &row.content)?;
            let mut data: Value = serde_json::from_str(said.get()).unwrap_or_default();
            for field in ["message", "percent", "step", "data", "run_id"] {
                if data.get(field).is_none() {
                    data[field] = Value::Null;
                }
            }
            data["at"] = json!(row.at);
            Ok(Happening {
                name: "progress",
                at: row.at,
                rank: Rank::Within,
                data,
                tell: |told, place| told.progress = place,
                place: row.seq.max(0).unsigned_abs(),
            })
        };
        let found = rows.into_iter().take(PROGRESS_PER_LOOK).map(happening);
        Ok((found.collect::<Result<_, _>>()?, more))
    }

    /// Of an effect that was begun again, only the latest try is known.
    async fn effects(
        &self,
        row: &WorkRow,
        entered: &[Entered],
    ) -> Result<VecDeque<Happening>, ApiError> {
        let run = |fence: i32| -> Option<RunId> {
            let mut runs = entered.iter().filter_map(|state| state.run_id);
            runs.find(|run| fence_of(row.id, *run) == fence)
        };
        let happening = |effect: &EffectRow, status: &str, at: Timestamp, nth: i64| Happening {
            name: "effect",
            at,
            rank: Rank::Within,
            data: json!({
                "key": effect.key,
                "status": status,
                "description": effect.description,
                "error": effect.error,
                "run_id": run(effect.runner.fence),
                "at": at,
            }),
            tell: |told, place| told.effect = place,
            place: nth.max(0).unsigned_abs(),
        };
        let effects = self.context.store.effects(self.tenant.id, row.scope).await?;
        let mut found = Vec::new();
        for effect in effects.iter().filter(|effect| effect.runner.work == row.id) {
            let decided_at = effect.approval.as_ref().and_then(|approval| approval.decided_at);
            let (first, end, ended_at) = match effect.state {
                EffectState::Begun => ("begun", None, None),
                EffectState::Committed => ("begun", Some("committed"), effect.resolved_at),
                EffectState::Aborted => ("begun", Some("aborted"), effect.resolved_at),
                EffectState::Proposed => ("proposed", None, None),
                EffectState::Approved => ("proposed", Some("approved"), decided_at),
                EffectState::Rejected => ("proposed", Some("rejected"), decided_at),
            };
            found.push(happening(effect, first, effect.begun_at, effect.begun_nth));
            if let (Some(word), Some(at), Some(nth)) = (end, ended_at, effect.resolved_nth) {
                found.push(happening(effect, word, at, nth));
            }
        }
        found.retain(|happening| happening.place > self.told.effect);
        found.sort_by_key(|happening| happening.place);
        Ok(found.into())
    }

    /// The job's replies, oldest first: they are made one after the other, under its lease.
    async fn replies(&self, row: &WorkRow) -> Result<Vec<WorkRow>, ApiError> {
        let (Some(event), WorkKind::Job) = (row.event, row.kind) else {
            return Ok(Vec::new());
        };
        let own = row.id.text(row.kind);
        let mut rows = self.context.store.work_of_event(self.tenant.id, event).await?;
        rows.retain(|reply| {
            reply.kind == WorkKind::Reply && reply.meta.parent_id.as_ref() == Some(&own)
        });
        Ok(rows)
    }
}

fn replies_made(replies: &[WorkRow], told: u64) -> VecDeque<Happening> {
    let happening = |(reply, place): (&WorkRow, u64)| Happening {
        name: "reply",
        at: reply.id.0.time(),
        rank: Rank::Within,
        data: shown_reply(reply, State::Pending, reply.id.0.time()),
        tell: |told, place| told.replies_made = place,
        place,
    };
    replies.iter().zip(1..).map(happening).filter(|reply| reply.place > told).collect()
}

fn replies_ended(replies: &[WorkRow], told: u64) -> VecDeque<Happening> {
    let ended = |reply: &'_ WorkRow| reply.finished_at.map(|at| (at, reply.id));
    let mut final_: Vec<&WorkRow> = replies.iter().filter(|reply| ended(reply).is_some()).collect();
    final_.sort_by_key(|reply| ended(reply));
    let happening = |(reply, place): (&WorkRow, u64)| {
        let at = reply.finished_at.unwrap_or(reply.run_at);
        Happening {
            name: "reply",
            at,
            rank: Rank::Within,
            data: shown_reply(reply, reply.state, at),
            tell: |told, place| told.replies_ended = place,
            place,
        }
    };
    final_.into_iter().zip(1..).map(happening).filter(|reply| reply.place > told).collect()
}

fn shown_reply(reply: &WorkRow, status: State, at: Timestamp) -> Value {
    let error = reply.last_error.as_ref().filter(|_| status.is_terminal());
    json!({"id": reply.id.text(reply.kind), "status": status, "error": error, "at": at})
}

/// Takes the earliest of what comes first of each kind: kinds mix by time, and each keeps its own order.
fn earliest(kinds: &mut [VecDeque<Happening>]) -> Option<Happening> {
    let heads = kinds.iter_mut().filter(|kind| !kind.is_empty());
    heads.min_by_key(|kind| (kind[0].at, kind[0].rank))?.pop_front()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_and_what_is_none_is_refused() {
        let told = Told { state: 9, progress: 3, effect: 2, replies_made: 1, replies_ended: 0 };
        assert_eq!(told.to_string(), "9-3-2-1-0");
        assert_eq!("9-3-2-1-0".parse(), Ok(told));
        for bad in ["", "1", "1-2-3-4", "1-2-3-4-5-6", "1-2-3-4--5", "a-b-c-d-e", "1-2-3-4-5 "] {
            assert_eq!(bad.parse::<Told>(), Err(()), "{bad}");
        }
    }

    #[test]
    fn kinds_mix_by_time_and_each_keeps_its_own_order() {
        let happening = |name, ms| Happening {
            name,
            at: Timestamp::from_millis(ms),
            rank: Rank::Within,
            data: Value::Null,
            tell: |_, _| {},
            place: 0,
        };
        // The second of `b` has an earlier time than the first: a clock stepped back.
        let mut kinds = [
            VecDeque::from([happening("a1", 1), happening("a2", 5)]),
            VecDeque::from([happening("b1", 3), happening("b2", 2)]),
        ];
        let mut names = Vec::new();
        while let Some(happening) = earliest(&mut kinds) {
            names.push(happening.name);
        }
        assert_eq!(names, ["a1", "b1", "b2", "a2"]);
    }
}
