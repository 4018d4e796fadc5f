//! What receivers saw: one id and one body for every try, signed and fresh (O3), and again only where the answer before
//! was not known to the server (O2).

use bytes::Bytes;
use http::HeaderMap;
use wakepost_domain::Timestamp;
use wakepost_providers::standard;
use wakepost_tests::now;

use super::super::hooks::{Hook, Hooks};
use super::{Fault, Record};
use crate::told::Problem;

/// How far a timestamp may lie from the moment its request came; machines stall.
const FRESH_S: i64 = 20;
/// How long a server that was answered may take to record it. What was answered this long before a kill is recorded.
const RECORDING_MS: i64 = 1000;
/// A request may be read after its sender was killed; and what was killed needs a moment to be itself again.
const AROUND_MS: i64 = 1500;
/// An answer this close to the server's patience may come too late for it.
const PATIENCE_MARGIN_MS: i64 = 500;

/// One request at a receiver.
#[derive(Debug, Clone, Copy)]
pub struct Receipt {
    /// When it was read, in Unix milliseconds.
    pub at: i64,
    /// What was answered, and when. None: the connection broke before.
    pub answered: Option<(u16, i64)>,
}

/// Which request, to be told of its answer.
pub struct Seen {
    hook: Hook,
    event: String,
    place: usize,
}

impl Receipt {
    /// Whether it was taken.
    pub fn was_taken(&self) -> bool {
        self.answered.is_some_and(|(status, _)| (200..300).contains(&status))
    }

    /// Whether the server must know that it was taken: it was told in time, and lived to write it down.
    pub fn is_settled(&self, hook: Hook, faults: &[Fault]) -> bool {
        let Some((_, at)) = self.answered.filter(|_| self.was_taken()) else { return false };
        let patience = i64::try_from(hook.timeout().as_millis()).unwrap_or(i64::MAX);
        let in_time = at - self.at < patience - PATIENCE_MARGIN_MS;
        let spoilt = faults.iter().any(|fault| {
            fault.begin <= at + RECORDING_MS && fault.end.saturating_add(AROUND_MS) >= self.at
        });
        in_time && !spoilt
    }
}

impl Record {
    /// A request came.
    pub fn received(&self, hooks: &Hooks, hook: Hook, headers: &HeaderMap, body: Bytes) -> Seen {
        let text = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let event = text("webhook-id");
        let at = now().as_millis();
        let signed =
            Signed { time: text("webhook-timestamp"), signature: text("webhook-signature") };
        let mut problems: Vec<Problem> =
            signed.problem(hooks.secret(hook), &event, &body, at).into_iter().collect();
        let mut facts = self.lock();
        let known = facts.bodies.entry((hook, event.clone())).or_insert_with(|| body.clone());
        if *known != body {
            problems.push(("O3", "has another body than before".to_owned()));
        }
        let receipts = facts.receipts.entry((hook, event.clone())).or_default();
        let place = receipts.len();
        receipts.push(Receipt { at, answered: None });
        facts.counts.received += 1;
        facts.counts.again += u64::from(place > 0);
        drop(facts);
        for (rule, problem) in problems {
            self.told.violation(rule, format!("{event} to {hook:?}: {problem}"));
        }
        Seen { hook, event, place }
    }

    /// It is being answered.
    pub fn answered(&self, seen: Seen, status: u16) {
        let at = now().as_millis();
        let mut facts = self.lock();
        let receipts = facts.receipts.get_mut(&(seen.hook, seen.event));
        if let Some(receipt) = receipts.and_then(|receipts| receipts.get_mut(seen.place)) {
            receipt.answered = Some((status, at));
        }
    }
}

/// What proves a delivery.
pub struct Signed {
    /// `webhook-timestamp`.
    pub time: String,
    /// `webhook-signature`.
    pub signature: String,
}

impl Signed {
    /// What is wrong with it.
    pub fn problem(&self, secret: &str, id: &str, body: &[u8], at: i64) -> Option<Problem> {
        let Signed { time, signature } = self;
        let Ok(secs) = time.parse::<i64>() else {
            return Some(("O3", format!("has the timestamp {time:?}")));
        };
        let expected = standard::sign(secret, id, Timestamp::from_secs(secs), body);
        let signed = expected.is_ok_and(|expected| signature.split(' ').any(|one| one == expected));
        if !signed {
            return Some(("O3", format!("is badly signed: {signature:?}")));
        }
        let off = at / 1000 - secs;
        (off.abs() > FRESH_S).then(|| ("O3", format!("has a timestamp that is {off} s off")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(answered: Option<(u16, i64)>, fault: Option<(i64, i64)>) -> bool {
        let faults: Vec<Fault> =
            fault.into_iter().map(|(begin, end)| Fault { begin, end }).collect();
        Receipt { at: 10_000, answered }.is_settled(Hook::Moody, &faults)
    }

    #[test]
    fn an_answer_in_time_with_no_kill_near_it_is_known_to_the_server() {
        assert!(settled(Some((200, 10_010)), None));
        assert!(settled(Some((200, 10_010)), Some((12_000, 12_100))));
        assert!(settled(Some((200, 10_010)), Some((7_000, 8_000))));
    }

    #[test]
    fn a_failure_a_late_answer_or_a_kill_near_it_leave_the_server_in_doubt() {
        assert!(!settled(None, None));
        assert!(!settled(Some((500, 10_010)), None));
        assert!(!settled(Some((200, 11_900)), None));
        assert!(!settled(Some((200, 10_010)), Some((10_500, 10_600))));
        assert!(!settled(Some((200, 10_010)), Some((9_000, 9_500))));
        assert!(!settled(Some((200, 10_010)), Some((9_000, i64::MAX))));
    }

    #[test]
    fn a_signature_is_checked_over_id_time_and_body() {
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signature = standard::sign(secret, "evt_1", Timestamp::from_secs(100), b"{}").unwrap();
        let signed = Signed { time: "100".to_owned(), signature };
        assert_eq!(signed.problem(secret, "evt_1", b"{}", 101_000), None);
        assert!(signed.problem(secret, "evt_2", b"{}", 101_000).is_some());
        assert!(signed.problem(secret, "evt_1", b"{ }", 101_000).is_some());
        assert!(signed.problem(secret, "evt_1", b"{}", 200_000).is_some());
    }
}
