//! Google, as far as a comment is answered: a token for a service account, and the replies of a comment.

use std::collections::HashMap;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Method;
use serde_json::{Value, json};

use super::call::{Call, Response};
use super::google_fields;
use super::server::{Platform, StandIn};
use super::violations::Violations;
use crate::program::random_text;
use crate::source::now;

/// What we split at.
const CONTENT_CHARACTERS_MAX: usize = 4000;

/// What a page holds at most, however many are asked for: everybody turns pages.
const PAGE_REPLIES: usize = 2;

/// The service account.
const CLIENT_EMAIL: &str = "agent@acme.iam.gserviceaccount.com";

/// What an assertion may live at most.
const ASSERTION_S_MAX: i64 = 3600;

/// How far clocks may differ.
const CLOCK_SKEW_S: i64 = 60;

const GRANT: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// A reply to a comment.
#[derive(Debug, Clone, PartialEq)]
pub struct GoogleReply {
    /// Its id.
    pub id: String,
    /// What it says.
    pub content: String,
    /// Whether the service account wrote it.
    pub by_us: bool,
}

/// One service account, and the comments it may answer.
pub struct GoogleReplies {
    key: RsaKeyPair,
    token_uri: String,
    tokens: Vec<String>,
    /// By file and comment.
    comments: HashMap<(String, String), Vec<GoogleReply>>,
    replies: usize,
}

impl GoogleReplies {
    /// A service account with a key of its own. Tokens are got at `/token`.
    pub async fn start() -> Platform<GoogleReplies> {
        Platform::start(GoogleReplies::at).await
    }

    /// The same, as a part of another stand-in at this address.
    pub fn at(url: &str) -> GoogleReplies {
        GoogleReplies {
            key: RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"),
            token_uri: format!("{url}/token"),
            tokens: Vec::new(),
            comments: HashMap::new(),
            replies: 0,
        }
    }

    /// The account's key file, as Google hands it out.
    pub fn service_account(&self) -> String {
        let der: Pkcs8V1Der<'_> = self.key.as_der().expect("a key");
        let encoded = STANDARD.encode(der.as_ref());
        let lines: Vec<_> = encoded.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            lines.join("\n")
        );
        let file = json!({
            "type": "service_account", "project_id": "acme", "private_key_id": "0a1b2c",
            "private_key": pem, "client_email": CLIENT_EMAIL, "client_id": "1",
            "token_uri": self.token_uri,
        });
        file.to_string()
    }

    /// Somebody comments on a file.
    pub fn hears(&mut self, file: &str, comment: &str) {
        self.comments.entry((file.to_owned(), comment.to_owned())).or_default();
    }

    /// Somebody else answers a comment.
    pub fn hears_reply(&mut self, file: &str, comment: &str, content: &str) {
        let reply = self.reply(content, false);
        let key = (file.to_owned(), comment.to_owned());
        self.comments.entry(key).or_default().push(reply);
    }

    /// What the service account answered to a comment, in order.
    pub fn said(&self, file: &str, comment: &str) -> Vec<GoogleReply> {
        let replies = self.comments.get(&(file.to_owned(), comment.to_owned()));
        replies.into_iter().flatten().filter(|reply| reply.by_us).cloned().collect()
    }

    fn reply(&mut self, content: &str, by_us: bool) -> GoogleReply {
        self.replies += 1;
        GoogleReply { id: format!("AAAB{:06}", self.replies), content: content.to_owned(), by_us }
    }

    fn token(&mut self, call: &Call) -> Result<Value, Refusal> {
        let form = call.form();
        let field = |name: &str| {
            let field = form.iter().find(|(field, _)| field == name);
            field.map(|(_, value)| value.as_str()).unwrap_or_default()
        };
        if !call.says("application/x-www-form-urlencoded") || field("grant_type") != GRANT {
            return Err(Refusal::oauth("unsupported_grant_type", "Invalid grant_type"));
        }
        let claims = self.verified(field("assertion"))?;
        self.check(&claims)?;
        let token = format!("ya29.{}", random_text(32));
        self.tokens.push(token.clone());
        Ok(json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"}))
    }

    /// The claims of an assertion that the service account signed.
    fn verified(&self, assertion: &str) -> Result<Value, Refusal> {
        let malformed = || Refusal::oauth("invalid_grant", "Bad Request");
        let (signed, signature) = assertion.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed());
        let read = |text: &str| serde_json::from_slice(&decode(text)?).map_err(|_| malformed());
        let header: Value = read(header)?;
        let public =
            UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, self.key.public_key().as_ref());
        let is_ours = public.verify(signed.as_bytes(), &decode(signature)?).is_ok();
        match header["alg"] == "RS256" && is_ours {
            true => read(claims),
            false => Err(Refusal::oauth("invalid_grant", "Invalid JWT Signature.")),
        }
    }

    fn check(&self, claims: &Value) -> Result<(), Refusal> {
        if claims["iss"] != CLIENT_EMAIL {
            return Err(Refusal::oauth("invalid_grant", "Invalid grant: account not found"));
        }
        if claims["aud"] != self.token_uri {
            let why = "Invalid JWT: Failed audience check.";
            return Err(Refusal::oauth("invalid_grant", why));
        }
        let (issued, ends) = (claims["iat"].as_i64(), claims["exp"].as_i64());
        let now = now().as_secs();
        let is_timely = |(issued, ends): (i64, i64)| {
            issued <= now + CLOCK_SKEW_S && ends > now && ends - issued <= ASSERTION_S_MAX
        };
        if !issued.zip(ends).is_some_and(is_timely) {
            let why = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. \
                       Check your iat and exp values in the JWT claim.";
            return Err(Refusal::oauth("invalid_grant", why));
        }
        let scopes = claims["scope"].as_str().unwrap_or_default();
        let may_write = |scope: &str| {
            let name = scope.strip_prefix("https://www.googleapis.com/auth/");
            matches!(name, Some("drive" | "drive.file"))
        };
        match scopes.split(' ').any(may_write) {
            true => Ok(()),
            false => Err(Refusal::oauth(
                "invalid_scope",
                "Invalid OAuth scope or ID token audience provided.",
            )),
        }
    }

    fn replies(
        &mut self,
        call: &Call,
        file: &str,
        comment: &str,
        violations: &mut Violations,
    ) -> Result<Value, Refusal> {
        let known = call.bearer().is_some_and(|token| self.tokens.iter().any(|ours| ours == token));
        if !known {
            return Err(Refusal::api(
                401,
                "UNAUTHENTICATED",
                "Request had invalid authentication credentials.",
            ));
        }
        let key = (file.to_owned(), comment.to_owned());
        if !self.comments.contains_key(&key) {
            return Err(Refusal::api(404, "NOT_FOUND", &format!("Comment not found: {comment}.")));
        }
        let fields = call.asked("fields").ok_or_else(|| {
            Refusal::api(
                400,
                "INVALID_ARGUMENT",
                "The 'fields' parameter is required for this method.",
            )
        })?;
        let answer = match call.method {
            Method::GET => page(call, &self.comments[&key])?,
            Method::POST => {
                let body = call.object(violations).unwrap_or_default();
                violations.only("replies", &body, &["action", "content"]);
                let content = body.get("content").and_then(Value::as_str).unwrap_or_default();
                if content.is_empty() {
                    let message = "The reply content is required.";
                    return Err(Refusal::api(400, "INVALID_ARGUMENT", message));
                }
                violations.at_most("a reply", content, CONTENT_CHARACTERS_MAX);
                let reply = self.reply(content, true);
                let shown = reply.shown();
                self.comments.entry(key).or_default().push(reply);
                shown
            }
            _ => return Err(Refusal::api(405, "UNIMPLEMENTED", "Method not allowed.")),
        };
        Ok(google_fields::select(&answer, fields))
    }
}

