//! A sender: signed events, some of them several times at once or again later, above all those without an answer.

use futures_util::future::join_all;
use serde_json::Value;
use wakepost_crash::chance::Chance;
use wakepost_crash::exchange::Said;
use wakepost_domain::ports::Clock;
use wakepost_providers::{SignedRequest, registry};

use super::{Desk, Phase};

/// Events of one sender.
const EVENTS_MAX: u64 = 25;
/// How often what got no answer is repeated in the end before it is left.
const LAST_TRIES: u32 = 3;

/// A source as its sender knows it.
#[derive(Clone)]
pub struct Source {
    id: String,
    secret: String,
}

impl Source {
    /// From what the API answered when it was made.
    pub fn made(answer: &Value) -> Source {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        Source { id: text("id"), secret: text("secret") }
    }
}

/// One event of the sender.
#[derive(Clone)]
struct Event {
    id: String,
    source: usize,
    body: String,
}

/// A sender.
pub struct Sender {
    desk: Desk,
    chance: Chance,
    number: u64,
    sources: Vec<Source>,
    made: u64,
    known: Vec<Event>,
    unanswered: Vec<Event>,
}

impl Sender {
    /// A sender for these sources.
    pub fn new(desk: Desk, chance: Chance, number: u64, sources: Vec<Source>) -> Sender {
        let (known, unanswered) = (Vec::new(), Vec::new());
        Sender { desk, chance, number, sources, made: 0, known, unanswered }
    }

    /// Sends until faults have stopped, and then what got no answer.
    pub async fn run(mut self) {
        while self.desk.phase() == Phase::Load {
            self.one().await;
            let most = if self.chance.percent(10) { 30_000 } else { 2000 };
            self.desk.nap(&mut self.chance, 1, most).await;
        }
        for _ in 0..LAST_TRIES {
            for event in std::mem::take(&mut self.unanswered) {
                if self.chance.percent(80) {
                    self.send(event, 1).await;
                }
            }
        }
    }

    async fn one(&mut self) {
        let (event, copies) = match self.chance.within(1, 100) {
            1..=25 if !self.unanswered.is_empty() => (self.unanswered.pop(), 1),
            1..=35 => (self.chance.pick(&self.known).cloned(), 1),
            36..=50 => (self.make(), self.chance.within(2, 4)),
            _ => (self.make(), 1),
        };
        if let Some(event) = event {
            self.send(event, copies).await;
        }
    }

    /// An event nobody has sent.
    fn make(&mut self) -> Option<Event> {
        if self.made >= EVENTS_MAX {
            return None;
        }
        self.made += 1;
        let id = format!("evt-{}-{}", self.number, self.made);
        let source = usize::from(self.chance.percent(30)) % self.sources.len();
        let text = "aé\\u00e9 7".repeat(self.chance.within(0, 60) as usize);
        let body = format!(
            "{{ \"id\":\"{id}\",\"type\" :  \"thing.done\",\"data\":{{\"text\":\"{text}\"}}}}"
        );
        self.desk.told.sending(&id, body.clone().into());
        Some(Event { id, source, body })
    }

    async fn send(&mut self, event: Event, copies: u64) {
        let source = &self.sources[event.source];
        let path = format!("/in/{}", source.id);
        let now = self.desk.world.time.now();
        let mut request = SignedRequest {
            method: http::Method::POST,
            url: format!("https://hooks.example{path}"),
            headers: http::HeaderMap::new(),
            body: event.body.clone().into_bytes(),
        };
        let provider = registry::find("standard-webhooks").expect("a provider of this build");
        let settings = serde_json::Map::new();
        let signed = provider.sign(&mut request, &source.secret, &settings, &event.id, now);
        signed.expect("the secret is one of the server's");
        let sending = (0..copies).map(|_| {
            let (desk, path, request) = (self.desk.clone(), path.clone(), request.clone());
            async move { desk.send(&path, request.headers, request.body).await }
        });
        let answers = join_all(sending).await;
        for answer in &answers {
            self.desk.told.sent(&event.id, answer);
        }
        match answers.iter().all(|answer| matches!(answer.said, Said::Nothing)) {
            true => self.unanswered.push(event),
            false => self.known.push(event),
        }
    }
}
