//! What each command sends, and what it prints.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::webhookctl;
use serde_json::{Value, json};
use stand_in::{StandIn, bytes_answer, json_answer};

#[test]
fn inbox_list_sends_its_filters_and_prints_whole_ids() {
    let server = StandIn::start(|_| {
        json_answer(
            200,
            json!({"data": [
            {"id": "evt_01JX9M9M7S7ABCDEFGHJKMNPQR", "provider": "github", "event_type": "issues.opened",
             "status": "retrying", "received_at": "2020-01-01T00:00:00.000Z", "subject": "github:issue:7"},
            {"id": "evt_2", "provider": "x", "event_type": "a\u{1b}[31m\r\nb", "status": "ignored"}],
            "next_cursor": "c 2"}),
        )
    });
    let ran = webhookctl(&server.url)
        .args(["inbox", "list", "--source", "src_1", "--provider", "github"])
        .args(["--type", "issues.*", "--status", "held", "--since", "2026-01-02"])
        .args(["--until", "2026-01-03T00:00:00Z", "--q", "a b", "--limit", "2", "--cursor", "c1"])
        .run();
    ran.ends_with(0);
    assert_eq!(
        server.lines(),
        [
            "GET /api/v1/inbox?cursor=c1&limit=2&provider=github&q=a+b&since=2026-01-02T00%3A00%3A00.000Z\
          &source=src_1&status=held&type=issues.*&until=2026-01-03T00%3A00%3A00.000Z"
        ]
    );
    assert_eq!(server.seen()[0].authorization, "Bearer k");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("EVENT                           PROVIDER  TYPE"));
    assert!(lines[1].starts_with("evt_01JX9M9M7S7ABCDEFGHJKMNPQR  github    issues.opened"));
    assert!(lines[1].contains(" days ago"));
    assert!(lines[2].contains("a\\u{1b}[31m\\r\\nb"));
    assert!(!ran.stdout.contains('\u{1b}'), "plain when piped");
    assert!(ran.stderr.contains("more: webhookctl inbox list --source src_1"));
    assert!(ran.stderr.trim_end().ends_with("--cursor 'c 2'"));
    assert!(!ran.stderr.contains("c1"));
}

#[test]
fn json_is_the_servers_in_its_order_wherever_the_flag_stands() {
    let body =
        br#"{"z":[{"id":"evt_01JX9M9M7S7ABCDEFGHJKMNPQR"}],"data":[],"next_cursor":"n","n":1.0}"#;
    let server = StandIn::start(|_| bytes_answer(200, body));
    for args in
        [["--json", "inbox", "list"], ["inbox", "--json", "list"], ["inbox", "list", "--json"]]
    {
        let ran = webhookctl(&server.url).args(args).run();
        ran.ends_with(0);
        assert_eq!(
            ran.stdout,
            "{\n  \"z\": [\n    {\n      \"id\": \"evt_01JX9M9M7S7ABCDEFGHJKMNPQR\"\n    }\n  ],\n  \
             \"data\": [],\n  \"next_cursor\": \"n\",\n  \"n\": 1.0\n}\n"
        );
        assert_eq!(ran.stderr, "");
    }
}

#[test]
fn inbox_inspect_tells_the_story_of_the_job_that_counts() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/inbox/evt_1?tenant=acme" => json_answer(
            200,
            json!({"id": "evt_1", "status": "held",
            "envelope": {"event_id": "evt_1", "provider": "github", "event_type": "issues.opened",
                "tenant_id": "acme", "dedup_key": "d"},
            "work": [{"kind": "job", "id": "job_1", "status": "dead_letter", "replayed_as": "job_2"},
                {"kind": "job", "id": "job_2", "status": "held"},
                {"kind": "reply", "id": "rpl_1", "status": "succeeded"}],
            "receipts": [{"verdict": "accepted"}],
            "next_action": "1 effect in doubt: decide before retrying"}),
        ),
        "GET /api/v1/jobs/job_2?tenant=acme" => json_answer(
            200,
            json!({"id": "job_2", "status": "held",
            "attempts": 1, "max_attempts": 3, "held_reason": "in_doubt",
            "effects": [{"key": "e", "state": "begun"}], "runs": [{"id": "run_9", "attempt": 1}]}),
        ),
        other => panic!("{other}"),
    });
    let ran = webhookctl(&server.url).args(["inbox", "inspect", "evt_1", "--tenant", "acme"]).run();
    ran.ends_with(0);
    for line in [
        "provider        github                       tenant   acme",
        "status          held (attempt 1 of 3, in_doubt)",
        "dedup key       d                            receipts 1: accepted",
        "effects         1 begun",
        "also            succeeded reply: rpl_1",
        "next action     1 effect in doubt: decide before retrying",
        "trace           evt_1 → job_2 → run_9",
    ] {
        assert!(ran.stdout.lines().any(|l| l == line), "{line}\n{}", ran.stdout);
    }
}

