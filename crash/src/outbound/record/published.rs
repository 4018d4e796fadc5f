//! What publishers were told: one event per dedup key, whatever was repeated, lost or unanswered (D1, U1).

use serde_json::Value;

use super::super::hooks::Hook;
use super::{Facts, Record};
use crate::caller::{Exchange, Said};
use crate::told::Problem;

/// One event of a publisher.
#[derive(Debug)]
pub struct Publication {
    /// Its type.
    pub event_type: &'static str,
    /// What it says.
    pub data: Value,
    /// The id that its publisher was told.
    pub id: Option<String>,
    /// From when on it was known to be there.
    known_since: i64,
    /// How often it was answered as new.
    accepted: u32,
}

impl Record {
    /// A publisher is about to publish an event for the first time.
    pub fn publishing(&self, key: &str, event_type: &'static str, data: Value) {
        let mut facts = self.lock();
        for hook in Hook::ALL.into_iter().filter(|hook| hook.wants(event_type)) {
            facts.expected.entry(hook).or_default().asked += 1;
        }
        let made = Publication { event_type, data, id: None, known_since: 0, accepted: 0 };
        facts.publications.insert(key.to_owned(), made);
    }

    /// A call that published these was answered, or not.
    pub fn published(&self, keys: &[String], exchange: &Exchange) {
        let mut facts = self.lock();
        let problems = match &exchange.said {
            Said::Nothing => {
                facts.counts.unanswered += 1;
                Vec::new()
            }
            Said::No(status, code) => {
                vec![("contract", format!("{keys:?}: refused: {status} {code}"))]
            }
            Said::Yes(_, answer) => {
                let alone = std::slice::from_ref(answer);
                let rows = answer["data"].as_array().map_or(alone, Vec::as_slice);
                facts.answered(keys, rows, exchange)
            }
        };
        problems.into_iter().for_each(|(rule, problem)| self.told.violation(rule, problem));
    }
}

impl Facts {
    fn answered(&mut self, keys: &[String], rows: &[Value], exchange: &Exchange) -> Vec<Problem> {
        if rows.len() != keys.len() {
            let problem = format!("{keys:?}: {} events were answered", rows.len());
            return vec![("contract", problem)];
        }
        let mut problems = Vec::new();
        for (key, row) in keys.iter().zip(rows) {
            let Some(publication) = self.publications.get_mut(key) else { continue };
            let known = publication.id.is_some();
            let problem = publication.told(row, exchange);
            problems.extend(problem.map(|(rule, what)| (rule, format!("{key} {what}"))));
            let event_type = publication.event_type;
            self.counts.duplicates += u64::from(row["status"] == "duplicate");
            if !known {
                self.counts.acknowledged += 1;
                for hook in Hook::ALL.into_iter().filter(|hook| hook.wants(event_type)) {
                    self.expected.entry(hook).or_default().known += 1;
                }
            }
        }
        problems
    }
}

impl Publication {
    fn told(&mut self, row: &Value, exchange: &Exchange) -> Option<Problem> {
        let id = row["id"].as_str().unwrap_or_default();
        let status = row["status"].as_str().unwrap_or_default();
        let new = status == "accepted";
        let wanted = Hook::ALL.iter().filter(|hook| hook.wants(self.event_type)).count();
        let problem = match &self.id {
            Some(first) if first != id => {
                Some(("U1", format!("was told two ids: {first} and {id}")))
            }
            Some(_) if new && self.known_since < exchange.sent => {
                Some(("U1", format!("was accepted again as {id} after it had been acknowledged")))
            }
            _ if new && self.accepted > 0 => Some(("U1", "was accepted twice".to_owned())),
            _ if new && row["deliveries"].as_u64() != Some(wanted as u64) => {
                let made = &row["deliveries"];
                Some(("O1", format!("goes to {made} webhooks in place of {wanted}")))
            }
            _ if !new && status != "duplicate" => {
                Some(("contract", format!("was answered {status}")))
            }
            _ => None,
        };
        self.accepted += u32::from(new);
        if self.id.is_none() {
            (self.id, self.known_since) = (Some(id.to_owned()), exchange.received);
        }
        problem
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::told::Told;

    fn violations(answers: &[(&str, &str, i64)]) -> u64 {
        let told = Arc::new(Told::default());
        let record = Record::new(told.clone());
        record.publishing("a", "order.paid", json!({}));
        for (id, status, sent) in answers {
            let body = json!({"id": id, "status": status, "deliveries": 4});
            let said = Said::Yes(202, body);
            let exchange = Exchange { said, sent: *sent, received: sent + 1 };
            record.published(&["a".to_owned()], &exchange);
        }
        told.counts().violations
    }

    #[test]
    fn one_acceptance_and_any_number_of_repeats_are_fine_in_any_order() {
        assert_eq!(violations(&[("evt_1", "duplicate", 1), ("evt_1", "accepted", 1)]), 0);
        assert_eq!(violations(&[("evt_1", "accepted", 1), ("evt_1", "duplicate", 5)]), 0);
    }

    #[test]
    fn a_second_id_or_a_second_acceptance_is_noticed() {
        assert_eq!(violations(&[("evt_1", "accepted", 1), ("evt_2", "duplicate", 5)]), 1);
        assert_eq!(violations(&[("evt_1", "accepted", 1), ("evt_1", "accepted", 5)]), 1);
        assert_eq!(violations(&[("evt_1", "duplicate", 1), ("evt_1", "accepted", 5)]), 1);
    }
}
