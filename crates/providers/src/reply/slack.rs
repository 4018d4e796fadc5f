//! Slack: `chat.postMessage` into the thread, found again by the key in the message's metadata.

use http::{HeaderMap, Method};
use serde_json::{Value, json};
use wakepost_domain::envelope::Message;

use super::answer::{self, readable};
use super::markdown::{self, Style, is_web_address, spelled_out};
use super::{
    Once, Outgoing, Replies, ReplyError, ReplyExchange, ReplyFailure, ReplyStep, To, authorize,
    base, needed, out_of_turn, split,
};
use crate::header;
use crate::payload::{list_at, text_at};
use crate::provider::Provider;
use crate::registration::{Answered, ApiCall};
use crate::settings::{Settings, text};
use crate::slack::{ALERTS_CHANNEL, REQUEST_TIME, Slack};

const NAME: &str = "Slack";
const API_URL: &str = "https://slack.com/api";
const CHARS_MAX: usize = 4_000;

/// What our messages are marked with, so that they can be found again.
const EVENT_TYPE: &str = "wakepost_reply";

/// A look-up goes through this many pages and then leaves it in doubt.
const PAGES_MAX: usize = 10;
const PAGE_MESSAGES: &str = "200";

/// How far Slack's clock and that of whoever signed, or ours, may be apart.
const CLOCKS_APART_SECS: i64 = 300;

/// Replies as messages of the app's bot.
pub(crate) struct SlackReplies;

impl Replies for SlackReplies {
    fn parts(&self, text: &str) -> Vec<String> {
        split::split(text, CHARS_MAX, |part| markdown::write(part, &MRKDWN))
    }

    fn post<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError> {
        let place = Place::of(part)?;
        let metadata = json!({"event_type": EVENT_TYPE, "event_payload": {"key": part.key}});
        let mut body = json!({"channel": place.channel, "text": part.text, "metadata": metadata});
        let method = match part.replaces {
            Some(ts) => {
                body["ts"] = ts.into();
                "chat.update"
            }
            None => {
                body["unfurl_links"] = false.into();
                if let Some(ts) = &place.thread {
                    body["thread_ts"] = ts.as_str().into();
                }
                "chat.postMessage"
            }
        };
        let api = base(part.settings, "api_url", API_URL)?;
        let mut call = ApiCall::json(format!("{api}/{method}"), &body);
        authorize(&mut call, "Bearer", needed(part.settings, "bot_token")?, "bot_token")?;
        Ok(Box::new(Once::new(call, |answered| match said(answered, true) {
            Ok(said) => ReplyStep::Posted(text_at(&said, "/ts").map(str::to_owned)),
            Err(failure) => ReplyStep::Failed(failure),
        })))
    }

    fn look_up<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Option<Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError>> {
        Some(
            LookUp::new(part)
                .map(|look_up| Box::new(look_up) as Box<dyn ReplyExchange + Send + 'a>),
        )
    }

    fn is_repeatable(&self, part: &Outgoing<'_>) -> bool {
        part.replaces.is_some()
    }

    fn can_update(&self) -> bool {
        true
    }

    fn alerts_channel<'s>(&self, settings: &'s Settings) -> Option<&'s str> {
        needed(settings, "bot_token").ok()?;
        text(settings, ALERTS_CHANNEL).ok()?
    }
}

/// Slack's own markup. It has no way to escape a star; only what it would act on is escaped.
const MRKDWN: Style = Style {
    bold: "*",
    italic: "_",
    strike: "~",
    quote: "> ",
    text: escape,
    code: |code| format!("`{}`", escape(&code.replace('`', "'"))),
    block: |code, _| format!("```\n{}\n```", escape(&code.replace("```", "``\u{200b}`"))),
    link: |text, url| {
        // Anything else between the brackets could be a call to people or a channel.
        if !is_web_address(url) && !url.starts_with("mailto:") {
            return escape(&spelled_out(text, url));
        }
        let url = escape(&url.replace('|', "%7C").replace('<', "%3C").replace('>', "%3E"));
        let text = escape(&text.replace('|', "¦"));
        match text.is_empty() || text == url {
            true => format!("<{url}>"),
            false => format!("<{url}|{text}>"),
        }
    },
};

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Where a reply goes.
struct Place {
    channel: String,
    /// The first message of the thread; none for a command, which is no message, and for what answers nothing.
    thread: Option<String>,
    /// In seconds: nothing that was said here is older.
    since: Option<i64>,
}

impl Place {
    fn of(part: &Outgoing<'_>) -> Result<Place, ReplyError> {
        let (request, index) = match part.to {
            To::Event { request, part } => (request, part),
            To::Channel { id, since } => {
                let since = Some(since.as_secs());
                return Ok(Place { channel: id.to_owned(), thread: None, since });
            }
        };
        let events = Slack.map(request, part.settings);
        let events = events.map_err(|error| ReplyError::unanswerable(error.to_string()))?;
        let message = events.into_iter().nth(index).and_then(|event| event.message);
        let message = message.ok_or_else(|| ReplyError::unanswerable("it is in no channel"))?;
        let signed = header::optional(request.headers, REQUEST_TIME).ok().flatten();
        let since = signed.and_then(|text| text.parse().ok());
        Place::in_thread(&message, since)
            .ok_or_else(|| ReplyError::unanswerable("its thread id is not Slack's"))
    }

