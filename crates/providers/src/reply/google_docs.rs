//! Google Docs: a reply to the comment, by the Drive API, as the service account.

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;

use super::answer;
use super::markdown::{self, PLAIN};
use super::{
    Exchange, Outgoing, Replies, ReplyError, ReplyFailure, Step, authorize, base, out_of_turn,
    segment, split,
};
use crate::freshness::Unit;
use crate::google::token::{token_call, token_of};
use crate::google_docs::GoogleDocs;
use crate::payload::{list_at, text_at};
use crate::provider::Provider;
use crate::registration::{Answered, ApiCall};

const NAME: &str = "Google";
const API_URL: &str = "https://www.googleapis.com";
const SCOPE: &str = "https://www.googleapis.com/auth/drive";
const CHARS_MAX: usize = 4_000;

/// A look-up goes through this many pages and then leaves it in doubt.
const PAGES_MAX: usize = 10;

/// Replies to comments.
pub(crate) struct GoogleDocsReplies;

impl Replies for GoogleDocsReplies {
    fn parts(&self, text: &str) -> Vec<String> {
        split::split(text, CHARS_MAX, |part| markdown::write(part, &PLAIN))
    }

    fn post<'a>(&self, part: &Outgoing<'a>) -> Result<Box<dyn Exchange + Send + 'a>, ReplyError> {
        let comment = Comment::of(part)?;
        let mut url = comment.replies_url.clone();
        let mut method = Method::POST;
        if let Some(id) = part.replaces {
            url = format!("{url}/{}", segment(id)?);
            method = Method::PATCH;
        }
        let body = json!({"content": part.text});
        let call = ApiCall { method, ..ApiCall::json(format!("{url}?fields=id"), &body) };
        let replaces = part.replaces.is_some();
        Ok(Box::new(Posting { token: Some(token(part)?), call: Some(call), replaces }))
    }

    fn look_up<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Option<Result<Box<dyn Exchange + Send + 'a>, ReplyError>> {
        let look_up = || {
            Ok(LookUp {
                comment: Comment::of(part)?,
                text: part.text,
                token: Some(token(part)?),
                bearer: None,
                pages: 0,
            })
        };
        Some(look_up().map(|look_up| Box::new(look_up) as Box<dyn Exchange + Send + 'a>))
    }

    fn is_repeatable(&self, part: &Outgoing<'_>) -> bool {
        part.replaces.is_some()
    }

    fn can_update(&self) -> bool {
        true
    }
}

fn token(part: &Outgoing<'_>) -> Result<ApiCall, ReplyError> {
    Ok(token_call(part.settings, SCOPE, part.now)?)
}

/// The comment that is answered.
struct Comment {
    replies_url: String,
    /// When the comment was made: no reply to it is older.
    made_at: Option<Timestamp>,
}

impl Comment {
    fn of(part: &Outgoing<'_>) -> Result<Comment, ReplyError> {
        let unanswerable = || ReplyError::unanswerable("it tells of no comment");
        let events = GoogleDocs.map(part.request, part.settings).map_err(|_| unanswerable())?;
        let event = events.into_iter().nth(part.part_of_body).ok_or_else(unanswerable)?;
        let message = event.message.ok_or_else(unanswerable)?;
        let (file, comment) = message.thread_id.split_once(':').ok_or_else(unanswerable)?;
        let api = base(part.settings, "api_url", API_URL)?;
        let (file, comment) = (segment(file)?, segment(comment)?);
        Ok(Comment {
            replies_url: format!("{api}/drive/v3/files/{file}/comments/{comment}/replies"),
            made_at: event.occurred_at,
        })
    }
}

/// The token from the answer, or why there is none. Nothing was posted yet.
fn bearer(answered: &Answered<'_>) -> Result<String, ReplyFailure> {
    token_of(answered).map_err(|error| {
        let failure = answer::failure(answered, false, NAME, None);
        ReplyFailure { error: answer::readable(&error), ..failure }
    })
}

struct Posting {
    token: Option<ApiCall>,
    call: Option<ApiCall>,
    replaces: bool,
}

impl Exchange for Posting {
    fn next(&mut self, answered: Option<Answered<'_>>) -> Step {
        match (self.token.take(), answered) {
            (Some(call), None) => Step::Call { call, acts: false },
            (None, Some(answered)) => match self.call.take() {
                Some(call) => send(call, &answered),
                None => self.read(&answered),
            },
            _ => out_of_turn(),
        }
    }
}

