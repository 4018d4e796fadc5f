//! Replies by mail.

use std::time::Duration;

use mail_parser::{MessageParser, MimeHeaders};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{MailTls, Mailed, Outgoing, OutgoingMail, ReplyError, ReplyStep};
use super::{Platform, outgoing, same, sent};
use crate::registry;
use crate::testing::NOW;

const SMTP: &[(&str, &str)] = &[
    ("from", "Acme Agent <agent@acme.example>"),
    ("smtp_host", "smtp.acme.example"),
    ("smtp_username", "agent"),
    ("smtp_password", "hunter2"),
];

fn postmark(changes: Value) -> Platform {
    let mut body = json!({
        "MessageID": "p1", "From": "Ada <ada@corp.example>", "To": "agent@acme.example",
        "Subject": "Invoices", "Headers": [
            {"Name": "Message-ID", "Value": "<m2@corp.example>"},
            {"Name": "References", "Value": "<m0@corp.example> <m1@corp.example>"}],
    });
    body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    Platform::new("email-postmark", SMTP, &body.to_string())
}

fn mail(platform: &Platform) -> OutgoingMail {
    match platform.post(same, &[]).1 {
        ReplyStep::Mail(mail) => mail,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_mail_is_answered_on_its_thread() {
    let mail = mail(&postmark(json!({})));
    assert_eq!(
        (mail.host.as_str(), mail.port, mail.tls),
        ("smtp.acme.example", 587, MailTls::StartTls)
    );
    assert_eq!(mail.login, Some(("agent".to_owned(), "hunter2".to_owned())));
    assert_eq!(
        (mail.from.as_str(), &mail.to[..]),
        ("agent@acme.example", &["ada@corp.example".to_owned()][..])
    );
    assert_eq!(mail.message_id, "<job_1-0@acme.example>");
    let text = String::from_utf8(mail.message.clone()).unwrap();
    assert!(text.split("\r\n").all(|line| !line.contains(['\r', '\n'])), "{text:?}");
    let read = MessageParser::default().parse(&mail.message).unwrap();
    assert_eq!(read.subject(), Some("Re: Invoices"));
    assert_eq!(read.message_id(), Some("job_1-0@acme.example"));
    assert_eq!(read.in_reply_to().as_text(), Some("m2@corp.example"));
    let references = read.references().as_text_list().unwrap();
    assert_eq!(references, ["m0@corp.example", "m1@corp.example", "m2@corp.example"]);
    assert_eq!(read.header_raw("Auto-Submitted").map(str::trim), Some("auto-replied"));
    assert_eq!(read.body_text(0).unwrap().trim(), "Done.");
    assert!(read.body_html(0).unwrap().contains("<p>Done.</p>"));
    assert!(read.parts[0].content_type().is_some_and(|kind| kind.subtype() == Some("alternative")));
}

#[test]
fn a_subject_has_one_re_and_no_end_of_line() {
    for (subject, expected) in [
        ("Re: Invoices", "Re: Invoices"),
        ("RE: x", "RE: x"),
        ("Café ☕", "Re: Café ☕"),
        ("x\r\nBcc: eve@evil.example", "Re: x  Bcc: eve@evil.example"),
    ] {
        let mail = mail(&postmark(json!({"Subject": subject})));
        let read = MessageParser::default().parse(&mail.message).unwrap();
        assert_eq!(read.subject(), Some(expected));
        assert!(read.bcc().is_none());
    }
    assert!(mail(&postmark(json!({"Subject": ""}))).message.len() > 100);
}

#[test]
fn the_answer_goes_where_it_is_wanted_and_to_the_others_only_for_a_copy() {
    let receivers = |changes: Value| mail(&postmark(changes)).to;
    assert_eq!(receivers(json!({"ReplyTo": "desk@corp.example"})), ["desk@corp.example"]);
    assert_eq!(receivers(json!({"Cc": "bob@corp.example"})), ["ada@corp.example"]);
    assert_eq!(
        receivers(
            json!({"To": "bob@corp.example", "Cc": "agent@acme.example, Cleo <cleo@corp.example>"})
        ),
        ["ada@corp.example", "bob@corp.example", "cleo@corp.example"]
    );
}

#[test]
fn the_agent_does_not_answer_itself() {
    for changes in [
        json!({"From": "agent@acme.example"}),
        json!({"ReplyTo": "agent+x@acme.example"}),
        json!({"From": "nobody"}),
    ] {
        assert!(matches!(postmark(changes).error(), ReplyError::Unanswerable(_)));
    }
}

#[test]
fn long_threads_keep_their_first_and_last_mails() {
    let ids: Vec<_> = (0..200).map(|n| format!("<{n}@x>")).collect();
    let headers = json!([{"Name": "Message-ID", "Value": "<m@x>"}, {"Name": "References", "Value": ids.join(" ")}]);
    let mail = mail(&postmark(json!({"Headers": headers})));
    let read = MessageParser::default().parse(&mail.message).unwrap();
    let references = read.references().as_text_list().unwrap().to_vec();
    assert_eq!(
        (references.len(), &*references[0], &*references[1], &*references[19]),
        (20, "0@x", "182@x", "m@x")
    );
}

#[test]
fn what_a_mail_server_says_is_sorted() {
    for (mailed, expected) in [
        (Mailed::Refused { code: 421, text: "busy" }, (true, false)),
        (Mailed::Refused { code: 451, text: "later" }, (true, false)),
        (Mailed::Refused { code: 550, text: "no such user" }, (false, false)),
        (Mailed::Refused { code: 535, text: "bad login" }, (false, false)),
        (Mailed::Lost { error: "refused", handed_over: false }, (true, false)),
        (Mailed::Lost { error: "reset", handed_over: true }, (true, true)),
    ] {
        match handed(mailed) {
            ReplyStep::Failed(failure) => {
                assert_eq!((failure.retryable, failure.doubtful), expected, "{mailed:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        handed(Mailed::Accepted),
        ReplyStep::Posted(Some("<job_1-0@acme.example>".to_owned()))
    );
}

fn handed(mailed: Mailed<'_>) -> ReplyStep {
    let platform = postmark(json!({}));
    let request = platform.request.as_request();
    let part = outgoing(&request, &platform.settings, "Done.");
    let mut exchange = platform.provider.replies().unwrap().post(&part).unwrap();
    assert!(matches!(exchange.next(None), ReplyStep::Mail(_)));
    exchange.mailed(mailed)
}

#[test]
fn a_mail_servers_settings_are_read() {
    let with = |name: &str, value: &str| {
        let mut platform = postmark(json!({}));
        platform.settings.insert(name.to_owned(), value.into());
        platform
    };
    assert_eq!(mail(&with("smtp_port", "465")).tls, MailTls::Implicit);
    assert_eq!(mail(&with("smtp_port", "25")).tls, MailTls::StartTls);
    assert_eq!(mail(&with("smtp_tls", "none")).tls, MailTls::None);
    for (name, value) in [
        ("smtp_port", "0"),
        ("smtp_port", "many"),
        ("smtp_tls", "yes"),
        ("smtp_host", "a b"),
        ("smtp_password", ""),
        ("from", "agent"),
        ("reply_via", "pigeon"),
    ] {
        assert!(
            matches!(with(name, value).error(), ReplyError::Config(error) if error.field == name)
        );
    }
}

fn resend() -> Platform {
    let body = json!({"type": "email.received", "data": {"email_id": "e1", "from": "Ada <ada@corp.example>",
        "to": ["agent@acme.example"], "subject": "Hi", "message_id": "<m1@corp.example>"}});
    let settings = [
        ("api_key", "re_SECRET"),
        ("address", "agent@acme.example"),
        ("api_url", "https://api.example"),
    ];
    Platform::new("email-resend", &settings, &body.to_string())
}

#[test]
fn resend_sends_with_a_key_that_makes_it_repeatable() {
    let call = resend().first(same);
    assert_eq!(call.url, "https://api.example/emails");
    assert_eq!(call.headers["authorization"], "Bearer re_SECRET");
    assert_eq!(call.headers["idempotency-key"], "job_1-0");
    let mail = sent(&call);
    assert_eq!(
        (&mail["from"], &mail["to"]),
        (&json!("agent@acme.example"), &json!(["\"Ada\" <ada@corp.example>"]))
    );
    assert_eq!(mail["headers"]["In-Reply-To"], "<m1@corp.example>");
    assert_eq!(mail["headers"]["Message-ID"], "<job_1-0@acme.example>");
    let again =
        resend().first(|part| Outgoing { now: part.now.after(Duration::from_secs(9)), ..part });
    assert_eq!(call.body, again.body, "Resend refuses the key with another mail");
    let platform = resend();
    let request = platform.request.as_request();
    let part = outgoing(&request, &platform.settings, "Done.");
    assert!(platform.provider.replies().unwrap().is_repeatable(&part));
}

#[test]
fn resend_is_asked_again_only_while_it_knows_the_key() {
    let platform = resend();
    let (request, replies) = (platform.request.as_request(), platform.provider.replies().unwrap());
    let part = outgoing(&request, &platform.settings, "Done.");
    let begun = |hours: u64| Outgoing {
        begun_at: Some(NOW.before(Duration::from_secs(hours * 3600))),
        ..part
    };
    assert!(replies.is_repeatable(&part) && replies.is_repeatable(&begun(22)));
    assert!(!replies.is_repeatable(&begun(24)));
}

#[test]
fn resends_errors_are_sorted() {
    let said = |name: &str| json!({"name": name, "message": "no"}).to_string();
    for (status, body, expected) in [
        (401, said("missing_api_key"), (false, None, false, false)),
        (403, said("validation_error"), (false, None, false, false)),
        (409, said("concurrent_idempotent_requests"), (true, None, true, false)),
        (409, said("invalid_idempotent_request"), (false, None, true, false)),
        (422, said("invalid_from_address"), (false, None, false, false)),
        (429, said("rate_limit_exceeded"), (true, Some(7.0), false, false)),
        (500, said("application_error"), (true, None, true, false)),
    ] {
        assert_eq!(resend().failure(same, status, &body), expected, "{status} {body}");
    }
}

#[test]
fn sendgrid_sends_by_its_api() {
    let mut platform = postmark(json!({"To": "bob@corp.example", "Cc": "agent@acme.example"}));
    for (name, value) in [
        ("reply_via", "sendgrid"),
        ("reply_api_key", "SG.secret"),
        ("reply_api_url", "https://api.example"),
    ] {
        platform.settings.insert(name.to_owned(), value.into());
    }
    let call = platform.first(same);
    assert_eq!(call.url, "https://api.example/v3/mail/send");
    let mail = sent(&call);
    assert_eq!(
        mail["personalizations"],
        json!([{"to": [{"email": "ada@corp.example", "name": "Ada"}], "cc": [{"email": "bob@corp.example"}]}])
    );
    assert_eq!(mail["from"], json!({"email": "agent@acme.example", "name": "Acme Agent"}));
    assert_eq!(mail["content"][0], json!({"type": "text/plain", "value": "Done."}));
    let (_, step) = platform.post(same, &[(202, "")]);
    assert_eq!(step, ReplyStep::Posted(Some("<job_1-0@acme.example>".to_owned())));
    assert_eq!(platform.failure(same, 429, ""), (true, Some(7.0), false, false));
    assert_eq!(platform.failure(same, 500, ""), (true, None, true, false));
    assert_eq!(
        platform.failure(same, 400, r#"{"errors":[{"message":"x"}]}"#),
        (false, None, false, false)
    );
}

#[test]
fn mail_in_forms_is_answered_too() {
    let headers = "Message-ID: <m1@corp.example>\r\nSubject: =?utf-8?q?Caf=C3=A9?=\r\nFrom: Ada <ada@corp.example>\r\n\
        Reply-To: desk@corp.example\r\n";
    for (provider, fields) in [
        ("email-sendgrid", vec![("headers", headers), ("from", "Ada <ada@corp.example>")]),
        ("email-mailgun", vec![("body-mime", headers), ("from", "Ada <ada@corp.example>")]),
        (
            "email-mailgun",
            vec![
                ("from", "ada@corp.example"),
                ("Reply-To", "desk@corp.example"),
                ("subject", "Café"),
                ("Message-Id", "<m1@corp.example>"),
            ],
        ),
    ] {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(&fields).finish();
        let mut platform = Platform::new(provider, SMTP, &body);
        platform.settings.insert("reply_via".to_owned(), "smtp".into());
        platform.request.set("content-type", "application/x-www-form-urlencoded").unwrap();
        let mail = mail(&platform);
        assert_eq!(mail.to, ["desk@corp.example"], "{fields:?}");
        let read = MessageParser::default().parse(&mail.message).unwrap();
        assert_eq!(
            (read.subject(), read.in_reply_to().as_text()),
            (Some("Re: Café"), Some("m1@corp.example"))
        );
    }
}

#[test]
fn only_what_the_chosen_way_needs_is_missing() {
    let missing = |provider: &str, pairs: &[(&str, &str)]| {
        let provider = registry::find(provider).unwrap();
        provider.check_config(Some("user:password"), &crate::testing::settings(pairs)).unwrap()
    };
    assert_eq!(missing("email-postmark", &[]), ["from", "smtp_host"]);
    assert_eq!(
        missing("email-postmark", &[("address", "a@b.example"), ("smtp_host", "h")]),
        [""; 0]
    );
    assert_eq!(
        missing("email-postmark", &[("from", "a@b.example"), ("reply_via", "resend")]),
        ["reply_api_key"]
    );
    assert_eq!(missing("email-sendgrid", &[("address", "a@b.example")]), ["reply_api_key"]);
}

proptest! {
    #[test]
    fn no_mail_makes_a_header_more(subject in "[\\PC\\r\\n]{0,40}", name in "[\\PC\\r\\n]{0,40}", id in "[\\PC\\r\\n<>]{0,40}") {
        let from = format!("\"{}\" <ada@corp.example>", name.replace(['"', '\\'], ""));
        let headers = json!([{"Name": "Message-ID", "Value": id}, {"Name": "References", "Value": id}]);
        let platform = postmark(json!({"Subject": subject, "From": from, "Headers": headers}));
        if let ReplyStep::Mail(mail) = platform.post(same, &[]).1 {
            let read = MessageParser::default().parse(&mail.message).unwrap();
            let known = ["date", "from", "to", "subject", "message-id", "auto-submitted", "in-reply-to",
                "references", "mime-version", "content-type"];
            for header in read.headers() {
                let name = header.name().to_ascii_lowercase();
                prop_assert!(known.contains(&name.as_str()), "{}", name);
            }
            prop_assert_eq!(mail.to, ["ada@corp.example"]);
        }
    }
}
