//! WhatsApp's Cloud API, by Meta's Graph: sending a text.

use http::Method;
use serde_json::{Map, Value, json};

use super::call::{Call, Response};
use super::server::{Platform, StandIn};
use super::violations::Violations;

/// The longest body of a text.
const BODY_CHARACTERS_MAX: usize = 4096;

/// A message that was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatsAppMessage {
    /// Its id.
    pub id: String,
    /// Whom it is to.
    pub to: String,
    /// What it says.
    pub body: String,
    /// The message it answers.
    pub answers: Option<String>,
}

/// One business phone number.
pub struct WhatsApp {
    access_token: String,
    phone_number_id: String,
    received: Vec<String>,
    sent: Vec<WhatsAppMessage>,
}

impl WhatsApp {
    /// A phone number, and the token that may send from it.
    pub async fn start(access_token: &str, phone_number_id: &str) -> Platform<WhatsApp> {
        let whatsapp = WhatsApp {
            access_token: access_token.to_owned(),
            phone_number_id: phone_number_id.to_owned(),
            received: Vec::new(),
            sent: Vec::new(),
        };
        Platform::start(|_| whatsapp).await
    }

    /// Somebody wrote a message with this id.
    pub fn hears(&mut self, message_id: &str) {
        self.received.push(message_id.to_owned());
    }

    /// What was sent, in order.
    pub fn said(&self) -> Vec<WhatsAppMessage> {
        self.sent.clone()
    }

    fn send(
        &mut self,
        fields: &Map<String, Value>,
        violations: &mut Violations,
    ) -> Result<Value, Refusal> {
        violations.only(
            "messages",
            fields,
            &[
                "biz_opaque_callback_data",
                "context",
                "messaging_product",
                "recipient_type",
                "text",
                "to",
                "type",
            ],
        );
        let field = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
        if field("messaging_product") != "whatsapp" {
            return Err(invalid("(#100) The parameter messaging_product is required."));
        }
        let to = field("to");
        if to.is_empty() {
            return Err(invalid("(#100) The parameter to is required."));
        }
        if !to.trim_start_matches('+').bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid("(#100) Invalid parameter"));
        }
        if !matches!(field("recipient_type"), "" | "individual") {
            return Err(invalid("(#100) Param recipient_type must be one of {INDIVIDUAL}"));
        }
        // Without a type it would be a text as well; that is luck, not intent.
        if field("type") != "text" {
            violations.note(format!("messages of the type {:?}", field("type")));
        }
        let text = fields.get("text").and_then(Value::as_object);
        let text = text.ok_or_else(|| invalid("(#100) The parameter text is required."))?;
        violations.only("text", text, &["body", "preview_url"]);
        let body = text.get("body").and_then(Value::as_str).unwrap_or_default();
        if body.is_empty() {
            return Err(invalid("(#100) The parameter text['body'] is required."));
        }
        if body.chars().count() > BODY_CHARACTERS_MAX {
            return Err(invalid("(#100) Param text['body'] must be at most 4096 characters long."));
        }
        let answers = match fields.get("context") {
            None => None,
            Some(context) => {
                let id = context["message_id"].as_str().unwrap_or_default();
                if !self.received.iter().any(|received| received == id) {
                    return Err(invalid("(#131009) Parameter value is not valid"));
                }
                Some(id.to_owned())
            }
        };
        let id = format!("wamid.HBgL{:06}", self.sent.len() + 1);
        let (to, body) = (to.to_owned(), body.to_owned());
        let wa_id = to.trim_start_matches('+');
        let answer = json!({
            "messaging_product": "whatsapp",
            "contacts": [{"input": to, "wa_id": wa_id}],
            "messages": [{"id": id}],
        });
        self.sent.push(WhatsAppMessage { id, to, body, answers });
        Ok(answer)
    }
}

