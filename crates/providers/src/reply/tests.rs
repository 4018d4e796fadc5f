//! What the tests of all platforms share, and what every platform promises.

mod discord;
mod email;
mod slack;
mod telegram;
mod whatsapp;

use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use serde_json::Value;

use super::{Outgoing, ReplyError, ReplyExchange, ReplyStep, To};
use crate::registration::{Answered, ApiCall};
use crate::request::{Request, SignedRequest};
use crate::testing::{NOW, settings};
use crate::{Provider, Settings, registry};

/// The first part of a reply, with this text.
pub(super) fn outgoing<'a>(
    request: &'a Request<'a>,
    settings: &'a Settings,
    text: &'a str,
) -> Outgoing<'a> {
    Outgoing {
        to: To::Event { request, part: 0 },
        text,
        index: 0,
        is_first: true,
        begun_at: None,
        replaces: None,
        key: "job_1-0",
        settings,
        now: NOW,
    }
}

/// The calls that an exchange makes, with whether each acts, and how it ends; one answer is given to each call.
pub(super) fn calls(
    mut exchange: Box<dyn ReplyExchange + '_>,
    answers: &[(u16, &str)],
) -> (Vec<(ApiCall, bool)>, ReplyStep) {
    let mut made = Vec::new();
    let mut step = exchange.next(None);
    for (status, body) in answers {
        let ReplyStep::Call { call, acts } = step else { panic!("too many answers: {step:?}") };
        made.push((call, acts));
        let wait = HeaderValue::from_static("7");
        let headers = match status {
            429 => HeaderMap::from_iter([(http::header::RETRY_AFTER, wait)]),
            _ => HeaderMap::new(),
        };
        let status = StatusCode::from_u16(*status).unwrap();
        step = exchange.next(Some(Answered { status, headers: &headers, body: body.as_bytes() }));
    }
    (made, step)
}

/// What one call brings.
pub(super) fn sent(call: &ApiCall) -> Value {
    serde_json::from_slice(&call.body).unwrap()
}

/// A platform with settings, and an event that it is answered about.
pub(super) struct Platform {
    pub(super) provider: &'static dyn Provider,
    pub(super) settings: Settings,
    pub(super) request: SignedRequest,
}

impl Platform {
    pub(super) fn new(name: &str, pairs: &[(&str, &str)], body: &str) -> Platform {
        Platform {
            provider: registry::find(name).unwrap(),
            settings: settings(pairs),
            request: SignedRequest::post("https://hooks.example/", body),
        }
    }

    /// Posts a part and gives these answers.
    pub(super) fn post(
        &self,
        change: impl for<'a> Fn(Outgoing<'a>) -> Outgoing<'a>,
        answers: &[(u16, &str)],
    ) -> (Vec<(ApiCall, bool)>, ReplyStep) {
        let request = self.request.as_request();
        let part = change(outgoing(&request, &self.settings, "Done."));
        calls(self.provider.replies().unwrap().post(&part).unwrap(), answers)
    }

    /// What is posted first.
    pub(super) fn first(&self, change: impl for<'a> Fn(Outgoing<'a>) -> Outgoing<'a>) -> ApiCall {
        match self.post(change, &[]).1 {
            ReplyStep::Call { call, acts: true } => call,
            other => panic!("{other:?}"),
        }
    }

    /// Why nothing can be posted.
    pub(super) fn error(&self) -> ReplyError {
        let request = self.request.as_request();
        let part = outgoing(&request, &self.settings, "Done.");
        match self.provider.replies().unwrap().post(&part) {
            Ok(_) => panic!("it can be posted"),
            Err(error) => error,
        }
    }

    /// The failure after this answer, as (retryable, wait in seconds, doubtful, gone).
    pub(super) fn failure(
        &self,
        change: impl for<'a> Fn(Outgoing<'a>) -> Outgoing<'a>,
        status: u16,
        body: &str,
    ) -> (bool, Option<f64>, bool, bool) {
        let (_, step) = self.post(change, &[(status, body)]);
        let ReplyStep::Failed(failure) = step else { panic!("{status} {body}: {step:?}") };
        for secret in self.settings.values().filter_map(Value::as_str) {
            assert!(!failure.error.contains(secret), "{}", failure.error);
        }
        let wait = failure.retry_after.map(|wait| wait.as_secs_f64());
        (failure.retryable, wait, failure.doubtful, failure.replaced_is_gone)
    }
}

