//! Slack's stand-in refuses what Slack refuses.

use super::super::{Fault, testing};
use super::*;

async fn send(slack: &Platform<Slack>, token: &str, path: &str, media: &str, body: &str) -> Value {
    let url = slack.url(&format!("/api/{path}"));
    let headers = [("authorization", &*format!("Bearer {token}")), ("content-type", media)];
    testing::send(Method::POST, &url, &headers, body.to_owned()).await.is(200).json()
}

async fn call(slack: &Platform<Slack>, method: &str, body: Value) -> Value {
    send(slack, "xoxb-1", method, "application/json; charset=utf-8", &body.to_string()).await
}

async fn started() -> Platform<Slack> {
    let slack = Slack::start("xoxb-1").await;
    slack.with(|slack| slack.hears("C1", "1.000001", "Hello?"));
    slack
}

#[tokio::test]
async fn a_message_is_posted_to_its_thread_changed_and_found_by_its_metadata() {
    let slack = started().await;
    let metadata = |key: &str| json!({"event_type": "t", "event_payload": {"key": key}});
    for key in ["a", "b", "c"] {
        let message = json!({"channel": "C1", "text": key, "thread_ts": "1.000001", "metadata": metadata(key)});
        assert_eq!(call(&slack, "chat.postMessage", message).await["ok"], true);
    }
    let said = slack.with(|slack| slack.said("C1", "1.000001"));
    let edit = json!({"channel": "C1", "ts": said[0].ts, "text": "A"});
    assert_eq!(call(&slack, "chat.update", edit).await["ok"], true);
    let said = slack.with(|slack| slack.said("C1", "1.000001"));
    assert_eq!((said[0].text.as_str(), said[0].edits), ("A", 1));

    let form = "application/x-www-form-urlencoded";
    let (mut seen, mut cursor) = (Vec::new(), String::new());
    loop {
        let body = format!("channel=C1&ts=1.000001&include_all_metadata=true&cursor={cursor}");
        let page = send(&slack, "xoxb-1", "conversations.replies", form, &body).await;
        let messages = page["messages"].as_array().expect("messages");
        assert!(messages.len() <= PAGE_MESSAGES);
        seen.extend(
            messages.iter().map(|message| message["metadata"]["event_payload"]["key"].clone()),
        );
        cursor = page["response_metadata"]["next_cursor"].as_str().expect("a cursor").to_owned();
        if cursor.is_empty() {
            break;
        }
    }
    assert_eq!(seen, [Value::Null, json!("a"), json!("b"), json!("c")]);
    let hidden =
        send(&slack, "xoxb-1", "conversations.replies", form, "channel=C1&ts=1.000001").await;
    assert_eq!(hidden["messages"][1]["metadata"], Value::Null);
    let history = send(&slack, "xoxb-1", "conversations.history", form, "channel=C1").await;
    assert_eq!(history["messages"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_slack_refuses_is_refused_in_its_words() {
    let slack = started().await;
    let refused = [
        (json!({"channel": "C9", "text": "x"}), "channel_not_found"),
        (json!({"channel": "C1", "text": ""}), "no_text"),
        (
            json!({"channel": "C1", "text": "x", "metadata": {"event_type": "t"}}),
            "invalid_metadata_format",
        ),
    ];
    for (message, error) in refused {
        let answer = call(&slack, "chat.postMessage", message).await;
        assert_eq!((&answer["ok"], &answer["error"]), (&json!(false), &json!(error)));
    }
    let unknown = json!({"channel": "C1", "ts": "9.9", "text": "x"});
    assert_eq!(call(&slack, "chat.update", unknown).await["error"], "message_not_found");
    assert!(slack.violations().is_empty());

    let lost = json!({"channel": "C1", "text": "x", "thread_ts": "9.9"});
    assert_eq!(call(&slack, "chat.postMessage", lost).await["error"], "thread_not_found");
    let theirs = json!({"channel": "C1", "ts": "1.000001", "text": "x"});
    assert_eq!(call(&slack, "chat.update", theirs).await["error"], "cant_update_message");
    assert_eq!(
        send(&slack, "xoxb-2", "auth.test", "text/plain", "").await["error"],
        "invalid_auth"
    );
    assert_eq!(call(&slack, "chat.delete", json!({})).await["error"], "unknown_method");
    let json = json!({"channel": "C1", "ts": "1.000001"});
    assert_eq!(call(&slack, "conversations.replies", json).await["error"], "channel_not_found");
    slack.expect_violations(&[
        "begins no thread",
        "somebody else's",
        "wrong token",
        "no method",
        "takes a form",
    ]);
}

#[tokio::test]
async fn a_text_that_is_too_long_or_pings_is_noted() {
    let slack = started().await;
    for text in [
        "x".repeat(4001),
        "a & b".into(),
        "<!channel> hi".into(),
        "<https://a.example|a> &amp; &lt;!here&gt;".into(),
    ] {
        call(&slack, "chat.postMessage", json!({"channel": "C1", "text": text})).await;
    }
    call(&slack, "chat.postMessage", json!({"channel": "C1", "text": "x", "thread": "1"})).await;
    slack.expect_violations(&["4001 characters", "bare &", "<!channel>", "no field thread"]);
}

#[tokio::test]
async fn too_many_calls_are_told_how_long_to_wait() {
    let slack = started().await;
    slack.next(Fault::RateLimits { retry_after_s: 3 });
    let url = slack.url("/api/auth.test");
    let answer = testing::send(Method::POST, &url, &[], "").await.is(429);
    assert_eq!(
        (answer.header("retry-after"), answer.text("error")),
        ("3", "ratelimited".to_owned())
    );
}
