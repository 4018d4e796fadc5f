//! Slack's replies.

use serde_json::json;

use super::super::{Outgoing, ReplyExchange, ReplyStep, To};
use super::{Platform, calls, instead, later, outgoing, same, sent};
use crate::registry;
use crate::testing::NOW;

fn message(thread_ts: Option<&str>) -> Platform {
    let body = json!({
        "type": "event_callback", "event_id": "Ev1", "team_id": "T1", "api_app_id": "A1",
        "event": {"type": "app_mention", "user": "U1", "channel": "C1", "ts": "1700000000.000100",
            "thread_ts": thread_ts, "text": "<@U2> hi"},
    });
    let settings = [("bot_token", "xoxb-secret"), ("api_url", "https://api.example/")];
    let mut platform = Platform::new("slack", &settings, &body.to_string());
    platform.request.set("x-slack-request-timestamp", "1700000000").unwrap();
    platform
}

fn command() -> Platform {
    let mut platform = message(None);
    platform.request.set("content-type", "application/x-www-form-urlencoded").unwrap();
    platform.request.body =
        b"command=%2Fask&team_id=T1&channel_id=C1&trigger_id=13.37.abc&text=x".into();
    platform
}

#[test]
fn a_reply_goes_into_the_thread_with_our_mark() {
    let call = message(None).first(same);
    assert_eq!(call.url, "https://api.example/chat.postMessage");
    assert_eq!(call.headers["authorization"], "Bearer xoxb-secret");
    let metadata = json!({"event_type": "wakepost_reply", "event_payload": {"key": "job_1-0"}});
    assert_eq!(
        sent(&call),
        json!({"channel": "C1", "text": "Done.", "thread_ts": "1700000000.000100",
            "unfurl_links": false, "metadata": metadata})
    );
    let call = message(Some("1600000000.000100")).first(later);
    assert_eq!(sent(&call)["thread_ts"], "1600000000.000100");
}

#[test]
fn a_command_is_answered_in_its_channel() {
    let call = command().first(same);
    assert_eq!((&sent(&call)["channel"], sent(&call).get("thread_ts")), (&json!("C1"), None));
}

#[test]
fn a_message_is_changed_in_place() {
    let call = message(None).first(instead);
    assert_eq!(call.url, "https://api.example/chat.update");
    assert_eq!((&sent(&call)["ts"], sent(&call).get("thread_ts")), (&json!("55"), None));
}

#[test]
fn without_a_token_the_error_names_it() {
    let mut platform = message(None);
    platform.settings.remove("bot_token");
    assert!(platform.error().to_string().contains("bot_token"));
}

