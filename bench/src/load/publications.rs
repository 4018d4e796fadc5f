//! Events to publish: a prepared batch whose numbers are changed in place.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use serde_json::value::RawValue;
use wakepost_domain::publication::{Head, envelope};

use super::requests::{DIGITS, NUMBERED, body, digits};

/// Makes batches, each event of which has a subject of its own.
#[derive(Debug, Clone)]
pub struct Publications {
    numbers: Arc<AtomicU64>,
    batch: String,
    places: Vec<usize>,
}

impl Publications {
    /// Batches of so many events of a type. `numbers`: the next number.
    pub fn new(event_type: &str, size: usize, numbers: Arc<AtomicU64>) -> Publications {
        let one = format!("{{\"type\":\"{event_type}\",\"data\":{}}}", body());
        let batch = format!("[{}]", vec![one; size].join(","));
        let places = batch.match_indices(NUMBERED).map(|(at, _)| at + NUMBERED.len()).collect();
        Publications { numbers, batch, places }
    }

    /// The next batch, as the body of a request.
    pub fn next(&mut self) -> &str {
        for place in &self.places {
            let number = digits(self.numbers.fetch_add(1, Ordering::Relaxed));
            let text = std::str::from_utf8(&number).unwrap_or_default();
            self.batch.replace_range(*place..*place + DIGITS, text);
        }
        &self.batch
    }
}

/// What a receiver gets of such an event, in form and size.
pub fn delivered(event_type: &str) -> anyhow::Result<String> {
    let head = Head {
        id: "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().ok().context("an event's id")?,
        event_type,
        api_version: None,
        created_at: wakepost_domain::Timestamp::from_millis(0),
        livemode: true,
    };
    Ok(envelope(head, &RawValue::from_string(body())?, None))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn each_event_of_each_batch_has_its_own_number() {
        let mut publications = Publications::new("order.paid", 3, Arc::default());
        let mut ids = Vec::new();
        for _ in 0..2 {
            let batch: Vec<Value> = serde_json::from_str(publications.next()).unwrap();
            assert_eq!(batch.len(), 3);
            ids.extend(batch.iter().map(|event| event["data"]["data"]["id"].to_string()));
        }
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 6);
    }

    #[test]
    fn a_delivery_is_a_little_larger_than_what_was_published() {
        let delivery = delivered("order.paid").unwrap();
        assert!((body().len()..body().len() + 256).contains(&delivery.len()));
    }
}
