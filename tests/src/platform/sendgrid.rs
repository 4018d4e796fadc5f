//! SendGrid's API: handing in a mail.

use http::Method;
use serde_json::{Map, Value, json};

use super::call::{Call, Response};
use super::resend::is_mailbox;
use super::server::{Platform, StandIn};
use super::violations::Violations;
use crate::source::now;

/// Headers that only SendGrid itself may set.
const RESERVED_HEADERS: &[&str] = &[
    "x-sg-id",
    "x-sg-eid",
    "received",
    "dkim-signature",
    "content-type",
    "content-transfer-encoding",
    "to",
    "from",
    "subject",
    "reply-to",
    "cc",
    "bcc",
];

/// A mail that was handed in.
#[derive(Debug, Clone, PartialEq)]
pub struct SendGridMail {
    /// SendGrid's id for it.
    pub id: String,
    /// Whom it is to.
    pub to: Vec<String>,
    /// Who else gets it.
    pub cc: Vec<String>,
    /// The headers its sender set.
    pub headers: Map<String, Value>,
    /// Its text part.
    pub text: Option<String>,
    /// Its HTML part.
    pub html: Option<String>,
    /// Everything that was asked for.
    pub fields: Map<String, Value>,
}

impl SendGridMail {
    /// A header of the mail that its sender set.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        header.and_then(|(_, value)| value.as_str())
    }
}

/// One account.
pub struct SendGrid {
    api_key: String,
    sent: Vec<SendGridMail>,
}

impl SendGrid {
    /// An account with this API key.
    pub async fn start(api_key: &str) -> Platform<SendGrid> {
        let sendgrid = SendGrid { api_key: api_key.to_owned(), sent: Vec::new() };
        Platform::start(|_| sendgrid).await
    }

    /// What was handed in, in order.
    pub fn sent(&self) -> Vec<SendGridMail> {
        self.sent.clone()
    }

    fn send(&mut self, call: &Call, violations: &mut Violations) -> Result<String, Refusal> {
        if call.path != "/v3/mail/send" || call.method != Method::POST {
            return Err(Refusal::new(404, "", "not found"));
        }
        if call.bearer() != Some(&self.api_key) {
            let message = "The provided authorization grant is invalid, expired, or revoked";
            return Err(Refusal::new(401, "", message));
        }
        let fields = call.object(violations).ok_or_else(|| invalid("", "Bad Request"))?;
        let id = format!("14c5d75ce93.dfd.{:06}", self.sent.len() + 1);
        let mail = read(id.clone(), fields, violations)?;
        self.sent.push(mail);
        Ok(id)
    }
}

impl StandIn for SendGrid {
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
        match self.send(call, violations) {
            Ok(id) => Response::empty(202).with_header("x-message-id", id),
            Err(refusal) => {
                violations.note(format!("{}: {}", refusal.field, refusal.message));
                refusal.response()
            }
        }
    }

    fn broken(&self) -> Response {
        Refusal::new(500, "", "internal error").response()
    }

    /// The time to come back at, not how long that is.
    fn rate_limited(&self, retry_after_s: u32) -> Response {
        let reset = now().as_secs() + i64::from(retry_after_s);
        let refusal = Refusal::new(429, "", "too many requests").response();
        refusal.with_header("x-ratelimit-remaining", 0).with_header("x-ratelimit-reset", reset)
    }
}

/// Why a call is not done.
struct Refusal {
    status: u16,
    field: String,
    message: String,
}

impl Refusal {
    fn new(status: u16, field: &str, message: &str) -> Refusal {
        Refusal { status, field: field.to_owned(), message: message.to_owned() }
    }

    fn response(&self) -> Response {
        let field = Some(&self.field).filter(|field| !field.is_empty());
        let error = json!({"message": self.message, "field": field, "help": null});
        Response::json(self.status, json!({"errors": [error]}))
    }
}