#[test]
fn a_replay_needs_a_note_and_names_the_new_job() {
    let server = StandIn::start(|_| json_answer(202, json!({"job_id": "job_2"})));
    webhookctl(&server.url).args(["inbox", "replay", "evt_1"]).run().ends_with(2);
    assert!(server.lines().is_empty());
    let ran = webhookctl(&server.url)
        .args(["inbox", "replay", "evt_1", "--note", "ann: fixed", "--scope", "fresh"])
        .run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "replayed        evt_1\nas              job_2\n");
    webhookctl(&server.url).args(["dlq", "replay", "job_1", "--note", "again"]).run().ends_with(0);
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /api/v1/inbox/evt_1/replay");
    assert_eq!(seen[0].body, json!({"note": "ann: fixed", "scope": "fresh"}));
    assert_eq!(seen[1].line, "POST /api/v1/dead-letters/job_1/replay");
    assert_eq!(seen[1].body, json!({"note": "again"}));
}

#[test]
fn jobs_are_listed_inspected_and_cancelled() {
    let job = || {
        json!({"id": "job_1", "kind": "issues.opened", "status": "running", "attempts": 1,
            "max_attempts": 3, "created_at": "2020-01-01T00:00:00Z", "last_error": null,
            "lease": {"worker": "w-1", "expires_at": "2020-01-01T00:02:00Z"},
            "effects": [{"key": "mail", "state": "committed", "description": "send it"}],
            "runs": [{"id": "run_1", "attempt": 1, "worker": "w-1"}], "result": {"ok": true}})
    };
    let server = StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/jobs/job_1" => json_answer(200, job()),
        "POST /api/v1/jobs/job_1/cancel" => {
            json_answer(200, json!({"id": "job_1", "status": "running"}))
        }
        _ => json_answer(200, json!({"data": [job()], "next_cursor": null})),
    });
    let ran = webhookctl(&server.url)
        .args(["jobs", "list", "--status", "running", "--subject", "github:issue:7"])
        .run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("job_1  issues.opened  running  1/3"));
    assert_eq!(ran.stderr, "");
    let ran = webhookctl(&server.url).args(["jobs", "inspect", "job_1"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("lease           w-1, until 2020-01-01 00:02:00Z ("));
    assert!(ran.stdout.contains("result          {\"ok\":true}"));
    assert!(ran.stdout.contains("mail    committed  send it"));
    let ran = webhookctl(&server.url).args(["jobs", "cancel", "job_1", "--note", "ann"]).run();
    ran.ends_with(0);
    assert!(ran.stderr.contains("next heartbeat"));
    let seen = server.seen();
    assert_eq!(seen[0].line, "GET /api/v1/jobs?status=running&subject=github%3Aissue%3A7");
    assert_eq!(seen[2].body, json!({"note": "ann"}));
}

#[test]
fn all_jobs_of_a_subject_are_cancelled_at_once() {
    let subject = "zendesk:ticket:9";
    let server = StandIn::start(move |_| {
        json_answer(200, json!({"subject": subject, "cancelled": 12, "requested": 1}))
    });
    let ran = webhookctl(&server.url)
        .args(["jobs", "cancel", "--subject", subject, "--note", "ann: solved"])
        .run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "subject         zendesk:ticket:9\ncancelled       12\nasked to stop   1\n"
    );
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /api/v1/jobs/cancel");
    assert_eq!(seen[0].body, json!({"subject": subject, "note": "ann: solved"}));
    webhookctl(&server.url).args(["jobs", "cancel"]).run().ends_with(2);
    let both = ["jobs", "cancel", "job_1", "--subject", subject];
    webhookctl(&server.url).args(both).run().ends_with(2);
}

