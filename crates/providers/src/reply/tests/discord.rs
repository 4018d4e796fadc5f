//! Discord's replies.

use std::time::Duration;

use serde_json::json;

use super::super::{Outgoing, ReplyError, ReplyStep};
use super::{Platform, instead, later, outgoing, same, sent};
use crate::testing::NOW;

/// An interaction made at the time of the tests.
fn interaction() -> Platform {
    let id = (NOW.as_millis() - 1_420_070_400_000) << 22;
    let body = json!({"id": id.to_string(), "type": 2, "application_id": "A1", "token": "tok-SECRET",
        "channel_id": "C1", "data": {"name": "ask"}});
    Platform::new("discord", &[("api_url", "https://api.example")], &body.to_string())
}

fn late(part: Outgoing<'_>) -> Outgoing<'_> {
    Outgoing { now: NOW.after(Duration::from_secs(900)), ..part }
}

fn a_minute_later(part: Outgoing<'_>) -> Outgoing<'_> {
    Outgoing { now: NOW.after(Duration::from_secs(60)), ..part }
}

#[test]
fn the_promised_answer_is_filled_in_and_more_follow() {
    let call = interaction().first(same);
    assert_eq!(call.method, "PATCH");
    assert_eq!(call.url, "https://api.example/webhooks/A1/tok-SECRET/messages/@original");
    assert_eq!(sent(&call), json!({"content": "Done.", "allowed_mentions": {"parse": []}}));
    let call = interaction().first(later);
    assert_eq!(
        (call.method.as_str(), &*call.url),
        ("POST", "https://api.example/webhooks/A1/tok-SECRET?wait=true")
    );
    assert!(interaction().first(instead).url.ends_with("/tok-SECRET/messages/55"));
}

#[test]
fn after_15_minutes_the_bot_writes_itself_or_nobody_does() {
    let mut platform = interaction();
    let request = platform.request.as_request();
    let part = late(outgoing(&request, &platform.settings, "Done."));
    let error = platform.provider.replies().unwrap().post(&part).err().unwrap();
    assert!(matches!(&error, ReplyError::Unanswerable(why) if why.contains("15 minutes")));
    assert!(!error.to_string().contains("SECRET"));
    platform.settings.insert("bot_token".to_owned(), "bot.tok".into());
    let call = platform.first(late);
    assert_eq!(call.url, "https://api.example/channels/C1/messages");
    assert_eq!(call.headers["authorization"], "Bot bot.tok");
    assert_eq!(
        (&sent(&call)["enforce_nonce"], sent(&call)["nonce"].as_str().unwrap().len()),
        (&json!(true), 24)
    );
}

#[test]
fn the_promised_answer_may_be_repeated_and_what_follows_may_not() {
    let platform = interaction();
    let (request, discord) = (platform.request.as_request(), platform.provider.replies().unwrap());
    let part = outgoing(&request, &platform.settings, "Done.");
    assert!(discord.is_repeatable(&part) && discord.is_repeatable(&instead(later(part))));
    assert!(!discord.is_repeatable(&later(part)) && !discord.is_repeatable(&late(part)));
}

#[test]
fn discords_errors_are_sorted_and_never_repeat_the_token() {
    let limit =
        json!({"message": "You are being rate limited.", "retry_after": 0.3051, "global": false});
    let said =
        |code: u64| json!({"message": "no: /webhooks/A1/tok-SECRET", "code": code}).to_string();
    for (status, body, expected) in [
        (404, said(10_008), (false, None, false, true)),
        (404, said(10_015), (true, Some(2.0), false, false)),
        (401, said(50_027), (false, None, false, false)),
        (400, said(50_035), (false, None, false, false)),
        (429, limit.to_string(), (true, Some(0.306), false, false)),
        (429, String::new(), (true, Some(7.0), false, false)),
        (500, said(0), (true, None, true, false)),
        (200, "{}".to_owned(), (true, None, true, false)),
    ] {
        assert_eq!(interaction().failure(instead, status, &body), expected, "{status} {body}");
        let (_, step) = interaction().post(instead, &[(status, &body)]);
        assert!(!format!("{step:?}").contains("SECRET"), "{step:?}");
    }
    // A minute later the token is simply not known.
    assert_eq!(
        interaction().failure(a_minute_later, 404, &said(10_015)),
        (false, None, false, false)
    );
    let (_, step) = interaction().post(same, &[(200, r#"{"id":"99"}"#)]);
    assert_eq!(step, ReplyStep::Posted(Some("99".to_owned())));
}

#[test]
fn what_nobody_waits_for_cannot_be_answered() {
    let mut platform = interaction();
    let body = String::from_utf8(platform.request.body.clone()).unwrap();
    for kind in ["1", "4"] {
        platform.request.body = body.replace("\"type\":2", &format!("\"type\":{kind}")).into();
        assert!(matches!(platform.error(), ReplyError::Unanswerable(_)));
    }
}
