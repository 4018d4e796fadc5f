//! Google Drive, as far as channels, changes and comments go.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;

use crate::receiver::{Receiver, Reply, Seen};
use crate::source::now;

const ADDRESS: &str = "agent@acme.iam.gserviceaccount.com";
const SCOPE: &str = "https://www.googleapis.com/auth/drive.readonly";

/// The stand-in.
pub struct Drive {
    receiver: Receiver,
    state: Arc<Mutex<State>>,
    private_key: String,
}

struct State {
    public_key: Vec<u8>,
    token_url: String,
    tokens: usize,
    /// The files that changed, in their order.
    changes: Vec<Value>,
    /// Comments with the id of their file.
    comments: Vec<(String, Value)>,
    channels: Vec<Channel>,
    /// How long channels live, each in turn; the last for all that follow.
    lifetimes: Vec<Duration>,
    failing: Option<Reply>,
}

/// A channel that was opened.
#[derive(Debug, Clone)]
pub struct Channel {
    /// What it was opened with.
    pub asked: Value,
    /// What its first message was answered, which comes before it is open.
    pub greeted: u16,
    /// How often it was ended.
    pub stopped: usize,
    pushed: u32,
}

impl Drive {
    /// Starts it, without any document.
    pub async fn start() -> Drive {
        let pair = KeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = pair.as_der().expect("a key");
        let private_key = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            STANDARD.encode(der.as_ref())
        );
        let state = Arc::new(Mutex::new(State {
            public_key: pair.public_key().as_ref().to_vec(),
            token_url: String::new(),
            tokens: 0,
            changes: Vec::new(),
            comments: Vec::new(),
            channels: Vec::new(),
            lifetimes: vec![Duration::from_secs(24 * 3600)],
            failing: None,
        }));
        let shared = state.clone();
        let receiver = Receiver::start(move |seen: &Seen| State::answer(&shared, seen)).await;
        state.lock().expect("the state").token_url = receiver.url("/token");
        Drive { receiver, state, private_key }
    }

    /// What a source needs to know.
    pub fn settings(&self) -> Value {
        let account = json!({"type": "service_account", "client_email": ADDRESS,
            "private_key": self.private_key, "token_uri": self.receiver.url("/token")});
        json!({"service_account": account.to_string(), "mention": "@agent",
            "api_url": self.receiver.url("")})
    }

    /// How long the channels live that are opened from now on, each in turn; the last for all that follow.
    pub fn channels_live(&self, lifetimes: &[Duration]) {
        self.state().lifetimes = lifetimes.to_vec();
    }

    /// Answers everything like this from now on; with `None`, as it should.
    pub fn fail(&self, reply: Option<Reply>) {
        self.state().failing = reply;
    }

    /// The channels that were opened so far.
    pub fn channels(&self) -> Vec<Channel> {
        self.state().channels.clone()
    }

    /// Somebody, by name or the agent itself, comments on a document.
    pub fn comment(&self, file: &str, id: &str, author: &str, content: &str) {
        let comment = said(id, author, content);
        self.state().comments.push((file.to_owned(), comment));
        self.change(file);
    }

    /// Somebody replies to a comment.
    pub fn reply(&self, comment: &str, id: &str, author: &str, content: &str) {
        let file = self.with_comment(comment, |found| {
            let reply = said(id, author, content);
            found["modifiedTime"] = reply["modifiedTime"].clone();
            found["replies"].as_array_mut().expect("replies").push(reply);
        });
        self.change(&file);
    }

    /// Somebody resolves a comment.
    pub fn resolve(&self, comment: &str) {
        let file = self.with_comment(comment, |found| found["resolved"] = json!(true));
        self.change(&file);
    }

    /// Somebody writes in a document.
    pub fn change(&self, file: &str) {
        self.state().changes.push(json!({"id": file, "name": format!("Document {file}"),
            "mimeType": "application/vnd.google-apps.document",
            "webViewLink": format!("https://docs.google.com/document/d/{file}/edit")}));
    }

    /// Tells all open channels that something changed; what each was answered.
    pub async fn push(&self) -> Vec<u16> {
        let count = self.state().channels.len();
        let mut answers = Vec::new();
        for index in 0..count {
            if self.state().channels[index].stopped == 0 {
                answers.push(self.push_through(index).await);
            }
        }
        answers
    }

    /// Tells one channel that something changed.
    pub async fn push_through(&self, index: usize) -> u16 {
        let (asked, number) = {
            let mut state = self.state();
            let channel = &mut state.channels[index];
            channel.pushed += 1;
            (channel.asked.clone(), channel.pushed + 1)
        };
        let push = move || post(&asked, "change", number).expect("the gateway answers");
        tokio::task::spawn_blocking(push).await.expect("no panic")
    }

    /// The gateway is at another address since it was started again.
    pub fn moved(&self, from: &str, to: &str) {
        for channel in &mut self.state().channels {
            let address = channel.asked["address"].as_str().unwrap_or_default();
            channel.asked["address"] = address.replace(from, to).into();
        }
    }

    fn with_comment(&self, id: &str, change: impl FnOnce(&mut Value)) -> String {
        let mut state = self.state();
        let found = state.comments.iter_mut().find(|(_, comment)| comment["id"] == id);
        let (file, comment) = found.expect("the comment");
        change(comment);
        file.clone()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("the state")
    }
}

