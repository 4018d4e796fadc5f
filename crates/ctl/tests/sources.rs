//! `webhookctl sources`: what changes a source, and what tells of it.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::webhookctl;
use serde_json::{Value, json};
use stand_in::{StandIn, bytes_answer, json_answer, problem};

fn slack() -> Value {
    json!({"id": "src_1", "provider": "slack", "enabled": true, "ingest_url": "https://h/in/src_1",
        "missing_settings": [], "settings": {"team": "T1", "bot_token": "(secret)"}})
}

#[test]
fn create_takes_every_field_of_the_api() {
    let server = StandIn::start(|_| json_answer(201, json!({"id": "src_1", "provider": "slack"})));
    webhookctl(&server.url)
        .args(["sources", "create", "slack", "--dedup-key", "{/id}", "--dedup-body", "true"])
        .args(["--dedup-window-s", "60", "--rate-per-s", "2.5", "--owner", "ann@acme.example"])
        .args(["--allow-from", "10.0.0.0/8", "--disabled", "--unsigned=false"])
        .run()
        .ends_with(0);
    assert_eq!(
        server.seen()[0].body,
        json!({"provider": "slack", "dedup_key": "{/id}", "dedup_body": true, "dedup_window_s": 60,
            "rate_per_s": 2.5, "owner": "ann@acme.example", "allow_from": ["10.0.0.0/8"],
            "enabled": false, "unsigned": false})
    );
    let yes = ["sources", "create", "slack", "--dedup-body", "yes"];
    webhookctl(&server.url).args(yes).run().ends_with(2);
}

#[test]
fn create_says_how_events_belong_together() {
    let server = StandIn::start(|_| json_answer(201, json!({"id": "src_1", "provider": "slack"})));
    let create = ["sources", "create", "slack"];
    webhookctl(&server.url)
        .args(create)
        .args(["--thread-policy", "interrupt", "--quiet-ms", "500", "--quiet-cap-ms", "4000"])
        .run()
        .ends_with(0);
    webhookctl(&server.url)
        .args(create)
        .args(["--order-by", "/id", "--sequence-by", "/n", "--order-wait-s", "5"])
        .args(["--coalesce-by", "/rev"])
        .run()
        .ends_with(0);
    let sent: Vec<Value> = server.seen().iter().map(|seen| seen.body.clone()).collect();
    assert_eq!(
        sent,
        [
            json!({"provider": "slack", "thread_policy": "interrupt", "quiet_ms": 500,
                "quiet_cap_ms": 4000}),
            json!({"provider": "slack", "order_by": "/id", "sequence_by": "/n", "order_wait_s": 5,
                "coalesce_by": "/rev"}),
        ]
    );
    webhookctl(&server.url).args(create).args(["--thread-policy", "shout"]).run().ends_with(2);
}

