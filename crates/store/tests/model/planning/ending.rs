//! Ends of runs: by their workers, and by the rescuer.

use std::time::Duration;

use wakepost_domain::backoff::Backoff;
use wakepost_domain::lease::Ticket;
use wakepost_domain::limits::CANCEL_PATIENCE;
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::work::{HeldReason, WorkKind};
use wakepost_domain::{Timestamp, WorkId};
use wakepost_store::moves::{Evidence, Expired, Guard, NewWork, OrderKey, Settle, WorkMeta};

use super::Scene;
use crate::call::Call;
use crate::wish::{EndWish, Hand};
use crate::world::sealed;

/// The worker's word on how a run went.
pub fn settle(scene: &mut Scene<'_>, hand: Hand, end: EndWish, cost: Option<f64>) -> Option<Call> {
    let ticket = scene.ticket(hand)?;
    let ending = match end {
        EndWish::Succeed | EndWish::SucceedWithReply => Ending::Succeeded,
        EndWish::Retry => Ending::Failed { retryable: true, retry_after: None },
        EndWish::RetryAfter(s) => {
            let after = Duration::from_secs(s.into());
            Ending::Failed { retryable: true, retry_after: Some(after) }
        }
        EndWish::GiveUp => Ending::Failed { retryable: false, retry_after: None },
        EndWish::FailProbe => Ending::ProbeFailed,
        EndWish::HandBack => Ending::HandedBack,
        EndWish::Hold => Ending::Held(HeldReason::UnknownKind),
        EndWish::Stop => Ending::Cancelled,
    };
    let is_done = ending == Ending::Succeeded;
    let follow_up = (end == EndWish::SucceedWithReply).then(|| Box::new(reply(scene, &ticket)));
    let evidence = Evidence {
        result: is_done.then(|| sealed("result")),
        reply: follow_up.as_ref().map(|_| sealed("reply")),
        cost,
        detail: (end != EndWish::HandBack).then(|| sealed(&format!("how {end:?} went"))),
    };
    let error = (!is_done).then(|| format!("{end:?}"));
    let Call::Settle(settle, ending) = ended(ticket, ending, Guard::Live, error) else {
        unreachable!("an end is a settle")
    };
    Some(Call::Settle(Box::new(Settle { evidence, follow_up, ..*settle }), ending))
}

pub fn reply(scene: &mut Scene<'_>, ticket: &Ticket) -> NewWork {
    NewWork {
        id: WorkId(scene.ids.next(scene.model.now)),
        tenant: ticket.tenant,
        kind: WorkKind::Reply,
        lane: scene.of(ticket.tenant).replies,
        run_at: None,
        max_attempts: 2,
        event: None,
        scope: None,
        subject: None,
        order: Some(OrderKey::of_replies(ticket.tenant, ticket.work)),
        meta: WorkMeta::default(),
        input: Some(sealed("what to say")),
        dedup: None,
    }
}

/// What the rescuer does about a run that it saw.
pub fn rescue(seen: &Expired, now: Timestamp) -> Call {
    let (ending, guard, error) = match seen.lease_expires_at <= now {
        true => (Ending::Expired, Guard::ExpiredAt(seen.lease_expires_at), "the lease ran out"),
        false => {
            let before = Guard::CancelledBefore(now.before(CANCEL_PATIENCE));
            (Ending::Cancelled, before, "it did not stop")
        }
    };
    ended(seen.ticket, ending, guard, Some(error.to_owned()))
}

fn ended(ticket: Ticket, ending: Ending, guard: Guard, error: Option<String>) -> Call {
    let (attempt, most) = (ticket.attempt, ticket.max_attempts);
    let settlement = transition::settle(ending, attempt, most, &Backoff::default(), 0.5);
    let evidence = Evidence::default();
    let (follow_up, expanded) = (None, None);
    let settle = Settle { ticket, guard, settlement, error, evidence, follow_up, expanded };
    Call::Settle(Box::new(settle), ending)
}
