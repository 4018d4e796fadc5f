//! One try to deliver something to somebody's webhook: signed by Standard Webhooks, sent once, and judged.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use wakepost_domain::{Timestamp, failure, limits};
use wakepost_providers::standard;

use super::client::{
    HttpClient, KeepBody, OutboundAnswer, OutboundRequest, SendError, SendErrorClass, Timings,
    Trust,
};
use super::identity::Identity;
use super::policy::AddressPolicy;
use super::retry_after;
use super::target::Target;

/// The one deadline of a try, unless a webhook says otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(15);
/// How much of an answer is kept.
pub const ANSWER_BYTES_MAX: usize = 4096;

/// What goes where. Its id and body are the same at every try; time and signature are fresh.
pub struct Delivery {
    /// Where to.
    pub url: String,
    /// Whether the operator chose the address: it may then be private.
    pub trusted: bool,
    /// What a receiver tells a repeat by.
    pub id: String,
    /// What it is signed with: once with each, so that a receiver may know any of them.
    pub secrets: Vec<String>,
    /// The trace it belongs to, and this try in it.
    pub traceparent: String,
    /// Headers of the receiver's own wish.
    pub headers: HeaderMap,
    /// A header that proves who we are, which no record shows.
    pub authorization: Option<HeaderValue>,
    /// A certificate that does.
    pub identity: Option<Arc<Identity>>,
    /// The one deadline.
    pub timeout: Duration,
    /// What it says, as JSON.
    pub body: Bytes,
}

impl Delivery {
    /// The headers that go with it at this moment.
    pub fn signed_headers(&self, now: Timestamp) -> Result<HeaderMap, String> {
        let signatures = self.secrets.iter().map(|secret| {
            standard::sign(secret, &self.id, now, &self.body).map_err(|error| error.to_string())
        });
        let signatures = signatures.collect::<Result<Vec<_>, _>>()?.join(" ");
        let time = now.as_secs().to_string();
        let mut headers = self.headers.clone();
        for (name, value) in [
            ("content-type", "application/json"),
            ("user-agent", concat!("Wakepost/", env!("CARGO_PKG_VERSION"))),
            ("webhook-id", &self.id),
            ("webhook-timestamp", &time),
            ("webhook-signature", &signatures),
            ("traceparent", &self.traceparent),
        ] {
            let value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}

/// What a try came to, and how it went.
#[derive(Debug)]
pub struct Tried {
    /// What it came to.
    pub delivered: Delivered,
    /// What was sent along, less what proves who we are.
    pub headers: HeaderMap,
    /// What the receiver answered, as far as it did.
    pub answer: Option<OutboundAnswer>,
    /// The kind of failure, if there was no whole answer.
    pub class: Option<SendErrorClass>,
    /// How long each step took.
    pub timings: Timings,
}

impl Tried {
    /// Why it was not taken, if it was not.
    pub fn error(&self) -> Option<String> {
        match &self.delivered {
            Delivered::Taken { .. } => None,
            Delivered::Failed { error, .. } => Some(error.clone()),
        }
    }
}

/// What a try came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Delivered {
    /// It was taken.
    Taken {
        /// The answer's status.
        status: StatusCode,
        /// The beginning of its body.
        body: String,
    },
    /// It was not.
    Failed {
        /// What went wrong, in words that a tenant may read.
        error: String,
        /// Whether another try makes sense.
        retryable: bool,
        /// When, if the receiver said so.
        retry_after: Option<Duration>,
        /// Whether the receiver says that it is gone for good.
        gone: bool,
    },
}

/// Tries once.
pub async fn deliver(
    client: &dyn HttpClient,
    addresses: &AddressPolicy,
    now: Timestamp,
    delivery: &Delivery,
) -> Tried {
    let (request, headers) = match request(addresses, now, delivery) {
        Ok(request) => request,
        Err(error) => {
            let delivered =
                Delivered::Failed { error, retryable: false, retry_after: None, gone: false };
            let class = Some(SendErrorClass::Refused);
            let (answer, timings) = (None, Timings::default());
            return Tried { delivered, headers: HeaderMap::new(), answer, class, timings };
        }
    };
    match client.send(request).await {
        Ok(answer) => {
            let (delivered, timings) = (judge(&answer, now), answer.timings);
            Tried { delivered, headers, answer: Some(answer), class: None, timings }
        }
        Err(error) => Tried {
            delivered: unanswered(&delivery.id, &error),
            headers,
            class: Some(error.class),
            timings: error.timings,
            answer: error.partial.map(|answer| *answer),
        },
    }
}

fn request(
    addresses: &AddressPolicy,
    now: Timestamp,
    delivery: &Delivery,
) -> Result<(OutboundRequest, HeaderMap), String> {
    let (trust, rules) = match delivery.trusted {
        true => (Trust::Trusted, &AddressPolicy::trusted()),
        false => (Trust::Guarded, addresses),
    };
    // Checked again: the operator's rules may have changed since the address was given.
    let target = Target::parse(&delivery.url, rules).map_err(|refusal| refusal.to_string())?;
    let shown = delivery.signed_headers(now)?;
    let mut headers = shown.clone();
    if let Some(value) = &delivery.authorization {
        headers.insert(header::AUTHORIZATION, value.clone());
    }
    let request = OutboundRequest {
        target,
        trust,
        identity: delivery.identity.clone(),
        method: Method::POST,
        headers,
        body: delivery.body.clone(),
        timeout: delivery.timeout,
        body_bytes_max: ANSWER_BYTES_MAX,
        keep: KeepBody::Prefix,
    };
    Ok((request, shown))
}

/// 2xx alone is success. A redirect is not followed, and would be one the next time too.
fn judge(answer: &OutboundAnswer, now: Timestamp) -> Delivered {
    let status = answer.status;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    if status.is_success() {
        return Delivered::Taken { status, body };
    }
    let retryable = is_worth_another_try(status);
    let wait = answer.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let error = failure::answered("the receiver", status.as_u16(), &body);
    Delivered::Failed {
        error: limits::truncate(&error, limits::ERROR_BYTES_MAX).to_owned(),
        retryable,
        retry_after: wait.filter(|_| retryable).and_then(|text| retry_after::parse(text, now)),
        gone: status == StatusCode::GONE,
    }
}

fn is_worth_another_try(status: StatusCode) -> bool {
    let again = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    status.is_server_error() || again.contains(&status)
}

/// No usable answer: whether it arrived is not known, and another try is harmless, since it has the same id.
fn unanswered(id: &str, error: &SendError) -> Delivered {
    if let Some(more) = &error.operator_text {
        tracing::info!(id, why = more, "an address was refused");
    }
    Delivered::Failed {
        error: format!("{}: {}", error.class.as_str(), error.text),
        retryable: error.class != SendErrorClass::Refused,
        retry_after: None,
        gone: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_that_says_nothing_is_not_quoted() {
        let silent = OutboundAnswer { body: Bytes::new(), ..answer(500, None) };
        match judge(&silent, Timestamp::from_secs(0)) {
            Delivered::Failed { error, .. } => assert_eq!(error, "the receiver answered 500"),
            taken => panic!("{taken:?}"),
        }
    }

    fn answer(status: u16, retry_after: Option<&str>) -> OutboundAnswer {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_str(text).unwrap());
        }
        OutboundAnswer {
            status: StatusCode::from_u16(status).unwrap(),
            headers,
            body: Bytes::from_static(b"because"),
            truncated: false,
            remote: None,
            timings: Timings::default(),
        }
    }