    /// From app : workspace : channel : start.
    fn in_thread(message: &Message, since: Option<i64>) -> Option<Place> {
        let mut fields = message.thread_id.splitn(4, ':').skip(2);
        let (channel, start) = (fields.next()?.to_owned(), fields.next()?);
        Some(Place { channel, thread: is_ts(start).then(|| start.to_owned()), since })
    }
}

/// Whether it is the time stamp of a message: two numbers. The id of a trigger has more.
fn is_ts(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.split_once('.').is_some_and(|(secs, rest)| is_number(secs) && is_number(rest))
}

/// Looks through the thread, or through the channel since the event, for our mark.
struct LookUp<'a> {
    part: Outgoing<'a>,
    place: Place,
    pages: usize,
}

impl<'a> LookUp<'a> {
    fn new(part: &Outgoing<'a>) -> Result<LookUp<'a>, ReplyError> {
        let look_up = LookUp { part: *part, place: Place::of(part)?, pages: 0 };
        look_up.call(None)?;
        Ok(look_up)
    }

    fn call(&self, cursor: Option<&str>) -> Result<ApiCall, ReplyError> {
        let api = base(self.part.settings, "api_url", API_URL)?;
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("channel", &self.place.channel);
        let method = match &self.place.thread {
            Some(ts) => {
                query.append_pair("ts", ts);
                "conversations.replies"
            }
            None => "conversations.history",
        };
        query.append_pair("include_all_metadata", "true").append_pair("limit", PAGE_MESSAGES);
        if let Some(since) = self.place.since {
            query.append_pair("oldest", &(since - CLOCKS_APART_SECS).to_string());
        }
        if let Some(cursor) = cursor {
            query.append_pair("cursor", cursor);
        }
        let mut call = ApiCall {
            method: Method::GET,
            url: format!("{api}/{method}?{}", query.finish()),
            headers: HeaderMap::new(),
            body: Vec::new(),
        };
        authorize(&mut call, "Bearer", needed(self.part.settings, "bot_token")?, "bot_token")?;
        Ok(call)
    }

    fn read(&mut self, answered: &Answered<'_>) -> ReplyStep {
        let said = match said(answered, false) {
            Ok(said) => said,
            Err(failure) => return answer::still_in_doubt(failure),
        };
        if let Some(found) = list_at(&said, "/messages").iter().find(|one| self.is_ours(one)) {
            return ReplyStep::Posted(text_at(found, "/ts").map(str::to_owned));
        }
        match text_at(&said, "/response_metadata/next_cursor") {
            None => ReplyStep::Absent,
            Some(cursor) => self.page(Some(cursor)),
        }
    }

    fn is_ours(&self, message: &Value) -> bool {
        text_at(message, "/metadata/event_type") == Some(EVENT_TYPE)
            && text_at(message, "/metadata/event_payload/key") == Some(self.part.key)
    }

    fn page(&mut self, cursor: Option<&str>) -> ReplyStep {
        if self.pages == PAGES_MAX {
            let error = format!("it is not among the first {PAGES_MAX} pages that Slack shows");
            return answer::still_in_doubt(answer::refused(error));
        }
        self.pages += 1;
        match self.call(cursor) {
            Ok(call) => ReplyStep::Call { call, acts: false },
            Err(error) => answer::still_in_doubt(answer::refused(error.to_string())),
        }
    }
}

impl ReplyExchange for LookUp<'_> {
    fn next(&mut self, answered: Option<Answered<'_>>) -> ReplyStep {
        match answered {
            None if self.pages == 0 => self.page(None),
            Some(answered) if self.pages > 0 => self.read(&answered),
            _ => out_of_turn(),
        }
    }
}

/// What Slack said, if it said yes. It says no with a good status too.
fn said(answered: &Answered<'_>, acts: bool) -> Result<Value, ReplyFailure> {
    let said = answer::json(answered);
    match (said["ok"].as_bool(), text_at(&said, "/error")) {
        (Some(true), _) if answered.status.is_success() => Ok(said),
        (Some(false), Some(error)) => Err(failure(answered, acts, error, &said)),
        _ => Err(answer::failure(answered, acts, NAME, None)),
    }
}

fn failure(answered: &Answered<'_>, acts: bool, error: &str, said: &Value) -> ReplyFailure {
    let hint = match error {
        "not_in_channel" => " (invite the bot to the channel)".to_owned(),
        "channel_not_found" => " (the bot cannot see the channel)".to_owned(),
        "missing_scope" => {
            format!(" (the app needs {})", readable(text_at(said, "/needed").unwrap_or("more")))
        }
        "invalid_auth" | "not_authed" | "token_expired" | "token_revoked" | "account_inactive" => {
            " (check bot_token)".to_owned()
        }
        _ => String::new(),
    };
    // Slack says of these that a part of the call may have been carried out.
    let is_unclear = matches!(error, "internal_error" | "fatal_error" | "service_unavailable");
    let is_temporary =
        matches!(error, "ratelimited" | "rate_limited" | "request_timeout" | "team_added_to_org");
    let status = answered.status;
    ReplyFailure {
        error: format!("Slack refused: {}{hint}", readable(error)),
        retryable: is_unclear || is_temporary || status.is_server_error() || status == 429,
        retry_after: answer::retry_after(answered.headers),
        doubtful: acts && (is_unclear || status.is_server_error()),
        replaced_is_gone: matches!(
            error,
            "message_not_found" | "cant_update_message" | "edit_window_closed"
        ),
    }
}
