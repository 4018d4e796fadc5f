//! Receiving: what is really from its sender is kept, byte for byte; nothing else is.

use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use wakepost_providers::SignedRequest;
use wakepost_tests::{
    Answer, Api, Database, Event, Gateway, Http, Source, cut_off_exchange, now, on_both,
    raw_exchange, until,
};

const PROVIDERS: [&str; 4] = ["github", "stripe", "standard-webhooks", "generic"];

on_both!(
    a_signed_event_of_every_provider_is_accepted_and_kept_byte_for_byte,
    a_request_that_is_not_really_from_its_sender_is_refused_and_leaves_nothing,
    a_request_that_is_too_old_or_from_the_future_is_refused,
    only_a_post_to_a_source_that_is_there_and_enabled_is_taken,
    an_oversize_body_is_refused_and_the_sender_can_read_why,
    a_body_that_is_cut_off_is_never_stored,
    what_cannot_be_understood_is_kept_and_can_be_run_all_the_same,
    an_event_that_nobody_wants_is_kept_without_a_job,
    an_unsigned_source_marks_its_events_unverified,
    a_sender_outside_the_allowed_networks_finds_nothing,
    both_secrets_are_accepted_while_one_replaces_the_other,
    a_source_without_a_secret_asks_the_sender_to_come_again,
);

async fn raw(api: &Api, event: &str) -> Answer {
    api.get(&format!("/inbox/{event}/raw")).await.is(200)
}

/// The same JSON in a form that no serializer would write.
fn oddly_written(event: Event) -> Event {
    let mut body = b"\r\n\t ".to_vec();
    body.extend_from_slice(&event.body);
    body.truncate(body.len() - 1);
    body.extend_from_slice(" , \"odd\" : \"\\u00e9\u{fc}\\/\"  }\n\n".as_bytes());
    event.with_body(body)
}

async fn a_signed_event_of_every_provider_is_accepted_and_kept_byte_for_byte(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for provider in PROVIDERS {
        let source = gateway.with_source(provider).await;
        let event = oddly_written(source.event("e-1"))
            .with_header("X-Trace", "kept")
            .with_header("Authorization", "Basic c2VjcmV0")
            .with_header("Cookie", "session=secret");
        let answer = gateway.send(&source, &event).await.is(202);
        assert_eq!(answer.json()["status"], "accepted");
        let (id, job) = (answer.text("event_id"), answer.text("job_id"));
        assert_eq!(raw(&api, &id).await.body, event.body, "{provider}");

        let shown = api.show_event(&id).await;
        assert_eq!(shown["status"], "pending", "{shown}");
        assert_eq!(shown["envelope"]["provider"], provider);
        assert_eq!(shown["envelope"]["source"], source.id);
        assert_eq!(shown["envelope"]["verified"], true);
        assert_eq!(shown["envelope"]["data"]["odd"], "éü/");
        assert_eq!(shown["work"][0]["id"], job);
        assert_eq!(shown["receipts"][0]["verdict"], "accepted");
        assert_eq!(api.show_job(&job).await["kind"], shown["envelope"]["event_type"]);

        let headers = api.get(&format!("/inbox/{id}/headers")).await.is(200);
        let headers = headers.json()["headers"].to_string();
        assert!(headers.contains("kept"), "{headers}");
        assert!(!headers.contains("secret"), "{headers}");
    }
    assert_eq!(api.list("/inbox").await.len(), PROVIDERS.len());
}

async fn receipt(api: &Api, source: &Source, verdict: &str) -> Value {
    until(&format!("a receipt says {verdict}"), || async {
        let rows = api.list(&format!("/sources/{}/receipts", source.id)).await;
        rows.into_iter().find(|row| row["verdict"] == verdict)
    })
    .await
}

