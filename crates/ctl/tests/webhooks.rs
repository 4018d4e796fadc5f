//! `webhookctl webhooks`, `deliveries` and `portal-link`: what they send, and what they print.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use std::sync::atomic::{AtomicUsize, Ordering};

use program::webhookctl;
use serde_json::{Value, json};
use stand_in::{StandIn, bytes_answer, json_answer, problem};

fn webhook() -> Value {
    json!({"id": "wh_1", "url": "https://a.example/hooks", "mode": "push", "events": ["order.*"],
        "status": "active", "enabled": true, "signature": "hmac", "description": "the shop",
        "circuit": {"state": "closed", "failures": 0, "opened_at": null, "history": []}})
}

fn with(mut webhook: Value, fields: Value) -> Value {
    let fields = fields.as_object().expect("fields").clone();
    webhook.as_object_mut().expect("a webhook").extend(fields);
    webhook
}

#[test]
fn create_takes_every_field_of_the_api_and_shows_the_secret_once() {
    let server = StandIn::start(|_| {
        let fields = json!({"secret": "whsec_abc", "warning": "the ping was answered 500"});
        json_answer(201, with(webhook(), fields))
    });
    let (cert, key) = (file("cert.pem", "CERT"), file("key.pem", "KEY"));
    let ran = webhookctl(&server.url)
        .args(["webhooks", "create", "https://a.example/hooks", "--event", "order.*"])
        .args(["--event", "user.created", "--description", "the shop", "--signature", "hmac"])
        .args(["--header", "X-Env: test", "--rate-per-s", "2.5", "--order", "--timeout-s", "10"])
        .args(["--retry-s", "0,10,30", "--circuit", "failures=3,open_s=60", "--disabled"])
        .args(["--metadata", "team=billing", "--metadata", "tier:=2"])
        .args(["--auth-mtls", &cert, &key])
        .run();
    ran.ends_with(0);
    assert_eq!(
        server.seen()[0].body,
        json!({"url": "https://a.example/hooks", "events": ["order.*", "user.created"],
            "description": "the shop", "signature": "hmac", "headers": {"X-Env": "test"},
            "rate_per_s": 2.5, "order": true, "timeout_s": 10, "retry_s": [0, 10, 30],
            "circuit_settings": {"failures": 3, "open_s": 60}, "enabled": false,
            "metadata": {"team": "billing", "tier": 2},
            "auth": {"type": "mtls", "cert": "CERT", "key": "KEY"}})
    );
    assert_eq!(
        ran.stdout,
        "webhook         wh_1\n\
         url             https://a.example/hooks\n\
         events          order.*\n\
         state           active\n\
         warning         the ping was answered 500\n\
         secret          whsec_abc  (shown once: keep it now)\n"
    );
    assert!(ran.stderr.contains("next: webhookctl webhooks test wh_1"), "{}", ran.stderr);
}

/// A file of this test run, by its path.
fn file(name: &str, text: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a path").to_owned()
}

#[test]
fn credentials_may_come_from_standard_input_and_only_one_kind_goes() {
    let server = StandIn::start(|_| json_answer(201, webhook()));
    let create = ["webhooks", "create", "https://a.example", "--event", "*"];
    webhookctl(&server.url)
        .args(create)
        .args(["--auth-bearer", "-"])
        .stdin("a token\n")
        .run()
        .ends_with(0);
    webhookctl(&server.url).args(create).args(["--auth-basic", "u:p:w"]).run().ends_with(0);
    let seen = server.seen();
    assert_eq!(seen[0].body["auth"], json!({"type": "bearer", "token": "a token"}));
    assert_eq!(seen[1].body["auth"], json!({"type": "basic", "username": "u", "password": "p:w"}));
    let both = ["--auth-basic", "u:p", "--auth-bearer", "t"];
    webhookctl(&server.url).args(create).args(both).run().ends_with(2);
    webhookctl(&server.url).args(create).args(["--auth-basic", "u"]).run().ends_with(2);
    let gone = webhookctl(&server.url).args(create).args(["--auth-mtls", "/none", "/none"]).run();
    gone.ends_with(1);
    assert!(gone.stderr.contains("--auth-mtls: /none"), "{}", gone.stderr);
    assert_eq!(server.seen().len(), 2);
}

