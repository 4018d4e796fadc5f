//! What pullers were told: one live lease at a time (L1), a stale one ends nothing (L2), and what was taken is not given
//! out again (L5).

use serde_json::Value;

use super::super::hooks::{Hook, Hooks};
use super::Record;
use super::received::Signed;
use crate::caller::{Exchange, Said};

/// What pullers know of one delivery.
#[derive(Debug, Default)]
pub struct Pulled {
    /// Its leases, as far as a puller was told of them.
    pub leases: Vec<Lease>,
    /// When a puller was told that it is taken.
    taken: Option<i64>,
    /// It may have been taken.
    pub maybe_taken: bool,
    /// It may have been refused for good.
    pub maybe_refused: bool,
}

/// One lease.
#[derive(Debug)]
pub struct Lease {
    granted: i64,
    live_until: i64,
    /// It was ended, or may have been.
    maybe_over: bool,
}

/// A puller's own view of a lease.
#[derive(Debug, Clone)]
pub struct Turn {
    /// The delivery.
    pub delivery: String,
    /// The token.
    pub token: String,
    /// Until when it was told to be live.
    pub live_until: i64,
    event: String,
    place: usize,
}

/// How a puller ends its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It took the delivery.
    Taken,
    /// It wants it later.
    Later,
    /// It does not want it.
    Never,
}

impl Pulled {
    /// Whether a puller was told that it is taken.
    pub fn was_taken(&self) -> bool {
        self.taken.is_some()
    }
}

impl Record {
    /// A puller was given a delivery.
    pub fn leased(&self, hooks: &Hooks, row: &Value, exchange: &Exchange) -> Option<Turn> {
        let text = |name: &str| row[name].as_str().map(str::to_owned);
        let (delivery, token, event) = (text("id")?, text("lease_token")?, text("event_id")?);
        let expires: jiff::Timestamp = text("lease_expires_at")?.parse().ok()?;
        let live_until = expires.as_millisecond();
        let header = |name: &str| row["headers"][name].as_str().unwrap_or_default().to_owned();
        let body = text("body")?;
        let signed =
            Signed { time: header("webhook-timestamp"), signature: header("webhook-signature") };
        let secret = hooks.secret(Hook::Pull);
        let signed = signed.problem(secret, &event, body.as_bytes(), exchange.received);
        let mut problems: Vec<_> = signed.into_iter().collect();
        if header("webhook-id") != event {
            problems.push(("O3", format!("has the id {:?}", header("webhook-id"))));
        }
        let mut facts = self.lock();
        facts.counts.pulled += 1;
        let known = facts.bodies.entry((Hook::Pull, event.clone())).or_insert(body.clone().into());
        if *known != body.as_bytes() {
            problems.push(("O3", "has another body than before".to_owned()));
        }
        let pulled = facts.pulled.entry(event.clone()).or_default();
        if pulled.taken.is_some_and(|at| at < exchange.sent) {
            problems.push(("L5", "was given out after it had been taken".to_owned()));
        }
        let lives = |old: &&Lease| !old.maybe_over && exchange.received + 1 < old.live_until;
        if pulled.leases.iter().find(lives).is_some() {
            problems.push(("L1", "was given out while another lease of it lived".to_owned()));
        }
        let place = pulled.leases.len();
        pulled.leases.push(Lease { granted: exchange.received, live_until, maybe_over: false });
        drop(facts);
        for (rule, problem) in problems {
            self.told.violation(rule, format!("{delivery} of {event} {problem}"));
        }
        Some(Turn { delivery, token, live_until, event, place })
    }

    /// A puller is about to end its turn.
    pub fn ending(&self, turn: &Turn, end: End) {
        if let Some(pulled) = self.lock().pulled.get_mut(&turn.event) {
            pulled.maybe_taken |= end == End::Taken;
            pulled.maybe_refused |= end == End::Never;
            if let Some(lease) = pulled.leases.get_mut(turn.place) {
                lease.maybe_over = true;
            }
        }
    }

    /// What that came to. Whether there was an answer.
    pub fn ended(&self, turn: &Turn, end: End, exchange: &Exchange) -> bool {
        let problem = match &exchange.said {
            Said::Nothing => return false,
            Said::No(409, _) => None,
            Said::No(status, code) => {
                Some(("contract", format!("its {end:?} was refused: {status} {code}")))
            }
            Said::Yes(..) => {
                let mut facts = self.lock();
                let pulled = facts.pulled.entry(turn.event.clone()).or_default();
                if end == End::Taken {
                    pulled.taken.get_or_insert(exchange.received);
                }
                let later = &pulled.leases[turn.place + 1..];
                let late = exchange.sent > turn.live_until + 1;
                let stale = later.iter().any(|lease| lease.granted < exchange.sent);
                (late || stale).then(|| ("L2", format!("its {end:?} came too late and was done")))
            }
        };
        if let Some((rule, problem)) = problem {
            self.told.violation(rule, format!("{}: {problem}", turn.delivery));
        }
        true
    }
}
