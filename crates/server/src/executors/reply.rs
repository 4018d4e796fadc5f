//! Sending a reply: part by part, each an effect of its own, so that a crash between two never repeats the first.

use std::time::Duration;

use wakepost_domain::effect::{EffectState, OnDoubt};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{SourceId, Timestamp, Ulid};
use wakepost_providers::{
    Answered, Mailed, Outgoing, OutgoingMail, Replies, ReplyError, ReplyExchange, ReplyFailure,
    ReplyStep, To,
};
use wakepost_store::moves::{Ask, Begin, BeginOutcome, Draft, EffectRow, WorkRow, proposal_hash};
use wakepost_store::vault::{Slot, TenantKey};
use wakepost_store::{Result, StoreError};

use super::Finished;
use super::answer::Said;
use super::lease::{self, Stop};
use crate::context::Context;
use crate::directory::LiveSource;
use crate::exchange::{self, CallFault};
use crate::outbound::MailFault;
use crate::queue::Pushed;
use crate::replies::{PROPOSAL, Place, Reply, Whom};
use crate::tokens::idempotency_key;
use crate::view::{Content, open_json};

/// How many calls one exchange may take: a token, a page or two, the message itself.
const CALLS_MAX: usize = 20;
/// A platform that asks for no more patience than this is waited for; the run goes on then.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often one run waits so: a long reply may have to more than once.
const WAITS_MAX: usize = 20;

/// Sends one reply.
pub async fn run(context: &Context, item: &Pushed) -> Finished {
    let stopped = tokio::select! {
        // A node that was frozen must hear first that its lease is over.
        biased;
        stopped = lease::keep(context, item, item.2.run_timeout) => stopped,
        finished = send(context, item) => return finished.unwrap_or_else(unstored),
    };
    match stopped {
        Stop::Lost => Finished::Lost,
        Stop::Cancelled => Finished::Cancelled,
        Stop::TimedOut => Finished::failed("the reply took too long", true),
        Stop::NodeStops => Finished::HandBack,
    }
}

/// The store did not answer. What was begun and not said is in doubt at the next try.
fn unstored(error: StoreError) -> Finished {
    match error {
        StoreError::LeaseLost => Finished::Lost,
        error => Finished::failed(error.to_string(), true),
    }
}

async fn send(context: &Context, item: &Pushed) -> Result<Finished> {
    let ticket = item.0.ticket;
    let Some(row) = context.store.work(ticket.tenant, ticket.work).await? else {
        return Ok(Finished::Lost);
    };
    let reply = read(context, &row).await?;
    let answered = match Answering::find(context, item, &row, &reply).await? {
        Ok(answered) => answered,
        Err(why) => return Ok(Finished::failed(why, false)),
    };
    let Some(replies) = answered.live.provider.replies() else {
        return Ok(Finished::failed("its platform cannot be answered", false));
    };
    if !approved(context, item, &row, &reply).await? {
        // The run has ended with that.
        return Ok(Finished::Lost);
    }
    let before = answered.before(context, &row).await?;
    let replaced = before.as_ref().filter(|before| reply.place.replaces(before.place));
    let replaced = replaced.map(|before| before.id.as_str()).filter(|_| replies.can_update());
    let effects = context.store.effects(ticket.tenant, row.scope).await?;
    let sending = Sending { context, item, answered: &answered, replies, effects: &effects };
    for (text, index) in replies.parts(&reply.text).iter().zip(0..) {
        let first = index == 0;
        let part = Part {
            index,
            text,
            replaces: replaced.filter(|_| first),
            is_first: first && before.is_none(),
            key: part_key(index),
            scope: row.scope,
        };
        if let Going::Over(finished) = sending.part(&part).await? {
            return Ok(finished);
        }
    }
    Ok(Finished::Done(Said::default()))
}

/// Whether all that the reply says may be said. It is asked for whole, and not part by part: a person should read
/// all of it, and once; and so the approval is kept through retries.
async fn approved(context: &Context, item: &Pushed, row: &WorkRow, reply: &Reply) -> Result<bool> {
    let Some(expires) = context.directory.asks(row).await? else {
        return Ok(true);
    };
    let hash = proposal_hash(PROPOSAL, Some(&reply.text));
    let draft = Draft { hash, expires };
    context.store.ask(Ask { ticket: item.0.ticket, key: PROPOSAL.to_owned(), draft }).await
}

