//! What is sent: signed, the same at every try, and recorded without secrets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use wakepost_tests::{Database, Reply, on_both, until};

use crate::subscriber::*;

on_both!(
    every_try_has_the_same_id_and_body_and_a_fresh_signature,
    a_replay_says_the_same_under_the_same_id,
    credentials_go_along_and_are_never_shown,
    headers_that_are_ours_cannot_be_set,
    a_large_event_is_linked_to,
    a_receiver_that_hangs_delays_no_other,
    many_receivers_that_hang_delay_no_other,
);

async fn every_try_has_the_same_id_and_body_and_a_fresh_signature(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = receiver(|before, _| match before {
        0 => Reply::new(503, "come again").with_header("retry-after", 1),
        1 => Reply::new(429, "").with_header("retry-after", in_two_seconds()),
        _ => Reply::new(200, "thanks"),
    })
    .await;
    // What the receiver says goes before the schedule, which would take hours.
    let subscriber = Subscriber::with(
        &api,
        json!({"url": receiver.url("/hook?of=a"), "events": ["order.*"],
            "headers": {"X-Team": "blue"}, "retry_s": [0, 7200, 7200]}),
    )
    .await;
    let event = publish(&api, "order.created", json!({"z": 1.0, "a": "ü"})).await;
    let delivery = subscriber.delivery(&event, "succeeded").await;
    let seen = came(&receiver, "/hook");
    assert_eq!(seen.len(), 3);
    for one in &seen {
        assert_eq!((&one.method, one.query.as_str()), (&Method::POST, "of=a"));
        assert_eq!(one.header("webhook-id"), event);
        assert_eq!(one.header("content-type"), "application/json");
        assert!(one.header("user-agent").starts_with("Wakepost/"));
        assert_eq!(one.header("x-team"), "blue");
        assert!(!one.headers.contains_key("authorization"));
        assert_eq!(one.body, seen[0].body);
        subscriber.signed(one);
    }
    for (one, next) in [(&seen[0], &seen[1]), (&seen[1], &seen[2])] {
        assert_ne!(one.header("webhook-timestamp"), next.header("webhook-timestamp"));
        assert_ne!(one.header("webhook-signature"), next.header("webhook-signature"));
        let parts = |seen: &wakepost_tests::Seen| {
            seen.header("traceparent").split('-').map(str::to_owned).collect::<Vec<_>>()
        };
        let (one, next) = (parts(one), parts(next));
        assert_eq!((one.len(), one[1].len(), one[2].len()), (4, 32, 16));
        assert_eq!(one[1], next[1], "one trace");
        assert_ne!(one[2], next[2], "each try is its own part of it");
    }
    the_record_tells_all_of_it(&delivery);
}

fn in_two_seconds() -> String {
    let at = wakepost_tests::now().after(Duration::from_secs(2));
    let system = std::time::UNIX_EPOCH + Duration::from_millis(at.as_millis() as u64);
    http_date(system)
}

/// As RFC 9110 has it.
fn http_date(at: std::time::SystemTime) -> String {
    let secs = at.duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let (days, time) = (secs / 86_400, secs % 86_400);
    let week = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (year, month, day) = civil(days as i64);
    let months =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    format!(
        "{}, {day:02} {} {year} {:02}:{:02}:{:02} GMT",
        week[(days % 7) as usize],
        months[month - 1],
        time / 3600,
        time / 60 % 60,
        time % 60
    )
}

/// The date so many days after 1970 began.
fn civil(days: i64) -> (i64, usize, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let part = (5 * of_year + 2) / 153;
    let day = of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    (era * 400 + year + i64::from(month <= 2), month as usize, day)
}

fn the_record_tells_all_of_it(delivery: &Value) {
    assert_eq!((&delivery["attempt_count"], &delivery["max_attempts"]), (&json!(3), &json!(3)));
    assert_eq!(delivery["last_error"], json!(null));
    let tries = tries(delivery);
    let told: Vec<_> = tries
        .iter()
        .map(|one| (one["attempt"].clone(), one["outcome"].clone(), one["probe"].clone()))
        .collect();
    let of = |attempt: i32, outcome: &str| (json!(attempt), json!(outcome), json!(false));
    assert_eq!(told, [of(1, "failed"), of(2, "failed"), of(3, "succeeded")]);
    assert_eq!(tries[0]["error"], "the receiver answered 503: come again");
    for (one, (status, body)) in tries.iter().zip([(503, "come again"), (429, ""), (200, "thanks")])
    {
        let detail = one;
        assert_eq!((&detail["status_code"], &detail["body"]), (&json!(status), &json!(body)));
        assert_eq!(detail["request_headers"]["webhook-id"], delivery["event_id"]);
        assert_eq!(detail["truncated"], false);
        let timings = &detail["timings"];
        let (first, total) = (&timings["first_byte_ms"], &timings["total_ms"]);
        assert!(first.as_f64().expect("a time") <= total.as_f64().expect("a time"), "{timings}");
        assert!(one["id"].as_str().expect("an id").starts_with("att_"));
    }
    // At least a second, and until the date.
    let wait = |n: usize| moment(&tries[n + 1]["started_at"]).since(moment(&tries[n]["ended_at"]));
    assert!(wait(0) >= Duration::from_millis(900), "{:?}", wait(0));
    assert!(wait(1) >= Duration::from_millis(500), "{:?}", wait(1));
    assert!(wait(0).max(wait(1)) < Duration::from_secs(20));
}

