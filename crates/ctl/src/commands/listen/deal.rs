//! One event that arrived: fetched whole, and passed on.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use wakepost_client::{Arrived, Client, Error, Forwarder, HeaderLine};

const EVENT_ID: HeaderName = HeaderName::from_static("wakepost-event-id");

/// Fetches events and passes them on.
#[derive(Clone)]
pub struct Dealer {
    client: Client,
    forwarder: Option<Forwarder>,
    wants_body: bool,
}

/// What became of an event here.
pub struct Dealt {
    /// The event.
    pub arrived: Arrived,
    /// Its body, where that is to be shown.
    pub body: Option<Bytes>,
    /// What came of passing it on; `None` if it was not to be.
    pub passed: Option<Passed>,
    /// Why there is no body to show.
    pub missing: Option<String>,
}

/// What the local program answered.
pub struct Passed {
    /// The status, or why there is none.
    pub status: Result<u16, String>,
    /// How long it took.
    pub took: Duration,
}

impl Dealt {
    /// Whether it was passed on and answered with 2xx.
    pub fn is_well(&self) -> Option<bool> {
        let passed = self.passed.as_ref()?;
        Some(matches!(passed.status, Ok(200..300)))
    }
}

impl Dealer {
    pub fn new(client: Client, forwarder: Option<Forwarder>, wants_body: bool) -> Dealer {
        Dealer { client, forwarder, wants_body }
    }

    /// Deals with one event. Whatever goes wrong is told of, and is no end.
    pub fn deal(&self, arrived: Arrived) -> impl Future<Output = Dealt> + use<> {
        let dealer = self.clone();
        async move {
            let mut dealt = Dealt { arrived, body: None, passed: None, missing: None };
            if dealer.forwarder.is_none() && !dealer.wants_body {
                return dealt;
            }
            match dealer.client.get_event_raw(&dealt.arrived.id).await {
                Ok(body) => dealer.pass(&mut dealt, body).await,
                Err(error) => dealer.fail(&mut dealt, &error),
            }
            dealt
        }
    }

    fn fail(&self, dealt: &mut Dealt, error: &Error) {
        let why = format!("not fetched: {error}");
        match &self.forwarder {
            Some(_) => dealt.passed = Some(Passed { status: Err(why), took: Duration::ZERO }),
            None => dealt.missing = Some(why),
        }
    }

    async fn pass(&self, dealt: &mut Dealt, body: Bytes) {
        dealt.body = self.wants_body.then(|| body.clone());
        let Some(forwarder) = &self.forwarder else {
            return;
        };
        let headers = match self.client.get_event_headers(&dealt.arrived.id).await {
            Ok(fetched) => headers(&dealt.arrived.id, fetched.headers),
            Err(error) => return self.fail(dealt, &error),
        };
        let begun = Instant::now();
        let status = forwarder.forward(headers, body).await.map_err(|error| match error {
            Error::Unreachable { reason, .. } => reason,
            other => other.to_string(),
        });
        dealt.passed = Some(Passed { status, took: begun.elapsed() });
    }
}

/// As they came, in their order; one that no request can carry is left out.
fn headers(id: &str, lines: Vec<HeaderLine>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for HeaderLine { name, value } in lines {
        let name = HeaderName::from_bytes(name.as_bytes());
        let value = HeaderValue::from_bytes(value.as_bytes());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(EVENT_ID, id);
    }
    headers
}
