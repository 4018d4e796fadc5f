//! `webhookctl fixtures`: requests that are kept, and sent again.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::webhookctl;
use serde_json::{Value, json};
use stand_in::{StandIn, json_answer};

fn fixture() -> Value {
    json!({"id": "first", "name": "first", "provider": "github", "event_type": "issues.opened",
        "event_id": "evt_1", "body_bytes": 512, "created_at": "2026-11-15T10:00:00.000Z"})
}

fn server(status: u16) -> StandIn {
    StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/fixtures" => {
            json_answer(200, json!({"data": [fixture()], "next_cursor": null}))
        }
        "POST /api/v1/inbox/evt_1/fixture" => json_answer(201, fixture()),
        "POST /api/v1/fixtures/first/send" => json_answer(
            200,
            json!({"event_type": "issues.opened", "status_code": status, "body": {"a": "\u{9b}"}}),
        ),
        "DELETE /api/v1/fixtures/first" => json_answer(200, json!({})),
        other => panic!("{other}"),
    })
}

#[test]
fn a_request_is_kept_listed_sent_and_deleted() {
    let server = server(202);
    let ctl = || webhookctl(&server.url);
    let ran = ctl().args(["fixtures", "save", "evt_1", "first"]).run();
    ran.ends_with(0);
    assert_eq!(server.seen()[0].body, json!({"name": "first"}));
    assert!(ran.stdout.contains("issues.opened"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "send it: webhookctl fixtures send first SOURCE\n");
    let ran = ctl().args(["fixtures", "list"]).run();
    ran.ends_with(0);
    let line = ran.stdout.lines().nth(1).unwrap();
    assert!(line.starts_with("first") && line.contains("512"), "{line}");
    let ran = ctl().args(["fixtures", "send", "first", "src_1"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "202 {\"a\":\"\\u{9b}\"}\n");
    assert_eq!(server.seen()[2].body, json!({"source": "src_1"}));
    ctl().args(["fixtures", "send", "first", "src_1", "--secret", "key"]).run().ends_with(0);
    assert_eq!(server.seen()[3].body, json!({"source": "src_1", "secret": "key"}));
    let ran = ctl().args(["fixtures", "delete", "first"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("first"), "{}", ran.stdout);
}

#[test]
fn a_request_that_is_refused_is_a_failure() {
    let server = server(401);
    let ran = webhookctl(&server.url).args(["fixtures", "send", "first", "src_1"]).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("webhookctl sources receipts src_1"), "{}", ran.stderr);
}
