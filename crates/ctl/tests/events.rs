//! `webhookctl events` and `event-types`: what they send, and what they print.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::webhookctl;
use serde_json::{Value, json};
use stand_in::{StandIn, bytes_answer, json_answer, problem};

fn publishing() -> StandIn {
    StandIn::start(|_| json_answer(202, json!({"id": "evt_1"})))
}

#[test]
fn publish_reads_its_data_from_the_line_a_file_or_standard_input() {
    let server = publishing();
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("data.json");
    std::fs::write(&path, "{\"from\": \"file\"}").expect("a file");
    let at = format!("@{}", path.display());
    let publish = ["events", "publish", "order.created", "--data"];
    let ran = webhookctl(&server.url).args(publish).args(["{\"n\": 1}"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "event           evt_1\ntype            order.created\n");
    assert!(ran.stderr.contains("next: webhookctl events deliveries evt_1"), "{}", ran.stderr);
    webhookctl(&server.url).args(publish).args([&at]).run().ends_with(0);
    webhookctl(&server.url).args(publish).args(["-"]).stdin("[1, 2]").run().ends_with(0);
    let sent: Vec<Value> = server.seen().iter().map(|seen| seen.body["data"].clone()).collect();
    assert_eq!(sent, [json!({"n": 1}), json!({"from": "file"}), json!([1, 2])]);
}

#[test]
fn publish_refuses_what_is_no_json_and_sends_nothing() {
    let server = publishing();
    let publish = ["events", "publish", "order.created"];
    webhookctl(&server.url).args(publish).run().ends_with(2);
    let ran = webhookctl(&server.url).args(publish).args(["--data", "{n: 1}"]).run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("--data is not JSON"), "{}", ran.stderr);
    webhookctl(&server.url).args(publish).args(["--data", "-"]).stdin("").run().ends_with(2);
    let ran = webhookctl(&server.url).args(publish).args(["--data", "@/no/such/file"]).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("--data: /no/such/file"), "{}", ran.stderr);
    assert!(server.lines().is_empty());
}

#[test]
fn publish_takes_every_field_and_a_key_of_ones_own() {
    let server = publishing();
    webhookctl(&server.url)
        .args(["events", "publish", "order.updated", "--data", "{}", "--livemode", "false"])
        .args(["--api-version", "2026-11-15", "--previous-attributes", "{\"total\": 1}"])
        .args(["--dedup-key", "d", "--order-key", "o", "--deliver-at", "2026-12-01"])
        .run()
        .ends_with(0);
    let plain = ["events", "publish", "order.created", "--data", "{}"];
    webhookctl(&server.url).args(plain).args(["--idempotency-key", "mine"]).run().ends_with(0);
    webhookctl(&server.url).args(plain).run().ends_with(0);
    let seen = server.seen();
    assert_eq!(
        seen[0].body,
        json!({"type": "order.updated", "data": {}, "livemode": false, "api_version": "2026-11-15",
            "previous_attributes": {"total": 1}, "dedup_key": "d", "order_key": "o",
            "deliver_at": "2026-12-01T00:00:00.000Z"})
    );
    let keys: Vec<&str> = seen.iter().map(|seen| seen.idempotency_key.as_str()).collect();
    assert_eq!((keys[0], keys[1], keys[2].len()), ("", "mine", 32));
}

#[test]
fn a_refused_event_says_which_path_failed() {
    let server = StandIn::start(|_| {
        json_answer(
            422,
            json!({"status": 422, "code": "invalid_request", "title": "Invalid request",
                "errors": [{"field": "data", "message": "/total must be an integer"}]}),
        )
    });
    let publish = ["events", "publish", "order.created", "--data", "{\"total\": 1.5}"];
    let ran = webhookctl(&server.url).args(publish).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("data: /total must be an integer"), "{}", ran.stderr);
}

#[test]
fn events_are_listed_and_shown_with_where_they_went() {
    let event = || {
        json!({"id": "evt_1", "type": "order.created", "status": "succeeded", "duplicates": 2,
            "created_at": "2020-01-01T00:00:00.000Z", "dedup_key": "order:1", "livemode": false,
            "api_version": "2026-11-15", "data": {"id": "ord\u{9b}1"}})
    };
    let server = StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/events/evt_1" => json_answer(200, event()),
        "GET /api/v1/events/evt_1/deliveries" => json_answer(
            200,
            json!({"data": [{"id": "dlv_1", "webhook_id": "wh_1", "status": "succeeded",
                "attempts": 1}], "next_cursor": null}),
        ),
        _ => json_answer(200, json!({"data": [event()], "next_cursor": null})),
    });
    let ran = webhookctl(&server.url)
        .args(["events", "list", "--type", "order.*", "--since", "2026-11-15", "--limit", "5"])
        .run();
    ran.ends_with(0);
    assert!(ran.stdout.starts_with("EVENT  TYPE           STATUS     PUBLISHED"), "{}", ran.stdout);
    assert!(ran.stdout.contains(" days ago  order:1\n"), "{}", ran.stdout);
    let asked = &server.lines()[0];
    assert!(asked.contains("type=order") && asked.contains("since=2026-11-15T"), "{asked}");
    let ran = webhookctl(&server.url).args(["events", "show", "evt_1"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("mode            test\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("repeated        2 times\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("  \"id\": \"ord\\u009b1\"\n"), "{}", ran.stdout);
    let ran = webhookctl(&server.url).args(["events", "deliveries", "evt_1"]).run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "DELIVERY  WEBHOOK  STATUS     ATTEMPTS  CREATED  LAST ERROR\n\
         dlv_1     wh_1     succeeded  1         -        -\n"
    );
}