#[test]
fn a_webhook_needs_events_and_a_url_or_pull() {
    let server = StandIn::start(|_| {
        let fields = json!({"mode": "pull", "url": null, "signature": "ed25519"});
        json_answer(201, with(webhook(), fields))
    });
    let ran = webhookctl(&server.url).args(["webhooks", "create", "https://a.example"]).run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("say which events: --event"), "{}", ran.stderr);
    webhookctl(&server.url).args(["webhooks", "create", "--event", "*"]).run().ends_with(2);
    let both = ["webhooks", "create", "https://a.example", "--pull", "--event", "*"];
    webhookctl(&server.url).args(both).run().ends_with(2);
    assert!(server.lines().is_empty());
    let pull = ["webhooks", "create", "--pull", "--event", "*", "--signature", "ed25519"];
    let ran = webhookctl(&server.url).args(pull).run();
    ran.ends_with(0);
    let sent = json!({"mode": "pull", "events": ["*"], "signature": "ed25519"});
    assert_eq!(server.seen()[0].body, sent);
    assert!(ran.stdout.contains("url             (pull)\n"), "{}", ran.stdout);
    assert!(ran.stderr.contains("/.well-known/wakepost-keys"), "{}", ran.stderr);
}

#[test]
fn the_list_says_at_a_glance_what_does_not_get_its_events() {
    let server = StandIn::start(|_| {
        let open = json!({"id": "wh_2", "circuit": {"state": "open", "failures": 7,
            "opened_at": "2020-01-01T00:00:00Z"}});
        let disabled = json!({"id": "wh_3", "status": "disabled", "disabled_reason": "gone (410)"});
        let data = [
            webhook(),
            with(webhook(), open),
            with(webhook(), disabled),
            with(webhook(), json!({"id": "wh_4", "status": "paused"})),
        ];
        json_answer(200, json!({"data": data, "next_cursor": "c2"}))
    });
    let ran = webhookctl(&server.url).args(["webhooks", "list", "--limit", "4"]).run();
    ran.ends_with(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("WEBHOOK  STATE"), "{}", lines[0]);
    for (line, state) in
        lines[1..].iter().zip(["active", "circuit open, opened", "disabled: gone (410)", "paused"])
    {
        assert!(line.contains(state), "{line}");
    }
    assert!(ran.stderr.contains("more: webhookctl webhooks list --limit 4 --cursor c2"));
    assert_eq!(server.lines(), ["GET /api/v1/webhooks?limit=4"]);
}

#[test]
fn show_tells_how_it_is_set_and_how_its_circuit_moved() {
    let server = StandIn::start(|_| {
        let fields = json!({"auth": {"type": "bearer"}, "headers": {"X-Env": "test"},
            "retry_s": [0, 10], "secret_age_days": 120, "metadata": {"team": "billing"},
            "circuit_settings": {"failures": 5, "open_s": 1800},
            "circuit": {"state": "half_open", "failures": 5, "opened_at": "2020-01-01T00:00:00Z",
                "history": [{"state": "open", "at": "2020-01-01T00:00:00Z",
                    "reason": "5 failures\u{1b}[2J"}, {"odd": 1}]}});
        json_answer(200, with(webhook(), fields))
    });
    let ran = webhookctl(&server.url).args(["webhooks", "show", "wh_1"]).run();
    ran.ends_with(0);
    for part in [
        "state           circuit half open, opened ",
        "failures        5 in a row\n",
        "secret          120 days old: rotate it\n",
        "auth            bearer\n",
        "tries after     0, 10 s\n",
        "circuit         failures=5,open_s=1800\n",
        "header          X-Env: test\n",
        "metadata        team = billing\n",
        "5 failures\\u{1b}[2J\n",
        "{\"odd\":1}",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
}

#[test]
fn update_sends_what_was_named_and_sets_back_what_was_asked() {
    let server = StandIn::start(|_| json_answer(200, webhook()));
    let update = ["webhooks", "update", "wh_1"];
    webhookctl(&server.url)
        .args(update)
        .args(["--to", "https://b.example", "--order=false", "--event", "*"])
        .args(["--reset", "header", "--reset", "circuit", "--reset", "rate-per-s"])
        .run()
        .ends_with(0);
    assert_eq!(server.seen()[0].line, "PATCH /api/v1/webhooks/wh_1");
    assert_eq!(
        server.seen()[0].body,
        json!({"url": "https://b.example", "order": false, "events": ["*"], "headers": null,
            "circuit_settings": null, "rate_per_s": null})
    );
    webhookctl(&server.url).args(update).run().ends_with(2);
    let both = ["--header", "A: b", "--reset", "header"];
    webhookctl(&server.url).args(update).args(both).run().ends_with(2);
    webhookctl(&server.url).args(update).args(["--reset", "url"]).run().ends_with(2);
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn a_test_fails_unless_the_receiver_took_it() {
    let code = AtomicUsize::new(0);
    let server = StandIn::start(move |_| match code.fetch_add(1, Ordering::SeqCst) {
        0 => json_answer(
            200,
            json!({"status_code": 200, "body": "ok", "timings": {"dns_ms": 1, "first_byte_ms": 9}}),
        ),
        1 => json_answer(200, json!({"status_code": 401, "body": "who?", "timings": {}})),
        _ => json_answer(
            200,
            json!({"status_code": null, "body": null, "timings": {}, "error": "timed out"}),
        ),
    });
    let test = ["webhooks", "test", "wh_1"];
    let ran = webhookctl(&server.url).args(test).args(["--type", "order.created"]).run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "answer          200\nbody            ok\ntook            dns 1 ms, first byte 9 ms\n"
    );
    let ran = webhookctl(&server.url).args(test).run();
    ran.ends_with(1);
    assert!(ran.stdout.contains("answer          401\nbody            who?\n"), "{}", ran.stdout);
    let ran = webhookctl(&server.url).args(test).run();
    ran.ends_with(1);
    assert!(ran.stdout.contains("error           timed out\n"), "{}", ran.stdout);
    let bodies: Vec<Value> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(bodies, [json!({"type": "order.created"}), json!({}), json!({})]);
}

#[test]
fn secrets_are_rotated_and_the_old_one_revoked() {
    let server = StandIn::start(|seen| match seen.line.ends_with("rotate") {
        true => json_answer(200, json!({"secret": "whsec_new"})),
        false => json_answer(200, json!({"id": "wh_1", "status": "active"})),
    });
    let rotate = ["webhooks", "rotate", "wh_1", "--grace-s", "3600"];
    let ran = webhookctl(&server.url).args(rotate).run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "webhook         wh_1\nsecret          whsec_new  (shown once: keep it now)\n"
    );
    assert!(ran.stderr.contains("webhookctl webhooks revoke-previous wh_1"), "{}", ran.stderr);
    webhookctl(&server.url).args(["webhooks", "revoke-previous", "wh_1"]).run().ends_with(0);
    assert_eq!(server.seen()[0].body, json!({"grace_s": 3600}));
    assert_eq!(server.lines()[1], "POST /api/v1/webhooks/wh_1/revoke-previous");
}

