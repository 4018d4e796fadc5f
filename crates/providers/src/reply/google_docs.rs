//! Google Docs: a reply to the comment, by the Drive API, as the service account.

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;

use super::answer;
use super::markdown::{self, PLAIN};
use super::{
    Outgoing, Replies, ReplyError, ReplyExchange, ReplyFailure, ReplyStep, authorize, base,
    out_of_turn, segment, split,
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

    fn post<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError> {
        Ok(Box::new(Posting::new(&Comment::of(part)?, part)?))
    }

    fn look_up<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Option<Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError>> {
        let look_up = Comment::of(part).and_then(|comment| LookUp::new(comment, part));
        Some(look_up.map(|look_up| Box::new(look_up) as Box<dyn ReplyExchange + Send + 'a>))
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
        let (request, index) = part.event()?;
        let events = GoogleDocs.map(request, part.settings).map_err(|_| unanswerable())?;
        let event = events.into_iter().nth(index).ok_or_else(unanswerable)?;
        let message = event.message.ok_or_else(unanswerable)?;
        let api = base(part.settings, "api_url", API_URL)?;
        let replies_url = Comment::replies_url(api, &message.thread_id)?;
        Ok(Comment { replies_url, made_at: event.occurred_at })
    }

    /// From file : comment.
    fn replies_url(api: &str, thread_id: &str) -> Result<String, ReplyError> {
        let parts = thread_id.split_once(':');
        let (file, comment) =
            parts.ok_or_else(|| ReplyError::unanswerable("its thread id is not Google's"))?;
        let (file, comment) = (segment(file)?, segment(comment)?);
        Ok(format!("{api}/drive/v3/files/{file}/comments/{comment}/replies"))
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

impl ReplyExchange for Posting {
    fn next(&mut self, answered: Option<Answered<'_>>) -> ReplyStep {
        match (self.token.take(), answered) {
            (Some(call), None) => ReplyStep::Call { call, acts: false },
            (None, Some(answered)) => match self.call.take() {
                Some(call) => send(call, &answered),
                None => self.read(&answered),
            },
            _ => out_of_turn(),
        }
    }
}

fn send(mut call: ApiCall, answered: &Answered<'_>) -> ReplyStep {
    let bearer = match bearer(answered) {
        Ok(bearer) => bearer,
        Err(failure) => return ReplyStep::Failed(failure),
    };
    match authorize(&mut call, "Bearer", &bearer, "service_account") {
        Ok(()) => ReplyStep::Call { call, acts: true },
        Err(error) => ReplyStep::Failed(answer::refused(error.to_string())),
    }
}

impl Posting {
    fn new(comment: &Comment, part: &Outgoing<'_>) -> Result<Posting, ReplyError> {
        let url = &comment.replies_url;
        let body = json!({"content": part.text});
        let call = match part.replaces {
            Some(id) => {
                let url = format!("{url}/{}?fields=id", segment(id)?);
                ApiCall { method: Method::PATCH, ..ApiCall::json(url, &body) }
            }
            None => ApiCall::json(format!("{url}?fields=id"), &body),
        };
        let replaces = part.replaces.is_some();
        Ok(Posting { token: Some(token(part)?), call: Some(call), replaces })
    }

    fn read(&self, answered: &Answered<'_>) -> ReplyStep {
        let said = answer::json(answered);
        if let Some(id) = text_at(&said, "/id").filter(|_| answered.status.is_success()) {
            return ReplyStep::Posted(Some(id.to_owned()));
        }
        let failure = failure(answered, &said, true);
        let replaced_is_gone = self.replaces && answered.status == 404;
        ReplyStep::Failed(ReplyFailure { replaced_is_gone, ..failure })
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

impl ReplyExchange for LookUp<'_> {
    fn next(&mut self, answered: Option<Answered<'_>>) -> ReplyStep {
        match (self.token.take(), answered) {
            (Some(call), None) => ReplyStep::Call { call, acts: false },
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

impl<'a> LookUp<'a> {
    fn new(comment: Comment, part: &Outgoing<'a>) -> Result<LookUp<'a>, ReplyError> {
        let token = Some(token(part)?);
        Ok(LookUp { comment, text: part.text, token, bearer: None, pages: 0 })
    }

    fn page(&mut self, page: Option<&str>) -> ReplyStep {
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
            Ok(()) => ReplyStep::Call { call, acts: false },
            Err(error) => answer::still_in_doubt(answer::refused(error.to_string())),
        }
    }

    fn read(&mut self, answered: &Answered<'_>) -> ReplyStep {
        let said = answer::json(answered);
        if !answered.status.is_success() || !said.is_object() {
            return answer::still_in_doubt(failure(answered, &said, false));
        }
        if let Some(found) = list_at(&said, "/replies").iter().find(|reply| self.is_it(reply)) {
            return ReplyStep::Posted(text_at(found, "/id").map(str::to_owned));
        }
        match text_at(&said, "/nextPageToken") {
            None => ReplyStep::Absent,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::google::token::tests::service_account;
    use crate::reply::tests::{calls, outgoing, sent};
    use crate::request::SignedRequest;
    use crate::testing::{NOW, settings};

    const TOKEN: (u16, &str) = (200, r#"{"access_token":"ya29.a"}"#);

    /// Runs what is made of a comment and a part against these answers.
    fn run(
        replaces: Option<&str>,
        answers: &[(u16, &str)],
        make: impl for<'a> Fn(Comment, &Outgoing<'a>) -> Box<dyn ReplyExchange + 'a>,
    ) -> (Vec<(ApiCall, bool)>, ReplyStep) {
        let account = service_account("https://token.example/t");
        let settings = settings(&[("service_account", &account)]);
        let request = SignedRequest::post("https://hooks.example/", "{}");
        let request = request.as_request();
        let part = Outgoing { replaces, ..outgoing(&request, &settings, "Done.") };
        let replies_url = Comment::replies_url("https://api.example", "f 1:c/2").unwrap();
        calls(make(Comment { replies_url, made_at: Some(NOW) }, &part), answers)
    }

    fn post(replaces: Option<&str>, answers: &[(u16, &str)]) -> (Vec<(ApiCall, bool)>, ReplyStep) {
        run(replaces, answers, |comment, part| Box::new(Posting::new(&comment, part).unwrap()))
    }

    fn look_up(answers: &[(u16, &str)]) -> ReplyStep {
        run(None, answers, |comment, part| Box::new(LookUp::new(comment, part).unwrap())).1
    }

    #[test]
    fn a_reply_is_posted_with_a_token_fetched_first() {
        let (made, step) = post(None, &[TOKEN, (200, r#"{"id":"r1"}"#)]);
        assert_eq!(step, ReplyStep::Posted(Some("r1".to_owned())));
        let [(token, false), (reply, true)] = &made[..] else { panic!("{made:?}") };
        assert_eq!(token.url, "https://token.example/t");
        let at = "https://api.example/drive/v3/files/f%201/comments/c%2F2/replies";
        assert_eq!((reply.method.as_str(), &*reply.url), ("POST", &*format!("{at}?fields=id")));
        assert_eq!(reply.headers["authorization"], "Bearer ya29.a");
        assert_eq!(sent(reply), json!({"content": "Done."}));
        let (made, _) = post(Some("r0"), &[TOKEN, (200, r#"{"id":"r0"}"#)]);
        assert_eq!(made[1].0.method, Method::PATCH);
        assert_eq!(made[1].0.url, format!("{at}/r0?fields=id"));
    }

    #[test]
    fn googles_errors_are_sorted() {
        let limit = r#"{"error":{"message":"slow","errors":[{"reason":"rateLimitExceeded"}]}}"#;
        for (answers, retryable, doubtful, gone) in [
            (&[(400, r#"{"error":"invalid_grant"}"#)][..], false, false, false),
            (&[(503, "")], true, false, false),
            (&[TOKEN, (403, limit)], true, false, false),
            (&[TOKEN, (403, "{}")], false, false, false),
            (&[TOKEN, (404, "{}")], false, false, true),
            (&[TOKEN, (429, "{}")], true, false, false),
            (&[TOKEN, (500, "{}")], true, true, false),
            (&[TOKEN, (200, "not json")], true, true, false),
        ] {
            let (_, step) = post(Some("r0"), answers);
            let ReplyStep::Failed(failure) = step else { panic!("{step:?}") };
            let found = (failure.retryable, failure.doubtful, failure.replaced_is_gone);
            assert_eq!(found, (retryable, doubtful, gone), "{answers:?}");
        }
    }

    #[test]
    fn a_reply_is_found_by_its_text_and_author_and_not_from_before() {
        let page = |content: &str, me: bool, at: &str, next: &str| {
            json!({"nextPageToken": next, "replies": [
                {"id": "r1", "content": content, "author": {"me": me}, "createdTime": at}]})
            .to_string()
        };
        let (after, before) = ("2023-11-14T22:13:21.000Z", "2023-11-14T22:13:19.000Z");
        let found = page("Done.", true, after, "");
        assert_eq!(look_up(&[TOKEN, (200, &found)]), ReplyStep::Posted(Some("r1".to_owned())));
        for other in [
            page("Done!", true, after, ""),
            page("Done.", false, after, ""),
            page("Done.", true, before, ""),
        ] {
            assert_eq!(look_up(&[TOKEN, (200, &other)]), ReplyStep::Absent, "{other}");
            let more = other.replace(r#""nextPageToken":"""#, r#""nextPageToken":"n""#);
            let step = look_up(&[TOKEN, (200, &more), (200, &found)]);
            assert_eq!(step, ReplyStep::Posted(Some("r1".to_owned())));
        }
    }

    #[test]
    fn a_look_up_that_is_not_carried_through_leaves_it_in_doubt() {
        let endless = json!({"nextPageToken": "n", "replies": []}).to_string();
        let mut pages = vec![TOKEN];
        pages.extend(std::iter::repeat_n((200, endless.as_str()), PAGES_MAX));
        for answers in [&pages[..], &[(500, "")], &[TOKEN, (500, "")], &[TOKEN, (200, "")]] {
            let step = look_up(answers);
            assert!(matches!(&step, ReplyStep::Failed(failure) if failure.doubtful), "{step:?}");
        }
    }
}