/// What a reply's item carries.
async fn read(context: &Context, row: &WorkRow) -> Result<Reply> {
    let damaged = || StoreError::Corrupt("a reply cannot be read".to_owned());
    let state = context.store.job_states(vec![row.id]).await?.pop();
    let input = state.and_then(|(_, state)| state.input).ok_or_else(damaged)?;
    let plain = context.vault.key(row.tenant).await?.open(Slot::Input(row.id), &input)?;
    serde_json::from_slice(&plain).map_err(|_| damaged())
}

/// The name of a part's effect.
fn part_key(index: usize) -> String {
    format!("part-{}", index + 1)
}

/// The name of its effect as a message of its own, where the one whose place it was to take is gone. Another act than
/// the change in place, and not as harmless to repeat.
fn anew_key(index: usize) -> String {
    format!("part-{}-anew", index + 1)
}

/// A message that the job posted before.
struct Posted {
    id: String,
    place: Place,
}

/// What is answered, if anything is, and through which source.
struct Answering {
    live: std::sync::Arc<LiveSource>,
    what: What,
}

enum What {
    /// An event, the part of a body.
    Event(Content, usize),
    /// Nothing: it is said in a channel, since then.
    Nothing(String, Timestamp),
}

impl Answering {
    /// Finds it, or says why there is nobody to tell.
    async fn find(
        context: &Context,
        item: &Pushed,
        row: &WorkRow,
        reply: &Reply,
    ) -> Result<std::result::Result<Answering, &'static str>> {
        const GONE: &str = "the event, its body or its source is gone";
        let event = match &reply.to {
            Whom::Answers(event) => *event,
            Whom::Channel(id) => {
                let source = match item.1.key.origin {
                    Some(origin) => context.directory.source(SourceId(origin)).await?,
                    None => None,
                };
                let what = What::Nothing(id.clone(), row.scope.time());
                return Ok(match source {
                    None => Err("its source is gone"),
                    Some(live) if !live.source.config.enabled => Err("its source is disabled"),
                    Some(live) => Ok(Answering { live, what }),
                });
            }
        };
        let Some(event) = context.store.event(row.tenant, event).await? else {
            return Ok(Err(GONE));
        };
        let Some(live) = context.directory.source(event.source).await? else {
            return Ok(Err(GONE));
        };
        let Some(content) = Content::of(context, &event).await? else {
            return Ok(Err(GONE));
        };
        let part = event.part.map_or(0, |part| usize::from(part.index));
        Ok(Ok(Answering { live, what: What::Event(content, part) }))
    }

    fn key(&self) -> &TenantKey {
        &self.live.key
    }

    /// The last message that the job posted before this one.
    async fn before(&self, context: &Context, row: &WorkRow) -> Result<Option<Posted>> {
        let Some(event) = row.event else {
            return Ok(None);
        };
        let before = context.store.work_of_event(row.tenant, event).await?;
        let before = before.into_iter().filter(|other| {
            other.kind == WorkKind::Reply
                && other.meta.parent_id == row.meta.parent_id
                && other.id < row.id
        });
        let mut before: Vec<WorkRow> = before.collect();
        before.sort_unstable_by_key(|other| std::cmp::Reverse(other.id));
        // Those that were never sent have no message.
        for other in &before {
            let effects = context.store.effects(row.tenant, other.scope).await?;
            let firsts = [part_key(0), anew_key(0)];
            let firsts = effects.iter().filter(|effect| firsts.contains(&effect.key));
            let message = firsts.filter_map(|effect| self.message(other.scope, effect)).next();
            if let Some(id) = message {
                let place = read(context, other).await?.place;
                return Ok(Some(Posted { id, place }));
            }
        }
        Ok(None)
    }

    /// The platform's id of a part that was posted.
    fn message(&self, scope: Ulid, effect: &EffectRow) -> Option<String> {
        let result = effect.result.as_ref().filter(|_| effect.state == EffectState::Committed)?;
        let slot = Slot::EffectResult(scope, &effect.key);
        let document = open_json(self.key(), slot, result).ok()?;
        let result: serde_json::Value = serde_json::from_str(document.get()).ok()?;
        Some(result["message_id"].as_str()?.to_owned())
    }
}

/// One part on its way.
struct Part<'a> {
    index: usize,
    text: &'a str,
    replaces: Option<&'a str>,
    is_first: bool,
    key: String,
    scope: Ulid,
}

/// How an exchange with the platform came out.
enum Came {
    Posted(Option<String>),
    Absent,
    Failed(ReplyFailure),
}

struct Sending<'a> {
    context: &'a Context,
    item: &'a Pushed,
    answered: &'a Answering,
    replies: &'static dyn Replies,
    effects: &'a [EffectRow],
}

/// How a run goes on.
enum Going {
    /// With the next part.
    On,
    /// Not at all.
    Over(Finished),
    /// With the same part, as a message of its own: the one whose place it was to take is gone.
    Anew,
}

