//! What an agent said: a result, a reply, a cost.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use wakepost_domain::lease::Ticket;
use wakepost_domain::{budget, limits};
use wakepost_store::Result;
use wakepost_store::moves::Evidence;
use wakepost_store::vault::Slot;

use crate::context::Context;

/// An agent's answer.
#[derive(Debug, Default, PartialEq)]
pub struct Said {
    /// The result, as JSON.
    pub result: Option<String>,
    /// The text to reply with.
    pub reply: Option<String>,
    /// What it cost.
    pub cost: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    result: Option<Box<RawValue>>,
    reply: Option<String>,
    cost: Option<f64>,
}

impl Said {
    /// Reads an answer. An object with nothing but `result`, `reply` and `cost` is read as these; other
    /// JSON is the result; plain text is the reply, where the executor allows text.
    pub fn read(bytes: &[u8], text_is_reply: bool) -> Said {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim();
        if text.is_empty() {
            return Said::default();
        }
        if let Ok(fields) = serde_json::from_str::<Fields>(text) {
            return Said {
                result: fields.result.map(|result| result.get().to_owned()),
                reply: fields.reply,
                // A cost that cannot be one is no reason to throw the work away.
                cost: fields.cost.filter(|cost| budget::is_cost(*cost)),
            };
        }
        if serde_json::from_str::<Value>(text).is_ok() {
            return Said { result: Some(text.to_owned()), ..Said::default() };
        }
        match text_is_reply {
            true => Said { reply: Some(text.to_owned()), ..Said::default() },
            false => {
                Said { result: Some(Value::String(text.to_owned()).to_string()), ..Said::default() }
            }
        }
    }

    /// Whether it is small enough to keep.
    pub fn fits(&self) -> bool {
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        length(&self.result).max(length(&self.reply)) <= limits::DOCUMENT_BYTES_MAX
    }

    /// The answer, sealed.
    pub async fn evidence(self, context: &Context, ticket: &Ticket) -> Result<Evidence> {
        let key = context.vault.key(ticket.tenant).await?;
        Ok(Evidence {
            result: self.result.map(|text| key.seal(Slot::JobResult(ticket.work), text.as_bytes())),
            reply: self.reply.map(|text| key.seal(Slot::Reply(ticket.work), text.as_bytes())),
            cost: self.cost,
            detail: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_fields_as_a_result_or_as_text() {
        let read = |text: &str| Said::read(text.as_bytes(), true);
        let fields = read(r#"{"reply": "hi", "result": {"a": 1}, "cost": 2}"#);
        assert_eq!(fields.reply.as_deref(), Some("hi"));
        assert_eq!(fields.result.as_deref(), Some(r#"{"a": 1}"#));
        assert_eq!(fields.cost, Some(2.0));
        let other = read(r#"{"reply": "hi", "more": 1}"#);
        assert_eq!((other.reply, other.result.is_some()), (None, true));
        assert_eq!(read("[1]").result.as_deref(), Some("[1]"));
        assert_eq!(read("plain words\n").reply.as_deref(), Some("plain words"));
        assert_eq!(read("  "), Said::default());
        assert_eq!(Said::read(b"plain", false).result.as_deref(), Some("\"plain\""));
    }
}
