//! Telegram's stand-in refuses what Telegram refuses.

use super::super::{Fault, testing};
use super::*;
use crate::http::Answer;

async fn call(telegram: &Platform<Telegram>, method: &str, body: Value) -> Answer {
    let url = telegram.url(&format!("/bot7007:AAE/{method}"));
    let headers = [("content-type", "application/json")];
    testing::send(Method::POST, &url, &headers, body.to_string()).await
}

async fn started() -> Platform<Telegram> {
    let telegram = Telegram::start("7007:AAE").await;
    telegram.with(|telegram| telegram.hears(5, 40, "Hello?"));
    telegram
}

#[track_caller]
fn says(answer: Answer, status: u16, description: &str) {
    let answer = answer.is(status).json();
    assert_eq!(answer["ok"], false);
    let said = answer["description"].as_str().expect("a description");
    assert!(said.starts_with(description), "{said}");
}

#[tokio::test]
async fn a_message_is_sent_and_changed_once() {
    let telegram = started().await;
    let answers = json!({"message_id": 40});
    let message = json!({"chat_id": 5, "text": "*Hi*\\.", "parse_mode": "MarkdownV2", "reply_parameters": answers});
    let sent = call(&telegram, "sendMessage", message).await.is(200).json();
    assert_eq!(
        (&sent["result"]["message_id"], &sent["result"]["text"]),
        (&json!(41), &json!("Hi."))
    );
    let edit = json!({"chat_id": "5", "message_id": 41, "text": "Bye."});
    call(&telegram, "editMessageText", edit.clone()).await.is(200);
    says(
        call(&telegram, "editMessageText", edit).await,
        400,
        "Bad Request: message is not modified",
    );
    let said = telegram.with(|telegram| telegram.said(5));
    assert_eq!(
        (said.len(), said[0].text.as_str(), said[0].edits, said[0].answers),
        (1, "Bye.", 1, Some(40))
    );
}

#[tokio::test]
async fn what_telegram_refuses_is_refused_in_its_words() {
    let telegram = started().await;
    let refused = [
        ("sendMessage", json!({"chat_id": 6, "text": "x"}), "Bad Request: chat not found"),
        (
            "editMessageText",
            json!({"chat_id": 5, "message_id": 9, "text": "x"}),
            "Bad Request: message to edit not",
        ),
        (
            "sendMessage",
            json!({"chat_id": 5, "text": "x", "reply_parameters": {"message_id": 9}}),
            "Bad Request: message to be replied not found",
        ),
        (
            "setWebhook",
            json!({"url": "http://a.example"}),
            "Bad Request: bad webhook: An HTTPS URL",
        ),
    ];
    for (method, body, description) in refused {
        says(call(&telegram, method, body).await, 400, description);
    }
    assert!(telegram.violations().is_empty());

    let bare = json!({"chat_id": 5, "text": "1.", "parse_mode": "MarkdownV2"});
    let why =
        "Bad Request: can't parse entities: Character '.' is reserved and must be escaped with";
    says(call(&telegram, "sendMessage", bare).await, 400, why);
    let long = |text: String| json!({"chat_id": 5, "text": text, "parse_mode": "MarkdownV2"});
    call(&telegram, "sendMessage", long("\\.".repeat(4096))).await.is(200);
    says(
        call(&telegram, "sendMessage", long("x".repeat(4097))).await,
        400,
        "Bad Request: message is too long",
    );
    let elsewhere = json!({"chat_id": 5, "text": "x", "message_thread_id": 3});
    says(
        call(&telegram, "sendMessage", elsewhere).await,
        400,
        "Bad Request: message thread not found",
    );
    call(&telegram, "sendMessage", json!({"chat_id": 5, "text": "x", "reply_to": 1})).await.is(200);
    telegram.expect_violations(&["MarkdownV2", "4097", "topic 3", "no field reply_to"]);
}

#[tokio::test]
async fn another_bots_token_is_refused_and_too_many_calls_are_told_to_wait() {
    let telegram = started().await;
    let url = telegram.url("/bot1:A/getMe");
    let answer = testing::send(Method::GET, &url, &[], "").await;
    says(answer, 401, "Unauthorized");
    telegram.expect_violations(&["token"]);
    telegram.next(Fault::RateLimits { retry_after_s: 2 });
    let limited = call(&telegram, "getMe", json!({})).await.is(429).json();
    assert_eq!(limited["parameters"]["retry_after"], 2);
    let secret = json!({"url": "https://a.example", "secret_token": "s"});
    call(&telegram, "setWebhook", secret).await.is(200);
    let info = call(&telegram, "getWebhookInfo", json!({})).await.is(200).json();
    assert_eq!(info["result"]["url"], "https://a.example");
    assert_eq!(telegram.with(|telegram| telegram.webhook()["secret_token"].clone()), "s");
}