fn send(mut call: ApiCall, answered: &Answered<'_>) -> Step {
    let bearer = match bearer(answered) {
        Ok(bearer) => bearer,
        Err(failure) => return Step::Failed(failure),
    };
    match authorize(&mut call, "Bearer", &bearer, "service_account") {
        Ok(()) => Step::Call { call, acts: true },
        Err(error) => Step::Failed(answer::refused(error.to_string())),
    }
}

impl Posting {
    fn read(&self, answered: &Answered<'_>) -> Step {
        let said = answer::json(answered);
        if answered.status.is_success() {
            if let Some(id) = text_at(&said, "/id") {
                return Step::Posted(Some(id.to_owned()));
            }
        }
        let failure = failure(answered, &said, true);
        let replaced_is_gone = self.replaces && answered.status == 404;
        Step::Failed(ReplyFailure { replaced_is_gone, ..failure })
    }
}

/// Google also says "too much at once" with a 403.
fn failure(answered: &Answered<'_>, said: &Value, acts: bool) -> ReplyFailure {
    let failure = answer::failure(answered, acts, NAME, text_at(said, "/error/message"));
    let reason = text_at(said, "/error/errors/0/reason").unwrap_or_default();
    let is_limit = matches!(reason, "rateLimitExceeded" | "userRateLimitExceeded");
    ReplyFailure { retryable: failure.retryable || is_limit, ..failure }
}

/// Looks through the replies to the comment for one of ours with the same text.
struct LookUp<'a> {
    comment: Comment,
    text: &'a str,
    token: Option<ApiCall>,
    bearer: Option<String>,
    pages: usize,
}

impl Exchange for LookUp<'_> {
    fn next(&mut self, answered: Option<Answered<'_>>) -> Step {
        match (self.token.take(), answered) {
            (Some(call), None) => Step::Call { call, acts: false },
            (None, Some(answered)) if self.bearer.is_none() => match bearer(&answered) {
                Ok(bearer) => {
                    self.bearer = Some(bearer);
                    self.page(None)
                }
                Err(failure) => answer::still_in_doubt(failure),
            },
            (None, Some(answered)) => self.read(&answered),
            _ => out_of_turn(),
        }
    }
}

impl LookUp<'_> {
    fn page(&mut self, page: Option<&str>) -> Step {
        if self.pages == PAGES_MAX {
            let error = format!("it is not among the first {PAGES_MAX} pages that Google shows");
            return answer::still_in_doubt(answer::refused(error));
        }
        self.pages += 1;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("pageSize", "100").append_pair(
            "fields",
            "nextPageToken,replies(id,content,createdTime,deleted,author(me))",
        );
        if let Some(page) = page {
            query.append_pair("pageToken", page);
        }
        let mut call = ApiCall {
            method: Method::GET,
            url: format!("{}?{}", self.comment.replies_url, query.finish()),
            headers: HeaderMap::new(),
            body: Vec::new(),
        };
        let bearer = self.bearer.as_deref().unwrap_or_default();
        match authorize(&mut call, "Bearer", bearer, "service_account") {
            Ok(()) => Step::Call { call, acts: false },
            Err(error) => answer::still_in_doubt(answer::refused(error.to_string())),
        }
    }

    fn read(&mut self, answered: &Answered<'_>) -> Step {
        let said = answer::json(answered);
        if !answered.status.is_success() || !said.is_object() {
            return answer::still_in_doubt(failure(answered, &said, false));
        }
        if let Some(found) = list_at(&said, "/replies").iter().find(|reply| self.is_it(reply)) {
            return Step::Posted(text_at(found, "/id").map(str::to_owned));
        }
        match text_at(&said, "/nextPageToken") {
            None => Step::Absent,
            Some(page) => self.page(Some(page)),
        }
    }

    fn is_it(&self, reply: &Value) -> bool {
        let made = text_at(reply, "/createdTime").and_then(|time| Unit::Rfc3339.read(time));
        let is_later = made.zip(self.comment.made_at).is_none_or(|(made, asked)| made >= asked);
        let is_ours = reply.pointer("/author/me").and_then(Value::as_bool) == Some(true);
        let says_it = text_at(reply, "/content").map(str::trim) == Some(self.text.trim());
        is_ours && is_later && says_it
    }
}