#[test]
fn schedules_are_made_shown_switched_and_deleted() {
    let schedule = |enabled: bool| {
        json!({"id": "sch_1", "name": "nightly", "cron": "30 2 * * *", "time_zone": "Europe/Berlin",
            "kind": "tidy", "priority": "batch", "enabled": enabled, "input": {"deep": true},
            "next_at": if enabled { json!("2030-01-01T01:30:00Z") } else { Value::Null },
            "last_at": "2020-01-01T01:30:00Z", "last_job_id": "job_1"})
    };
    let server = StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/schedules" => {
            json_answer(200, json!({"data": [schedule(true)], "next_cursor": null}))
        }
        "DELETE /api/v1/schedules/sch_1" => json_answer(204, Value::Null),
        "POST /api/v1/schedules" => json_answer(201, schedule(true)),
        _ => json_answer(200, schedule(seen.body["enabled"] != json!(false))),
    });
    let create = ["schedules", "create", "nightly", "30 2 * * *", "--time-zone", "Europe/Berlin"];
    let ran = webhookctl(&server.url)
        .args(create)
        .args(["--input", r#"{"deep":true}"#, "--kind", "tidy", "--priority", "batch"])
        .run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("next            2030-01-01 01:30:00Z ("), "{}", ran.stdout);
    assert!(ran.stdout.contains("input           {\"deep\":true}"));
    webhookctl(&server.url).args(create).args(["--input", "{"]).run().ends_with(2);
    let ran = webhookctl(&server.url).args(["schedules", "list"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("sch_1     nightly  enabled"), "{}", ran.stdout);
    for (word, body) in
        [("enable", json!({"enabled": true})), ("disable", json!({"enabled": false}))]
    {
        let ran = webhookctl(&server.url).args(["schedules", word, "sch_1"]).run();
        ran.ends_with(0);
        assert!(ran.stdout.contains(&format!("status          {word}d")), "{}", ran.stdout);
        let seen = server.seen();
        let last = seen.last().expect("a call");
        assert_eq!((last.line.as_str(), &last.body), ("PATCH /api/v1/schedules/sch_1", &body));
    }
    assert!(ran_of(&server.url, "show").contains("last job        job_1"));
    assert_eq!(ran_of(&server.url, "delete"), "deleted         sch_1\n");
    let made = &server.seen()[0];
    assert_eq!(
        made.body,
        json!({"name": "nightly", "cron": "30 2 * * *", "time_zone": "Europe/Berlin",
            "kind": "tidy", "priority": "batch", "input": {"deep": true}})
    );
}

fn ran_of(url: &str, word: &str) -> String {
    let ran = webhookctl(url).args(["schedules", word, "sch_1"]).run();
    ran.ends_with(0);
    ran.stdout.clone()
}

#[test]
fn sources_create_says_what_to_paste_where() {
    let server = StandIn::start(|_| {
        json_answer(
            201,
            json!({"id": "src_1", "provider": "github", "secret": "s3cret",
            "ingest_url": "http://127.0.0.1:8787/in/src_1", "missing_settings": ["bot_token"]}),
        )
    });
    let ran = webhookctl(&server.url)
        .args(["sources", "create", "github", "--name", "repo", "--setting", "a=1"])
        .args(["--setting", "b:=true", "--executor", "http:https://agent/run"])
        .args(["--filter", "issues.*", "--filter", "push", "--unsigned"])
        .args(["--secret", "-", "--backoff-s", "1,2"])
        .stdin("given\n")
        .run();
    ran.ends_with(0);
    assert_eq!(
        server.seen()[0].body,
        json!({"provider": "github", "name": "repo", "settings": {"a": "1", "b": true},
            "executor": {"kind": "http", "url": "https://agent/run"}, "secret": "given",
            "filter": ["issues.*", "push"], "unsigned": true, "backoff_s": [1, 2]})
    );
    assert!(ran.stdout.contains("source          src_1\n"));
    assert!(ran.stdout.contains("ingest URL      http://127.0.0.1:8787/in/src_1\n"));
    assert!(ran.stdout.contains("secret          s3cret  (shown once"));
    assert!(ran.stdout.contains("state           missing bot_token\n"));
    assert!(ran.stderr.contains("webhookctl sources update src_1 --setting bot_token=…"));
    assert!(ran.stderr.contains("Settings → Webhooks → Add webhook"));
    assert!(ran.stderr.contains("WAKEPOST_PUBLIC_URL"));
}

#[test]
fn sources_are_listed_and_shown() {
    let source = || {
        json!({"id": "src_1", "provider": "slack", "name": "team", "enabled": true,
            "ingest_url": "https://h/in/src_1", "missing_settings": ["secret", "bot_token"], "secret_age_days": 181,
            "executor": {"kind": "exec", "name": "agent"}, "settings": {"team": "T1"}})
    };
    let server = StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/sources/src_1" => json_answer(200, source()),
        _ => {
            // What only replies need stands in nobody's way.
            let mut other = source();
            other["missing_settings"] = json!(["bot_token"]);
            json_answer(200, json!({"data": [source(), other], "next_cursor": null}))
        }
    });
    let ran = webhookctl(&server.url).args(["sources", "list"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("src_1   slack     team  missing secret  https://h/in/src_1"));
    assert!(ran.stdout.contains("src_1   slack     team  ready           https://h/in/src_1"));
    let ran = webhookctl(&server.url).args(["sources", "show", "src_1"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("executor        exec:agent\n"));
    assert!(ran.stdout.contains("setting         team = T1\n"));
    assert!(ran.stdout.contains("secret          181 days old: rotate it\n"), "{}", ran.stdout);
}

#[test]
fn keys_are_made_for_the_tenant_that_was_named() {
    let server = StandIn::start(|seen| match seen.line.split(' ').next() {
        Some("DELETE") => bytes_answer(204, b""),
        _ => json_answer(
            201,
            json!({"id": "key_1", "name": "ci", "role": "worker", "tenant": "*", "key": "wk"}),
        ),
    });
    let ran = webhookctl(&server.url)
        .args(["keys", "create", "ci", "--role", "worker", "--tenant", "acme"])
        .run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("key             wk\n"));
    assert!(ran.stdout.contains("tenant          all tenants\n"));
    webhookctl(&server.url)
        .args(["keys", "create", "ci", "--role", "admin", "--all-tenants"])
        .run()
        .ends_with(0);
    let ran = webhookctl(&server.url).args(["keys", "revoke", "key_1"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "revoked         key_1\n");
    webhookctl(&server.url).args(["keys", "create", "ci", "--role", "king"]).run().ends_with(2);
    let seen = server.seen();
    assert_eq!(seen[0].line, "POST /api/v1/keys?tenant=acme");
    assert_eq!(seen[0].body, json!({"name": "ci", "role": "worker", "tenant": "acme"}));
    assert_eq!(seen[1].body["tenant"], "*");
    assert_eq!(seen[2].line, "DELETE /api/v1/keys/key_1");
    assert_eq!(seen.len(), 3);
}

#[test]
fn tenants_and_dead_letters_are_listed() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "POST /api/v1/tenants" => json_answer(201, json!({"slug": "acme", "name": "acme"})),
        "GET /api/v1/tenants" => {
            json_answer(200, json!({"data": [{"slug": "acme", "name": "Acme", "weight": 2}]}))
        }
        "GET /api/v1/keys" => json_answer(
            200,
            json!({"data": [{"id": "key_1", "name": "a", "role": "viewer", "tenant": "*"}]}),
        ),
        _ => json_answer(
            200,
            json!({"data": [{"id": "dlv_1", "kind": "delivery", "attempts": 8,
            "last_error": "x".repeat(200)}], "next_cursor": null}),
        ),
    });
    let ran = webhookctl(&server.url).args(["tenants", "create", "acme"]).run();
    ran.ends_with(0);
    assert!(ran.stderr.contains("keys create NAME --role operator --tenant acme"));
    let ran = webhookctl(&server.url).args(["tenants", "list"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("acme    Acme  2       -            -"));
    let ran = webhookctl(&server.url).args(["keys", "list"]).run();
    assert!(ran.stdout.contains("key_1  a     viewer  all tenants  -"));
    let ran = webhookctl(&server.url)
        .args(["dlq", "list", "--kind", "delivery", "--source", "src_1"])
        .run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("dlv_1  delivery  -      8         -"));
    assert!(ran.stdout.contains("xxx…\n"));
    let seen = server.seen();
    assert_eq!(seen[0].body, json!({"slug": "acme", "name": "acme"}));
    assert_eq!(seen[3].line, "GET /api/v1/dead-letters?kind=delivery&source=src_1");
}