impl StandIn for GoogleReplies {
    fn answer(&mut self, call: &Call, violations: &mut Violations) -> Response {
        let answer = match call.segments()[..] {
            ["token"] if call.method == Method::POST => self.token(call),
            ["drive", "v3", "files", file, "comments", comment, "replies"] => {
                self.replies(call, file, comment, violations)
            }
            _ => Err(Refusal::api(
                404,
                "NOT_FOUND",
                "The requested URL was not found on this server.",
            )),
        };
        match answer {
            Ok(answer) => Response::json(200, answer),
            Err(refusal) => {
                violations.note(refusal.message);
                Response::json(refusal.status, refusal.body)
            }
        }
    }

    fn broken(&self) -> Response {
        Response::json(500, Refusal::api(500, "INTERNAL", "Internal Error").body)
    }

    fn rate_limited(&self, retry_after_s: u32) -> Response {
        let refusal = Refusal::api(429, "RESOURCE_EXHAUSTED", "User rate limit exceeded.");
        Response::json(429, refusal.body).with_header("retry-after", retry_after_s)
    }
}

impl GoogleReply {
    fn shown(&self) -> Value {
        let name = if self.by_us { "Agent" } else { "Ada" };
        json!({
            "kind": "drive#reply", "id": self.id, "content": self.content, "deleted": false,
            "author": {"kind": "drive#user", "displayName": name, "me": self.by_us},
        })
    }
}

fn page(call: &Call, replies: &[GoogleReply]) -> Result<Value, Refusal> {
    let number = |name: &str, usual: usize| {
        let invalid = || Refusal::api(400, "INVALID_ARGUMENT", &format!("Invalid value '{name}'."));
        call.asked(name).map_or(Ok(usual), |text| text.parse().map_err(|_| invalid()))
    };
    let size = number("pageSize", 20)?.clamp(1, PAGE_REPLIES);
    let start = number("pageToken", 0)?.min(replies.len());
    let end = replies.len().min(start + size);
    let shown: Vec<Value> = replies[start..end].iter().map(GoogleReply::shown).collect();
    let mut page = json!({"kind": "drive#replyList", "replies": shown});
    if end < replies.len() {
        page["nextPageToken"] = end.to_string().into();
    }
    Ok(page)
}

/// Why a call is not done.
struct Refusal {
    status: u16,
    message: String,
    body: Value,
}

impl Refusal {
    fn oauth(error: &str, description: &str) -> Refusal {
        let body = json!({"error": error, "error_description": description});
        Refusal { status: 400, message: description.to_owned(), body }
    }

    fn api(code: u16, status: &str, message: &str) -> Refusal {
        let body = json!({"error": {"code": code, "status": status, "message": message}});
        Refusal { status: code, message: message.to_owned(), body }
    }
}

#[cfg(test)]
mod tests;