async fn a_request_that_is_not_really_from_its_sender_is_refused_and_leaves_nothing(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for provider in PROVIDERS {
        let source = gateway.with_source(provider).await;
        let event = source.event("e-1");
        let signed = source.sign(&event);

        let forged = source.with_secret("whsec_c29tZWJvZHkgZWxzZQ==");
        let unsigned = SignedRequest::post(signed.url.clone(), event.body.clone());
        let mut changed = signed.clone();
        changed.body.push(b' ');
        let mut doubled = signed.clone();
        let names = ["x-hub-signature-256", "stripe-signature", "webhook-signature", "x-signature"];
        let name =
            names.into_iter().find(|name| signed.headers.contains_key(*name)).expect("a signature");
        doubled.headers.append(name, signed.headers[name].clone());
        let mut empty = signed.clone();
        empty.set(name, "v1,").expect("a header");

        for request in [forged.sign(&event), unsigned, changed, doubled, empty] {
            let answer = gateway.send_request(&request).await.refuses(401, "unauthorized");
            // The reason is the operator's to know.
            let fields = answer.json().as_object().map(|fields| fields.len());
            assert_eq!(fields, Some(4), "{provider}: {}", answer.json());
        }
        let why = receipt(&api, &source, "bad_signature").await;
        assert!(!why["detail"].as_str().expect("a reason").is_empty());
        assert!(!why.to_string().contains(source.secret()), "{why}");
        gateway.send_request(&signed).await.is(202);
    }
    assert_eq!(api.list("/inbox").await.len(), PROVIDERS.len());
}

async fn a_request_that_is_too_old_or_from_the_future_is_refused(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let margin = Duration::from_secs(60);
    let tolerance = Duration::from_secs(300);
    for provider in ["stripe", "standard-webhooks", "generic"] {
        let source = gateway.with_source(provider).await;
        let event = source.event("e-1");
        let now = now();
        for at in [now.before(tolerance + margin), now.after(tolerance + margin)] {
            let late = source.sign_at(&event, at);
            gateway.send_request(&late).await.refuses(403, "forbidden");
        }
        receipt(&api, &source, "stale").await;
        let inside = source.sign_at(&event, now.before(tolerance - margin));
        gateway.send_request(&inside).await.is(202);
    }
    let narrow = json!({"tolerance_s": 30});
    let source = api.source_with("stripe", narrow).await;
    let late = source.sign_at(&source.event("e-1"), now().before(margin));
    gateway.send_request(&late).await.is(403);
}

async fn only_a_post_to_a_source_that_is_there_and_enabled_is_taken(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("github").await;
    let event = source.event("e-1");
    let signed = source.sign(&event);

    for method in [Method::GET, Method::PUT, Method::DELETE, Method::PATCH] {
        let request = SignedRequest { method, ..signed.clone() };
        let answer = gateway.send_request(&request).await.refuses(405, "method_not_allowed");
        assert!(answer.header("allow").contains("POST"));
    }
    for path in
        ["/in/src_00000000000000000000000000", "/in/rubbish", "/in/evt_00000000000000000000000000"]
    {
        let request = SignedRequest { url: path.to_owned(), ..signed.clone() };
        gateway.send_request(&request).await.refuses(404, "not_found");
    }
    let gzipped = source.sign(&event.clone().with_header("Content-Encoding", "gzip"));
    gateway.send_request(&gzipped).await.is(415);

    let path = format!("/sources/{}", source.id);
    api.post(&format!("{path}/disable"), json!({})).await.is(200);
    gateway.send_request(&signed).await.refuses(404, "not_found");
    assert!(api.list("/inbox").await.is_empty());
    api.post(&format!("{path}/enable"), json!({})).await.is(200);
    gateway.send_request(&signed).await.is(202);

    api.delete(&path).await.is(204);
    gateway.send(&source, &source.event("e-2")).await.refuses(404, "not_found");
    // What was received stays, though its source is gone.
    assert_eq!(api.list("/inbox").await.len(), 1);
}

/// A request as bytes, without its body.
fn head(request: &SignedRequest, framing: &str) -> Vec<u8> {
    let mut head = format!("{} {} HTTP/1.1\r\nHost: x\r\n", request.method, request.url);
    for (name, value) in &request.headers {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().expect("text")));
    }
    head.push_str(&format!("{framing}\r\n\r\n"));
    head.into_bytes()
}

fn chunked(request: &SignedRequest) -> Vec<u8> {
    let mut bytes = head(request, "Transfer-Encoding: chunked\r\nConnection: close");
    for piece in request.body.chunks(60_000) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

fn whole(request: &SignedRequest) -> Vec<u8> {
    let length = request.body.len();
    let framing = format!("Content-Length: {length}\r\nConnection: close");
    let mut bytes = head(request, &framing);
    bytes.extend_from_slice(&request.body);
    bytes
}

#[track_caller]
fn answers(answer: &str, status: u16) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer:?}");
}

