//! `webhookctl dlq`: what each command sends, and what it prints.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::webhookctl;
use serde_json::json;
use stand_in::{StandIn, bytes_answer, json_answer};

#[test]
fn one_dead_letter_is_shown_whole() {
    let server = StandIn::start(|_| {
        json_answer(
            200,
            json!({"id": "job_1", "kind": "issues.opened", "status": "dead_letter", "attempts": 3,
                "max_attempts": 3, "last_error": "no such city", "trace_id": "abc",
                "runs": [{"id": "run_1", "attempt": 3, "worker": "w-1", "outcome": "failed"}],
                "effects": [{"key": "mail", "state": "committed"}], "input": {"days": 3},
                "envelope": {"event_id": "evt_1", "data": {"city": "Atlantis"}},
                "next_action": "1 effect committed, a retry skips it"}),
        )
    });
    let ran = webhookctl(&server.url).args(["dlq", "inspect", "job_1"]).run();
    ran.ends_with(0);
    for part in [
        "last error      no such city\n",
        "trace           job_1 → run_1 → 1 effect\n",
        "trace id        abc\n",
        "input           {\"days\":3}\n",
        "run_1  3        w-1     failed",
        "mail    committed",
        "payload         {\"city\":\"Atlantis\"}\n",
        "next action     1 effect committed, a retry skips it\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    assert_eq!(server.lines(), ["GET /api/v1/dead-letters/job_1"]);
}

#[test]
fn all_that_fit_are_replayed_and_waited_for() {
    let server = StandIn::start({
        let looks = std::sync::atomic::AtomicUsize::new(0);
        move |seen| match seen.line.as_str() {
            "POST /api/v1/dead-letters/replay" if seen.body["dry_run"] == true => {
                json_answer(202, json!({"operation_id": "op_2"}))
            }
            "GET /api/v1/operations/op_2" => json_answer(
                200,
                json!({"id": "op_2", "kind": "dead_letter_replay", "status": "succeeded",
                    "matched": 7, "done": 0, "failed": 0}),
            ),
            "POST /api/v1/dead-letters/replay" => json_answer(202, json!({"operation_id": "op_1"})),
            _ => {
                let look = looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let status = if look < 2 { "running" } else { "succeeded" };
                json_answer(
                    200,
                    json!({"id": "op_1", "kind": "dead_letter_replay", "status": status,
                        "matched": 7, "done": look.min(2), "failed": 0}),
                )
            }
        }
    });
    let note = ["--note", "ann: fixed"];
    let ran = webhookctl(&server.url)
        .args(["dlq", "replay", "--all", "--kind", "job", "--q", "timeout", "--dry-run"])
        .args(note)
        .run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "7 would be tried again\n");
    let ran = webhookctl(&server.url).args(["dlq", "replay", "--all"]).args(note).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "operation       op_1\n");
    let ran = webhookctl(&server.url).args(["dlq", "replay", "--all", "--wait"]).args(note).run();
    ran.ends_with(0);
    assert!(ran.stderr.contains("operation op_1\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 done, 0 failed so far\n"), "{}", ran.stderr);
    assert!(ran.stdout.contains("done            2\n"), "{}", ran.stdout);
    let seen = server.seen();
    let asked: Vec<_> = seen.iter().filter(|seen| seen.line.starts_with("POST")).collect();
    assert_eq!(asked[0].body["filter"], json!({"kind": "job", "q": "timeout"}));
    assert_eq!(asked[1].body, json!({"filter": {}, "note": "ann: fixed"}));
    // What is meant must be plain.
    webhookctl(&server.url).args(["dlq", "replay"]).args(note).run().ends_with(2);
    let both = ["dlq", "replay", "job_1", "--all"];
    webhookctl(&server.url).args(both).args(note).run().ends_with(2);
    let one = ["dlq", "replay", "job_1", "--kind", "job"];
    webhookctl(&server.url).args(one).args(note).run().ends_with(2);
}

#[test]
fn a_purge_needs_to_know_which() {
    let server = StandIn::start(|_| json_answer(202, json!({"operation_id": "op_1"})));
    let note = ["--note", "the customer asked"];
    webhookctl(&server.url).args(["dlq", "purge"]).args(note).run().ends_with(2);
    webhookctl(&server.url).args(["dlq", "purge", "--all"]).run().ends_with(2);
    assert!(server.lines().is_empty());
    webhookctl(&server.url)
        .args(["dlq", "purge", "--source", "src_1", "--until", "2026-01-02"])
        .args(note)
        .run()
        .ends_with(0);
    webhookctl(&server.url).args(["dlq", "purge", "--all"]).args(note).run().ends_with(0);
    let two = ["dlq", "purge", "--id", "job_1", "--id", "rpl_2"];
    webhookctl(&server.url).args(two).args(note).run().ends_with(0);
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /api/v1/dead-letters/purge");
    assert_eq!(
        seen[0].body["filter"],
        json!({"source": "src_1", "until": "2026-01-02T00:00:00.000Z"})
    );
    assert_eq!(seen[1].body, json!({"filter": {}, "note": "the customer asked"}));
    assert_eq!(seen[2].body["filter"], json!({"ids": ["job_1", "rpl_2"]}));
}

#[test]
fn an_export_is_written_as_it_comes() {
    let lines = b"{\"id\":\"job_2\"}\n{\"id\":\"job_1\"}\n";
    let server = StandIn::start(move |seen| match seen.line.contains("nobody") {
        true => json_answer(404, json!({"status": 404, "title": "Not found", "code": "not_found"})),
        false => bytes_answer(200, lines),
    });
    let ran = webhookctl(&server.url).args(["dlq", "export", "--kind", "job"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout.as_bytes(), lines);
    let two = ["dlq", "export", "--id", "job_1", "--id", "job_2"];
    webhookctl(&server.url).args(two).run().ends_with(0);
    let asked = ["kind=job", "ids=job_1%2Cjob_2"];
    let asked = asked.map(|query| format!("GET /api/v1/dead-letters/export?{query}"));
    assert_eq!(server.lines(), asked);
    let ran = webhookctl(&server.url).args(["dlq", "export", "--tenant", "nobody"]).run();
    ran.ends_with(3);
}