async fn a_replay_says_the_same_under_the_same_id(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let refuses = Arc::new(AtomicBool::new(true));
    let switch = refuses.clone();
    let receiver = receiver(move |_, _| match switch.load(Ordering::SeqCst) {
        true => Reply::new(400, "no"),
        false => Reply::new(200, ""),
    })
    .await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let event = publish(&api, "order.created", json!({"n": 1})).await;
    let dead = subscriber.delivery(&event, "dead_letter").await;
    let id = dead["id"].as_str().expect("an id");
    let listed = api.list("/dead-letters?kind=delivery").await;
    assert_eq!((listed.len(), &listed[0]["id"]), (1, &dead["id"]));

    refuses.store(false, Ordering::SeqCst);
    let note = json!({"note": "mended"});
    let new = api.post(&format!("/deliveries/{id}/replay"), note.clone()).await.is(202);
    let new = new.text("delivery_id");
    assert_ne!(new, id);
    comes(&receiver, "/hook", 2).await;
    let seen = came(&receiver, "/hook");
    assert_eq!(seen[1].header("webhook-id"), event);
    assert_eq!(seen[1].body, seen[0].body);
    subscriber.signed(&seen[1]);
    let old = show_delivery(&api, id).await;
    assert_eq!((&old["status"], &old["replayed_as"]), (&json!("dead_letter"), &json!(new)));
    api.post(&format!("/deliveries/{id}/replay"), note.clone()).await.refuses(409, "invalid_state");
    assert!(api.list("/dead-letters?kind=delivery").await.is_empty());

    // One that was taken can be sent once more too.
    until("the replay is taken", || async {
        (show_delivery(&api, &new).await["status"] == "succeeded").then_some(())
    })
    .await;
    api.post(&format!("/deliveries/{new}/replay"), note).await.is(202);
    let seen = comes(&receiver, "/hook", 3).await;
    assert_eq!((seen[2].header("webhook-id"), &seen[2].body), (event.as_str(), &seen[0].body));
    let of_event = api.list(&format!("/events/{event}/deliveries")).await;
    assert_eq!(of_event.len(), 3);
}

async fn credentials_go_along_and_are_never_shown(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    // A receiver that says what it was sent keeps nothing secret, so it must not.
    let receiver = receiver(|_, _| Reply::new(500, "no")).await;
    let bearer = json!({"type": "bearer", "token": "tok-en-s3cret"});
    let basic = json!({"type": "basic", "username": "shop", "password": "pass-w0rd"});
    for (path, auth, sent) in [
        ("/bearer", bearer, "Bearer tok-en-s3cret"),
        ("/basic", basic, "Basic c2hvcDpwYXNzLXcwcmQ="),
    ] {
        let fields = json!({"url": receiver.url(path), "events": ["*"], "auth": auth,
            "retry_s": [0]});
        let subscriber = Subscriber::with(&api, fields).await;
        assert_eq!(subscriber.made["auth"], json!({"type": auth["type"]}));
        let event = publish(&api, "order.created", json!({})).await;
        let delivery = subscriber.delivery(&event, "dead_letter").await;
        assert!(receiver.seen(path).iter().all(|seen| seen.header("authorization") == sent));
        let shown = subscriber.show().await;
        for text in [delivery.to_string(), shown.to_string(), gateway.logged()] {
            for secret in ["s3cret", "w0rd", "c2hvcDp", &subscriber.secret] {
                assert!(!text.contains(secret), "{path}: {text}");
            }
        }
        api.patch(&subscriber.path(""), json!({"auth": null})).await.is(200);
        publish(&api, "order.created", json!({})).await;
        let seen = comes(&receiver, path, 2).await;
        assert!(!seen[1].headers.contains_key("authorization"));
        api.delete(&subscriber.path("")).await.is(204);
    }
    let stored = gateway.stored().await;
    for secret in [&b"s3cret"[..], b"pass-w0rd", b"c2hvcDp"] {
        assert!(!stored.windows(secret.len()).any(|part| part == secret), "it is encrypted");
    }
}