fn said(id: &str, author: &str, content: &str) -> Value {
    let author = match author {
        "agent" => json!({"displayName": "agent", "me": true}),
        name => json!({"displayName": name, "me": false,
            "emailAddress": format!("{}@acme.example", name.to_lowercase())}),
    };
    json!({"id": id, "content": content, "author": author, "createdTime": now(),
        "modifiedTime": now(), "resolved": false, "deleted": false, "replies": []})
}

/// A push as Google sends it: without a body.
fn post(asked: &Value, state: &str, number: u32) -> std::io::Result<u16> {
    let text = |name: &str| asked[name].as_str().unwrap_or_default().to_owned();
    let address = text("address");
    let rest = address.strip_prefix("http://").expect("an address of a test");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host)?;
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nHost: {host}\r\nX-Goog-Channel-ID: {}\r\nX-Goog-Channel-Token: {}\r\n\
         X-Goog-Message-Number: {number}\r\nX-Goog-Resource-State: {state}\r\n\
         X-Goog-Resource-ID: all-changes\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        text("id"),
        text("token"),
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0))
}

impl State {
    fn answer(shared: &Arc<Mutex<State>>, seen: &Seen) -> Reply {
        let mut state = shared.lock().expect("the state");
        if let Some(reply) = &state.failing {
            return reply.clone();
        }
        let query = |name: &str| {
            let mut pairs = form_urlencoded::parse(seen.query.as_bytes());
            pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
        };
        if seen.path == "/token" {
            return state.token(seen);
        }
        let token = seen.headers.get("authorization").and_then(|value| value.to_str().ok());
        if state.tokens == 0 || token != Some("Bearer ya29.stand-in") {
            return refusal(401, "Request had invalid authentication credentials.");
        }
        match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", "/drive/v3/changes/startPageToken") => {
                Reply::new(200, json!({"startPageToken": state.changes.len().to_string()}))
            }
            ("POST", "/drive/v3/changes/watch") if query("pageToken").is_some() => {
                let asked = seen.json();
                // Google greets a new channel before it says that there is one.
                let greeting = asked.clone();
                drop(state);
                let greeted = std::thread::spawn(move || post(&greeting, "sync", 1))
                    .join()
                    .expect("no panic")
                    .unwrap_or(0);
                shared.lock().expect("the state").watch(asked, greeted)
            }
            ("POST", "/drive/v3/channels/stop") => state.stop(&seen.json()),
            ("GET", "/drive/v3/changes") => {
                let from = query("pageToken").and_then(|token| token.parse().ok());
                let size = query("pageSize").and_then(|size| size.parse().ok()).unwrap_or(100);
                state.list_changes(from, size)
            }
            ("GET", path) => {
                let file = path.strip_prefix("/drive/v3/files/");
                let file = file.and_then(|rest| rest.strip_suffix("/comments"));
                let since = query("startModifiedTime").and_then(|time| time.parse().ok());
                match (file, query("fields")) {
                    (Some(file), Some(_)) => state.list_comments(file, since),
                    (Some(_), None) => refusal(400, "The 'fields' parameter is required."),
                    (None, _) => refusal(404, "Not found."),
                }
            }
            _ => refusal(404, "Not found."),
        }
    }

    /// Checks who asks, by the signature, and what for.
    fn token(&mut self, seen: &Seen) -> Reply {
        let fields: Vec<(String, String)> =
            form_urlencoded::parse(&seen.body).into_owned().collect();
        let field = |name: &str| {
            fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
        };
        let assertion = field("assertion").unwrap_or_default();
        let (signed, signature) = assertion.rsplit_once('.').unwrap_or_default();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        let key = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, &self.public_key);
        let claims = signed.split_once('.').map(|(_, claims)| claims).unwrap_or_default();
        let claims = URL_SAFE_NO_PAD.decode(claims).unwrap_or_default();
        let claims: Value = serde_json::from_slice(&claims).unwrap_or_default();
        let is_now = claims["iat"].as_i64().is_some_and(|at| (at - now().as_secs()).abs() < 300);
        let is_good = field("grant_type") == Some("urn:ietf:params:oauth:grant-type:jwt-bearer")
            && key.verify(signed.as_bytes(), &signature).is_ok()
            && claims["iss"] == ADDRESS
            && claims["aud"] == self.token_url
            && claims["scope"] == SCOPE
            && is_now;
        if !is_good {
            let why = json!({"error": "invalid_grant", "error_description": "Invalid JWT."});
            return Reply::new(400, why);
        }
        self.tokens += 1;
        Reply::new(200, json!({"access_token": "ya29.stand-in", "expires_in": 3599}))
    }

    fn watch(&mut self, asked: Value, greeted: u16) -> Reply {
        let lifetime = match self.lifetimes.len() {
            1 => self.lifetimes[0],
            _ => self.lifetimes.remove(0),
        };
        let wanted: Option<i64> = asked["expiration"].as_str().and_then(|text| text.parse().ok());
        let ends = now().after(lifetime).as_millis().min(wanted.unwrap_or(i64::MAX));
        let answer = json!({"kind": "api#channel", "id": asked["id"], "resourceId": "all-changes",
            "expiration": ends.to_string()});
        self.channels.push(Channel { asked, greeted, stopped: 0, pushed: 0 });
        Reply::new(200, answer)
    }

    fn stop(&mut self, asked: &Value) -> Reply {
        let found = self.channels.iter_mut().find(|channel| channel.asked["id"] == asked["id"]);
        match found.filter(|_| asked["resourceId"] == "all-changes") {
            Some(channel) => {
                channel.stopped += 1;
                Reply::new(204, "")
            }
            None => refusal(404, "Channel not found."),
        }
    }

    fn list_changes(&self, from: Option<usize>, size: usize) -> Reply {
        let Some(from) = from.filter(|from| *from <= self.changes.len()) else {
            return refusal(400, "Invalid page token.");
        };
        let until = (from + size).min(self.changes.len());
        let changes: Vec<Value> = self.changes[from..until]
            .iter()
            .map(|file| json!({"changeType": "file", "removed": false, "fileId": file["id"], "file": file}))
            .collect();
        let next = if until < self.changes.len() { "nextPageToken" } else { "newStartPageToken" };
        Reply::new(200, json!({"changes": changes, (next): until.to_string()}))
    }

    fn list_comments(&self, file: &str, since: Option<Timestamp>) -> Reply {
        let modified = |comment: &Value| -> Option<Timestamp> {
            comment["modifiedTime"].as_str().and_then(|text| text.parse().ok())
        };
        let of_file = self.comments.iter().filter(|(of, _)| of == file);
        let comments: Vec<&Value> = of_file
            .map(|(_, comment)| comment)
            .filter(|comment| modified(comment) >= since)
            .collect();
        Reply::new(200, json!({"comments": comments}))
    }
}

fn refusal(status: u16, message: &str) -> Reply {
    Reply::new(status, json!({"error": {"code": status, "message": message, "errors": []}}))
}
