//! Approving and rejecting: what is shown, what is asked, and what is sent.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::webhookctl;
use serde_json::json;
use stand_in::{StandIn, json_answer};

/// A job that would send a mail and make a call.
fn server() -> StandIn {
    StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/jobs/job_1" => json_answer(
            200,
            json!({"id": "job_1", "status": "awaiting_approval", "effects": [
                {"key": "mail", "state": "proposed", "proposal_hash": "aa",
                 "description": "to: ada@example.com\nthe \u{1b}[31mrefund",
                 "expires_at": "2020-01-01T00:00:00.000Z"},
                {"key": "call", "state": "proposed", "proposal_hash": "bb"},
                {"key": "note", "state": "committed", "proposal_hash": "cc"}]}),
        ),
        "GET /api/v1/jobs/job_2" => {
            json_answer(200, json!({"id": "job_2", "status": "succeeded", "effects": []}))
        }
        line if line.ends_with("/approve") => {
            json_answer(200, json!({"id": "job_1", "status": "pending"}))
        }
        line if line.ends_with("/reject") => {
            json_answer(200, json!({"id": "job_1", "status": "cancelled"}))
        }
        other => panic!("{other}"),
    })
}

#[test]
fn what_is_shown_is_what_is_approved() {
    let server = server();
    let ran = webhookctl(&server.url)
        .args(["jobs", "approve", "job_1", "--yes", "--note", "ann: as it is"])
        .run();
    ran.ends_with(0);
    assert!(ran.stderr.contains("mail (until 2020-01-01 00:00:00Z"), "{}", ran.stderr);
    assert!(ran.stderr.contains("\n    to: ada@example.com\n    the \\u{1b}[31mrefund\n"));
    assert!(ran.stdout.contains("pending"));
    let sent = &server.seen()[1];
    assert_eq!(sent.line, "POST /api/v1/jobs/job_1/approve");
    let effects =
        json!([{"key": "mail", "proposal_hash": "aa"}, {"key": "call", "proposal_hash": "bb"}]);
    assert_eq!(sent.body, json!({"effects": effects, "note": "ann: as it is"}));
}

#[test]
fn one_effect_can_be_rejected_by_its_key() {
    let server = server();
    let ran = webhookctl(&server.url)
        .args(["jobs", "reject", "job_1", "--effect", "call", "--yes", "--json"])
        .run();
    ran.ends_with(0);
    assert!(ran.stdout.starts_with('{') && ran.stdout.contains("\"cancelled\""));
    let effects = json!([{"key": "call", "proposal_hash": "bb"}]);
    assert_eq!(server.seen()[1].body, json!({"effects": effects}));
}

#[test]
fn nothing_is_decided_unseen_or_unasked() {
    let server = server();
    // Nobody is there to ask.
    let ran = webhookctl(&server.url).args(["jobs", "approve", "job_1"]).stdin("y\n").run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("--yes"));
    for args in [
        ["jobs", "approve", "job_1", "--effect", "note", "--yes"],
        ["jobs", "approve", "job_2", "--note", "n", "--yes"],
    ] {
        webhookctl(&server.url).args(args).run().ends_with(2);
    }
    assert!(server.lines().iter().all(|line| line.starts_with("GET ")));
}

#[test]
fn a_held_job_is_released_or_its_doubt_resolved() {
    let server = StandIn::start(|_| json_answer(200, json!({"id": "job_1", "status": "pending"})));
    let ctl = || webhookctl(&server.url);
    ctl().args(["jobs", "release", "job_1", "--note", "ann: on"]).run().ends_with(0);
    let done = ["jobs", "resolve", "job_1", "mail", "--committed", "--result", "{\"id\":7}"];
    ctl().args(done).args(["--note", "ann: sent"]).run().ends_with(0);
    let undone = ["jobs", "resolve", "rpl_1", "part-1", "--not-done", "--note", "ann: no"];
    let ran = ctl().args(undone).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("pending"));
    for wrong in [["--committed", "--not-done"], ["--not-done", "--result=1"]] {
        let both = ctl().args(["jobs", "resolve", "job_1", "mail", "--note", "n"]).args(wrong);
        both.run().ends_with(2);
    }
    let sent: Vec<_> = server.seen().into_iter().map(|seen| (seen.line, seen.body)).collect();
    let line = |path: &str| format!("POST /api/v1/jobs/{path}");
    assert_eq!(
        sent,
        [
            (line("job_1/release"), json!({"note": "ann: on"})),
            (
                line("job_1/effects/mail/resolve"),
                json!({"outcome": "committed", "result": {"id": 7}, "note": "ann: sent"})
            ),
            (
                line("rpl_1/effects/part-1/resolve"),
                json!({"outcome": "not_done", "note": "ann: no"})
            ),
        ]
    );
}
