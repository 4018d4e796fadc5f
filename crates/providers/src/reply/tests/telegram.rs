//! Telegram's replies.

use serde_json::json;

use super::super::{Outgoing, ReplyStep};
use super::{Platform, instead, later, same, sent};

fn chat(kind: &str) -> Platform {
    let body = json!({"update_id": 1, "message": {"message_id": 5, "text": "hi",
        "message_thread_id": 77, "is_topic_message": kind == "supergroup",
        "chat": {"id": -100_123, "type": kind}, "from": {"id": 1, "is_bot": false}}});
    let settings = [("bot_token", "7007:AAE"), ("api_url", "https://api.example")];
    Platform::new("telegram", &settings, &body.to_string())
}

#[test]
fn a_reply_goes_into_the_chat_and_its_topic() {
    let call = chat("private").first(same);
    assert_eq!(call.url, "https://api.example/bot7007:AAE/sendMessage");
    assert_eq!(
        sent(&call),
        json!({"chat_id": -100_123, "text": "Done.", "parse_mode": "MarkdownV2",
            "link_preview_options": {"is_disabled": true}})
    );
    let in_group = sent(&chat("supergroup").first(same));
    assert_eq!(in_group["message_thread_id"], 77);
    assert_eq!(
        in_group["reply_parameters"],
        json!({"message_id": 5, "allow_sending_without_reply": true})
    );
    assert_eq!(sent(&chat("group").first(later)).get("reply_parameters"), None);
}

#[test]
fn a_message_is_changed_in_place() {
    let call = chat("private").first(instead);
    assert!(call.url.ends_with("/editMessageText"));
    assert_eq!(sent(&call)["message_id"], 55);
    let same_text = r#"{"ok":false,"description":"Bad Request: message is not modified: x"}"#;
    let (_, step) = chat("private").post(instead, &[(400, same_text)]);
    assert_eq!(step, ReplyStep::Posted(Some("55".to_owned())));
}

/// With marks in its text.
fn marked(part: Outgoing<'_>) -> Outgoing<'_> {
    Outgoing { text: "*b* a\\.b", ..part }
}

#[test]
fn what_telegram_cannot_read_is_sent_once_more_as_plain_text() {
    let unreadable = (400, r#"{"ok":false,"description":"Bad Request: can't parse entities: x"}"#);
    let good = (200, r#"{"ok":true,"result":{"message_id":9}}"#);
    let (made, step) = chat("private").post(marked, &[unreadable, good]);
    assert_eq!(step, ReplyStep::Posted(Some("9".to_owned())));
    let plain = sent(&made[1].0);
    assert_eq!((&plain["text"], plain.get("parse_mode")), (&json!("b a.b"), None));
    let (_, step) = chat("private").post(marked, &[unreadable, unreadable]);
    assert!(matches!(step, ReplyStep::Failed(failure) if !failure.retryable && !failure.doubtful));
}

#[test]
fn telegrams_errors_are_sorted() {
    let said = |text: &str| json!({"ok": false, "description": text}).to_string();
    let limit = json!({"ok": false, "description": "Too Many Requests: retry after 31",
        "parameters": {"retry_after": 31}});
    for (status, body, expected) in [
        (400, said("Bad Request: chat not found"), (false, None, false, false)),
        (400, said("Bad Request: message to edit not found"), (false, None, false, true)),
        (400, said("Bad Request: message can't be edited"), (false, None, false, true)),
        (401, said("Unauthorized"), (false, None, false, false)),
        (403, said("Forbidden: bot was blocked by the user"), (false, None, false, false)),
        (404, said("Not Found: /bot7007:AAE/x"), (false, None, false, false)),
        (429, limit.to_string(), (true, Some(31.0), false, false)),
        (429, String::new(), (true, Some(7.0), false, false)),
        (500, said("Internal Server Error"), (true, None, true, false)),
        (502, "<html>".to_owned(), (true, None, true, false)),
        (200, "<html>".to_owned(), (true, None, true, false)),
    ] {
        assert_eq!(chat("private").failure(instead, status, &body), expected, "{status} {body}");
    }
}

#[test]
fn a_token_that_would_lead_elsewhere_is_refused() {
    for bad in ["7007:A/../x", "7?b", "7 b", "7#b"] {
        let mut platform = chat("private");
        platform.settings.insert("bot_token".to_owned(), bad.into());
        let error = platform.error().to_string();
        assert!(error.contains("bot_token") && !error.contains(bad), "{error}");
    }
}