#[test]
fn a_version_is_put_beside_those_that_are_there() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "GET /api/v1/event-types/order.created" => json_answer(
            200,
            json!({"name": "order.created", "description": "placed", "versions": {
                "2026-01-01": {"schema": {"type": "object"}, "example": null, "change": "first"}}}),
        ),
        "GET /api/v1/event-types/new.type" => problem(404, "not_found", "no such type"),
        "GET /api/v1/event-types/far.away" => problem(403, "forbidden", "no"),
        _ => json_answer(
            200,
            json!({"name": "order.created", "description": "placed", "versions": {},
                "warnings": ["/total: an amount should be an integer"]}),
        ),
    });
    let ran = webhookctl(&server.url)
        .args(["event-types", "put", "order.created", "--version", "2026-11-15"])
        .args(["--schema", "{\"type\": \"object\"}", "--example", "{\"id\": 1}"])
        .args(["--change", "a total"])
        .run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "type            order.created\n\
         description     placed\n\
         warning         /total: an amount should be an integer\n"
    );
    let put = server.seen().pop().expect("a request");
    assert_eq!(put.line, "PUT /api/v1/event-types/order.created");
    assert_eq!(
        put.body,
        json!({"description": "placed", "versions": {
            "2026-01-01": {"schema": {"type": "object"}, "change": "first"},
            "2026-11-15": {"schema": {"type": "object"}, "example": {"id": 1},
                "change": "a total"}}})
    );
    let new = ["event-types", "put", "new.type", "--description", "new"];
    webhookctl(&server.url).args(new).run().ends_with(0);
    assert_eq!(server.seen().pop().expect("a request").body, json!({"description": "new"}));
    // What cannot be read must not be written over.
    let asked = server.lines().len();
    let far = ["event-types", "put", "far.away", "--description", "x"];
    webhookctl(&server.url).args(far).run().ends_with(4);
    assert_eq!(server.lines().len(), asked + 1);
}

#[test]
fn a_whole_type_is_put_from_a_file() {
    let server = StandIn::start(|_| json_answer(200, json!({"name": "order.created"})));
    let put = ["event-types", "put", "order.created"];
    let whole = "{\"description\": \"d\", \"versions\": {\"v1\": {\"example\": {\"a\": 1}}}}";
    webhookctl(&server.url).args(put).args(["--file", "-"]).stdin(whole).run().ends_with(0);
    assert_eq!(server.lines(), ["PUT /api/v1/event-types/order.created"]);
    let sent = json!({"description": "d", "versions": {"v1": {"example": {"a": 1}}}});
    assert_eq!(server.seen()[0].body, sent);
    for wrong in [
        ["--file", "{\"descripton\": \"typo\"}"],
        ["--schema", "{}"],
        ["--example", "{}"],
        ["--file", "[]"],
    ] {
        webhookctl(&server.url).args(put).args(wrong).run().ends_with(2);
    }
    webhookctl(&server.url).args(put).run().ends_with(2);
    assert_eq!(server.lines().len(), 1);
}

#[test]
fn the_catalogue_is_listed_shown_and_cut() {
    let shown = || {
        json!({"name": "order.created", "description": "An order was placed", "versions": {
            "2026-01-01": {"schema": null, "change": "first"},
            "2026-11-15": {"schema": {"type": "object"}, "example": {"id": "ord_1"}}}})
    };
    let server = StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/event-types" => {
            json_answer(200, json!({"data": [shown()], "next_cursor": null}))
        }
        "DELETE /api/v1/event-types/order.created" => bytes_answer(204, b""),
        _ => json_answer(200, shown()),
    });
    let ran = webhookctl(&server.url).args(["event-types", "list"]).run();
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "TYPE           VERSIONS                DESCRIPTION\n\
         order.created  2026-11-15, 2026-01-01  An order was placed\n"
    );
    let ran = webhookctl(&server.url).args(["event-types", "show", "order.created"]).run();
    ran.ends_with(0);
    for part in [
        "2026-11-15  yes     yes      -\n2026-01-01  no      no       first\n",
        "schema\n{\n  \"type\": \"object\"\n}\n",
        "example\n{\n  \"id\": \"ord_1\"\n}\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    let ran = webhookctl(&server.url).args(["event-types", "delete", "order.created"]).run();
    ran.ends_with(0);
    assert_eq!(ran.stdout, "deleted         order.created\n");
}