async fn headers_that_are_ours_cannot_be_set(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = taker().await;
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "TE",
        "upgrade",
        "Proxy-Authorization",
        "webhook-id",
        "Webhook-Anything",
    ] {
        let fields = json!({"url": receiver.url("/"), "events": ["*"], "headers": {name: "x"}});
        api.post("/webhooks", fields).await.refuses_field(&format!("headers.{name}"));
    }
    for value in ["a\r\nb: c", "a\nb", "a\0"] {
        let fields = json!({"url": receiver.url("/"), "events": ["*"], "headers": {"x-a": value}});
        api.post("/webhooks", fields).await.refuses_field("headers.x-a");
    }
    assert!(receiver.seen("/").is_empty(), "nothing is asked of a webhook that is refused");
}

async fn a_large_event_is_linked_to(database: Database) {
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let receiver = receiver(|before, _| match before {
        0 => Reply::new(500, "").with_header("retry-after", 1),
        _ => Reply::new(200, ""),
    })
    .await;
    let subscriber = Subscriber::new(&api, receiver.url("/hook"), &["*"]).await;
    let text = "x".repeat(80 * 1024);
    let event = publish(&api, "order.created", json!({"text": text})).await;
    subscriber.delivery(&event, "succeeded").await;
    let seen = came(&receiver, "/hook");
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body, "the link stays the same");
    subscriber.signed(&seen[1]);
    let said = seen[0].json();
    assert_eq!((&said["id"], &said["type"]), (&json!(event), &json!("order.created")));
    assert_eq!(said["data"]["truncated"], true);
    let url = said["data"]["url"].as_str().expect("a link");
    let path = url.strip_prefix(gateway.url()).expect("a link to the gateway");
    let whole = gateway.fetch(path).await.is(200).json();
    assert_eq!(whole["data"]["object"]["text"], text);
    assert_eq!(whole["id"], event);
    let mut forged = path.to_owned();
    let last = if forged.pop() == Some('A') { 'B' } else { 'A' };
    forged.push(last);
    gateway.fetch(&forged).await.is(404);
}

async fn a_receiver_that_hangs_delays_no_other(database: Database) {
    let setup = setup(database).setting("WAKEPOST_PUSH_CONCURRENCY", "40");
    let gateway = setup.start().await;
    let api = gateway.admin();
    let slow = receiver(|_, _| Reply::none()).await;
    let quick = taker().await;
    let hangs = Subscriber::new(&api, slow.url("/slow"), &["*"]).await;
    let takes = Subscriber::new(&api, quick.url("/quick"), &["*"]).await;
    publish_many(&api, "order.created", 60).await;
    takes.have(60, "succeeded").await;
    assert_eq!(events_at(&quick, "/quick").len(), 60);
    let shown = hangs.deliveries().await;
    assert_eq!(shown.len(), 60);
    assert!(shown.iter().all(|row| row["status"] != "succeeded"));
}

async fn many_receivers_that_hang_delay_no_other(database: Database) {
    const HANGING: usize = 20;
    const TIMEOUT_S: u64 = 30;
    let gateway = gateway(database).await;
    let api = gateway.admin();
    let slow = receiver(|_, _| Reply::none()).await;
    for n in 0..HANGING {
        let url = slow.url(&format!("/{n}"));
        let fields = json!({"url": url, "events": ["*"], "timeout_s": TIMEOUT_S});
        Subscriber::with(&api, fields).await;
    }
    let acme = api.tenant("acme").await;
    let quick = taker().await;
    let takes = Subscriber::new(&acme, quick.url("/quick"), &["*"]).await;
    let began = tokio::time::Instant::now();
    publish_many(&api, "order.created", 100).await;
    // As much of it as will ever be.
    let under_way =
        || (0..HANGING).map(|n| slow.seen(&format!("/{n}")).len() - 1).collect::<Vec<_>>();
    until("all of them have some under way, and no more begins", || async {
        let before = under_way();
        tokio::time::sleep(Duration::from_secs(1)).await;
        (before.iter().all(|count| *count > 0) && before == under_way()).then_some(())
    })
    .await;
    publish_many(&acme, "order.created", 20).await;
    let gave_up = || began.elapsed() >= Duration::from_secs(TIMEOUT_S);
    until("the others have theirs", || async {
        (gave_up() || events_at(&quick, "/quick").len() == 20).then_some(())
    })
    .await;
    assert!(!gave_up(), "they waited for those that hang");
    takes.have(20, "succeeded").await;
}