#[test]
fn stats_show_counts_limits_and_workers() {
    let server = StandIn::start(|_| {
        json_answer(
            200,
            json!({"tenant": "acme", "at": "2026-11-16T10:00:00.000Z", "at_least": true,
            "states": {"pending": {"count": 3, "oldest_age_s": 7}, "held": {"count": 0, "oldest_age_s": null}},
            "priorities": {}, "limits": {"running": 2, "concurrency": 5, "rate_per_s": 0.5},
            "lanes": [{"source": "src_1", "work": "job", "kind": "issues.opened", "priority": "webhook",
                "ready": 3, "running": 2, "waiting": 0, "oldest_age_s": 7}],
            "sources": [{"source": "src_1", "name": "shop", "running": 2, "concurrency": null,
                "rate_per_s": null, "budget": {"runs": 9, "runs_per_day": 10, "cost": 1.5,
                "cost_per_day": null, "over": "wait", "spent": false}}],
            "workers": [{"name": "ada", "leases": 2, "last_seen_at": "2020-01-01T00:00:00.000Z"}]}),
        )
    });
    let ran = webhookctl(&server.url).args(["stats", "--tenant", "acme"]).run();
    ran.ends_with(0);
    assert_eq!(server.lines(), ["GET /api/v1/stats?tenant=acme"]);
    for part in
        ["2 of 5\n", "0.5 per s\n", "pending  3      7 s\n", "9 of 10 runs\n", "ada     2       "]
    {
        assert!(ran.stdout.contains(part), "{part} in {}", ran.stdout);
    }
    assert!(!ran.stdout.contains("held"), "nothing is: {}", ran.stdout);
    assert!(ran.stderr.contains("there is more work than was counted"));
}

