//! Providers, as they send: really signed.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Entropy;
use wakepost_providers::{
    Provider, Request, Sample, SecretNeed, Settings, SignedRequest, examples, registry,
};

use crate::api::Api;
use crate::program::random_text;

/// The time now.
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.expect("a time after 1970").as_millis();
    Timestamp::from_millis(i64::try_from(ms).expect("a time this side of the end"))
}

struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("random bytes");
    }
}

/// A source and what its sender knows.
#[derive(Clone)]
pub struct Source {
    /// Its id.
    pub id: String,
    /// What the API answered when it was made.
    pub made: Value,
    provider: &'static dyn Provider,
    secret: String,
    verifies: String,
    settings: Settings,
}

/// What a sender says, before it is signed.
#[derive(Debug, Clone)]
pub struct Event {
    /// The sender's own id for it.
    pub id: String,
    /// The body.
    pub body: Vec<u8>,
    /// Headers besides the signature.
    pub headers: Vec<(String, String)>,
}

impl Event {
    /// The same event with another body.
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Event {
        self.body = body.into();
        self
    }

    /// The same event with one header more.
    pub fn with_header(mut self, name: &str, value: &str) -> Event {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl Source {
    pub(crate) async fn create(api: &Api, provider: &str, fields: Value) -> Source {
        let known = registry::find(provider).expect("a provider of this build");
        let mut body = json!({"provider": provider});
        let mut settings = examples(known.settings());
        let keys = known.sample_keys(&settings, &SystemEntropy);
        // Some make their secrets themselves; the others' are made by Wakepost.
        if known.facts().secret != SecretNeed::Generated {
            body["secret"] = keys.verifies.clone().into();
        }
        match provider {
            "stripe" => body["secret"] = format!("whsec_{}", random_text(32)).into(),
            _ if !settings.is_empty() && provider != "generic" => {
                body["settings"] = std::mem::take(&mut settings).into();
            }
            "generic" => {
                body["settings"] = json!({
                    "header": "X-Signature", "prefix": "sha256=",
                    "timestamp_header": "X-Timestamp", "content": "{timestamp}.{body}",
                    "id_pointer": "/id", "type_pointer": "/type",
                })
            }
            _ => {}
        }
        // No test asks the real one for a mail.
        if provider == "email-resend" {
            body["settings"]["api_url"] = "http://127.0.0.1:1".into();
        }
        for (name, value) in fields.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let made = api.post("/sources", body.clone()).await.is(201).json();
        let given = body["secret"].as_str();
        let secret = match given == Some(&keys.verifies) {
            true => Some(keys.signs.as_str()),
            false => made["secret"].as_str().or(given),
        };
        Source {
            id: made["id"].as_str().expect("an id").to_owned(),
            provider: known,
            verifies: made["secret"].as_str().or(given).unwrap_or_default().to_owned(),
            secret: secret.unwrap_or_default().to_owned(),
            settings: body["settings"].as_object().cloned().unwrap_or_default(),
            made,
        }
    }

    /// A source that was made long ago, from what [`Source::told`] said of it then.
    pub fn known(told: &Value) -> Source {
        let text = |name: &str| told[name].as_str().expect("a text").to_owned();
        let made = told["made"].clone();
        let provider = made["provider"].as_str().expect("a provider");
        Source {
            id: made["id"].as_str().expect("an id").to_owned(),
            provider: registry::find(provider).expect("a provider of this build"),
            secret: text("secret"),
            verifies: text("verifies"),
            settings: told["settings"].as_object().expect("settings").clone(),
            made,
        }
    }

    /// All that its sender knows.
    pub fn told(&self) -> Value {
        json!({"made": self.made, "secret": self.secret, "verifies": self.verifies,
            "settings": self.settings})
    }

    /// What requests are signed with.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// What requests are verified with: another key where the scheme has a public one.
    pub fn verifies(&self) -> &str {
        &self.verifies
    }

    /// The same sender with another secret.
    pub fn with_secret(&self, secret: &str) -> Source {
        Source { secret: secret.to_owned(), ..self.clone() }
    }

    /// An everyday event of this sender. Its body differs from that of every other id.
    pub fn event(&self, id: &str) -> Event {
        let (body, headers) = match self.provider.name() {
            "github" => (
                json!({"action": "opened", "issue": {"number": 7, "title": id},
                    "repository": {"full_name": "acme/shop"}, "sender": {"id": 1, "login": "ada"}}),
                vec![("X-GitHub-Event", "issues")],
            ),
            "stripe" => (
                json!({"id": id, "type": "invoice.paid", "created": now().as_secs(),
                    "data": {"object": {"object": "invoice", "id": format!("in_{id}")}}}),
                vec![],
            ),
            _ => (json!({"id": id, "type": "user.created", "data": {"name": id}}), vec![]),
        };
        let headers = headers.into_iter();
        Event {
            id: id.to_owned(),
            body: body.to_string().into_bytes(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        }
    }

    /// A realistic request of this sender, signed at a time; with `None`, its first sample.
    pub fn sample_at(&self, event_type: Option<&str>, id: &str, at: Timestamp) -> SignedRequest {
        let samples = self.provider.samples();
        let sample = match event_type {
            None => samples.first(),
            Some(name) => samples.iter().find(|sample| sample.event_type == name),
        };
        self.request(sample.expect("a sample"), id, at, at)
    }

    /// A realistic request about what happened at a time, signed now: however often it is asked for, the id and
    /// the body are the same, as in a vendor's redelivery.
    pub fn delivery(&self, id: &str, happened: Timestamp) -> SignedRequest {
        let sample = self.provider.samples().first();
        self.request(sample.expect("a sample"), id, happened, now())
    }

    /// What the adapter tells this request by.
    pub fn dedup_key(&self, request: &SignedRequest) -> String {
        let asked = Request {
            method: &request.method,
            url: &request.url,
            headers: &request.headers,
            body: &request.body,
            fetched: None,
        };
        let mapped = self.provider.map(&asked, &self.settings).expect("a request it understands");
        mapped.into_iter().find_map(|mapped| mapped.dedup_key).expect("a dedup key")
    }

    /// A realistic request of this sender, signed now.
    pub fn sample(&self, id: &str) -> SignedRequest {
        self.sample_at(None, id, now())
    }

    /// The adapter of its provider.
    pub fn provider(&self) -> &'static dyn Provider {
        self.provider
    }

    /// The adapter's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn address(&self) -> String {
        self.made["ingest_url"].as_str().expect("an address").to_owned()
    }

    fn request(
        &self,
        sample: &Sample,
        id: &str,
        happened: Timestamp,
        signed: Timestamp,
    ) -> SignedRequest {
        let mut request = sample.request(&self.address(), id, happened);
        self.add_signature(&mut request, id, signed);
        request
    }

    /// What is signed is the whole address; what is sent goes to its path.
    fn add_signature(&self, request: &mut SignedRequest, id: &str, at: Timestamp) {
        self.provider.sign(request, &self.secret, &self.settings, id, at).expect("a signature");
        request.url = format!("/in/{}", self.id);
    }

    /// A request that was sent before, as its vendor sends it again: the same words, signed now.
    pub fn sign_again(&self, request: &SignedRequest, id: &str) -> SignedRequest {
        let mut request = SignedRequest { url: self.address(), ..request.clone() };
        self.add_signature(&mut request, id, now());
        request
    }

    /// The request that says it, signed now.
    pub fn sign(&self, event: &Event) -> SignedRequest {
        self.sign_at(event, now())
    }

    /// The request that says it, signed at a time.
    pub fn sign_at(&self, event: &Event, at: Timestamp) -> SignedRequest {
        let mut request = SignedRequest::post(self.address(), event.body.clone());
        for (name, value) in &event.headers {
            request.set(name, value).expect("a header");
        }
        self.add_signature(&mut request, &event.id, at);
        request
    }
}

/// A request as JSON can hold it.
pub fn told_request(request: &SignedRequest) -> Value {
    let headers: BTreeMap<&str, &str> = request
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().expect("a plain header")))
        .collect();
    json!({"method": request.method.as_str(), "headers": headers,
        "body": String::from_utf8(request.body.clone()).expect("text")})
}

/// The request that [`told_request`] told of.
pub fn known_request(told: &Value) -> SignedRequest {
    let headers = told["headers"].as_object().expect("headers").iter().map(|(name, value)| {
        let value = value.as_str().expect("a header");
        let name = HeaderName::try_from(name.as_str()).expect("a name");
        (name, HeaderValue::from_str(value).expect("a value"))
    });
    SignedRequest {
        method: Method::try_from(told["method"].as_str().expect("a method")).expect("a method"),
        url: String::new(),
        headers: headers.collect(),
        body: told["body"].as_str().expect("a body").as_bytes().to_vec(),
    }
}
