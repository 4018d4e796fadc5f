//! How failures end: the exit code, and what to do next.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::{bare, webhookctl};
use serde_json::json;
use stand_in::{StandIn, bytes_answer, json_answer, problem};

#[test]
fn without_a_key_it_says_where_to_get_one() {
    for key in [None, Some(""), Some("  ")] {
        let mut run = bare().args(["inbox", "list"]);
        if let Some(key) = key {
            run = run.args(["--key", key]);
        }
        let ran = run.run();
        ran.ends_with(2);
        assert_eq!(
            ran.stderr,
            "error: no API key: pass --key, set WAKEPOST_KEY, or add a profile (`webhookctl profiles add`); \
             `wakepost serve` prints one at its first start\n"
        );
    }
}

#[test]
fn refusals_have_their_codes_and_next_steps() {
    for (status, code, exit, next) in [
        (401, "unauthorized", 4, "check the key"),
        (403, "forbidden", 4, "higher role"),
        (404, "not_found", 3, "check the id"),
        (409, "invalid_state", 1, "webhookctl jobs inspect"),
        (500, "internal", 1, "server's log"),
    ] {
        let server = StandIn::start(move |_| problem(status, code, "it \u{1b}]0;is\u{7} so"));
        let ran = webhookctl(&server.url).args(["jobs", "cancel", "job_1", "--json"]).run();
        ran.ends_with(exit);
        assert_eq!(ran.stdout, "");
        let first = format!("error: it \\u{{1b}}]0;is\\u{{7}} so ({status} {code})\n");
        assert!(ran.stderr.starts_with(&first), "{}", ran.stderr);
        assert!(ran.stderr.contains(next), "{}", ran.stderr);
    }
}

#[test]
fn refused_fields_are_named() {
    let server = StandIn::start(|_| {
        json_answer(
            422,
            json!({"title": "Invalid", "status": 422, "code": "invalid",
            "errors": [{"field": "provider", "message": "unknown: githubb"}]}),
        )
    });
    let ran = webhookctl(&server.url).args(["sources", "create", "githubb"]).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("provider: unknown: githubb"));
}

#[test]
fn an_unreachable_server_is_5() {
    let ran = webhookctl("http://127.0.0.1:1").args(["inbox", "list"]).run();
    ran.ends_with(5);
    assert!(ran.stderr.contains("cannot reach http://127.0.0.1:1"));
    assert!(ran.stderr.contains("wakepost serve"));
}

#[test]
fn another_server_is_noticed() {
    let server = StandIn::start(|_| bytes_answer(200, b"<html>"));
    let ran = webhookctl(&server.url).args(["inbox", "list"]).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("check --url"));
    let server = StandIn::start(|_| bytes_answer(404, b"<html>"));
    let ran = webhookctl(&server.url).args(["inbox", "list"]).run();
    ran.ends_with(3);
    assert!(ran.stderr.contains("not one of Wakepost's"));
}

#[test]
fn wrong_usage_is_2_and_help_is_0() {
    bare().args([]).run().ends_with(2);
    bare().args(["inbox"]).run().ends_with(2);
    bare().args(["inbox", "lst"]).run().ends_with(2);
    webhookctl("nonsense").args(["inbox", "list"]).run().ends_with(2);
    webhookctl("http://127.0.0.1:1")
        .args(["inbox", "list", "--since", "yesterday"])
        .run()
        .ends_with(2);
    let ran = webhookctl("http://127.0.0.1:1").args(["inbox", "list", "--help"]).run();
    ran.ends_with(0);
    assert!(!ran.stdout.contains("WAKEPOST_KEY=k"), "{}", ran.stdout);
}
