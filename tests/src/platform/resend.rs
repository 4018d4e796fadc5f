//! Resend's API: sending a mail, once for each idempotency key.

use std::collections::HashMap;

use bytes::Bytes;
use http::Method;
use serde_json::{Map, Value, json};

use super::call::{Call, Response};
use super::server::{Platform, StandIn};
use super::violations::Violations;

/// The longest idempotency key.
const KEY_CHARACTERS_MAX: usize = 256;

/// The most receivers of one mail.
const RECEIVERS_MAX: usize = 50;

/// A mail that was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct ResendEmail {
    /// Its id.
    pub id: String,
    /// The key it was sent under.
    pub key: Option<String>,
    /// What was asked for: `from`, `to`, `subject`, `text`, `html`, `headers` and so on.
    pub fields: Map<String, Value>,
}

impl ResendEmail {
    /// A header of the mail that its sender set.
    pub fn header(&self, name: &str) -> Option<&str> {
        let headers = self.fields.get("headers")?.as_object()?;
        let header = headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        header.and_then(|(_, value)| value.as_str())
    }
}

/// One account.
pub struct Resend {
    api_key: String,
    sent: Vec<ResendEmail>,
    /// What each key was used for.
    keys: HashMap<String, (Bytes, String)>,
}

impl Resend {
    /// An account with this API key.
    pub async fn start(api_key: &str) -> Platform<Resend> {
        let resend = Resend { api_key: api_key.to_owned(), sent: Vec::new(), keys: HashMap::new() };
        Platform::start(|_| resend).await
    }

    /// What was sent, in order.
    pub fn sent(&self) -> Vec<ResendEmail> {
        self.sent.clone()
    }

    fn send(&mut self, call: &Call, violations: &mut Violations) -> Result<String, Refusal> {
        self.admit(call)?;
        let key = call.headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        if let Some(key) = key {
            if key.is_empty() || key.len() > KEY_CHARACTERS_MAX {
                let message = "The key must be between 1-256 chars.";
                return Err(Refusal::new(400, "invalid_idempotency_key", message));
            }
            if let Some((body, id)) = self.keys.get(key) {
                if *body == call.body {
                    return Ok(id.clone());
                }
                let message = "Same idempotency key used with a different request payload.";
                return Err(Refusal::new(409, "invalid_idempotent_request", message));
            }
        }
        let unreadable = || Refusal::new(422, "validation_error", "The request body must be JSON.");
        let fields = call.object(violations).ok_or_else(unreadable)?;
        check(&fields, violations)?;
        let id = format!("49a3999c-0ce1-4ea6-ab68-{:012}", self.sent.len() + 1);
        if let Some(key) = key {
            self.keys.insert(key.to_owned(), (call.body.clone(), id.clone()));
        }
        self.sent.push(ResendEmail { id: id.clone(), key: key.map(str::to_owned), fields });
        Ok(id)
    }

    fn admit(&self, call: &Call) -> Result<(), Refusal> {
        if call.path != "/emails" || call.method != Method::POST {
            return Err(Refusal::new(404, "not_found", "The requested endpoint does not exist."));
        }
        // A firewall before the API turns such requests away.
        if call.header("user-agent").is_empty() {
            return Err(Refusal::new(403, "1010", "A call without a User-Agent."));
        }
        match call.bearer() {
            None => Err(Refusal::new(401, "missing_api_key", "Missing API Key")),
            Some(key) if key != self.api_key => {
                Err(Refusal::new(403, "invalid_api_key", "API key is invalid"))
            }
            Some(_) => Ok(()),
        }
    }
}

impl StandIn for Resend {
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
        match self.send(call, violations) {
            Ok(id) => Response::json(200, json!({"id": id})),
            Err(refusal) => {
                violations.note(refusal.message.clone());
                refusal.response()
            }
        }
    }

    fn broken(&self) -> Response {
        Refusal::new(500, "application_error", "An unexpected error occurred.").response()
    }

    fn rate_limited(&self, retry_after_s: u32) -> Response {
        let message = "Too many requests. You can only make 2 requests per second.";
        let refusal = Refusal::new(429, "rate_limit_exceeded", message);
        refusal.response().with_header("retry-after", retry_after_s)
    }
}

/// Why a call is not done.
struct Refusal {
    status: u16,
    name: &'static str,
    message: String,
}

impl Refusal {
    fn new(status: u16, name: &'static str, message: &str) -> Refusal {
        Refusal { status, name, message: message.to_owned() }
    }

    fn response(&self) -> Response {
        let body = json!({"statusCode": self.status, "name": self.name, "message": self.message});
        Response::json(self.status, body)
    }
}

