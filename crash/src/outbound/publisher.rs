//! A publisher: events one by one and in batches, each with a dedup key; what got no answer is published again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};

use super::Office;
use super::hooks::TYPES;
use crate::caller::Said;
use crate::chance::Chance;
use crate::clients::Phase;

/// Deliveries that may wait before publishers do: the load never outgrows the receivers.
const WAITING_MAX: usize = 600;
/// Calls that a publisher remembers to repeat.
const REMEMBERED_MAX: usize = 100;
const UNANSWERED_PAUSE: Duration = Duration::from_millis(20);
/// How often what got no answer is repeated in the end before it is left.
const LAST_TRIES: u32 = 3;

/// A publisher.
pub struct Publisher {
    office: Office,
    chance: Chance,
    number: u64,
    made: u64,
    known: Vec<Call>,
    unanswered: Vec<Call>,
}

/// One call, the same at every try.
#[derive(Clone)]
struct Call {
    keys: Vec<String>,
    body: Value,
}

impl Publisher {
    /// A publisher with a number.
    pub fn new(office: Office, chance: Chance, number: u64) -> Publisher {
        Publisher { office, chance, number, made: 0, known: Vec::new(), unanswered: Vec::new() }
    }

    /// Publishes until faults have stopped.
    pub async fn run(mut self) {
        while self.office.desk.phase() == Phase::Load {
            self.one().await;
            let pause = self.chance.millis(5, 60);
            tokio::time::sleep(pause).await;
            while self.office.waiting.load(Ordering::Relaxed) > WAITING_MAX
                && self.office.desk.phase() == Phase::Load
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        self.repeat_unanswered().await;
    }

    async fn one(&mut self) {
        let call = match self.chance.within(1, 100) {
            1..=20 if !self.unanswered.is_empty() => self.unanswered.pop(),
            21..=30 => self.chance.pick(&self.known).cloned(),
            31..=45 => Some(self.make_many()),
            _ => Some(self.make_one()),
        };
        if let Some(call) = call {
            self.publish(call).await;
        }
    }

    fn make_one(&mut self) -> Call {
        let (key, body) = self.event();
        Call { keys: vec![key], body }
    }

    fn make_many(&mut self) -> Call {
        let count = self.chance.within(2, 20);
        let (keys, events): (_, Vec<Value>) = (0..count).map(|_| self.event()).unzip();
        Call { keys, body: Value::Array(events) }
    }

    /// An event nobody has published: letters beyond ASCII, sometimes much of it, now and then so much that subscribers
    /// only get a link.
    fn event(&mut self) -> (String, Value) {
        self.made += 1;
        let key = format!("pub-{}-{}", self.number, self.made);
        let event_type = *self.chance.pick(&TYPES).unwrap_or(&TYPES[0]);
        let length = match self.chance.within(1, 200) {
            1 => self.chance.within(70_000, 90_000),
            2..=6 => self.chance.within(10_000, 40_000),
            _ => self.chance.within(0, 600),
        };
        let text: String = (0..length / 2)
            .map(|_| *self.chance.pick(&['a', 'é', '\t', 'z', '"']).unwrap_or(&'-'))
            .collect();
        let data = json!({"key": key, "number": self.made, "text": text});
        self.office.record.publishing(&key, event_type, data.clone());
        let body = json!({"type": event_type, "data": data, "dedup_key": key});
        (key, body)
    }

    async fn publish(&mut self, call: Call) {
        let office = self.office.clone();
        let exchange = office.desk.caller.post(&mut self.chance, "/events", &call.body).await;
        office.record.published(&call.keys, &exchange);
        if matches!(exchange.said, Said::Nothing) {
            self.unanswered.push(call);
            tokio::time::sleep(UNANSWERED_PAUSE).await;
        } else if self.known.len() < REMEMBERED_MAX {
            self.known.push(call);
        } else {
            let place = self.chance.within(0, REMEMBERED_MAX as u64 - 1);
            self.known[usize::try_from(place).unwrap_or(0)] = call;
        }
    }

    /// Most of what got no answer is published again; the rest may be there or not, but not twice.
    async fn repeat_unanswered(&mut self) {
        for _ in 0..LAST_TRIES {
            for call in std::mem::take(&mut self.unanswered) {
                if self.chance.percent(80) {
                    self.publish(call).await;
                }
            }
        }
    }
}