impl StandIn for WhatsApp {
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
        let answer = match call.segments()[..] {
            [version, number, "messages"] if call.method == Method::POST => {
                if !is_version(version) {
                    violations.note(format!("{version} is no version of the Graph API"));
                }
                if call.bearer() != Some(&self.access_token) {
                    Err(Refusal::new(
                        401,
                        190,
                        "Invalid OAuth access token - Cannot parse access token",
                    ))
                } else if number != self.phone_number_id {
                    Err(invalid(&format!(
                        "Unsupported post request. Object with ID '{number}' does not exist, cannot be loaded due to \
                         missing permissions, or does not support this operation"
                    )))
                } else {
                    match call.object(violations) {
                        Some(fields) => self.send(&fields, violations),
                        None => Err(invalid("(#100) The parameter messaging_product is required.")),
                    }
                }
            }
            _ => Err(Refusal::new(404, 2500, "Unknown path components")),
        };
        match answer {
            Ok(answer) => Response::json(200, answer),
            Err(refusal) => {
                violations.note(refusal.message.clone());
                refusal.response()
            }
        }
    }

    fn broken(&self) -> Response {
        Refusal::new(500, 131_000, "(#131000) Something went wrong").response()
    }

    /// Graph does not say how long to wait.
    fn rate_limited(&self, _: u32) -> Response {
        Refusal::new(429, 130_429, "(#130429) Rate limit hit").response()
    }
}

/// Why a call is not done.
struct Refusal {
    status: u16,
    code: u32,
    message: String,
}

impl Refusal {
    fn new(status: u16, code: u32, message: &str) -> Refusal {
        Refusal { status, code, message: message.to_owned() }
    }

    fn response(&self) -> Response {
        let error = json!({
            "message": self.message, "type": "OAuthException", "code": self.code, "fbtrace_id": "Az8or2yhqkZfEZ",
        });
        Response::json(self.status, json!({"error": error}))
    }
}

fn invalid(message: &str) -> Refusal {
    Refusal::new(400, 100, message)
}

/// Such as `v23.0`.
fn is_version(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts = text.strip_prefix('v').and_then(|number| number.split_once('.'));
    parts.is_some_and(|(major, minor)| digits(major) && digits(minor))
}

#[cfg(test)]
mod tests {
    use super::super::{Fault, testing};
    use super::*;
    use crate::http::Answer;

    async fn post(whatsapp: &Platform<WhatsApp>, path: &str, token: &str, body: Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        testing::send(Method::POST, &whatsapp.url(path), &headers, body.to_string()).await
    }

    fn text(body: &str) -> Value {
        json!({"messaging_product": "whatsapp", "to": "4915550001234", "type": "text", "text": {"body": body}})
    }

    #[tokio::test]
    async fn a_text_is_sent_as_an_answer() {
        let whatsapp = WhatsApp::start("t", "106").await;
        whatsapp.with(|whatsapp| whatsapp.hears("wamid.1"));
        let mut message = text("Hi");
        message["context"] = json!({"message_id": "wamid.1"});
        let answer = post(&whatsapp, "/v23.0/106/messages", "t", message).await.is(200).json();
        let said = whatsapp.with(|whatsapp| whatsapp.said());
        assert_eq!(answer["messages"][0]["id"], said[0].id);
        assert_eq!((said[0].body.as_str(), said[0].answers.as_deref()), ("Hi", Some("wamid.1")));
        whatsapp.next(Fault::RateLimits { retry_after_s: 1 });
        let limited = post(&whatsapp, "/v23.0/106/messages", "t", text("x")).await.is(429).json();
        assert_eq!(limited["error"]["code"], 130_429);
    }

    #[tokio::test]
    async fn what_graph_refuses_is_refused() {
        let whatsapp = WhatsApp::start("t", "106").await;
        let path = "/v23.0/106/messages";
        post(&whatsapp, path, "other", text("x")).await.is(401);
        post(&whatsapp, "/v23.0/107/messages", "t", text("x")).await.is(400);
        post(&whatsapp, path, "t", text(&"é".repeat(4097))).await.is(400);
        post(&whatsapp, path, "t", text("")).await.is(400);
        post(&whatsapp, path, "t", json!({"to": "1", "type": "text", "text": {"body": "x"}}))
            .await
            .is(400);
        let mut lost = text("x");
        lost["context"] = json!({"message_id": "wamid.9"});
        post(&whatsapp, path, "t", lost).await.is(400);
        let mut odd = text("x");
        odd["thread"] = json!(1);
        post(&whatsapp, "/latest/106/messages", "t", odd).await.is(200);
        whatsapp.expect_violations(&[
            "access token",
            "'107'",
            "4096",
            "text['body'] is required",
            "messaging_product",
            "not valid",
            "no version",
            "no field thread",
        ]);
        assert_eq!(whatsapp.with(|whatsapp| whatsapp.said().len()), 1);
    }
}