#[test]
fn the_audit_trail_and_alerts_are_tables() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/audit?limit=2" => json_answer(
            200,
            json!({"data": [{"id": "aud_1", "at": "2020-01-01T00:00:00.000Z", "actor": "key_1",
                "action": "job.replay", "target": "job_1", "note": "ada\u{1b}: again"}], "next_cursor": null}),
        ),
        "GET /api/v1/alerts?status=firing" => json_answer(
            200,
            json!({"data": [{"id": "alr_1", "kind": "open_circuit", "severity": "critical",
                "title": "A circuit is open", "detail": "5 in\u{9b} a row", "subject": "wh_1", "status": "firing",
                "fired_at": "2020-01-01T00:00:00.000Z", "resolved_at": null, "value": 5, "threshold": 0}],
                "next_cursor": null}),
        ),
        other => panic!("{other}"),
    });
    let audit = webhookctl(&server.url).args(["audit", "list", "--limit", "2"]).run();
    audit.ends_with(0);
    assert!(audit.stdout.contains("2020-01-01 00:00:00Z"), "{}", audit.stdout);
    assert!(audit.stdout.contains("key_1  job.replay  job_1   ada\\u{1b}: again"));
    let alerts = webhookctl(&server.url).args(["alerts", "--status", "firing"]).run();
    alerts.ends_with(0);
    assert!(alerts.stdout.contains("alr_1  critical  firing"), "{}", alerts.stdout);
    assert!(alerts.stdout.contains("A circuit is open: 5 in\\u{9b} a row"));
}

#[test]
fn an_export_has_a_line_for_each_event_of_every_page() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/inbox?limit=500&type=a.*" => bytes_answer(
            200,
            b"{\"data\": [{\"z\": 1.10,\n \"id\": \"evt_1\"}], \"next_cursor\": \"c\"}",
        ),
        "GET /api/v1/inbox?cursor=c&limit=500&type=a.*" => json_answer(
            200,
            json!({"data": [{"id": "evt_2"}, {"id": "evt_3"}], "next_cursor": "more"}),
        ),
        line if line.ends_with("/raw") => bytes_answer(200, &[0xff]),
        line if line.ends_with("/headers") => json_answer(200, json!({"headers": []})),
        other => panic!("{other}"),
    });
    let run = |more: &[&str]| {
        let run = webhookctl(&server.url).args(["inbox", "export", "--type", "a.*", "--max", "2"]);
        let ran = more.iter().fold(run, |run, arg| run.args([*arg])).run();
        ran.ends_with(0);
        ran.stdout
    };
    assert_eq!(run(&[]), "{\"z\":1.10,\"id\":\"evt_1\"}\n{\"id\":\"evt_2\"}\n");
    let whole = run(&["--bodies"]);
    assert!(
        whole
            .starts_with("{\"z\":1.10,\"id\":\"evt_1\",\"body_base64\":\"/w==\",\"headers\":[]}\n")
    );
}

