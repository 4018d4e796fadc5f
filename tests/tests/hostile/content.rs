//! Bodies that make a reader stumble: kept as they are, and answered fast.

use std::time::Duration;

use serde_json::json;
use wakepost_providers::SignedRequest;
use wakepost_tests::{Database, Gateway, on_both};

on_both!(a_body_that_makes_readers_stumble_is_kept_as_it_is_and_answered_fast);

/// How much more of the processor's time one may take than a plain body of the same length.
const LIMIT: Duration = Duration::from_millis(50);
/// How often each is sent to measure that: the kernel counts in steps of 10 ms.
const TIMES: u32 = 5;

fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let deep =
        |open: &str, close: &str| (open.repeat(100_000) + &close.repeat(100_000)).into_bytes();
    let form: String = (0..10_000).map(|n| format!("key{n}=value&")).collect();
    let keys: String = (0..10_000).map(|n| format!(r#""id":"{n}","#)).collect();
    vec![
        ("arrays 100,000 deep", deep("[", "]")),
        ("objects 100,000 deep", deep(r#"{"a":"#, "}")),
        ("too large a number", br#"{"id":"x","type":"t","n":1e400}"#.to_vec()),
        ("a number of 100,000 digits", format!(r#"{{"n":{}}}"#, "9".repeat(100_000)).into_bytes()),
        ("duplicate keys", br#"{"id":"a","id":"b","type":"t","type":"u"}"#.to_vec()),
        ("10,000 duplicate keys", format!(r#"{{{keys}"type":"t"}}"#).into_bytes()),
        ("a lone surrogate", br#"{"id":"\ud800","type":"t"}"#.to_vec()),
        ("a byte order mark", b"\xef\xbb\xbf{\"id\":\"x\",\"type\":\"t\"}".to_vec()),
        ("not UTF-8", b"{\"id\":\"\xff\xfe\",\"type\":\"t\"}".to_vec()),
        ("NUL", br#"{"id":"a\u0000b","type":"a\u0000b"}"#.to_vec()),
        ("10,000 form keys", form.into_bytes()),
        ("half of it", br#"{"id":"x","type":"#.to_vec()),
    ]
}

/// What a request costs the server. Not by the clock: the machine is shared. A repeat is read as a whole too.
async fn cost(gateway: &Gateway, request: &SignedRequest) -> Duration {
    let before = processor_time(gateway);
    for _ in 0..TIMES {
        gateway.send_request(request).await.is(200);
    }
    (processor_time(gateway) - before) / TIMES
}

fn processor_time(gateway: &Gateway) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", gateway.pid())).expect("its times");
    // After the name, which may hold anything, the 12th and 13th numbers are its own time and the kernel's
    // for it, in hundredths of a second.
    let (_, numbers) = stat.rsplit_once(')').expect("a name");
    let ticks = numbers.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|number| number.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(ticks * 10)
}

async fn a_body_that_makes_readers_stumble_is_kept_as_it_is_and_answered_fast(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let mut kept = 0;
    for provider in ["stripe", "standard-webhooks", "generic", "github"] {
        let source = gateway.with_source(provider).await;
        for (index, (what, body)) in bodies().into_iter().enumerate() {
            let large = body.len() > 10_000;
            if large && provider != "stripe" {
                // All read JSON in the same way, and sealing is slow in a debug build.
                continue;
            }
            let mut event = source.event(&format!("e-{index}")).with_body(body.clone());
            if what.contains("form") {
                let kind = "application/x-www-form-urlencoded";
                event = event.with_header("Content-Type", kind);
            }
            let answer = gateway.send(&source, &event).await;
            assert!(matches!(answer.status, 200 | 202), "{provider}, {what}: {}", answer.status);
            kept += 1;
            let id = answer.text("event_id");
            let raw = api.get(&format!("/inbox/{id}/raw")).await.is(200);
            assert_eq!(raw.body, body, "{provider}: {what}");
            api.show_event(&id).await;
            if large && database == Database::Sqlite {
                kept += 1;
                let id = format!("plain-{index}");
                let plain = json!({"id": id, "type": "t", "text": "x".repeat(body.len())});
                let plain = source.event(&id).with_body(plain.to_string());
                gateway.send(&source, &plain).await.is(202);
                let plain = cost(&gateway, &source.sign(&plain)).await;
                let took = cost(&gateway, &source.sign(&event)).await;
                assert!(took < plain + LIMIT, "{what} took {took:?}, a plain one {plain:?}");
            }
        }
    }
    assert_eq!(api.list("/inbox").await.len(), kept);
    gateway.fetch("/readyz").await.is(200);
    assert!(!gateway.logged().contains("panicked"), "{}", gateway.logged());
}
