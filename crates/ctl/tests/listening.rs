//! `webhookctl listen` and `inbox tail`: what is shown of events as they arrive, and what is passed on.

mod program;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use std::sync::atomic::{AtomicU32, Ordering};

use program::webhookctl;
use serde_json::{Value, json};
use stand_in::{Answer, Seen, StandIn, bytes_answer, json_answer, problem};

const BODY: &[u8] = b"{\"a\": 1,\n \"b\":\"\xc3\xa4\"}";

fn id(n: u32) -> String {
    format!("evt_01JX9M9M7S{n:016}")
}

fn event(n: u32) -> Value {
    json!({"id": id(n), "provider": "github", "type": format!("issues\u{1b}[2J.{n}"), "status": "pending",
        "received_at": "2026-11-15T09:14:22.000Z", "subject": null})
}

/// A server-sent event.
fn told(n: u32) -> String {
    format!(": sign of life\n\nevent: received\nid: {}\ndata: {}\n\n", id(n), event(n))
}

/// A server whose streams each tell of a new event and of one from before, and break off.
fn server() -> StandIn {
    let streams = AtomicU32::new(0);
    StandIn::start(move |seen| match seen.line.strip_prefix("GET /api/v1/inbox/") {
        Some(path) if path.starts_with("stream") => {
            assert!(seen.headers.contains_key("last-event-id"), "it says where to go on");
            let n = streams.fetch_add(1, Ordering::Relaxed) + 2;
            bytes_answer(200, (told(n) + &told(n - 1)).as_bytes())
        }
        Some(_) => content(seen),
        None => json_answer(200, json!({"data": [event(1)], "next_cursor": null})),
    })
}

fn content(seen: &Seen) -> Answer {
    if seen.line.ends_with("/raw") {
        return bytes_answer(200, BODY);
    }
    let headers = json!({"headers": [{"name": "x-github-event", "value": "issues"},
        {"name": "x-many", "value": "1"}, {"name": "x-many", "value": "2"},
        {"name": "host", "value": "hooks.example.com"}, {"name": "content-length", "value": "9"},
        {"name": "transfer-encoding", "value": "chunked"}, {"name": "connection", "value": "close"},
        {"name": "b\u{7}d", "value": "x"}]});
    json_answer(200, headers)
}

#[test]
fn each_event_is_posted_once_as_it_was_received() {
    let (server, local) = (server(), StandIn::start(|_| json_answer(204, json!(null))));
    let to = format!("{}/hook?x=1", local.url);
    let ran = webhookctl(&server.url)
        .args([
            "listen",
            "--forward",
            &to,
            "--count",
            "2",
            "--source",
            "src_1",
            "--type",
            "issues.*",
        ])
        .run();
    ran.ends_with(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.stdout);
    assert!(lines[0].starts_with("09:14:22Z  github    issues\\u{1b}[2J.2 "), "{}", lines[0]);
    assert!(lines[0].contains("evt_…00000002  204  "), "{}", lines[0]);
    assert!(!ran.stdout.contains('\u{1b}'));
    assert!(ran.stderr.contains("2 events, 2 answered with 2xx, 0 not"), "{}", ran.stderr);
    let asked = server.lines();
    assert!(asked[0].starts_with("GET /api/v1/inbox?limit=1&source=src_1&type=issues.*"));
    assert!(asked[1].starts_with("GET /api/v1/inbox/stream?source=src_1&type=issues.*"));
    assert_eq!(server.seen()[1].headers["last-event-id"], id(1).as_str());

    let posted = local.seen();
    assert_eq!(posted.len(), 2);
    assert_eq!(posted[0].line, "POST /hook?x=1");
    assert_eq!(posted[0].bytes, BODY);
    let header = |name: &str| {
        let values = posted[0].headers.get_all(name).iter();
        values.map(|value| value.to_str().expect("text").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(header("x-github-event"), ["issues"]);
    assert_eq!(header("x-many"), ["1", "2"]);
    assert_eq!(header("wakepost-event-id"), [id(2)]);
    assert_eq!(header("content-length"), [BODY.len().to_string()]);
    assert_eq!(header("host"), [local.url.trim_start_matches("http://")]);
    assert_eq!(header("authorization"), Vec::<String>::new(), "the key goes nowhere else");
}

#[test]
fn a_local_program_that_is_down_or_fails_is_a_line_and_not_the_end() {
    let server = server();
    let ran = webhookctl(&server.url)
        .args(["listen", "--forward", "http://127.0.0.1:1/", "--count", "2", "--json"])
        .run();
    ran.ends_with(0);
    let lines: Vec<Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines[0]["event"]["id"], id(2));
    assert!(lines[0]["local"]["error"].as_str().expect("why").contains("refused"));
    assert!(ran.stderr.contains("2 events, 0 answered with 2xx, 2 not"), "{}", ran.stderr);

    let local = StandIn::start(|_| json_answer(500, json!(null)));
    let to = ["listen", "--forward", &local.url, "--count", "1"];
    let ran = webhookctl(&server.url).args(to).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("  500  "), "{}", ran.stdout);
}

#[test]
fn bodies_are_shown_and_what_is_gone_is_said() {
    let ran = webhookctl(&server().url).args(["listen", "--count", "1", "--print-body"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.ends_with("    {\n      \"a\": 1,\n      \"b\": \"ä\"\n    }\n"));
    let pruned = StandIn::start(|seen| match seen.line.as_str() {
        line if line.starts_with("GET /api/v1/inbox/stream") => {
            bytes_answer(200, told(2).as_bytes())
        }
        line if line.ends_with("/raw") => problem(404, "body_pruned", "no longer kept"),
        _ => json_answer(200, json!({"data": [], "next_cursor": null})),
    });
    let ran = webhookctl(&pruned.url).args(["listen", "--count", "1", "--print-body"]).run();
    ran.ends_with(0);
    assert!(ran.stdout.contains("not fetched: no longer kept"), "{}", ran.stdout);
}

#[test]
fn a_tail_begins_with_what_is_there_and_shows_whole_ids() {
    let server = server();
    let ran = webhookctl(&server.url).args(["inbox", "tail", "--count", "2", "-n", "0"]).run();
    ran.ends_with(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].contains(&id(2)) && lines[1].contains(&id(3)), "{}", ran.stdout);
    assert!(!ran.stdout.contains('\u{1b}'));
    let ran = webhookctl(&server.url).args(["inbox", "tail", "--count", "1", "--json"]).run();
    ran.ends_with(0);
    assert!(server.lines().iter().any(|line| line == "GET /api/v1/inbox?limit=11"));
}

#[test]
fn what_will_never_work_ends_it_with_its_code() {
    let refusing = StandIn::start(|_| problem(403, "forbidden", "no"));
    webhookctl(&refusing.url).args(["listen"]).run().ends_with(4);
    webhookctl("http://127.0.0.1:1").args(["inbox", "tail"]).run().ends_with(5);
    let turning = StandIn::start(|seen| match seen.line.contains("/stream") {
        true => problem(401, "unauthorized", "the key was revoked"),
        false => json_answer(200, json!({"data": [], "next_cursor": null})),
    });
    let ran = webhookctl(&turning.url).args(["listen"]).run();
    ran.ends_with(4);
    let busy = server();
    webhookctl(&busy.url).args(["listen", "--forward", "localhost:3000"]).run().ends_with(2);
    webhookctl(&busy.url).args(["listen", "--concurrency", "0"]).run().ends_with(2);
}