async fn an_oversize_body_is_refused_and_the_sender_can_read_why(database: Database) {
    const LIMIT: usize = 10_000;
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source_with("standard-webhooks", json!({"max_body_bytes": LIMIT})).await;
    let sized = |id: &str, bytes: usize| {
        let mut body = format!(r#"{{"type":"{id}"}}"#).into_bytes();
        body.resize(bytes, b' ');
        source.sign(&source.event(id).with_body(body))
    };
    answers(&raw_exchange(gateway.url(), &whole(&sized("a", LIMIT))).await, 202);
    answers(&raw_exchange(gateway.url(), &chunked(&sized("b", LIMIT))).await, 202);
    // The last is far more than the buffers between us hold: the sender is still writing when it is refused.
    for bytes in [LIMIT + 1, 3 * 1024 * 1024] {
        answers(&raw_exchange(gateway.url(), &whole(&sized("c", bytes))).await, 413);
        answers(&raw_exchange(gateway.url(), &chunked(&sized("d", bytes))).await, 413);
    }
    receipt(&api, &source, "oversize").await;
    assert_eq!(api.list("/inbox").await.len(), 2);
}

async fn a_body_that_is_cut_off_is_never_stored(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("github").await;
    let request = source.sign(&source.event("e-1"));
    let declared = whole(&request);
    let cut = cut_off_exchange(gateway.url(), &declared[..declared.len() - 1]).await;
    answers(&cut, 400);
    let pieces = chunked(&request);
    let cut = cut_off_exchange(gateway.url(), &pieces[..pieces.len() - 5]).await;
    answers(&cut, 400);
    receipt(&api, &source, "malformed").await;
    assert!(api.list("/inbox").await.is_empty());
    gateway.send_request(&request).await.is(202);
}

async fn what_cannot_be_understood_is_kept_and_can_be_run_all_the_same(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("stripe").await;
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let bodies: [&[u8]; 6] = [
        b"not json",
        br#"{"type":"no.id"}"#,
        b"\xff\xfe\x00",
        br#"{"id":"x","type":1e400}"#,
        b"",
        &deep,
    ];
    for body in bodies {
        let event = source.event("x").with_body(body);
        let answer = gateway.send(&source, &event).await.is(200).json();
        assert_eq!(answer["status"], "unmapped", "{answer}");
        assert!(answer.get("job_id").is_none(), "{answer}");
        let id = answer["event_id"].as_str().expect("an id");
        assert_eq!(raw(&api, id).await.body, body);
        assert_eq!(api.show_event(id).await["status"], "unmapped");
        // Its body tells a repeat.
        let again = gateway.send(&source, &event).await.is(200).json();
        assert_eq!(again["status"], "duplicate");
        assert_eq!(again["event_id"], id);
    }
    let rows = api.list("/inbox?status=unmapped").await;
    assert_eq!(rows.len(), bodies.len());

    let id = rows[0]["id"].as_str().expect("an id");
    let note = json!({"note": "try it all the same"});
    let replayed = api.post(&format!("/inbox/{id}/replay"), note).await.is(202);
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.id(), replayed.text("job_id"));
    assert_eq!(lease.job["envelope"]["event_id"], id);
    lease.complete(json!(1)).await.is(200);
    assert_eq!(api.show_event(id).await["status"], "succeeded");
}

async fn an_event_that_nobody_wants_is_kept_without_a_job(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = gateway.with_source("github").await;
    let ping = Event {
        headers: vec![("X-GitHub-Event".to_owned(), "ping".to_owned())],
        ..source.event("e-1").with_body(r#"{"zen":"Be kind"}"#)
    };
    let filtered = api.source_with("stripe", json!({"filter": ["customer.*"]})).await;
    let unwanted = filtered.event("e-2");
    for (source, event) in [(&source, ping), (&filtered, unwanted)] {
        let answer = gateway.send(source, &event).await.is(200).json();
        assert_eq!(answer["status"], "ignored", "{answer}");
        assert!(answer.get("job_id").is_none(), "{answer}");
        let id = answer["event_id"].as_str().expect("an id");
        let shown = api.show_event(id).await;
        assert_eq!(shown["status"], "ignored");
        assert_eq!(shown["work"], json!([]));
    }
    let body = json!({"id": "e-3", "type": "customer.created"}).to_string();
    let wanted = filtered.event("e-3").with_body(body);
    let job = gateway.send(&filtered, &wanted).await.is(202).text("job_id");
    let jobs = api.list("/jobs").await;
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["id"], job);
}