#[test]
fn many_events_are_replayed_by_a_filter() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "POST /api/v1/inbox/replay" => json_answer(202, json!({"operation_id": "op_1"})),
        "GET /api/v1/operations/op_1" => json_answer(
            200,
            json!({"id": "op_1", "kind": "inbox_replay", "status": "succeeded", "matched": 7, "done": 7,
                "failed": 0}),
        ),
        other => panic!("{other}"),
    });
    let all =
        ["inbox", "replay", "--all", "--type", "a.*", "--status", "dead_letter", "--note", "ada"];
    let begun = webhookctl(&server.url).args(all).run();
    begun.ends_with(0);
    assert!(begun.stderr.contains("next: webhookctl operations wait op_1"), "{}", begun.stderr);
    assert_eq!(
        server.seen()[0].body,
        json!({"filter": {"type": "a.*", "status": "dead_letter"}, "note": "ada"})
    );
    let waited = webhookctl(&server.url).args(all).args(["--scope", "fresh", "--wait"]).run();
    waited.ends_with(0);
    assert!(waited.stdout.contains("done            7"), "{}", waited.stdout);
    let counted = webhookctl(&server.url).args(all).args(["--dry-run"]).run();
    counted.ends_with(0);
    assert_eq!(counted.stdout, "7 would be run again\n");
    let one = ["inbox", "replay", "evt_1", "--type", "a.*", "--note", "ada"];
    webhookctl(&server.url).args(one).run().ends_with(2);
}

#[test]
fn tenants_are_shown_and_changed() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/tenants/acme" | "PATCH /api/v1/tenants/acme" => json_answer(
            200,
            json!({"slug": "acme", "name": "Acme", "weight": 3, "retry_s": [0, 10], "strict_types": true,
                "retention": {"bodies_days": 7, "dead_letters_days": 14}}),
        ),
        other => panic!("{other}"),
    });
    let shown = webhookctl(&server.url).args(["tenants", "show", "acme"]).run();
    shown.ends_with(0);
    assert!(shown.stdout.contains("retries         0, 10 s"), "{}", shown.stdout);
    let keeps = "keeps           bodies 7 d, dead letters 14 d";
    assert!(shown.stdout.contains(keeps), "{}", shown.stdout);
    let change = ["tenants", "update", "acme", "--weight", "3", "--retry-s", "0,10"];
    let changed = webhookctl(&server.url).args(change).args(["--reset", "concurrency"]).run();
    changed.ends_with(0);
    assert_eq!(
        server.seen()[1].body,
        json!({"weight": 3, "retry_s": [0, 10], "concurrency": null})
    );
    let keep = ["tenants", "update", "acme", "--bodies-days", "7", "--reset", "events-days"];
    webhookctl(&server.url).args(keep).run().ends_with(0);
    let kept = json!({"retention": {"bodies_days": 7, "events_days": null}});
    assert_eq!(server.seen()[2].body, kept);
    let both = ["tenants", "update", "acme", "--bodies-days", "7", "--reset", "bodies-days"];
    webhookctl(&server.url).args(both).run().ends_with(2);
    webhookctl(&server.url).args(["tenants", "update", "acme"]).run().ends_with(2);
    let both = ["tenants", "update", "acme", "--weight", "3", "--reset", "weight"];
    webhookctl(&server.url).args(both).run().ends_with(2);
}

#[test]
fn top_prints_one_snapshot_where_there_is_no_terminal() {
    let server = StandIn::start(|seen| match seen.line.split('?').next().unwrap_or_default() {
        "GET /api/v1/stats" => json_answer(
            200,
            json!({"tenant": "default", "at": "2026-11-15T09:14:22.000Z",
                "states": {"pending": {"count": 2, "oldest_age_s": 9}}}),
        ),
        "GET /metrics" => stand_in::problem(403, "forbidden", "not for a tenant's key"),
        "GET /api/v1/inbox" => {
            json_answer(200, json!({"data": [{"id": "evt_1"}], "next_cursor": null}))
        }
        "GET /api/v1/alerts" => stand_in::problem(404, "not_found", "no such route"),
        _ => json_answer(200, json!({"data": [], "next_cursor": null})),
    });
    for args in [vec!["top"], vec!["top", "--once"]] {
        let run = args.iter().fold(webhookctl(&server.url), |run, arg| run.args([*arg]));
        let ran = run.run();
        ran.ends_with(0);
        assert!(ran.stdout.contains("work          pending 2 (9 s)\n"), "{}", ran.stdout);
        assert!(
            ran.stdout.contains("rates         received 0.1/s  (this tenant)\n"),
            "{}",
            ran.stdout
        );
        assert!(!ran.stdout.contains('\u{1b}'));
    }
    let ran = webhookctl(&server.url).args(["top", "--json"]).run();
    ran.ends_with(0);
    let told: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(told["stats"]["states"]["pending"]["count"], 2);
    assert_eq!(told["rates_of"], "tenant");
}