#[test]
fn update_sends_what_was_named_and_nothing_else() {
    let server = StandIn::start(|_| {
        let mut source = slack();
        source["missing_settings"] = json!(["secret"]);
        source["executor_secret"] = json!("whsec_x");
        source["warning"] = json!("set \u{1b}[31mWAKEPOST_PUBLIC_URL");
        json_answer(200, source)
    });
    let ran = webhookctl(&server.url)
        .args(["sources", "update", "src_1", "--name", "team", "--secret", "-"])
        .args(["--dedup-body", "false", "--reset", "dedup-key", "--reset", "allow-from"])
        .args(["--executor", "https://agent/run"])
        .stdin("given\n")
        .run();
    ran.ends_with(0);
    assert_eq!(server.lines(), ["PATCH /api/v1/sources/src_1"]);
    assert_eq!(
        server.seen()[0].body,
        json!({"name": "team", "secret": "given", "dedup_body": false, "dedup_key": null,
            "allow_from": null, "executor": {"kind": "http", "url": "https://agent/run"}})
    );
    assert!(ran.stdout.contains("state           missing secret\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("executor secret whsec_x  (shown once"), "{}", ran.stdout);
    assert!(ran.stdout.contains("warning         set \\u{1b}[31mWAKEPOST_PUBLIC_URL\n"));
    assert!(ran.stderr.contains("webhookctl sources update src_1 --secret …"), "{}", ran.stderr);
}

#[test]
fn an_update_that_says_nothing_or_two_things_is_wrong_usage() {
    let server = StandIn::start(|_| json_answer(200, slack()));
    let ran = webhookctl(&server.url).args(["sources", "update", "src_1"]).run();
    ran.ends_with(2);
    assert!(ran.stderr.starts_with("error: nothing to change"), "{}", ran.stderr);
    let both = ["sources", "update", "src_1", "--owner", "a@b", "--reset", "owner"];
    let ran = webhookctl(&server.url).args(both).run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("--owner and --reset owner contradict each other"));
    let unknown = ["sources", "update", "src_1", "--reset", "secret"];
    webhookctl(&server.url).args(unknown).run().ends_with(2);
    assert!(server.lines().is_empty());
}

#[test]
fn update_keeps_the_other_settings() {
    let server = StandIn::start(|_| {
        let mut source = slack();
        source["settings"] = json!({"team": "T1", "bot": "B1", "old": "x"});
        json_answer(200, source)
    });
    webhookctl(&server.url)
        .args(["sources", "update", "src_1", "--setting", "bot=B2", "--setting", "old:=null"])
        .run()
        .ends_with(0);
    assert_eq!(server.lines(), ["GET /api/v1/sources/src_1", "PATCH /api/v1/sources/src_1"]);
    assert_eq!(server.seen()[1].body, json!({"settings": {"team": "T1", "bot": "B2"}}));
}

#[test]
fn update_does_not_lose_secret_settings() {
    let server = StandIn::start(|_| json_answer(200, slack()));
    let ran = webhookctl(&server.url)
        .args(["sources", "update", "src_1", "--setting", "team=T2", "--name", "n"])
        .run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
    assert!(ran.stderr.contains("give them again too: --setting bot_token=…"), "{}", ran.stderr);
    assert_eq!(server.lines(), ["GET /api/v1/sources/src_1"]);
    webhookctl(&server.url)
        .args(["sources", "update", "src_1", "--setting", "team=T2"])
        .args(["--setting", "bot_token=xoxb-1"])
        .run()
        .ends_with(0);
    let sent = server.seen().pop().expect("a call");
    assert_eq!(sent.body, json!({"settings": {"team": "T2", "bot_token": "xoxb-1"}}));
}

#[test]
fn rotate_shows_the_new_secret_once_and_until_when_the_old_one_works() {
    let server = StandIn::start(|seen| {
        let mut source = slack();
        source["previous_expires_at"] = json!("2020-01-02T00:00:00.000Z");
        if seen.body.get("secret").is_none() {
            source["secret"] = json!("made");
        }
        json_answer(200, source)
    });
    let ran = webhookctl(&server.url).args(["sources", "rotate", "src_1"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("secret          made  (shown once: keep it now)\n"));
    assert!(ran.stdout.contains("old secret      accepted until 2020-01-02 00:00:00Z ("));
    assert!(ran.stderr.contains("next: enter the new secret at the provider"), "{}", ran.stderr);
    let ran = webhookctl(&server.url)
        .args(["sources", "rotate", "src_1", "--secret", "-", "--grace-s", "60"])
        .stdin("given\r\n")
        .run();
    ran.ends_with(0);
    assert!(!ran.stdout.contains("given") && ran.stderr.is_empty(), "{}", ran.stderr);
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /api/v1/sources/src_1/rotate");
    assert_eq!(seen[0].body, json!({}));
    assert_eq!(seen[1].body, json!({"secret": "given", "grace_s": 60}));
}

#[test]
fn sources_are_switched_and_deleted() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "POST /api/v1/sources/src_1/enable" => {
            json_answer(200, json!({"id": "src_1", "status": "enabled"}))
        }
        "POST /api/v1/sources/src_1/disable" => {
            json_answer(200, json!({"id": "src_1", "status": "disabled"}))
        }
        "DELETE /api/v1/sources/src_1" => bytes_answer(204, b""),
        _ => problem(404, "not_found", "there is none"),
    });
    let run =
        |command: &str, id: &str| webhookctl(&server.url).args(["sources", command, id]).run();
    let ran = run("enable", "src_1");
    ran.ends_with(0);
    assert_eq!(ran.stdout, "source          src_1\nstatus          enabled\n");
    assert_eq!(ran.stderr, "");
    let ran = run("disable", "src_1");
    ran.ends_with(0);
    assert_eq!(ran.stdout, "source          src_1\nstatus          disabled\n");
    assert!(ran.stderr.contains("get 404"));
    let ran = run("delete", "src_1");
    ran.ends_with(0);
    assert_eq!(ran.stdout, "deleted         src_1\n");
    assert_eq!(server.seen()[0].body, json!({}));
    for command in
        ["update", "rotate", "enable", "disable", "delete", "status", "setup", "receipts"]
    {
        let mut gone = webhookctl(&server.url).args(["sources", command, "src_2"]);
        if command == "update" {
            gone = gone.args(["--name", "n"]);
        }
        gone.run().ends_with(3);
    }
}