fn check(fields: &Map<String, Value>, violations: &mut Violations) -> Result<(), Refusal> {
    violations.only(
        "emails",
        fields,
        &[
            "attachments",
            "bcc",
            "cc",
            "from",
            "headers",
            "html",
            "reply_to",
            "scheduled_at",
            "subject",
            "tags",
            "template",
            "text",
            "to",
            "topic_id",
        ],
    );
    for name in ["from", "to", "subject"] {
        if fields.get(name).is_none_or(Value::is_null) {
            let message = format!("Missing `{name}` field.");
            return Err(Refusal::new(422, "missing_required_field", &message));
        }
    }
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("text").is_empty() && text("html").is_empty() {
        let message = "Missing `html` or `text` field.";
        return Err(Refusal::new(422, "missing_required_field", message));
    }
    if !is_mailbox(text("from")) {
        return Err(Refusal::new(422, "invalid_from_address", "Invalid `from` field."));
    }
    for name in ["to", "cc", "bcc", "reply_to"] {
        let receivers = match fields.get(name) {
            None => continue,
            Some(Value::Array(many)) => many.iter().map(Value::as_str).collect(),
            Some(one) => vec![one.as_str()],
        };
        let fits = receivers.iter().all(|receiver| receiver.is_some_and(is_mailbox));
        let needed = name == "to" && receivers.is_empty();
        if !fits || needed || receivers.len() > RECEIVERS_MAX {
            let message = format!("Invalid `{name}` field.");
            return Err(Refusal::new(422, "validation_error", &message));
        }
    }
    check_headers(fields.get("headers"))
}

fn check_headers(headers: Option<&Value>) -> Result<(), Refusal> {
    let Some(headers) = headers else {
        return Ok(());
    };
    let is_line = |value: &Value| value.as_str().is_some_and(|line| !line.contains(['\r', '\n']));
    match headers.as_object().is_some_and(|headers| headers.values().all(is_line)) {
        true => Ok(()),
        false => Err(Refusal::new(422, "validation_error", "Invalid `headers` field.")),
    }
}

/// An address, alone or as `Name <address>`.
pub(super) fn is_mailbox(text: &str) -> bool {
    let address = match text.rsplit_once('<') {
        None => text,
        Some((_, rest)) => match rest.trim_end().strip_suffix('>') {
            None => return false,
            Some(address) => address,
        },
    };
    let parts = address.split_once('@');
    let is_plain =
        |text: &str| !text.is_empty() && !text.contains([' ', '\r', '\n', '<', '>', ',', '@']);
    !text.contains(['\r', '\n'])
        && parts.is_some_and(|(local, domain)| is_plain(local) && is_plain(domain))
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, testing};
    use super::*;
    use crate::http::Answer;

    async fn post(
        resend: &Platform<Resend>,
        key: &str,
        idempotency_key: &str,
        body: Value,
    ) -> Answer {
        let bearer = format!("Bearer {key}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("user-agent", "test"),
            ("idempotency-key", idempotency_key),
        ];
        testing::send(Method::POST, &resend.url("/emails"), &headers, body.to_string()).await
    }

    fn mail(text: &str) -> Value {
        json!({"from": "Agent <a@corp.example>", "to": ["ada@acme.example"], "subject": "Re: x", "text": text})
    }

    #[tokio::test]
    async fn a_key_sends_one_mail_and_no_other() {
        let resend = Resend::start("re_1").await;
        let first = post(&resend, "re_1", "k", mail("a")).await.is(200).text("id");
        assert_eq!(post(&resend, "re_1", "k", mail("a")).await.is(200).text("id"), first);
        let other = post(&resend, "re_1", "k", mail("b")).await.is(409).text("name");
        assert_eq!(other, "invalid_idempotent_request");
        resend.expect_violations(&["different request payload"]);
        assert_ne!(post(&resend, "re_1", "l", mail("a")).await.is(200).text("id"), first);
        assert_eq!(resend.with(|resend| resend.sent().len()), 2);
    }

    #[tokio::test]
    async fn what_resend_refuses_is_refused() {
        let resend = Resend::start("re_1").await;
        post(&resend, "re_2", "k", mail("a")).await.is(403);
        post(&resend, "re_1", &"k".repeat(257), mail("a")).await.is(400);
        let with = |name: &str, value: Value| {
            let mut mail = mail("a");
            mail[name] = value;
            mail
        };
        for (name, value) in [
            ("to", json!(null)),
            ("text", json!("")),
            ("from", json!("nobody")),
            ("to", json!(["a@b.example\r\nBcc: c@d.example"])),
            ("headers", json!({"In-Reply-To": "<a>\r\nX: y"})),
        ] {
            post(&resend, "re_1", "k", with(name, value)).await.is(422);
        }
        post(&resend, "re_1", "k", with("body", json!("x"))).await.is(200);
        testing::send(Method::POST, &resend.url("/emails"), &[], "").await.is(403);
        resend.expect_violations(&[
            "invalid",
            "1-256",
            "Missing `to`",
            "`html` or `text`",
            "`from`",
            "`to`",
            "`headers`",
            "no field body",
            "User-Agent",
        ]);
        resend.next(Fault::RateLimits { retry_after_s: 1 });
        let limited = post(&resend, "re_1", "k", mail("a")).await.is(429);
        assert_eq!(
            (limited.header("retry-after"), limited.text("name")),
            ("1", "rate_limit_exceeded".to_owned())
        );
    }
}
