//! Streaming: whoever listens to the inbox hears of each event once, and misses none by coming again.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wakepost_tests::{Api, Database, Gateway, on_both};

on_both!(
    events_are_told_as_they_arrive_and_a_listener_goes_on_where_it_was,
    a_stream_ends_with_its_key,
);

/// One who listens.
struct Listener {
    lines: BufReader<TcpStream>,
}

impl Listener {
    /// Asks for the inbox as it fills.
    fn start(gateway: &Gateway, api: &Api, query: &str, last: Option<&str>) -> Listener {
        Listener::open(gateway, api, &format!("/inbox/stream?{query}"), last)
    }

    /// Asks for a stream, and waits until it has begun.
    fn open(gateway: &Gateway, api: &Api, path: &str, last: Option<&str>) -> Listener {
        let host = gateway.url().strip_prefix("http://").expect("a plain address").to_owned();
        let mut stream = TcpStream::connect(&host).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
        write!(
            stream,
            "GET /api/v1{path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {}\r\n{last}\r\n",
            api.key()
        )
        .expect("a request");
        let mut listener = Listener { lines: BufReader::new(stream) };
        assert!(listener.line().starts_with("HTTP/1.1 200"));
        while !listener.line().is_empty() {}
        listener
    }

    /// All that is told until the server ends the stream.
    fn rest(mut self) -> String {
        let (began, mut told) = (Instant::now(), String::new());
        loop {
            let line = self.line();
            if line == "0" {
                return told;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it goes on: {told}");
            told.push_str(&line);
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line in time");
        line.trim_end().to_owned()
    }

    /// The next event: its id, and what is told of it.
    fn next(&mut self) -> (String, Value) {
        let mut id = String::new();
        loop {
            let line = self.line();
            if let Some(text) = line.strip_prefix("id: ") {
                id = text.to_owned();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return (id, serde_json::from_str(data).expect("JSON"));
            }
        }
    }
}

async fn events_are_told_as_they_arrive_and_a_listener_goes_on_where_it_was(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source("github").await;
    let send =
        async |id: &str| gateway.send(&source, &source.event(id)).await.is(202).text("event_id");
    let before = send("e-0").await;
    let mut listener = Listener::start(&gateway, &api, "type=issues.*", None);
    let first = send("e-1").await;
    let second = send("e-2").await;
    // What it would see already if it began in the past.
    assert_ne!(before, first);
    let heard = tokio::task::spawn_blocking(move || [listener.next(), listener.next()]);
    let [one, two] = heard.await.expect("two events");
    assert_eq!((&one.0, &two.0), (&first, &second));
    assert_eq!((&one.1["id"], &one.1["status"]), (&json!(first), &json!("pending")));

    let third = send("e-3").await;
    let mut again = Listener::start(&gateway, &api, "", Some(&first));
    let heard = tokio::task::spawn_blocking(move || [again.next().0, again.next().0]);
    assert_eq!(heard.await.expect("two events"), [second, third], "after the one it heard last");

    let none = api.get("/inbox/stream?for_s=0").await.is(200);
    assert!(none.body.is_empty(), "one look, and nothing new");
    api.get("/inbox/stream?for_s=901").await.is(422);
    api.get("/inbox/stream?limit=1").await.is(422);
}

async fn a_stream_ends_with_its_key(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let (gateway, elsewhere) = (&nodes[0], &nodes[nodes.len() - 1]);
    let admin = elsewhere.admin();
    let made = admin.post("/keys", json!({"name": "v", "role": "viewer", "tenant": "default"}));
    let made = made.await.is(201);
    let viewer = gateway.admin().with_key(&made.text("key"));
    let source = admin.source("github").await;
    let job = gateway.admin().job().await;
    let mut inbox = Listener::start(gateway, &viewer, "", None);
    let mut watched = Listener::open(gateway, &viewer, &format!("/jobs/{job}/events"), None);
    let first = elsewhere.send(&source, &source.event("e-1")).await.is(202).text("event_id");
    let heard = tokio::task::spawn_blocking(move || {
        assert_eq!(inbox.next().0, first);
        assert_eq!(watched.next().1["status"], "pending");
        (inbox, watched)
    });
    let (inbox, watched) = heard.await.expect("both go on");
    admin.delete(&format!("/keys/{}", made.text("id"))).await.is(204);
    let ends = tokio::task::spawn_blocking(move || (inbox.rest(), watched.rest()));
    ends.await.expect("both end");
    viewer.get("/inbox").await.is(401);
}