#[test]
fn slacks_errors_are_sorted() {
    let said = |error: &str| json!({"ok": false, "error": error}).to_string();
    let platform = message(None);
    for (status, body, expected) in [
        (200, said("channel_not_found"), (false, None, false, false)),
        (200, said("not_in_channel"), (false, None, false, false)),
        (200, said("invalid_auth"), (false, None, false, false)),
        (200, said("token_expired"), (false, None, false, false)),
        (200, said("msg_too_long"), (false, None, false, false)),
        (200, said("missing_scope"), (false, None, false, false)),
        (200, said("message_not_found"), (false, None, false, true)),
        (200, said("ratelimited"), (true, None, false, false)),
        (429, said("ratelimited"), (true, Some(7.0), false, false)),
        (429, String::new(), (true, Some(7.0), false, false)),
        (200, said("internal_error"), (true, None, true, false)),
        (200, said("fatal_error"), (true, None, true, false)),
        (500, said("internal_error"), (true, None, true, false)),
        (503, String::new(), (true, None, true, false)),
        (200, "<html>".to_owned(), (true, None, true, false)),
        (403, String::new(), (false, None, false, false)),
    ] {
        assert_eq!(platform.failure(same, status, &body), expected, "{status} {body}");
    }
    let (_, step) = platform.post(same, &[(200, r#"{"ok":true,"ts":"1.2"}"#)]);
    assert_eq!(step, ReplyStep::Posted(Some("1.2".to_owned())));
}

fn in_channel(part: Outgoing<'_>) -> Outgoing<'_> {
    Outgoing { to: To::Channel { id: "C9", since: NOW }, ..part }
}

#[test]
fn what_answers_nothing_goes_into_its_channel_and_is_looked_for_there() {
    let platform = message(None);
    let call = platform.first(in_channel);
    assert_eq!(call.url, "https://api.example/chat.postMessage");
    assert_eq!((&sent(&call)["channel"], sent(&call).get("thread_ts")), (&json!("C9"), None));
    let request = platform.request.as_request();
    let part = in_channel(outgoing(&request, &platform.settings, "Done."));
    let exchange = platform.provider.replies().unwrap().look_up(&part).unwrap().unwrap();
    let (made, step) = calls(exchange, &[(200, r#"{"ok":true,"messages":[]}"#)]);
    let oldest = format!("oldest={}", NOW.as_secs() - 300);
    let (url, acts) = (&made[0].0.url, made[0].1);
    assert!(url.contains("/conversations.history?channel=C9&") && url.contains(&oldest), "{url}");
    assert_eq!((acts, step), (false, ReplyStep::Absent));
}

#[test]
fn alerts_have_a_channel_only_with_a_token_to_post_with() {
    let replies = registry::find("slack").unwrap().replies().unwrap();
    let mut settings = message(None).settings;
    assert_eq!(replies.alerts_channel(&settings), None);
    settings.insert("alerts_channel".to_owned(), "C0123ABCD".into());
    assert_eq!(replies.alerts_channel(&settings), Some("C0123ABCD"));
    settings.remove("bot_token");
    assert_eq!(replies.alerts_channel(&settings), None);
}

fn look_up(platform: &Platform, answers: &[(u16, &str)]) -> (Vec<String>, ReplyStep) {
    let request = platform.request.as_request();
    let part = outgoing(&request, &platform.settings, "Done.");
    let exchange: Box<dyn ReplyExchange> =
        platform.provider.replies().unwrap().look_up(&part).unwrap().unwrap();
    let (made, step) = calls(exchange, answers);
    assert!(made.iter().all(|(call, acts)| !acts && call.method == "GET"));
    (made.into_iter().map(|(call, _)| call.url).collect(), step)
}

fn page(key: &str, cursor: &str) -> String {
    let metadata = json!({"event_type": "wakepost_reply", "event_payload": {"key": key}});
    json!({"ok": true, "response_metadata": {"next_cursor": cursor},
        "messages": [{"ts": "1.0", "text": "hi"}, {"ts": "2.0", "metadata": metadata}]})
    .to_string()
}

#[test]
fn a_message_is_found_again_by_its_key() {
    let (ours, other) = (page("job_1-0", ""), page("job_1-1", ""));
    let (urls, step) = look_up(&message(None), &[(200, &ours)]);
    assert_eq!(step, ReplyStep::Posted(Some("2.0".to_owned())));
    assert!(
        urls[0].starts_with(
            "https://api.example/conversations.replies?channel=C1&ts=1700000000.000100&"
        )
    );
    assert!(urls[0].contains("include_all_metadata=true") && urls[0].contains("oldest=1699999700"));
    assert_eq!(look_up(&message(None), &[(200, &other)]).1, ReplyStep::Absent);
    let (urls, step) = look_up(&command(), &[(200, &page("x", "c=&1")), (200, &ours)]);
    assert_eq!(step, ReplyStep::Posted(Some("2.0".to_owned())));
    assert!(urls[0].contains("/conversations.history?") && urls[1].contains("cursor=c%3D%261"));
}

#[test]
fn a_look_up_without_end_or_answer_leaves_it_in_doubt() {
    let more = page("x", "again");
    let endless: Vec<_> = std::iter::repeat_n((200, more.as_str()), 10).collect();
    let refused = (200, r#"{"ok":false,"error":"missing_scope"}"#);
    for answers in [&endless[..], &[refused], &[(500, "")], &[(429, "")]] {
        let (_, step) = look_up(&message(None), answers);
        assert!(matches!(&step, ReplyStep::Failed(failure) if failure.doubtful), "{step:?}");
    }
}

#[test]
fn markdown_becomes_mrkdwn_and_pings_nobody() {
    let slack = registry::find("slack").unwrap().replies().unwrap();
    for (markdown, expected) in [
        ("**b** *i* ~~s~~ `c`", "*b* _i_ ~s~ `c`"),
        ("## Head", "*Head*"),
        ("- a\n- b", "• a\n• b"),
        ("[t](https://a.example?b=1&c=2)", "<https://a.example?b=1&amp;c=2|t>"),
        ("[t|u](https://a.example/x|y)", "<https://a.example/x%7Cy|t¦u>"),
        ("<https://a.example>", "<https://a.example>"),
        (
            "<!channel> <!here> <@U1> <#C1>",
            "&lt;!channel&gt; &lt;!here&gt; &lt;@U1&gt; &lt;#C1&gt;",
        ),
        ("[x](!channel) [y](@U1)", "x (!channel) y (@U1)"),
        ("`<!channel>`", "`&lt;!channel&gt;`"),
        ("```rust\nif a < b && c {}\n```", "```\nif a &lt; b &amp;&amp; c {}\n```"),
        ("a & b < c > d", "a &amp; b &lt; c &gt; d"),
    ] {
        assert_eq!(slack.parts(markdown), [expected], "{markdown}");
    }
    let parts = slack.parts(&"<!channel> word ".repeat(600));
    assert!(parts.len() > 2 && parts.iter().all(|part| !part.contains("<!")));
}

#[test]
fn only_a_change_in_place_may_be_repeated() {
    let platform = message(None);
    let (request, slack) = (platform.request.as_request(), platform.provider.replies().unwrap());
    let part = outgoing(&request, &platform.settings, "Done.");
    assert!(!slack.is_repeatable(&part) && slack.is_repeatable(&instead(part)));
    assert!(slack.can_update());
}