fn invalid(field: &str, message: &str) -> Refusal {
    Refusal::new(400, field, message)
}

fn read(
    id: String,
    fields: Map<String, Value>,
    violations: &mut Violations,
) -> Result<SendGridMail, Refusal> {
    violations.only(
        "mail/send",
        &fields,
        &[
            "asm",
            "attachments",
            "batch_id",
            "categories",
            "content",
            "custom_args",
            "from",
            "headers",
            "ip_pool_name",
            "mail_settings",
            "personalizations",
            "reply_to",
            "reply_to_list",
            "send_at",
            "subject",
            "template_id",
            "tracking_settings",
        ],
    );
    let people = fields.get("personalizations").and_then(Value::as_array);
    let [person] = people.map(Vec::as_slice).unwrap_or_default() else {
        return Err(invalid("personalizations", "You must have at least one personalization."));
    };
    let person = person.as_object().cloned().unwrap_or_default();
    violations.only(
        "personalizations",
        &person,
        &[
            "bcc",
            "cc",
            "custom_args",
            "from",
            "headers",
            "send_at",
            "subject",
            "substitutions",
            "to",
        ],
    );
    let (to, cc) = (addresses(&person, "to")?, addresses(&person, "cc")?);
    if to.is_empty() {
        return Err(invalid(
            "personalizations.0.to",
            "The to array is required for all personalization objects.",
        ));
    }
    let mut all: Vec<String> = to.iter().chain(&cc).map(|address| address.to_lowercase()).collect();
    all.extend(addresses(&person, "bcc")?.iter().map(|address| address.to_lowercase()));
    all.sort();
    if all.windows(2).any(|pair| pair[0] == pair[1]) {
        let message = "Each email address in the personalization block should be unique between to, cc, and bcc.";
        return Err(invalid("personalizations", message));
    }
    let from = fields.get("from").and_then(|from| from["email"].as_str()).unwrap_or_default();
    if !is_mailbox(from) || from.contains('<') {
        return Err(invalid("from.email", "The from email does not contain a valid address."));
    }
    let subject = person.get("subject").or(fields.get("subject")).and_then(Value::as_str);
    if subject.is_none_or(str::is_empty) {
        return Err(invalid("subject", "The subject is required."));
    }
    let mut headers = headers(fields.get("headers"))?;
    headers.extend(self::headers(person.get("headers"))?);
    let [text, html] = content(&fields)?;
    Ok(SendGridMail { id, to, cc, headers, text, html, fields })
}

fn addresses(person: &Map<String, Value>, name: &str) -> Result<Vec<String>, Refusal> {
    let many = person.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let each = many.iter().map(|one| {
        let email = one["email"].as_str().filter(|email| is_mailbox(email) && !email.contains('<'));
        let message = "Does not contain a valid address.";
        let field = format!("personalizations.0.{name}.email");
        email.map(str::to_owned).ok_or_else(|| invalid(&field, message))
    });
    each.collect()
}

fn headers(headers: Option<&Value>) -> Result<Map<String, Value>, Refusal> {
    let Some(headers) = headers else {
        return Ok(Map::new());
    };
    let Some(headers) = headers.as_object() else {
        return Err(invalid("headers", "The headers must be an object."));
    };
    for (name, value) in headers {
        if RESERVED_HEADERS.contains(&name.to_lowercase().as_str()) {
            let message = format!("The header {name} is reserved and cannot be used.");
            return Err(invalid("headers", &message));
        }
        if !value.as_str().is_some_and(|line| line.is_ascii() && !line.contains(['\r', '\n'])) {
            return Err(invalid("headers", "Header values must be ASCII strings on one line."));
        }
    }
    Ok(headers.clone())
}