#[test]
fn moves_say_where_it_stands_and_what_follows() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "POST /api/v1/webhooks/wh_9/resume" => problem(409, "invalid_state", "it is not paused"),
        "DELETE /api/v1/webhooks/wh_1" => bytes_answer(204, b""),
        line => {
            let status = match line.rsplit('/').next() {
                Some("pause") => "paused",
                Some("disable") => "disabled",
                _ => "active",
            };
            json_answer(200, json!({"id": "wh_1", "status": status}))
        }
    });
    for (verb, status, hint) in [
        ("pause", "paused", "events are kept for it until it is resumed"),
        ("resume", "active", "events that were kept are on their way"),
        ("disable", "disabled", "what waited is among the dead letters"),
        ("enable", "active", "webhookctl webhooks recover"),
    ] {
        let ran = webhookctl(&server.url).args(["webhooks", verb, "wh_1"]).run();
        ran.ends_with(0);
        assert_eq!(ran.stdout, format!("webhook         wh_1\nstatus          {status}\n"));
        assert!(ran.stderr.contains(hint), "{}", ran.stderr);
    }
    webhookctl(&server.url).args(["webhooks", "pause", "wh_1", "--drop"]).run().ends_with(0);
    let ran = webhookctl(&server.url).args(["webhooks", "delete", "wh_1"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "deleted         wh_1\n");
    let ran = webhookctl(&server.url).args(["webhooks", "resume", "wh_9"]).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("webhookctl webhooks show ID"), "{}", ran.stderr);
    let seen = server.seen();
    assert_eq!((&seen[0].body, &seen[4].body), (&json!({"keep": true}), &json!({"keep": false})));
}

#[test]
fn a_recovery_is_waited_for_and_its_failures_are_a_failure() {
    let looks = AtomicUsize::new(0);
    let server = StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/operations/op_1" => {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            let status = if look == 0 { "running" } else { "succeeded" };
            json_answer(
                200,
                json!({"id": "op_1", "kind": "recover", "status": status, "matched": 4,
                    "done": if look == 0 { 1 } else { 3 }, "failed": if look == 0 { 0 } else { 1 }}),
            )
        }
        _ => json_answer(202, json!({"operation_id": "op_1"})),
    });
    let since = ["--since", "2026-01-02"];
    webhookctl(&server.url).args(["webhooks", "recover", "wh_1"]).run().ends_with(2);
    assert!(server.lines().is_empty());
    let ran =
        webhookctl(&server.url).args(["webhooks", "recover", "wh_1", "--wait"]).args(since).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("operation op_1\n1 done, 0 failed so far\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("1 of 4 failed"), "{}", ran.stderr);
    assert!(ran.stdout.contains("done            3\n"), "{}", ran.stdout);
    let backfill = ["webhooks", "backfill", "wh_1", "--until", "2026-01-03"];
    let ran = webhookctl(&server.url).args(backfill).args(since).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "operation       op_1\n");
    let seen = server.seen();
    let asked: Vec<(&str, &Value)> = seen
        .iter()
        .filter(|seen| seen.line.starts_with("POST"))
        .map(|seen| (seen.line.as_str(), &seen.body))
        .collect();
    let (since, until) = ("2026-01-02T00:00:00.000Z", "2026-01-03T00:00:00.000Z");
    assert_eq!(
        asked,
        [
            ("POST /api/v1/webhooks/wh_1/recover", &json!({"since": since})),
            ("POST /api/v1/webhooks/wh_1/backfill", &json!({"since": since, "until": until})),
        ]
    );
}