async fn an_unsigned_source_marks_its_events_unverified(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source_with("github", json!({"unsigned": true})).await;
    assert_eq!(source.made["unsigned"], true);
    let event = source.event("e-1");
    let mut request = SignedRequest::post(format!("/in/{}", source.id), event.body);
    request.set("X-GitHub-Event", "issues").expect("a header");
    request.set("X-GitHub-Delivery", "e-1").expect("a header");
    let id = gateway.send_request(&request).await.is(202).text("event_id");
    let shown = api.show_event(&id).await;
    assert_eq!(shown["verified"], false);
    assert_eq!(shown["envelope"]["verified"], false);
    assert_eq!(shown["envelope"]["actor"]["verified"], false);
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.job["envelope"]["verified"], false);
}

async fn a_sender_outside_the_allowed_networks_finds_nothing(database: Database) {
    let proxied = Gateway::setup(database).setting("WAKEPOST_TRUSTED_PROXIES", "127.0.0.0/8");
    let gateway = proxied.start().await;
    let api = gateway.admin();
    let networks = json!({"allow_from": ["192.0.2.0/24", "127.0.0.0/8"]});
    let source = api.source_with("github", networks).await;
    let from = |address: &str, id: &str| {
        let event = source.event(id).with_header("X-Forwarded-For", address);
        source.sign(&event)
    };
    gateway.send(&source, &source.event("direct")).await.is(202);
    gateway.send_request(&from("192.0.2.9", "in")).await.is(202);
    for outside in ["198.51.100.1", "192.0.2.9, 198.51.100.1", "::ffff:198.51.100.1"] {
        let request = from(outside, "out");
        gateway.send_request(&request).await.refuses(404, "not_found");
    }
    let why = receipt(&api, &source, "address_refused").await;
    assert_eq!(why["address"], "198.51.100.1");
    assert_eq!(api.list("/inbox").await.len(), 2);
}

async fn both_secrets_are_accepted_while_one_replaces_the_other(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let old = gateway.with_source("github").await;
    let rotate = format!("/sources/{}/rotate", old.id);
    let made = api.post(&rotate, json!({"grace_s": 600})).await.is(200);
    let new = old.with_secret(&made.text("secret"));
    assert_ne!(old.secret(), new.secret());
    gateway.send(&old, &old.event("e-1")).await.is(202);
    gateway.send(&new, &new.event("e-2")).await.is(202);

    let made = api.post(&rotate, json!({"grace_s": 0})).await.is(200);
    let newest = old.with_secret(&made.text("secret"));
    gateway.send(&newest, &newest.event("e-3")).await.is(202);
    gateway.send(&old, &old.event("e-4")).await.is(401);
    gateway.send(&new, &new.event("e-5")).await.is(401);
    let shown = api.get(&format!("/sources/{}", old.id)).await.is(200);
    let shown = String::from_utf8_lossy(&shown.body).into_owned();
    assert!(!shown.contains(newest.secret()), "{shown}");
}

async fn a_source_without_a_secret_asks_the_sender_to_come_again(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let made = api.post("/sources", json!({"provider": "stripe"})).await;
    let made = made.is(201).json();
    assert_eq!(made["missing_settings"], json!(["secret"]));
    let id = made["id"].as_str().expect("an id");
    let sender = gateway.with_source("stripe").await;
    let mut request = sender.sign(&sender.event("e-1"));
    request.url = format!("/in/{id}");
    let answer = gateway.send_request(&request).await.is(503);
    assert_eq!(answer.header("retry-after"), "1");
    let secret = json!({"secret": sender.secret()});
    api.patch(&format!("/sources/{id}"), secret).await.is(200);
    gateway.send_request(&request).await.is(202);
}

