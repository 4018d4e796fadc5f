//! Replies: what a job says on the platform its event came from, and what the gateway says in a channel of its own
//! accord. Each is a work item of its own, made here and sent by `executors/reply.rs`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wakepost_domain::backoff::REPLY_ATTEMPTS;
use wakepost_domain::lane::{Lane, LaneKey};
use wakepost_domain::lease::Ticket;
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{EventId, WorkId};
use wakepost_store::moves::{NewWork, OrderKey, WorkMeta, WorkRow};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::directory::LiveSource;

/// The name under which a reply proposes all that it would say. Its parts are effects of their own.
pub const PROPOSAL: &str = "reply";

/// What a reply carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reply {
    /// What to say.
    pub text: String,
    /// Where.
    pub place: Place,
    /// To whom.
    #[serde(flatten)]
    pub to: Whom,
}

/// To whom a reply goes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Whom {
    /// Whoever sent this event: the last that the job was about when it spoke.
    Answers(EventId),
    /// This channel of the source's platform, in answer to nothing.
    Channel(String),
}

/// Where a reply goes on its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A message of its own, until the last word takes its place.
    Interim,
    /// A message of its own, for good.
    Beside,
    /// In the place of the job's message before it, where the platform can.
    Update,
    /// The last word: in the place of an interim message, where there is one and the platform can.
    Last,
}

impl Place {
    /// Whether it takes the place of a message that was put there.
    pub fn replaces(self, before: Place) -> bool {
        match self {
            Place::Interim | Place::Beside => false,
            Place::Update => true,
            Place::Last => before != Place::Beside,
        }
    }
}

/// What a reply would say, by what its item carries.
pub fn said(input: &RawValue) -> Option<String> {
    serde_json::from_str(input.get()).ok().map(|reply: Reply| reply.text)
}

/// The reply that follows a job's success, where its event can be answered at all.
pub async fn last_word(context: &Context, ticket: &Ticket, text: &str) -> Result<Option<NewWork>> {
    let Some(row) = context.store.work(ticket.tenant, ticket.work).await? else {
        return Ok(None);
    };
    match answerable(context, &row).await? {
        Some(live) if !text.trim().is_empty() => {
            Ok(Some(new(context, &row, &live, text.to_owned(), Place::Last).await?.0))
        }
        _ => Ok(None),
    }
}

/// The source that a job's event came from, if its platform carries conversations.
pub async fn answerable(context: &Context, job: &WorkRow) -> Result<Option<Arc<LiveSource>>> {
    let Some(event) = job.event else {
        return Ok(None);
    };
    let Some(event) = context.store.event(job.tenant, event).await? else {
        return Ok(None);
    };
    let live = context.directory.source(event.source).await?;
    Ok(live.filter(|live| live.provider.replies().is_some()))
}

/// A new reply of a job, and where it will wait.
pub async fn new(
    context: &Context,
    job: &WorkRow,
    live: &LiveSource,
    text: String,
    place: Place,
) -> Result<(NewWork, Arc<Lane>)> {
    let events = context.store.events_of_work(job.tenant, job.id).await?;
    let answers = events.last().copied().or(job.event).ok_or(StoreError::NotFound)?;
    let reply = Reply { text, place, to: Whom::Answers(answers) };
    let job_id = job.id.text(job.kind);
    let (item, lane) = item(context, live, &reply).await?;
    let item = NewWork {
        event: job.event,
        subject: job.subject.clone(),
        order: Some(OrderKey::of_replies(job.tenant, job.id)),
        meta: WorkMeta {
            parent_id: Some(job_id.clone()),
            hops: job.meta.hops,
            trace: job.meta.trace.clone(),
            order_key: Some(job_id),
            mode: job.meta.mode,
            ..WorkMeta::default()
        },
        ..item
    };
    Ok((item, lane))
}

/// A new reply through a source, about nothing yet, and where it will wait.
pub async fn item(
    context: &Context,
    live: &LiveSource,
    reply: &Reply,
) -> Result<(NewWork, Arc<Lane>)> {
    let tenant = live.source.tenant;
    let key = LaneKey {
        tenant,
        kind: WorkKind::Reply,
        priority: Priority::Interactive,
        origin: Some(live.source.id.0),
        name: "reply".to_owned(),
        executor: None,
    };
    let lane = context.directory.lane(key).await?;
    let id = WorkId(context.new_id());
    let plain = serde_json::to_vec(reply).expect("a reply is plain data");
    let item = NewWork {
        id,
        tenant,
        kind: WorkKind::Reply,
        lane: lane.id,
        run_at: None,
        max_attempts: REPLY_ATTEMPTS as i32,
        event: None,
        scope: None,
        subject: None,
        order: None,
        meta: WorkMeta::default(),
        input: Some(live.key.seal(Slot::Input(id), &plain)),
        dedup: None,
    };
    Ok((item, lane))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wakepost_domain::Ulid;

    use super::*;

    #[test]
    fn a_reply_is_kept_with_whom_it_is_for_beside_what_it_says() {
        let event = EventId(Ulid::MIN);
        let kept = |to| Reply { text: "Done.".to_owned(), place: Place::Last, to };
        for (reply, field, value) in [
            (kept(Whom::Answers(event)), "answers", event.to_string()),
            (kept(Whom::Channel("C1".to_owned())), "channel", "C1".to_owned()),
        ] {
            let text = serde_json::to_value(&reply).unwrap();
            assert_eq!(text, json!({"text": "Done.", "place": "last", field: value}));
            assert_eq!(serde_json::from_value::<Reply>(text).unwrap(), reply);
        }
    }

    #[test]
    fn the_last_word_takes_an_interim_place_and_no_other() {
        for before in [Place::Interim, Place::Update] {
            assert!(Place::Last.replaces(before) && Place::Update.replaces(before));
        }
        assert!(!Place::Last.replaces(Place::Beside) && Place::Update.replaces(Place::Beside));
        assert!(
            !Place::Interim.replaces(Place::Interim) && !Place::Beside.replaces(Place::Interim)
        );
    }
}