#[test]
fn deliveries_are_listed_shown_and_replayed() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/deliveries/dlv_1" => json_answer(
            200,
            json!({"id": "dlv_1", "event_id": "evt_1", "type": "order.created",
                "webhook_id": "wh_1", "status": "dead_letter", "max_attempts": 10,
                "last_error": "answered 404", "attempts": [
                    {"id": "att_1", "attempt": 1, "started_at": "2020-01-01T00:00:00Z",
                     "error": "timed out", "timings": {"dns_ms": 3}},
                    {"id": "att_2", "probe": true, "status_code": 500},
                    {"id": "att_3", "attempt": 2, "status_code": 404, "body": "no such\u{7} page",
                     "timings": {"first_byte_ms": 12}}]}),
        ),
        "POST /api/v1/deliveries/dlv_1/replay" => json_answer(202, json!({"job_id": "dlv_2"})),
        _ => json_answer(
            200,
            json!({"data": [{"id": "dlv_1", "event_id": "evt_1", "type": "order.created",
                "status": "retrying", "attempts": 2, "max_attempts": 10,
                "last_error": "answered 503"}], "next_cursor": null}),
        ),
    });
    let list = ["webhooks", "deliveries", "wh_1", "--status", "retrying"];
    let ran = webhookctl(&server.url).args(list).run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "DELIVERY  EVENT  TYPE           STATUS    ATTEMPTS  CREATED  LAST ERROR\n\
         dlv_1     evt_1  order.created  retrying  2/10      -        answered 503\n"
    );
    let ran = webhookctl(&server.url).args(["deliveries", "show", "dlv_1"]).run();
    ran.ends_with(0);
    for part in [
        "status          dead_letter\n",
        "attempts        2/10\n",
        "last answer     no such\\u{7} page\n",
        "timed out\n",
        "probe ",
        "404     first byte 12 ms",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    assert!(ran.stderr.contains("next: webhookctl deliveries replay dlv_1"), "{}", ran.stderr);
    let ran = webhookctl(&server.url).args(["deliveries", "replay", "dlv_1"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "replayed        dlv_1\nas              dlv_2\n");
    let noted = ["deliveries", "replay", "dlv_1", "--note", "ann: it is back"];
    webhookctl(&server.url).args(noted).run().ends_with(0);
    let seen = server.seen();
    assert_eq!(seen[0].line, "GET /api/v1/webhooks/wh_1/deliveries?status=retrying");
    assert_eq!((&seen[2].body, &seen[3].body), (&json!({}), &json!({"note": "ann: it is back"})));
}

#[test]
fn stats_are_shown_whatever_the_server_counts() {
    let server = StandIn::start(|_| {
        json_answer(
            200,
            json!({"delivered": 7, "oldest_waiting_at": null, "last_24_hours_of_success": 0.5,
                "by_status": {"dead_letter": 1, "succeeded": 7}}),
        )
    });
    let ran = webhookctl(&server.url).args(["webhooks", "stats", "wh_1"]).run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "by status       dead letter 1, succeeded 7\n\
         delivered       7\n\
         last 24 hours of success 0.5\n\
         oldest waiting at -\n"
    );
    let ran = webhookctl(&server.url).args(["webhooks", "stats", "wh_1", "--json"]).run();
    assert!(ran.stdout.contains("\"delivered\": 7,"), "{}", ran.stdout);
}

#[test]
fn a_portal_link_stands_alone_on_standard_output() {
    let server = StandIn::start(|_| json_answer(201, json!({"url": "https://h.example/p/abc"})));
    let link = ["portal-link", "--tenant", "acme", "--expires-s", "3600"];
    let ran = webhookctl(&server.url).args(link).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "https://h.example/p/abc\n");
    assert!(ran.stderr.contains("whoever has this link"), "{}", ran.stderr);
    assert_eq!(server.seen()[0].line, "POST /api/v1/portal-links?tenant=acme");
    assert_eq!(server.seen()[0].body, json!({"tenant": "acme", "expires_s": 3600}));
}