/// The listener stands before any database.
#[tokio::test]
async fn broken_http_is_refused_and_the_connection_closed() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let source = gateway.with_source("github").await;
    let request = source.sign(&source.event("e-1"));
    let body = String::from_utf8(request.body.clone()).expect("text");
    let length = body.len();

    let many: String = (0..101).map(|n| format!("X-{n}: v\r\n")).collect();
    let long = "a".repeat(64 * 1024);
    let cases = [
        (431, format!("GET /healthz HTTP/1.1\r\n{many}\r\n")),
        (431, format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\n\r\n")),
        (414, format!("GET /{long} HTTP/1.1\r\nHost: x\r\n\r\n")),
        (400, "GET /healthz HTTP/1.1\r\nX-Nul: a\0b\r\n\r\n".to_owned()),
        (400, "GET /healthz HTTP/1.1\r\nX-Cr: a\rb\r\n\r\n".to_owned()),
        (400, "GET /healthz HTTP/1.1\r\nX-Cr: a\rX-Other: b\r\n\r\n".to_owned()),
        (400, "GET /healthz HTTP/1.1\r\nno colon\r\n\r\n".to_owned()),
        (400, "rubbish\r\n\r\n".to_owned()),
    ];
    for (status, bytes) in cases {
        let answer = raw_exchange(gateway.url(), bytes.as_bytes()).await;
        answers(&answer, status);
    }
    // What two readers could take for two different requests.
    let next = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let pieces = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let ended_twice = format!("{length:x}\r\n{body}\r\n0\r\nX: y\n\n");
    let framings = [
        (format!("Content-Length: {length}\r\nContent-Length: 3"), &body),
        (format!("Content-Length: {length}\r\nContent-Length: {length}"), &body),
        (format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"), &pieces),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"), &pieces),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"), &body),
        ("Transfer-Encoding: chunked, identity".to_owned(), &pieces),
        ("Transfer-Encoding: chunked".to_owned(), &body),
        ("Transfer-Encoding: chunked".to_owned(), &ended_twice),
        (format!("Content-Length: +{length}"), &body),
    ];
    for (framing, body) in framings {
        let mut bytes = head(&request, &framing);
        bytes.extend_from_slice(body.as_bytes());
        bytes.extend_from_slice(next.as_bytes());
        let answer = raw_exchange(gateway.url(), &bytes).await;
        answers(&answer, 400);
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{answer:?}");
    }
    assert!(gateway.admin().list("/inbox").await.is_empty());

    gateway.send_request(&request).await.is(202);
    assert_eq!(gateway.admin().list("/inbox").await.len(), 1);
}

/// The listener stands before any database.
#[tokio::test]
async fn a_sender_may_speak_http_2() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let source = gateway.with_source("github").await;
    let http = Http::version_2();
    let sends = (0..50).map(|n| {
        let request = source.sign(&source.event(&format!("e-{n}")));
        let url = format!("{}{}", gateway.url(), request.url);
        let http = http.clone();
        async move { http.send(request.method, &url, request.headers, request.body).await }
    });
    for answer in join_all(sends).await {
        answer.is(202);
    }
    assert_eq!(gateway.admin().list("/inbox").await.len(), 50);
}

/// The listener stands before any database.
#[tokio::test]
async fn a_sender_that_dribbles_its_headers_is_cut_off_and_others_are_served() {
    let gateway = Gateway::start(Database::Sqlite).await;
    let source = gateway.with_source("github").await;
    let started = Instant::now();
    let beginnings: [&[u8]; 5] = [
        b"",
        b"P",
        b"PRI * HTTP/2.0\r\n",
        b"POST /in/x HTTP/1.1\r\n",
        b"POST /in/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nX-Slow: ",
    ];
    let cut = beginnings.map(|beginning| {
        let address = gateway.url().trim_start_matches("http://").to_owned();
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(beginning).await.expect("it is taken");
            let (mut reading, mut writing) = stream.into_split();
            let dribble = !beginning.is_empty() && beginning.ends_with(b" ");
            let dribbling = tokio::spawn(async move {
                while dribble && writing.write_all(b"x").await.is_ok() {
                    tokio::time::sleep(Duration::from_millis(500)).await;
                }
                // Held open: only the server ends this.
                std::future::pending::<()>().await;
            });
            let mut answer = Vec::new();
            let limit = Duration::from_secs(20);
            let ended = tokio::time::timeout(limit, reading.read_to_end(&mut answer)).await;
            dribbling.abort();
            (ended.is_ok(), beginning)
        })
    });
    gateway.send(&source, &source.event("e-1")).await.is(202);
    for connection in cut {
        let (ended, beginning) = connection.await.expect("a connection");
        let beginning = String::from_utf8_lossy(beginning);
        assert!(ended, "still open after 20 s: {beginning:?}");
    }
    assert!(started.elapsed() > Duration::from_secs(8));
    gateway.send(&source, &source.event("e-2")).await.is(202);
}
