//! Email: one mail for each answer, on the thread of the question, by a mail server or by an API.

use serde_json::{Value, json};
use wakepost_tests::platform::{Fault, Resend, SendGrid, Smtp, SmtpTls};
use wakepost_tests::{Database, Gateway, on_both};

use crate::conversation::{Asked, INTERIM, are_the_text, gateway, long_text, resolve, source};

on_both!(
    a_mail_server_gets_one_mail_for_each_answer_on_the_thread,
    a_mail_that_failed_is_handed_in_again_and_one_in_doubt_is_held,
    resend_gets_each_mail_once_even_if_it_must_be_asked_twice,
    sendgrid_gets_one_mail_for_each_answer_on_the_thread,
);

const AGENT: &str = "agent@corp.example";
const ADA: &str = "ada@acme.example";

/// What the sample's mail is called, and those before it.
const QUESTION: &str = "4711.2@acme.example";
const BEFORE: [&str; 2] = ["4711.0@acme.example", "4711.1@corp.example"];

/// No mail is split.
const LONG: usize = 9000;

/// A mail to the agent, from a source with these settings for replies.
async fn asked(gateway: &Gateway, provider: &str, further: Value) -> Asked {
    let mut settings = json!({"address": AGENT, "from": format!("Agent <{AGENT}>")});
    for (name, value) in further.as_object().expect("settings") {
        settings[name] = value.clone();
    }
    let source = source(gateway, provider, settings).await;
    Asked::by(gateway, &source.sample("4711")).await
}

fn by_smtp(smtp: &Smtp) -> Value {
    json!({
        "reply_via": "smtp", "smtp_host": "127.0.0.1", "smtp_port": smtp.port().to_string(),
        "smtp_username": "agent", "smtp_password": "secret", "smtp_tls": "none",
    })
}

/// The message ids in a header, as it is written.
fn ids(header: Option<&str>) -> Vec<String> {
    let words = header.unwrap_or_default().split_whitespace();
    words.map(|word| word.trim_matches(['<', '>']).to_owned()).collect()
}

/// Checks that a mail with these headers is on the question's thread.
#[track_caller]
fn is_on_the_thread(in_reply_to: Option<&str>, references: Option<&str>) {
    assert_eq!(ids(in_reply_to), [QUESTION]);
    let references = ids(references);
    let place = |id: &str| references.iter().position(|reference| reference == id);
    let places = BEFORE.iter().chain([&QUESTION]).map(|id| place(id).expect("a reference"));
    assert!(places.is_sorted(), "{references:?}");
}

async fn a_mail_server_gets_one_mail_for_each_answer_on_the_thread(database: Database) {
    let smtp = Smtp::start(SmtpTls::Off, Some(("agent", "secret"))).await;
    let gateway = gateway(database).await;
    let asked = asked(&gateway, "email-postmark", by_smtp(&smtp)).await;
    asked.interim().await;
    asked.sent(&gateway.admin()).await;
    let text = long_text(LONG);
    asked.answered(&text).await;
    asked.sent(&gateway.admin()).await;

    let mails = smtp.mails();
    assert_eq!(mails.len(), 2);
    for (mail, said) in mails.iter().zip([INTERIM, &text]) {
        assert_eq!((mail.from.as_str(), &mail.to[..]), (AGENT, &[ADA.to_owned()][..]));
        let parsed = mail.parsed();
        assert_eq!(parsed.subject(), Some("Re: Launch window"));
        assert_eq!((parsed.text_body_count(), parsed.html_body_count()), (1, 1));
        are_the_text([&*parsed.body_text(0).expect("a text")], said);
        let header = |name| parsed.header_raw(name).map(str::to_owned);
        is_on_the_thread(header("In-Reply-To").as_deref(), header("References").as_deref());
        assert_eq!(header("Auto-Submitted").as_deref().map(str::trim), Some("auto-replied"));
    }
    let [first, second] = [0, 1].map(|n| mails[n].parsed().message_id().map(str::to_owned));
    assert!(first.is_some() && first != second, "{first:?}, {second:?}");
}

async fn a_mail_that_failed_is_handed_in_again_and_one_in_doubt_is_held(database: Database) {
    let smtp = Smtp::start(SmtpTls::Off, Some(("agent", "secret"))).await;
    let gateway = gateway(database).await;
    let asked = asked(&gateway, "email-postmark", by_smtp(&smtp)).await;
    smtp.next(Fault::Fails);
    asked.interim().await;
    asked.sent(&gateway.admin()).await;
    assert_eq!(smtp.mails().len(), 1);

    smtp.next(Fault::ClosesAfter);
    asked.answered("Done.").await;
    let reply = asked.held(&gateway.admin()).await;
    resolve(&gateway.admin(), &reply, "part-1", "committed").await;
    asked.sent(&gateway.admin()).await;
    assert_eq!(smtp.mails().len(), 2);
}

async fn resend_gets_each_mail_once_even_if_it_must_be_asked_twice(database: Database) {
    let (resend, gateway) = (Resend::start("re_1").await, gateway(database).await);
    let settings =
        json!({"reply_via": "resend", "reply_api_key": "re_1", "reply_api_url": resend.url("")});
    let asked = asked(&gateway, "email-postmark", settings).await;
    resend.next(Fault::RateLimits { retry_after_s: 1 });
    resend.next(Fault::ClosesAfter);
    let text = long_text(LONG);
    asked.answered(&text).await;
    asked.sent(&gateway.admin()).await;

    let sent = resend.with(|resend| resend.sent());
    assert_eq!((sent.len(), resend.calls("POST /emails").len()), (1, 3));
    assert!(sent[0].key.is_some());
    assert_eq!(sent[0].fields["subject"], "Re: Launch window");
    are_the_text(sent[0].fields["text"].as_str(), &text);
    assert!(sent[0].fields["html"].is_string());
    is_on_the_thread(sent[0].header("In-Reply-To"), sent[0].header("References"));
}

async fn sendgrid_gets_one_mail_for_each_answer_on_the_thread(database: Database) {
    let (sendgrid, gateway) = (SendGrid::start("SG.1").await, gateway(database).await);
    let settings = json!({"reply_api_key": "SG.1", "reply_api_url": sendgrid.url("")});
    let asked = asked(&gateway, "email-sendgrid", settings).await;
    sendgrid.next(Fault::RateLimits { retry_after_s: 1 });
    let text = long_text(LONG);
    asked.answered(&text).await;
    asked.sent(&gateway.admin()).await;

    let sent = sendgrid.with(|sendgrid| sendgrid.sent());
    assert_eq!(sent.len(), 1);
    assert_eq!((&sent[0].to[..], &sent[0].cc[..]), (&[ADA.to_owned()][..], &[][..]));
    are_the_text(sent[0].text.as_deref(), &text);
    assert!(sent[0].html.is_some());
    is_on_the_thread(sent[0].header("In-Reply-To"), sent[0].header("References"));
}