/// The text part and the HTML part, which must stand in this order.
fn content(fields: &Map<String, Value>) -> Result<[Option<String>; 2], Refusal> {
    let parts = fields.get("content").and_then(Value::as_array).map(Vec::as_slice);
    let parts = parts.unwrap_or_default();
    let types: Vec<&str> =
        parts.iter().map(|part| part["type"].as_str().unwrap_or_default()).collect();
    if !matches!(types[..], ["text/plain"] | ["text/html"] | ["text/plain", "text/html"]) {
        let message =
            "If present, text/plain and text/html may only be provided once, and in that order.";
        return Err(invalid("content", message));
    }
    if parts.iter().any(|part| part["value"].as_str().is_none_or(str::is_empty)) {
        return Err(invalid(
            "content.0.value",
            "The content value must be a string at least one character in length.",
        ));
    }
    let of = |kind: &str| {
        let part = parts.iter().find(|part| part["type"] == kind);
        part.and_then(|part| part["value"].as_str()).map(str::to_owned)
    };
    Ok([of("text/plain"), of("text/html")])
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, testing};
    use super::*;
    use crate::http::Answer;

    async fn post(sendgrid: &Platform<SendGrid>, key: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {key}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        testing::send(Method::POST, &sendgrid.url("/v3/mail/send"), &headers, body.to_string())
            .await
    }

    fn mail() -> Value {
        json!({
            "personalizations": [{"to": [{"email": "ada@acme.example"}]}],
            "from": {"email": "agent@corp.example", "name": "Agent"}, "subject": "Re: x",
            "headers": {"In-Reply-To": "<1@acme.example>"},
            "content": [{"type": "text/plain", "value": "a"}, {"type": "text/html", "value": "<p>a</p>"}],
        })
    }

    #[tokio::test]
    async fn a_mail_is_taken_with_an_id_and_without_a_body() {
        let sendgrid = SendGrid::start("SG.1").await;
        let answer = post(&sendgrid, "SG.1", mail()).await.is(202);
        assert!(answer.body.is_empty());
        let sent = sendgrid.with(|sendgrid| sendgrid.sent());
        assert_eq!(answer.header("x-message-id"), sent[0].id);
        assert_eq!(sent[0].header("in-reply-to"), Some("<1@acme.example>"));
        assert_eq!(
            (sent[0].text.as_deref(), sent[0].html.as_deref()),
            (Some("a"), Some("<p>a</p>"))
        );
        sendgrid.next(Fault::RateLimits { retry_after_s: 1 });
        let limited = post(&sendgrid, "SG.1", mail()).await.is(429);
        assert!(
            limited.header("x-ratelimit-reset").parse::<i64>().expect("a time")
                > now().as_secs() - 1
        );
    }

    #[tokio::test]
    async fn what_sendgrid_refuses_is_refused() {
        let sendgrid = SendGrid::start("SG.1").await;
        post(&sendgrid, "SG.2", mail()).await.is(401);
        let twice = json!([{"to": [{"email": "a@b.example"}], "cc": [{"email": "A@b.example"}]}]);
        let html_first =
            json!([{"type": "text/html", "value": "x"}, {"type": "text/plain", "value": "x"}]);
        for (name, value) in [
            ("personalizations", json!([])),
            ("personalizations", json!([{"to": [{"email": "a@b.example\r\nX: y"}]}])),
            ("personalizations", twice),
            ("from", json!({"email": "Agent <agent@corp.example>"})),
            ("subject", json!("")),
            ("headers", json!({"Reply-To": "a@b.example"})),
            ("headers", json!({"References": "<a>\r\nX: y"})),
            ("content", html_first),
        ] {
            let mut mail = mail();
            mail[name] = value;
            post(&sendgrid, "SG.1", mail).await.is(400);
        }
        sendgrid.expect_violations(&[
            "authorization",
            "at least one",
            "valid address",
            "unique",
            "from.email",
            "subject",
            "reserved",
            "one line",
            "in that order",
        ]);
        assert!(sendgrid.with(|sendgrid| sendgrid.sent().is_empty()));
    }
}
