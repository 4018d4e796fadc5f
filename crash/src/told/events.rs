//! What senders were told: one event per dedup key, whatever was repeated, lost or unanswered (D1, D3, U1).

use bytes::Bytes;
use serde_json::Value;

use super::Told;
use crate::exchange::{Exchange, Said};

/// One event of a sender.
#[derive(Debug, Default)]
pub struct EventTold {
    /// What was sent, each time.
    pub body: Bytes,
    /// The ids its sender was told, event and job.
    pub ids: Option<(String, String)>,
    /// In which round the sender was told first.
    pub round: u32,
    /// From when on it was known to be there.
    known_since: Option<i64>,
    /// How often it was answered as new.
    accepted: u32,
}

impl Told {
    /// A sender is about to send an event for the first time.
    pub fn sending(&self, key: &str, body: Bytes) {
        self.lock().events.insert(key.to_owned(), EventTold { body, ..EventTold::default() });
    }

    /// A copy of it was answered, or not.
    pub fn sent(&self, key: &str, exchange: &Exchange) {
        let mut inner = self.lock();
        let (status, answer) = match &exchange.said {
            Said::Yes(status, answer) => (*status, answer),
            Said::No(status, code) => {
                return inner.violation(
                    "contract",
                    format!("{key}: a good request was refused: {status} {code}"),
                );
            }
            Said::Nothing => {
                inner.counts.unanswered += 1;
                return;
            }
        };
        let round = inner.round;
        match status {
            202 => inner.counts.accepted += 1,
            _ => inner.counts.duplicates += 1,
        }
        let Some(event) = inner.events.get_mut(key) else { return };
        let problem = event.told(status, answer, exchange, round);
        if let Some(problem) = problem {
            inner.violation("U1", format!("{key} {problem}"));
        }
    }
}

impl EventTold {
    fn told(
        &mut self,
        status: u16,
        answer: &Value,
        exchange: &Exchange,
        round: u32,
    ) -> Option<String> {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        let (ids, word) = ((text("event_id"), text("job_id")), text("status"));
        let known_before = self.known_since.is_some_and(|since| since < exchange.sent);
        let problem = match &self.ids {
            Some(first) if *first != ids => {
                Some(format!("was told two ids: {} and {}", first.0, ids.0))
            }
            _ if status == 202 && known_before => {
                Some(format!("was accepted again as {} after it had been acknowledged", ids.0))
            }
            _ if status == 202 && self.accepted > 0 => Some("was accepted twice".to_owned()),
            _ if !matches!((status, word.as_str()), (202, "accepted") | (200, "duplicate")) => {
                Some(format!("was answered {status} {word}"))
            }
            _ => None,
        };
        self.accepted += u32::from(status == 202);
        if self.ids.is_none() {
            (self.ids, self.known_since, self.round) = (Some(ids), Some(exchange.received), round);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(status: u16, word: &str, id: &str, sent: i64) -> Exchange {
        let body = json!({"status": word, "event_id": id, "job_id": "job_1"});
        Exchange { said: Said::Yes(status, body), sent, received: sent + 1 }
    }

    fn violations(answers: &[Exchange]) -> u64 {
        let told = Told::default();
        told.sending("a", Bytes::new());
        answers.iter().for_each(|answer| told.sent("a", answer));
        told.counts().violations
    }

    #[test]
    fn one_acceptance_and_any_number_of_repeats_are_fine_in_any_order() {
        let new = answer(202, "accepted", "evt_1", 1);
        let again = answer(200, "duplicate", "evt_1", 1);
        let nothing = Exchange { said: Said::Nothing, sent: 1, received: 2 };
        assert_eq!(violations(&[again.clone(), nothing, new, again.clone()]), 0);
        // Within one millisecond nobody knows which was first.
        assert_eq!(violations(&[again, answer(202, "accepted", "evt_1", 2)]), 0);
    }

    #[test]
    fn a_second_id_or_a_second_acceptance_is_noticed() {
        let new = answer(202, "accepted", "evt_1", 1);
        assert_eq!(violations(&[new.clone(), answer(200, "duplicate", "evt_2", 9)]), 1);
        assert_eq!(violations(&[new.clone(), answer(202, "accepted", "evt_1", 9)]), 1);
        assert_eq!(
            violations(&[
                answer(200, "duplicate", "evt_1", 1),
                answer(202, "accepted", "evt_1", 9)
            ]),
            1
        );
        let refused = Exchange { said: Said::No(500, "internal".to_owned()), sent: 1, received: 2 };
        assert_eq!(violations(&[new, refused]), 1);
    }
}
