//! The receivers of published events: an HTTP client that goes nowhere, and answers as its seed wants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use wakepost_crash::chance::Chance;
use wakepost_server::outbound::{
    HttpClient, OutboundAnswer, OutboundRequest, SendError, SendErrorClass, Timings,
};

use crate::time::Time;

/// A receiver's path, and an event.
type Place = (String, String);

/// What receivers saw.
#[derive(Debug, Default)]
pub struct Sightings {
    places: BTreeMap<Place, Seen>,
    requests: u64,
    changed: Vec<String>,
}

/// What a receiver saw of one event.
#[derive(Debug, Default)]
pub struct Seen {
    /// What it says, as it came first.
    pub body: Bytes,
    /// When requests came.
    pub came: Vec<Duration>,
    /// When the server was told that it was taken. An answer that got lost on its way is not among these.
    pub heard: Vec<Duration>,
}

impl Sightings {
    /// What a receiver saw of an event.
    pub fn of(&self, hook: &str, event: &str) -> Option<&Seen> {
        self.places.get(&(hook.to_owned(), event.to_owned()))
    }

    /// How many requests came.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Events whose bytes were not the same at each try (O3).
    pub fn changed(&self) -> &[String] {
        &self.changed
    }

    fn came(&mut self, place: &Place, body: &Bytes, at: Duration) {
        self.requests += 1;
        let seen = self.places.entry(place.clone()).or_default();
        if seen.came.is_empty() {
            seen.body = body.clone();
        }
        seen.came.push(at);
        if seen.body != *body {
            self.changed.push(format!("{place:?}"));
        }
    }

    fn heard(&mut self, place: Place, at: Duration) {
        self.places.entry(place).or_default().heard.push(at);
    }
}

/// How one request is answered.
enum Mood {
    Takes(StatusCode),
    Refuses(StatusCode),
    /// It takes it, and the answer gets lost.
    TakesUnheard,
    Hangs,
    Away,
}

/// All receivers.
pub struct Receiver {
    time: Arc<Time>,
    chance: Mutex<Chance>,
    is_well: AtomicBool,
    seen: Mutex<Sightings>,
}

impl Receiver {
    /// The receivers of a seed.
    pub fn new(seed: u64, time: Arc<Time>) -> Receiver {
        let chance = Mutex::new(Chance::new(seed, 2));
        Receiver { time, chance, is_well: AtomicBool::new(true), seen: Mutex::default() }
    }

    /// From now on they are well, or moody.
    pub fn switch(&self, is_well: bool) {
        self.is_well.store(is_well, Ordering::Relaxed);
    }

    /// What they saw.
    pub fn seen(&self) -> std::sync::MutexGuard<'_, Sightings> {
        self.seen.lock().expect("nobody panics while holding it")
    }

    fn mood(&self) -> (Mood, Duration) {
        let mut chance = self.chance.lock().expect("nobody panics while holding it");
        if self.is_well.load(Ordering::Relaxed) {
            return (Mood::Takes(StatusCode::OK), chance.millis(1, 50));
        }
        let mood = match chance.within(1, 100) {
            1..=70 => Mood::Takes(StatusCode::NO_CONTENT),
            71..=80 => Mood::Refuses(StatusCode::INTERNAL_SERVER_ERROR),
            81..=84 => Mood::Refuses(StatusCode::TOO_MANY_REQUESTS),
            85..=86 => Mood::Refuses(StatusCode::FOUND),
            87..=91 => Mood::TakesUnheard,
            92..=95 => Mood::Hangs,
            _ => Mood::Away,
        };
        let most = if chance.percent(10) { 9000 } else { 300 };
        (mood, chance.millis(1, most))
    }
}

#[async_trait]
impl HttpClient for Receiver {
    async fn send(&self, request: OutboundRequest) -> Result<OutboundAnswer, SendError> {
        let hook = request.target.uri().path().to_owned();
        let event = request.headers.get("webhook-id").and_then(|id| id.to_str().ok());
        let place = (hook, event.unwrap_or_default().to_owned());
        let (mood, after) = self.mood();
        self.seen().came(&place, &request.body, self.time.passed());
        tokio::time::sleep(after.min(request.timeout)).await;
        if after >= request.timeout {
            return Err(failed(SendErrorClass::Timeout));
        }
        match mood {
            Mood::Takes(status) => {
                self.seen().heard(place, self.time.passed());
                Ok(answer(status))
            }
            Mood::Refuses(status) => Ok(answer(status)),
            Mood::TakesUnheard => Err(failed(SendErrorClass::Protocol)),
            Mood::Hangs => {
                tokio::time::sleep(request.timeout - after).await;
                Err(failed(SendErrorClass::Timeout))
            }
            Mood::Away => Err(failed(SendErrorClass::Connect)),
        }
    }
}

fn answer(status: StatusCode) -> OutboundAnswer {
    OutboundAnswer {
        status,
        headers: HeaderMap::new(),
        body: Bytes::new(),
        truncated: false,
        remote: None,
        timings: Timings::default(),
    }
}

fn failed(class: SendErrorClass) -> SendError {
    let text = class.as_str().to_owned();
    SendError { class, text, operator_text: None, timings: Timings::default(), partial: None }
}
