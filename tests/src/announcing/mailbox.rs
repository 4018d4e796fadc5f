//! Resend, as far as receiving mail goes: a mailbox.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::receiver::{Receiver, Reply, Seen};

const KEY: &str = "re_stand_in";

/// The stand-in.
pub struct Mailbox {
    receiver: Receiver,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    mails: HashMap<String, Value>,
    failing: Option<Reply>,
    asked: usize,
}

impl Mailbox {
    /// Starts it, without any mail.
    pub async fn start() -> Mailbox {
        let state: Arc<Mutex<State>> = Arc::default();
        let shared = state.clone();
        let answer = move |seen: &Seen| shared.lock().expect("the state").answer(seen);
        Mailbox { receiver: Receiver::start(answer).await, state }
    }

    /// What a source needs to know.
    pub fn settings(&self) -> Value {
        json!({"api_key": KEY, "address": "agent@acme.example", "api_url": self.receiver.url("")})
    }

    /// A mail from Ada, which can be fetched from now on; what its webhook says of it.
    pub fn receive(&self, id: &str, text: &str, headers: Value) -> Value {
        let (from, to) = ("Ada <ada@corp.example>", ["agent@acme.example"]);
        let mail = json!({"object": "email", "id": id, "from": from, "to": to, "cc": [], "bcc": [],
            "subject": "Rocket", "message_id": format!("<{id}@corp.example>"), "text": text,
            "html": null, "headers": headers, "attachments": []});
        self.state.lock().expect("the state").mails.insert(id.to_owned(), mail);
        Mailbox::announcement(id)
    }

    /// What the webhook of a mail says.
    pub fn announcement(id: &str) -> Value {
        json!({"type": "email.received", "created_at": "2026-11-16T10:00:00.000Z", "data": {
            "email_id": id, "from": "Ada <ada@corp.example>", "to": ["agent@acme.example"],
            "cc": [], "bcc": [], "message_id": format!("<{id}@corp.example>"),
            "subject": "Rocket", "attachments": []}})
    }

    /// Answers everything like this from now on; with `None`, as it should.
    pub fn fail(&self, reply: Option<Reply>) {
        self.state.lock().expect("the state").failing = reply;
    }

    /// How often it was asked for anything.
    pub fn asked(&self) -> usize {
        self.state.lock().expect("the state").asked
    }
}

impl State {
    fn answer(&mut self, seen: &Seen) -> Reply {
        self.asked += 1;
        if let Some(reply) = &self.failing {
            return reply.clone();
        }
        let key = seen.headers.get("authorization").and_then(|value| value.to_str().ok());
        if key != Some(&format!("Bearer {KEY}")) {
            return Reply::new(401, json!({"statusCode": 401, "message": "API key is invalid"}));
        }
        let id = seen.path.strip_prefix("/emails/receiving/").unwrap_or_default();
        match self.mails.get(id).filter(|_| seen.method == "GET") {
            Some(mail) => Reply::new(200, mail),
            None => Reply::new(404, json!({"statusCode": 404, "message": "Email not found"})),
        }
    }
}