    #[test]
    fn only_2xx_is_success_and_only_some_failures_are_tried_again() {
        let now = Timestamp::from_secs(0);
        for status in [200, 201, 202, 204, 299] {
            let judged = judge(&answer(status, None), now);
            assert!(matches!(judged, Delivered::Taken { .. }), "{status}");
        }
        for (status, again) in [
            (301, false),
            (302, false),
            (307, false),
            (400, false),
            (401, false),
            (404, false),
            (408, true),
            (410, false),
            (422, false),
            (425, true),
            (429, true),
            (500, true),
            (503, true),
            (599, true),
        ] {
            match judge(&answer(status, Some("7")), now) {
                Delivered::Failed { retryable, retry_after, error, gone } => {
                    assert_eq!(gone, status == 410, "{status}");
                    assert_eq!(retryable, again, "{status}");
                    assert_eq!(retry_after, again.then_some(Duration::from_secs(7)), "{status}");
                    assert_eq!(error, format!("the receiver answered {status}: because"));
                }
                taken => panic!("{status}: {taken:?}"),
            }
        }
    }

    #[test]
    fn every_try_has_the_same_id_and_body_and_a_fresh_signature() {
        let delivery = Delivery {
            url: "https://agent.example/hook".to_owned(),
            trusted: false,
            id: "clb_1".to_owned(),
            secrets: vec!["whsec_AAAA".to_owned(), "whsec_BBBB".to_owned()],
            traceparent: "00-a-b-01".to_owned(),
            headers: HeaderMap::new(),
            authorization: Some(HeaderValue::from_static("Bearer secret")),
            identity: None,
            timeout: TIMEOUT,
            body: Bytes::from_static(b"{}"),
        };
        let at = |secs| {
            request(&AddressPolicy::default(), Timestamp::from_secs(secs), &delivery).unwrap().0
        };
        let shown =
            request(&AddressPolicy::default(), Timestamp::from_secs(1), &delivery).unwrap().1;
        assert!(!shown.contains_key("authorization"), "a record shows no secret");
        assert_eq!(at(1).headers["authorization"], "Bearer secret");
        let (first, second) = (at(1), at(2));
        assert_eq!(first.body, second.body);
        assert_eq!(first.headers["webhook-id"], second.headers["webhook-id"]);
        assert_ne!(first.headers["webhook-signature"], second.headers["webhook-signature"]);
        let signatures = first.headers["webhook-signature"].to_str().unwrap();
        assert_eq!(signatures.split(' ').count(), 2, "one with each secret");
    }

    #[test]
    fn a_tenants_address_is_guarded() {
        let mut delivery = Delivery {
            url: "http://127.0.0.1:1/".to_owned(),
            trusted: false,
            id: "clb_1".to_owned(),
            secrets: Vec::new(),
            traceparent: String::new(),
            headers: HeaderMap::new(),
            authorization: None,
            identity: None,
            timeout: TIMEOUT,
            body: Bytes::new(),
        };
        let now = Timestamp::from_secs(0);
        assert!(request(&AddressPolicy::default(), now, &delivery).is_err());
        delivery.trusted = true;
        assert!(request(&AddressPolicy::default(), now, &delivery).is_ok());
    }
}
