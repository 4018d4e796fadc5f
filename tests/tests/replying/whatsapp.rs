//! WhatsApp: a message cannot be changed, so the answer follows what was said before.

use serde_json::json;
use wakepost_tests::platform::{Fault, WhatsApp};
use wakepost_tests::{Database, Event, on_both};

use crate::conversation::{Asked, INTERIM, are_the_text, gateway, long_text, resolve, source};

on_both!(
    the_parts_follow_the_interim_message_and_each_answers_the_question,
    a_part_in_doubt_holds_the_reply_until_an_operator_decides,
);

const TOKEN: &str = "EAAG-token";
const PHONE: &str = "106540352242922";
const QUESTION: &str = "wamid.HBgLNDcxMQ";

/// Three parts, as WhatsApp splits.
const LONG: usize = 9000;

/// One message of one person.
fn question() -> Event {
    let message = json!({
        "from": "4915550001234", "id": QUESTION, "timestamp": "1700000000", "type": "text",
        "text": {"body": "Where is my order 8123?"},
    });
    let value = json!({
        "messaging_product": "whatsapp",
        "metadata": {"display_phone_number": "15550783881", "phone_number_id": PHONE},
        "contacts": [{"profile": {"name": "Ida Berg"}, "wa_id": "4915550001234"}],
        "messages": [message],
    });
    let entry =
        json!({"id": "102290129340398", "changes": [{"field": "messages", "value": value}]});
    let body = json!({"object": "whatsapp_business_account", "entry": [entry]});
    Event { id: QUESTION.to_owned(), body: body.to_string().into_bytes(), headers: Vec::new() }
}

async fn the_parts_follow_the_interim_message_and_each_answers_the_question(database: Database) {
    let (whatsapp, gateway) = (WhatsApp::start(TOKEN, PHONE).await, gateway(database).await);
    whatsapp.with(|whatsapp| whatsapp.hears(QUESTION));
    let settings = json!({"access_token": TOKEN, "api_url": whatsapp.url("")});
    let source = source(&gateway, "whatsapp", settings).await;
    let asked = Asked::by(&gateway, &source.sign(&question())).await;
    asked.interim().await;
    asked.sent(&gateway.admin()).await;
    let text = long_text(LONG);
    whatsapp.next(Fault::RateLimits { retry_after_s: 1 });
    asked.answered(&text).await;
    asked.sent(&gateway.admin()).await;

    let said = whatsapp.with(|whatsapp| whatsapp.said());
    assert_eq!(said[0].body, INTERIM);
    are_the_text(said[1..].iter().map(|message| message.body.as_str()), &text);
    for message in &said {
        let answers = (message.to.as_str(), message.answers.as_deref());
        assert_eq!(answers, ("4915550001234", Some(QUESTION)));
    }
}

async fn a_part_in_doubt_holds_the_reply_until_an_operator_decides(database: Database) {
    let (whatsapp, gateway) = (WhatsApp::start(TOKEN, PHONE).await, gateway(database).await);
    whatsapp.with(|whatsapp| whatsapp.hears(QUESTION));
    let settings = json!({"access_token": TOKEN, "api_url": whatsapp.url("")});
    let source = source(&gateway, "whatsapp", settings).await;
    let asked = Asked::by(&gateway, &source.sign(&question())).await;
    let text = long_text(LONG);
    whatsapp.next(Fault::ClosesAfter);
    asked.answered(&text).await;
    let reply = asked.held(&gateway.admin()).await;
    resolve(&gateway.admin(), &reply, "part-1", "committed").await;
    asked.sent(&gateway.admin()).await;
    let said = whatsapp.with(|whatsapp| whatsapp.said());
    are_the_text(said.iter().map(|message| message.body.as_str()), &text);
}
