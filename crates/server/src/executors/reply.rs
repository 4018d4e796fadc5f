//! Sending a reply: part by part, each an effect of its own, so that a crash between two never repeats the first.

use wakepost_domain::effect::{EffectState, OnDoubt};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, Ulid, WorkId};
use wakepost_providers::{
    Answered, Mailed, Outgoing, OutgoingMail, Replies, ReplyError, ReplyExchange, ReplyFailure,
    ReplyStep,
};
use wakepost_store::moves::{Begin, BeginOutcome, EffectRow, WorkRow};
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
use crate::replies::{Place, Reply};
use crate::tokens::idempotency_key;
use crate::view::{Content, open_json};

/// How many calls one exchange may take: a token, a page or two, the message itself.
const CALLS_MAX: usize = 20;

/// Sends one reply.
pub async fn run(context: &Context, item: &Pushed) -> Finished {
    let stopped = tokio::select! {
        finished = send(context, item) => return finished.unwrap_or_else(unstored),
        stopped = lease::keep(context, item, item.2.run_timeout) => stopped,
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
    let Some(answered) = Answering::find(context, &row).await? else {
        return Ok(Finished::failed("the event, its body or its source is gone", false));
    };
    let Some(replies) = answered.live.provider.replies() else {
        return Ok(Finished::failed("its platform cannot be answered", false));
    };
    let reply = answered.reply(context, &row).await?;
    let replaces = match replies.can_update() {
        true => answered.replaced(context, &row, reply.place).await?,
        false => None,
    };
    let sending = Sending { context, item, answered: &answered, replies };
    let effects = context.store.effects(ticket.tenant, row.scope).await?;
    for (text, index) in replies.parts(&reply.text).iter().zip(0..) {
        let key = part_key(index);
        let effect = effects.iter().find(|effect| effect.key == key);
        let replaces = replaces.as_deref().filter(|_| index == 0);
        let part = Part { index, text, replaces, key, scope: row.scope };
        if let Err(finished) = sending.part(&part, effect).await? {
            return Ok(finished);
        }
    }
    Ok(Finished::Done(Said::default()))
}

/// The name of a part's effect.
fn part_key(index: usize) -> String {
    format!("part-{}", index + 1)
}

/// What is answered.
struct Answering {
    live: std::sync::Arc<LiveSource>,
    content: Content,
    part: usize,
}

impl Answering {
    async fn find(context: &Context, row: &WorkRow) -> Result<Option<Answering>> {
        let Some(first) = row.event else {
            return Ok(None);
        };
        let answered = last_event(context, row, first).await?;
        let Some(event) = context.store.event(row.tenant, answered).await? else {
            return Ok(None);
        };
        let Some(live) = context.directory.source(event.source).await? else {
            return Ok(None);
        };
        let body = event.body();
        let Some((_, sealed)) = context.store.contents(vec![body]).await?.pop() else {
            return Ok(None);
        };
        let content = Content::decode(&live.key.open(Slot::Content(body), &sealed)?)?;
        let part = event.part.map_or(0, |part| usize::from(part.index));
        Ok(Some(Answering { live, content, part }))
    }

    fn key(&self) -> &TenantKey {
        &self.live.key
    }

    async fn reply(&self, context: &Context, row: &WorkRow) -> Result<Reply> {
        let damaged = || StoreError::Corrupt("a reply cannot be read".to_owned());
        let state = context.store.job_states(vec![row.id]).await?.pop();
        let input = state.and_then(|(_, state)| state.input).ok_or_else(damaged)?;
        let plain = self.key().open(Slot::Input(row.id), &input)?;
        serde_json::from_slice(&plain).map_err(|_| damaged())
    }

    /// The platform's id of the message that this one takes the place of.
    async fn replaced(
        &self,
        context: &Context,
        row: &WorkRow,
        place: Place,
    ) -> Result<Option<String>> {
        let Some(event) = row.event else {
            return Ok(None);
        };
        let before = context.store.work_of_event(row.tenant, event).await?;
        let before = before.into_iter().filter(|other| {
            other.kind == WorkKind::Reply
                && other.meta.parent_id == row.meta.parent_id
                && other.id < row.id
        });
        // Those that were never sent have no message.
        let mut before: Vec<WorkRow> = before.collect();
        before.sort_unstable_by_key(|other| std::cmp::Reverse(other.id));
        for other in &before {
            let effects = context.store.effects(row.tenant, other.scope).await?;
            let first = effects.iter().find(|effect| effect.key == part_key(0));
            let Some(message) = first.and_then(|effect| self.message(other.scope, effect)) else {
                continue;
            };
            let other = self.reply(context, other).await?;
            return Ok(place.replaces(other.place).then_some(message));
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

/// The event that is answered: the last that the job is about, if its thread went on.
async fn last_event(context: &Context, row: &WorkRow, first: EventId) -> Result<EventId> {
    let job = row.meta.parent_id.as_deref().and_then(|id| WorkId::parse(id, WorkKind::Job).ok());
    match job {
        None => Ok(first),
        Some(job) => {
            let events = context.store.events_of_work(row.tenant, job).await?;
            Ok(events.last().copied().unwrap_or(first))
        }
    }
}

/// One part on its way.
struct Part<'a> {
    index: usize,
    text: &'a str,
    replaces: Option<&'a str>,
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
}

/// The run goes on, or is over like this.
type Going = std::result::Result<(), Finished>;

impl Sending<'_> {
    /// Posts a part, unless it is there already.
    async fn part(&self, part: &Part<'_>, known: Option<&EffectRow>) -> Result<Going> {
        if known.is_some_and(|effect| effect.state == EffectState::Committed) {
            return Ok(Ok(()));
        }
        let request = self.answered.content.as_request();
        let key = idempotency_key(part.scope, &part.key);
        let outgoing = Outgoing {
            request: &request,
            part_of_body: self.answered.part,
            text: part.text,
            index: part.index,
            replaces: part.replaces,
            key: &key,
            settings: &self.answered.live.settings,
            now: self.context.now(),
        };
        let in_doubt = known.is_some_and(|effect| effect.state == EffectState::Begun);
        let mut on_doubt = match self.replies.is_repeatable(&outgoing) {
            true => OnDoubt::Execute,
            false => OnDoubt::Hold,
        };
        let mut found = None;
        if in_doubt && on_doubt == OnDoubt::Hold {
            match self.look_up(&outgoing).await {
                Some(Came::Posted(id)) => found = Some(id),
                Some(Came::Absent) => {}
                Some(Came::Failed(failure)) if failure.retryable => {
                    return Ok(Err(failed(failure)));
                }
                // The operator decides.
                Some(Came::Failed(_)) | None => return self.begin(part, on_doubt).await,
            }
            on_doubt = OnDoubt::Execute;
        }
        if let Err(over) = self.begin(part, on_doubt).await? {
            return Ok(Err(over));
        }
        let came = match found {
            Some(id) => Came::Posted(id),
            None => self.post(&outgoing).await,
        };
        match came {
            Came::Posted(id) => self.commit(part, id).await,
            Came::Absent => self.abort(part, failure("it was not posted", true)).await,
            Came::Failed(failure) if !failure.doubtful => self.abort(part, failure).await,
            Came::Failed(failure) => self.doubt(part, &outgoing, on_doubt, failure).await,
        }
    }

    /// Posts a part: as a message of its own where the one whose place it was to take is gone.
    async fn post(&self, outgoing: &Outgoing<'_>) -> Came {
        match self.exchange(self.replies.post(outgoing)).await {
            Came::Failed(failure) if failure.replaced_is_gone && !failure.doubtful => {
                let anew = Outgoing { replaces: None, ..*outgoing };
                self.exchange(self.replies.post(&anew)).await
            }
            came => came,
        }
    }

    /// Nobody knows whether a part was posted.
    async fn doubt(
        &self,
        part: &Part<'_>,
        outgoing: &Outgoing<'_>,
        on_doubt: OnDoubt,
        failure: ReplyFailure,
    ) -> Result<Going> {
        if on_doubt == OnDoubt::Execute && self.replies.is_repeatable(outgoing) {
            return Ok(Err(failed(ReplyFailure { retryable: true, ..failure })));
        }
        match self.look_up(outgoing).await {
            Some(Came::Posted(id)) => self.commit(part, id).await,
            Some(Came::Absent) => {
                self.abort(part, ReplyFailure { retryable: true, ..failure }).await
            }
            // The next try looks again.
            Some(Came::Failed(look)) if look.retryable => Ok(Err(failed(look))),
            Some(Came::Failed(_)) | None => {
                let error = format!("{} may have been posted: {}", part.key, failure.error);
                Ok(Err(Finished::InDoubt { error }))
            }
        }
    }

    async fn begin(&self, part: &Part<'_>, on_doubt: OnDoubt) -> Result<Going> {
        let begin = Begin {
            ticket: self.item.0.ticket,
            key: part.key.clone(),
            description: Some(format!("post part {} of the reply", part.index + 1)),
            on_doubt,
        };
        Ok(match self.context.store.begin(begin).await? {
            BeginOutcome::Execute { .. } => Ok(()),
            // Somebody resolved it just now; the next run sees that.
            BeginOutcome::Skip { .. } => Err(Finished::HandBack),
            // The run has ended with that.
            BeginOutcome::InDoubt { .. } => Err(Finished::Lost),
        })
    }

    async fn commit(&self, part: &Part<'_>, message: Option<String>) -> Result<Going> {
        let result = serde_json::json!({ "message_id": message }).to_string();
        let slot = Slot::EffectResult(part.scope, &part.key);
        let result = self.answered.key().seal(slot, result.as_bytes());
        let ticket = self.item.0.ticket;
        self.context.store.commit(ticket, part.key.clone(), Some(result)).await?;
        Ok(Ok(()))
    }

    async fn abort(&self, part: &Part<'_>, failure: ReplyFailure) -> Result<Going> {
        let (ticket, key) = (self.item.0.ticket, part.key.clone());
        self.context.store.abort(ticket, key, failure.error.clone()).await?;
        Ok(Err(failed(failure)))
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

fn failed(failure: ReplyFailure) -> Finished {
    let ReplyFailure { error, retryable, retry_after, .. } = failure;
    Finished::Failed { error, retryable, retry_after }
}