impl Sending<'_> {
    /// Posts a part, unless it is there already.
    async fn part(&self, part: &Part<'_>) -> Result<Going> {
        let anew = Part { replaces: None, key: anew_key(part.index), ..*part };
        if self.known(&anew).is_some() {
            return self.post(&anew).await;
        }
        match self.post(part).await? {
            Going::Anew => self.post(&anew).await,
            going => Ok(going),
        }
    }

    /// What is known of a part's effect.
    fn known(&self, part: &Part<'_>) -> Option<&EffectRow> {
        self.effects.iter().find(|effect| effect.key == part.key)
    }

    async fn post(&self, part: &Part<'_>) -> Result<Going> {
        let state = self.known(part).map(|effect| effect.state);
        if state == Some(EffectState::Committed) {
            return Ok(Going::On);
        }
        let request;
        let to = match &self.answered.what {
            What::Event(content, part) => {
                request = content.as_request();
                To::Event { request: &request, part: *part }
            }
            What::Nothing(id, since) => To::Channel { id, since: *since },
        };
        let key = idempotency_key(part.scope, &part.key);
        let outgoing = Outgoing {
            to,
            text: part.text,
            index: part.index,
            is_first: part.is_first,
            replaces: part.replaces,
            key: &key,
            settings: &self.answered.live.settings,
            begun_at: self.known(part).map(|effect| effect.begun_at),
            now: self.context.now(),
        };
        let mut on_doubt = match self.replies.is_repeatable(&outgoing) {
            true => OnDoubt::Execute,
            false => OnDoubt::Hold,
        };
        let in_doubt = state == Some(EffectState::Begun);
        // Unless it is looked up, what an earlier run did stays unknown, whatever becomes of this one's own try.
        let still_in_doubt = in_doubt && on_doubt == OnDoubt::Execute;
        let mut found = None;
        if in_doubt && !still_in_doubt {
            match self.look_up(&outgoing).await {
                Some(Came::Posted(id)) => (found, on_doubt) = (Some(id), OnDoubt::Execute),
                Some(Came::Absent) => on_doubt = OnDoubt::Execute,
                Some(Came::Failed(failure)) if failure.retryable => return Ok(failed(failure)),
                // The operator decides, or has just done so.
                Some(Came::Failed(_)) | None => {}
            }
        }
        match self.begin(part, on_doubt).await? {
            Going::On => {}
            over => return Ok(over),
        }
        let came = match found {
            Some(id) => Came::Posted(id),
            None => self.patient(&outgoing).await,
        };
        match came {
            Came::Posted(id) => self.commit(part, id).await,
            Came::Absent => self.abort(part, failure("it was not posted", true)).await,
            Came::Failed(failure) if failure.doubtful => self.doubt(part, &outgoing, failure).await,
            Came::Failed(failure) if still_in_doubt && !failure.replaced_is_gone => {
                Ok(failed(failure))
            }
            Came::Failed(failure) => self.abort(part, failure).await,
        }
    }

    /// Posts a part, and waits as long as the platform asks for, if that is not too long.
    async fn patient(&self, outgoing: &Outgoing<'_>) -> Came {
        for _ in 0..WAITS_MAX {
            let came = self.exchange(self.replies.post(outgoing)).await;
            match &came {
                Came::Failed(ReplyFailure {
                    retry_after: Some(wait),
                    retryable: true,
                    doubtful: false,
                    ..
                }) if *wait <= PATIENCE => tokio::time::sleep(*wait).await,
                _ => return came,
            }
        }
        Came::Failed(failure("the platform asked for patience too often", true))
    }

    /// Nobody knows whether a part was posted. It stays begun, unless that is found out.
    async fn doubt(
        &self,
        part: &Part<'_>,
        outgoing: &Outgoing<'_>,
        failure: ReplyFailure,
    ) -> Result<Going> {
        if self.replies.is_repeatable(outgoing) && failure.retryable {
            return Ok(failed(failure));
        }
        match self.look_up(outgoing).await {
            Some(Came::Posted(id)) => self.commit(part, id).await,
            // It may still be on its way: the next try looks once more before it posts.
            Some(Came::Absent) => Ok(failed(ReplyFailure { retryable: true, ..failure })),
            Some(Came::Failed(look)) if look.retryable => Ok(failed(look)),
            Some(Came::Failed(_)) | None => Ok(Going::Over(in_doubt_of(part, &failure))),
        }
    }

    async fn begin(&self, part: &Part<'_>, on_doubt: OnDoubt) -> Result<Going> {
        let begin = Begin {
            ticket: self.item.0.ticket,
            key: part.key.clone(),
            description: Some(format!("post part {} of the reply", part.index + 1)),
            on_doubt,
            draft: None,
        };
        Ok(match self.context.store.begin(begin).await? {
            BeginOutcome::Execute { .. } => Going::On,
            // Somebody resolved it just now; the next run sees that.
            BeginOutcome::Skip { .. } => Going::Over(Finished::HandBack),
            // The run has ended with that.
            BeginOutcome::InDoubt { .. } | BeginOutcome::NeedsApproval { .. } => {
                Going::Over(Finished::Lost)
            }
        })
    }

    async fn commit(&self, part: &Part<'_>, message: Option<String>) -> Result<Going> {
        let result = serde_json::json!({ "message_id": message }).to_string();
        let slot = Slot::EffectResult(part.scope, &part.key);
        let result = self.answered.key().seal(slot, result.as_bytes());
        let ticket = self.item.0.ticket;
        self.context.store.commit(ticket, part.key.clone(), Some(result)).await?;
        Ok(Going::On)
    }

    async fn abort(&self, part: &Part<'_>, failure: ReplyFailure) -> Result<Going> {
        let (ticket, key) = (self.item.0.ticket, part.key.clone());
        self.context.store.abort(ticket, key, failure.error.clone()).await?;
        match failure.replaced_is_gone && part.replaces.is_some() {
            true => Ok(Going::Anew),
            false => Ok(failed(failure)),
        }
    }

    /// Looks whether a part is there, where the platform can tell.
    async fn look_up(&self, outgoing: &Outgoing<'_>) -> Option<Came> {
        let exchange = self.replies.look_up(outgoing)?;
        Some(self.exchange(exchange).await)
    }

    /// Makes the calls that an exchange asks for, one after the other.
    async fn exchange(
        &self,
        exchange: std::result::Result<Box<dyn ReplyExchange + Send + '_>, ReplyError>,
    ) -> Came {
        let mut exchange = match exchange {
            Ok(exchange) => exchange,
            Err(error) => return Came::Failed(failure(error.to_string(), false)),
        };
        let mut step = exchange.next(None);
        for _ in 0..CALLS_MAX {
            let (call, acts) = match step {
                ReplyStep::Call { call, acts } => (call, acts),
                ReplyStep::Mail(mail) => {
                    step = self.mail(&mail, exchange.as_mut()).await;
                    continue;
                }
                ReplyStep::Posted(id) => return Came::Posted(id),
                ReplyStep::Absent => return Came::Absent,
                ReplyStep::Failed(failure) => return Came::Failed(failure),
            };
            step = match exchange::call(self.context, &self.answered.live, call).await {
                Ok(answer) => exchange.next(Some(Answered {
                    status: answer.status,
                    headers: &answer.headers,
                    body: &answer.body,
                })),
                Err(CallFault::Address(why)) => {
                    return Came::Failed(failure(format!("settings.api_url {why}"), false));
                }
                Err(CallFault::Unanswered { error, retryable, doubtful }) => {
                    let doubtful = acts && doubtful;
                    return Came::Failed(ReplyFailure { doubtful, ..failure(error, retryable) });
                }
            };
        }
        Came::Failed(failure("the platform asked for too many calls", true))
    }

    async fn mail(
        &self,
        mail: &OutgoingMail,
        exchange: &mut (dyn ReplyExchange + Send),
    ) -> ReplyStep {
        let (trust, _) = exchange::trust(self.context, &self.answered.live);
        match self.context.mailer.send(mail, trust).await {
            Ok(()) => exchange.mailed(Mailed::Accepted),
            Err(MailFault::Unfit(error)) => ReplyStep::Failed(failure(error, false)),
            Err(MailFault::Refused { code, text }) => {
                exchange.mailed(Mailed::Refused { code, text: &text })
            }
            Err(MailFault::Lost { text, handed_over }) => {
                exchange.mailed(Mailed::Lost { error: &text, handed_over })
            }
        }
    }
}

fn failure(error: impl Into<String>, retryable: bool) -> ReplyFailure {
    ReplyFailure { error: error.into(), retryable, ..ReplyFailure::default() }
}

/// An operator must say whether a part was posted.
fn in_doubt_of(part: &Part<'_>, failure: &ReplyFailure) -> Finished {
    Finished::InDoubt { error: format!("{} may have been posted: {}", part.key, failure.error) }
}

fn failed(failure: ReplyFailure) -> Going {
    let ReplyFailure { error, retryable, retry_after, .. } = failure;
    Going::Over(Finished::Failed { error, retryable, retry_after })
}
