//! WhatsApp's replies.

use serde_json::{Value, json};

use super::super::{Outgoing, ReplyError, ReplyStep, To};
use super::{Platform, instead, later, same, sent};
use crate::registry;

fn from(messages: Value) -> Platform {
    let body = json!({"entry": [{"changes": [{"field": "messages", "value": {
        "metadata": {"phone_number_id": "106"},
        "messages": messages, "statuses": [{"id": "s", "status": "read"}]}}]}]});
    let settings = [("access_token", "EAAsecret"), ("api_url", "https://api.example")];
    Platform::new("whatsapp", &settings, &body.to_string())
}

fn two() -> Platform {
    let message = |id: &str, from: &str| json!({"id": id, "from": from, "type": "text", "text": {"body": "hi"}});
    from(json!([message("wamid.A", "491"), message("wamid.B", "492")]))
}

fn second(part: Outgoing<'_>) -> Outgoing<'_> {
    let (request, _) = part.event().unwrap();
    Outgoing { to: To::Event { request, part: 1 }, ..part }
}

#[test]
fn a_reply_goes_to_who_wrote_from_the_number_that_was_written_to() {
    let call = two().first(second);
    assert_eq!(call.url, "https://api.example/v24.0/106/messages");
    assert_eq!(call.headers["authorization"], "Bearer EAAsecret");
    assert_eq!(
        sent(&call),
        json!({"messaging_product": "whatsapp", "recipient_type": "individual", "to": "492", "type": "text",
            "text": {"body": "Done.", "preview_url": false}, "context": {"message_id": "wamid.B"}})
    );
    assert_eq!(sent(&two().first(later))["context"], json!({"message_id": "wamid.A"}));
    let hidden = sent(&from(json!([{"id": "w", "from_user_id": "DE.1"}])).first(same));
    assert_eq!((&hidden["recipient"], hidden.get("to")), (&json!("DE.1"), None));
    let group = sent(&from(json!([{"id": "w", "from": "491", "group_id": "g1"}])).first(same));
    assert_eq!((&group["recipient_type"], &group["to"]), (&json!("group"), &json!("g1")));
}

#[test]
fn a_status_cannot_be_answered_and_no_message_be_changed() {
    let platform = from(json!([]));
    assert!(matches!(platform.error(), ReplyError::Unanswerable(_)));
    let platform = two();
    let request = platform.request.as_request();
    let part = instead(super::outgoing(&request, &platform.settings, "x"));
    assert!(platform.provider.replies().unwrap().post(&part).is_err());
}

#[test]
fn metas_errors_are_sorted_by_their_code() {
    let said = |code: u64| json!({"error": {"code": code, "message": "(#1) x"}}).to_string();
    for (status, body, expected) in [
        (400, said(4), (true, None, false, false)),
        (400, said(80_007), (true, None, false, false)),
        (400, said(130_429), (true, None, false, false)),
        (400, said(131_056), (true, None, false, false)),
        (429, said(130_429), (true, Some(7.0), false, false)),
        (500, said(131_057), (true, None, false, false)),
        (400, said(131_047), (false, None, false, false)),
        (401, said(190), (false, None, false, false)),
        (500, said(131_000), (true, None, true, false)),
        (503, String::new(), (true, None, true, false)),
        (200, "{}".to_owned(), (true, None, true, false)),
    ] {
        assert_eq!(two().failure(same, status, &body), expected, "{status} {body}");
    }
    let (_, step) = two().post(same, &[(200, r#"{"messages":[{"id":"wamid.R"}]}"#)]);
    assert_eq!(step, ReplyStep::Posted(Some("wamid.R".to_owned())));
}

#[test]
fn markdown_becomes_what_whatsapp_shows() {
    let whatsapp = registry::find("whatsapp").unwrap().replies().unwrap();
    let text = "# Head\n**b** *i* ~~s~~ `c` [t](https://a.example)\n\n```py\nx\n```";
    let expected = "*Head*\n\n*b* _i_ ~s~ `c` t (https://a.example)\n\n```\nx\n```";
    assert_eq!(whatsapp.parts(text), [expected]);
}