#[test]
fn status_says_what_a_request_meets_and_what_to_do() {
    let server = StandIn::start(|seen| {
        let mut status = json!({"id": "src_1", "provider": "slack", "label": "Slack",
            "enabled": true, "configured": false, "webhook_url": "https://h/in/src_1",
            "missing_settings": ["secret", "bot_token"], "error": "no public\naddress"});
        if seen.line.contains("src_2") {
            status = json!({"id": "src_2", "provider": "newer", "enabled": true,
                "configured": true, "missing_settings": [], "error": null});
        }
        json_answer(200, status)
    });
    let ran = webhookctl(&server.url).args(["sources", "status", "src_1"]).run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "source          src_1\n\
         provider        Slack\n\
         state           cannot verify yet: requests get 503\n\
         ingest URL      https://h/in/src_1\n\
         missing         secret, bot_token\n\
         problem         no public\\naddress\n"
    );
    assert!(ran.stderr.contains("sources update src_1 --secret … --setting bot_token=…"));
    let ran = webhookctl(&server.url).args(["sources", "status", "src_2"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("provider        newer\nstate           ready to receive\n"));
    assert_eq!(ran.stderr, "");
    assert_eq!(server.lines()[0], "GET /api/v1/sources/src_1/status");
}

#[test]
fn setup_registers_or_gives_the_steps() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "POST /api/v1/sources/src_1/setup" => {
            json_answer(200, json!({"id": "src_1", "status": "registered", "steps": []}))
        }
        "POST /api/v1/sources/src_2/setup" => json_answer(
            200,
            json!({"id": "src_2", "status": "manual", "verification_token": "secret_x",
                "steps": ["Open it.", "Enter\u{1b}[2J that."]}),
        ),
        _ => problem(502, "registration_failed", "Telegram did not take the registration: no"),
    });
    let run = |id: &str| webhookctl(&server.url).args(["sources", "setup", id]).run();
    let ran = run("src_1");
    ran.ends_with(0);
    assert_eq!(ran.stdout, "source          src_1\nset-up          registered at the provider\n");
    let ran = run("src_2");
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "source          src_2\n\
         set-up          to be done by hand\n\
         token           secret_x  (shown once: keep it now)\n  \
         1. Open it.\n  \
         2. Enter\\u{1b}[2J that.\n"
    );
    let ran = run("src_3");
    ran.ends_with(1);
    assert!(ran.stderr.contains("Telegram did not take the registration: no"));
    assert_eq!(server.seen()[0].body, json!({}));
}

#[test]
fn receipts_are_listed_with_why_they_came() {
    let server = StandIn::start(|seen| match seen.line.contains("cursor=c2") {
        true => json_answer(200, json!({"data": [], "next_cursor": null})),
        false => json_answer(
            200,
            json!({"data": [
                {"id": "rcp_1", "event_id": "evt_1", "received_at": "2020-01-01T00:00:00.000Z",
                 "verdict": "duplicate", "class": "provider_retry", "address": "192.0.2.7",
                 "latency_us": 1500, "detail": null,
                 "evidence": {"seconds_after": 9, "same_id": true, "our_fault": "slow"}},
                {"id": "rcp_2", "event_id": null, "received_at": "2020-01-01T00:00:00.000Z",
                 "verdict": "bad_signature", "address": null, "latency_us": 80,
                 "detail": "it fits the \u{1b}[1mbody", "evidence": "of a newer shape"}],
                "next_cursor": "c2"}),
        ),
    });
    let ran = webhookctl(&server.url)
        .args(["sources", "receipts", "src_1", "--limit", "2", "--cursor", "c1"])
        .run();
    ran.ends_with(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words(0), "WHEN VERDICT CLASS FROM LATENCY DETAIL");
    assert!(words(1).ends_with("days ago duplicate provider_retry 192.0.2.7 1 ms -"));
    assert!(words(2).ends_with("days ago bad_signature - - 80 µs it fits the \\u{1b}[1mbody"));
    assert!(ran.stderr.contains("more: webhookctl sources receipts src_1 --limit 2 --cursor c2"));
    let ran =
        webhookctl(&server.url).args(["sources", "receipts", "src_1", "--cursor", "c2"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stderr, "no refused or repeated requests here\n");
    assert_eq!(server.lines()[0], "GET /api/v1/sources/src_1/receipts?cursor=c1&limit=2");
}

#[test]
fn json_is_the_servers_for_the_new_commands_too() {
    let server = StandIn::start(|_| bytes_answer(200, br#"{"z":1,"id":"src_1"}"#));
    for command in ["rotate", "enable", "disable", "status", "setup", "receipts"] {
        let ran = webhookctl(&server.url).args(["sources", command, "src_1", "--json"]).run();
        ran.ends_with(0);
        assert_eq!(ran.stdout, "{\n  \"z\": 1,\n  \"id\": \"src_1\"\n}\n", "{command}");
        assert_eq!(ran.stderr, "", "{command}");
    }
}
