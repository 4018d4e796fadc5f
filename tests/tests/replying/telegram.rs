//! Telegram: formatting, the interim message, and doubt that only a person can end.

use std::time::Duration;

use serde_json::json;
use wakepost_tests::platform::{Fault, Platform, Telegram, TelegramMessage};
use wakepost_tests::{Database, Gateway, on_both};

use crate::conversation::{Asked, INTERIM, are_the_text, gateway, long_text, resolve, source};

on_both!(
    the_interim_message_becomes_the_first_part_and_the_rest_follow,
    whatever_the_agent_writes_is_seen_as_it_was_written,
    a_wait_that_telegram_asks_for_is_kept,
    a_part_in_doubt_holds_the_reply_until_an_operator_decides,
);

const TOKEN: &str = "7007:AAE";
const SEND: &str = "sendMessage";

/// The chat and the message of the sample.
const CHAT: i64 = 60_112_233;
const MESSAGE: i64 = 365;

/// Three parts, as Telegram splits.
const LONG: usize = 9000;

struct Chat {
    telegram: Platform<Telegram>,
    gateway: Gateway,
    asked: Asked,
}

impl Chat {
    async fn start(database: Database) -> Chat {
        let (telegram, gateway) = (Telegram::start(TOKEN).await, gateway(database).await);
        telegram.with(|telegram| telegram.hears(CHAT, MESSAGE, "Which invoices are still open?"));
        let settings = json!({"bot_token": TOKEN, "api_url": telegram.url("")});
        let source = source(&gateway, "telegram", settings).await;
        let asked = Asked::by(&gateway, &source.sample("4711")).await;
        Chat { telegram, gateway, asked }
    }

    fn said(&self) -> Vec<TelegramMessage> {
        self.telegram.with(|telegram| telegram.said(CHAT))
    }

    #[track_caller]
    fn holds(&self, text: &str) {
        let said = self.said();
        assert!(said.len() >= 3, "{} parts", said.len());
        are_the_text(said.iter().map(|message| message.text.as_str()), text);
        assert!(self.telegram.script_is_over());
    }
}

async fn the_interim_message_becomes_the_first_part_and_the_rest_follow(database: Database) {
    let chat = Chat::start(database).await;
    chat.asked.interim().await;
    let interim =
        chat.telegram.wait_for("the interim message", |telegram| telegram.said(CHAT).pop()).await;
    assert_eq!(interim.text, INTERIM);
    chat.asked.sent(&chat.gateway.admin()).await;

    let text = long_text(LONG);
    chat.asked.answered(&text).await;
    chat.asked.sent(&chat.gateway.admin()).await;
    chat.holds(&text);
    let said = chat.said();
    assert_eq!((said[0].id, said[0].edits), (interim.id, 1));
    assert_eq!(chat.telegram.calls("editMessageText").len(), 1);
}

async fn whatever_the_agent_writes_is_seen_as_it_was_written(database: Database) {
    let chat = Chat::start(database).await;
    let text =
        "Version 1.0 (beta) is out! It costs 3 + 4 = 7 {net} | see #12, a > b; 100% C:\\temp.";
    chat.asked.answered(text).await;
    chat.asked.sent(&chat.gateway.admin()).await;
    are_the_text(chat.said().iter().map(|message| message.text.as_str()), text);
}

async fn a_wait_that_telegram_asks_for_is_kept(database: Database) {
    let chat = Chat::start(database).await;
    chat.telegram.next_to(SEND, Fault::RateLimits { retry_after_s: 1 });
    let text = long_text(LONG);
    chat.asked.answered(&text).await;
    chat.asked.sent(&chat.gateway.admin()).await;
    chat.holds(&text);
    let calls = chat.telegram.calls(SEND);
    assert!(calls[1].at - calls[0].at >= Duration::from_secs(1));
}

async fn a_part_in_doubt_holds_the_reply_until_an_operator_decides(database: Database) {
    // Telegram cannot be asked, and what happened cannot be seen from here: only a person can look.
    for (fault, outcome) in [(Fault::ClosesAfter, "committed"), (Fault::ClosesBefore, "not_done")] {
        let chat = Chat::start(database).await;
        let api = chat.gateway.admin();
        chat.telegram.next_to(SEND, Fault::Nothing);
        chat.telegram.next_to(SEND, fault);
        let text = long_text(LONG);
        chat.asked.answered(&text).await;
        let reply = chat.asked.held(&api).await;
        let shown = api.show_job(&reply).await;
        assert_eq!(shown["held_reason"], "in_doubt", "{shown}");
        assert_eq!(chat.telegram.calls(SEND).len(), 2, "nothing is sent while it is held");

        resolve(&api, &reply, "part-2", outcome).await;
        chat.asked.sent(&api).await;
        chat.holds(&text);
    }
}
