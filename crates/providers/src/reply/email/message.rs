//! The mail that answers: who gets it, what ties it to the conversation, and how it is written.

use aws_lc_rs::digest;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::Address as Written;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::raw::Raw;
use wakepost_domain::Timestamp;

use super::super::{ReplyError, markdown};
use super::received::Received;
use crate::mail::Address;

/// What is longer is cut, as are longer lists: nobody needs more to see the thread.
const SUBJECT_CHARS_MAX: usize = 400;
const REFERENCES_MAX: usize = 20;
const RECEIVERS_MAX: usize = 50;
const KEY_BYTES_MAX: usize = 120;

/// A mail, ready to be sent in any way.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) from: Address,
    pub(super) to: Vec<Address>,
    pub(super) cc: Vec<Address>,
    pub(super) subject: String,
    /// Without brackets, as are the others.
    pub(super) message_id: String,
    pub(super) in_reply_to: Option<String>,
    pub(super) references: Vec<String>,
    pub(super) text: String,
    pub(super) html: String,
}

impl Answer {
    /// The answer to a mail; `own` are the agent's addresses.
    pub(super) fn to(
        received: Received,
        from: Address,
        own: &[String],
        key: &str,
        text: &str,
    ) -> Result<Answer, ReplyError> {
        let is_own = |one: &Address| one.is_one_of(own);
        let wanted = if received.reply_to.is_empty() { &received.from } else { &received.reply_to };
        let to = others(wanted.iter(), |one| !is_own(one));
        if to.is_empty() {
            return Err(ReplyError::unanswerable(
                "it came from the agent's own address, or from none",
            ));
        }
        // Who only copied the agent in wants the others to read the answer too; who wrote to it does not.
        let is_copied = received.cc.iter().any(is_own) && !received.to.iter().any(is_own);
        let everybody = received.to.iter().chain(&received.cc).filter(|_| is_copied);
        let is_listed = |one: &Address| to.iter().any(|to| to.address == one.address);
        let cc = others(everybody, |one| !is_own(one) && !is_listed(one));
        let html = markdown::to_html(text);
        let is_id =
            |id: &String| id.bytes().all(|b| b.is_ascii_graphic() && b != b'<' && b != b'>');
        let answered = received.message_id.filter(is_id);
        let known = received.references.into_iter().filter(is_id).collect();
        Ok(Answer {
            subject: subject(&received.subject),
            message_id: format!("{}@{}", id_of(key), from.domain()),
            references: references(known, answered.clone()),
            in_reply_to: answered,
            text: text.to_owned(),
            html: format!(
                "<!doctype html>\n<html><head><meta charset=\"utf-8\"></head><body>\n{html}</body></html>\n"
            ),
            from: Address { name: from.name.as_deref().map(clean), ..from },
            to,
            cc,
        })
    }

    /// What ties it to the conversation, and says that a machine wrote it: names and values.
    pub(super) fn threading(&self) -> Vec<(&'static str, String)> {
        let mut headers = vec![
            ("Message-ID", format!("<{}>", self.message_id)),
            ("Auto-Submitted", "auto-replied".to_owned()),
        ];
        if let Some(id) = &self.in_reply_to {
            headers.push(("In-Reply-To", format!("<{id}>")));
        }
        if !self.references.is_empty() {
            let ids: Vec<_> = self.references.iter().map(|id| format!("<{id}>")).collect();
            headers.push(("References", ids.join(" ")));
        }
        headers
    }

    /// The mail as a mail server takes it.
    pub(super) fn write(&self, now: Timestamp) -> Vec<u8> {
        let written = |one: &Address| Written::new_address(one.name.clone(), one.address.clone());
        let list = |all: &[Address]| Written::new_list(all.iter().map(written).collect());
        let mut mail = MessageBuilder::new()
            .date(now.as_secs())
            .from(written(&self.from))
            .to(list(&self.to))
            .subject(self.subject.as_str())
            .message_id(self.message_id.as_str())
            .header("Auto-Submitted", Raw::new("auto-replied"));
        if !self.cc.is_empty() {
            mail = mail.cc(list(&self.cc));
        }
        if let Some(id) = &self.in_reply_to {
            mail = mail.in_reply_to(id.as_str());
        }
        if !self.references.is_empty() {
            mail = mail.references(MessageId::new_list(self.references.iter().map(String::as_str)));
        }
        let mut bytes = Vec::new();
        mail.text_body(self.text.as_str()).html_body(self.html.as_str()).serialize(&mut bytes);
        bytes
    }
}

/// Some addresses, each once, with names that can stand in a header.
fn others<'r>(
    all: impl Iterator<Item = &'r Address>,
    keep: impl Fn(&Address) -> bool,
) -> Vec<Address> {
    let mut kept: Vec<Address> = Vec::new();
    for one in all.filter(|one| keep(one)) {
        if kept.len() < RECEIVERS_MAX && kept.iter().all(|known| known.address != one.address) {
            let name = one.name.as_deref().map(clean);
            kept.push(Address { name, address: one.address.clone() });
        }
    }
    kept
}

/// Without anything that could end a header and begin another.
pub(super) fn clean(text: &str) -> String {
    let one_line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    one_line.trim().to_owned()
}

/// The subject with one `Re:` before it.
fn subject(received: &str) -> String {
    let subject: String = clean(received).chars().take(SUBJECT_CHARS_MAX).collect();
    let is_answer = subject.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("re:"));
    if is_answer { subject } else { format!("Re: {subject}").trim_end().to_owned() }
}

/// The conversation so far: its first mail, which names it, and its last ones.
fn references(mut known: Vec<String>, answered: Option<String>) -> Vec<String> {
    known.retain(|id| Some(id) != answered.as_ref());
    known.extend(answered);
    if known.len() > REFERENCES_MAX {
        known.drain(1..known.len() - REFERENCES_MAX + 1);
    }
    known
}

/// The key as the left side of a Message-ID; its hash where it has characters that cannot stand there.
fn id_of(key: &str) -> String {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'=');
    match (1..=KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(is_plain) {
        true => key.to_owned(),
        false => hex::encode(digest::digest(&digest::SHA256, key.as_bytes())),
    }
}
