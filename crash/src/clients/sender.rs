//! A sender: signed events, some of them several times at once or again later, above all those without an
//! answer.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use wakepost_tests::{Event, Source};

use super::{Desk, Phase};
use crate::caller::Said;
use crate::chance::Chance;

/// Jobs that may wait before senders do: the load never outgrows the workers.
const WAITING_MAX: usize = 200;
/// Events that a sender remembers to repeat.
const REMEMBERED_MAX: usize = 300;
/// How long a sender waits after it got no answer.
const UNANSWERED_PAUSE: Duration = Duration::from_millis(20);
/// How often what got no answer is repeated in the end before it is left.
const LAST_TRIES: u32 = 3;

/// A sender.
pub struct Sender {
    desk: Desk,
    sources: Vec<Source>,
    chance: Chance,
    number: u64,
    made: u64,
    known: Vec<(usize, Event)>,
    unanswered: Vec<(usize, Event)>,
}

impl Sender {
    /// A sender for these sources.
    pub fn new(desk: Desk, sources: Vec<Source>, chance: Chance, number: u64) -> Sender {
        let (known, unanswered) = (Vec::new(), Vec::new());
        Sender { desk, sources, chance, number, made: 0, known, unanswered }
    }

    /// Sends in bursts until faults have stopped.
    pub async fn run(mut self) {
        while self.desk.phase() == Phase::Load {
            for _ in 0..self.chance.within(1, 20) {
                self.one().await;
            }
            let pause = self.chance.millis(20, 120);
            tokio::time::sleep(pause).await;
            while self.desk.waiting.load(Ordering::Relaxed) > WAITING_MAX
                && self.desk.phase() == Phase::Load
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        self.repeat_unanswered().await;
    }

    async fn one(&mut self) {
        match self.chance.within(1, 100) {
            1..=15 if !self.unanswered.is_empty() => {
                if let Some((source, event)) = self.unanswered.pop() {
                    self.send(source, event, 1).await;
                }
            }
            1..=22 => {
                if let Some((source, event)) = self.chance.pick(&self.known).cloned() {
                    self.send(source, event, 1).await;
                }
            }
            23..=35 => {
                let (source, event) = self.make();
                let copies = self.chance.within(2, 4);
                self.send(source, event, copies).await;
            }
            _ => {
                let (source, event) = self.make();
                self.send(source, event, 1).await;
            }
        }
    }

    /// An event nobody has sent. Its body holds what must come back byte by byte: odd spacing, letters beyond
    /// ASCII, sometimes much of it.
    fn make(&mut self) -> (usize, Event) {
        self.made += 1;
        let id = format!("evt-{}-{}", self.number, self.made);
        let source = usize::from(self.chance.percent(30)) % self.sources.len();
        let length = match self.chance.within(1, 100) {
            1..=3 => self.chance.within(20_000, 120_000),
            _ => self.chance.within(0, 700),
        };
        let filling: String = (0..length / 2)
            .map(|_| *self.chance.pick(&['a', 'é', '\t', 'z', '7']).unwrap_or(&'-'))
            .collect();
        let filling = filling.replace('\t', " \\u00e9");
        let body = format!(
            "{{ \"id\":\"{id}\",\"type\" :  \"thing.done\",\"data\":{{\"text\":\"{filling}\"}}}}"
        );
        let event = self.sources[source].event(&id).with_body(body);
        self.desk.told.sending(&id, Bytes::from(event.body.clone()));
        (source, event)
    }

    async fn send(&mut self, source: usize, event: Event, copies: u64) {
        let request = self.sources[source].sign(&event);
        let sending = (0..copies).map(|_| {
            let (desk, request) = (self.desk.clone(), request.clone());
            let mut chance = self.chance.split();
            async move {
                let body = Bytes::from(request.body);
                desk.caller.send(&mut chance, &request.url, request.headers, body).await
            }
        });
        let answers = join_all(sending).await;
        for answer in &answers {
            self.desk.told.sent(&event.id, answer);
        }
        if answers.iter().all(|answer| matches!(answer.said, Said::Nothing)) {
            self.unanswered.push((source, event));
            tokio::time::sleep(UNANSWERED_PAUSE).await;
        } else if self.known.len() < REMEMBERED_MAX {
            self.known.push((source, event));
        } else {
            let place = self.chance.within(0, REMEMBERED_MAX as u64 - 1);
            self.known[usize::try_from(place).unwrap_or(0)] = (source, event);
        }
    }

    /// Most of what got no answer is sent again; the rest may be there or not, but not twice.
    async fn repeat_unanswered(&mut self) {
        for _ in 0..LAST_TRIES {
            for (source, event) in std::mem::take(&mut self.unanswered) {
                if self.chance.percent(80) {
                    self.send(source, event, 1).await;
                }
            }
        }
    }
}