/// As it is.
pub(super) fn same(part: Outgoing<'_>) -> Outgoing<'_> {
    part
}

/// In place of the message 55.
pub(super) fn instead(part: Outgoing<'_>) -> Outgoing<'_> {
    Outgoing { replaces: Some("55"), ..part }
}

/// The second of several.
pub(super) fn later(part: Outgoing<'_>) -> Outgoing<'_> {
    Outgoing { index: 1, is_first: false, ..part }
}

#[test]
fn nothing_but_an_answer_goes_where_there_are_no_channels() {
    for provider in registry::all().iter().filter(|provider| provider.name() != "slack") {
        let Some(replies) = provider.replies() else { continue };
        let request = SignedRequest::post("https://hooks.example/", "{}");
        let settings = settings(&[("bot_token", "1:x")]);
        let request = request.as_request();
        let part = outgoing(&request, &settings, "Done.");
        let to = To::Channel { id: "C1", since: NOW };
        let refused = replies.post(&Outgoing { to, ..part }).err();
        let expected = Some(ReplyError::unanswerable("there is none"));
        assert_eq!(refused, expected, "{}", provider.name());
    }
}

#[test]
fn messaging_platforms_are_answered_and_others_are_not() {
    let answered: Vec<_> = registry::all()
        .iter()
        .filter(|provider| provider.replies().is_some())
        .map(|provider| provider.name())
        .collect();
    let expected = [
        "slack",
        "telegram",
        "whatsapp",
        "discord",
        "email-resend",
        "email-sendgrid",
        "email-mailgun",
        "email-postmark",
        "google-docs",
    ];
    assert_eq!(answered, expected);
}

#[test]
fn an_event_that_is_no_message_cannot_be_answered() {
    for provider in registry::all() {
        let Some(replies) = provider.replies() else { continue };
        let all = ["bot_token", "access_token", "reply_api_key", "api_key", "smtp_host"];
        let mut settings: Settings =
            all.into_iter().map(|name| (name.to_owned(), "x".into())).collect();
        settings.insert("from".to_owned(), "agent@acme.example".into());
        for body in ["", "{}", "[]", "null", "\u{0}", r#"{"type":2}"#, r#"{"event":{}}"#] {
            let request = SignedRequest::post("https://hooks.example/", body);
            let request = request.as_request();
            let part = outgoing(&request, &settings, "Done.");
            // Postmark has no mark of a mail; one from nobody is refused all the same.
            let error = replies.post(&part).err();
            assert!(
                matches!(error, Some(ReplyError::Unanswerable(_))),
                "{} {body}: {error:?}",
                provider.name()
            );
        }
    }
}

#[test]
fn a_blank_text_has_no_parts() {
    for replies in registry::all().iter().filter_map(|provider| provider.replies()) {
        for blank in ["", " \n\t\r\n"] {
            assert!(replies.parts(blank).is_empty());
        }
        assert_eq!(replies.parts("Done").len(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_text_makes_parts_panic_or_come_out_blank(text in "([\\PC\\n]|\\*\\*|```|<!|\\[x\\]\\(){0,600}") {
        for provider in registry::all() {
            let Some(replies) = provider.replies() else { continue };
            let parts = replies.parts(&text);
            prop_assert_eq!(parts.is_empty(), text.trim().is_empty(), "{}", provider.name());
            for part in parts {
                prop_assert!(!part.trim().is_empty());
            }
        }
    }

    #[test]
    fn long_texts_are_within_the_limits(text in "[-a-c*_<>&.\\n ]{9000,12000}") {
        for (name, limit) in
            [("slack", 4000), ("telegram", 4096), ("whatsapp", 4096), ("discord", 2000), ("google-docs", 4000)]
        {
            let parts = registry::find(name).unwrap().replies().unwrap().parts(&text);
            for part in &parts {
                prop_assert!(part.encode_utf16().count() <= limit, "{}", name);
            }
            let letters = |text: &str| text.chars().filter(|c| ('a'..='c').contains(c)).count();
            prop_assert!(parts.iter().map(|part| letters(part)).sum::<usize>() >= letters(&text));
        }
    }
}
