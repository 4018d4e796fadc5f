//! What calls send, and how answers and refusals are read.

mod stand_in;

use serde_json::json;
use stand_in::{StandIn, bytes_answer, json_answer, problem};
use wakepost_client::{
    Client, Completion, Error, Extension, Failure, Finish, FinishOutcome, InboxQuery, NewJob,
    NewSource, Replay, Scope,
};

fn client(server: &StandIn) -> Client {
    Client::new(&server.url, "k").expect("a client")
}

#[tokio::test]
async fn a_list_sends_its_filters_and_the_key() {
    let server = StandIn::start(|_| {
        json_answer(200, json!({"data": [{"id": "evt_1", "status": "held"}], "next_cursor": "n"}))
    });
    let query = InboxQuery {
        event_type: Some("issues.*".to_owned()),
        q: Some("a b&c".to_owned()),
        limit: Some(2),
        ..InboxQuery::default()
    };
    let page = client(&server).with_tenant("acme").list_inbox(&query).await.expect("a page");
    assert_eq!(page.data[0].envelope.event_id, "evt_1");
    assert_eq!(page.next_cursor.as_deref(), Some("n"));
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "GET /api/v1/inbox?limit=2&q=a+b%26c&type=issues.*&tenant=acme");
    assert_eq!(seen.authorization, "Bearer k");
}

#[tokio::test]
async fn fields_that_were_not_set_are_not_sent() {
    let server = StandIn::start(|_| {
        json_answer(
            201,
            json!({"id": "src_1", "provider": "github",
        "ingest_url": "http://h/in/src_1", "missing_settings": ["a", {"name": "b"}], "secret": "s"}),
        )
    });
    let new = NewSource { provider: "github".to_owned(), ..NewSource::default() };
    let source = client(&server).create_source(&new).await.expect("a source");
    assert_eq!(source.missing_settings, ["a", "b"]);
    assert!(!format!("{source:?}").contains("\"s\""));
    assert_eq!(server.seen()[0].body, json!({"provider": "github"}));
}

#[tokio::test]
async fn a_base_path_is_kept_and_ids_cannot_leave_their_place() {
    let server = StandIn::start(|_| json_answer(200, json!({"id": "x"})));
    let client = Client::new(&format!("{}/gate/", server.url), "k").expect("a client");
    client.get_job("a/../b?c").await.expect("a job");
    assert_eq!(server.lines(), ["GET /gate/api/v1/jobs/a%2F..%2Fb%3Fc"]);
    for id in ["", ".", ".."] {
        let refused = client.delete_key(id).await.expect_err("an id");
        assert!(matches!(refused, Error::Request(_)));
    }
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_refusal_keeps_its_code_and_fields() {
    let server = StandIn::start(|_| {
        json_answer(
            422,
            json!({"title": "Invalid", "status": 422, "code": "invalid",
            "errors": [{"field": "note", "message": "is required"}]}),
        )
    });
    let error = client(&server).release_job("job_1", "").await.expect_err("422");
    let problem = error.problem().expect("a problem");
    assert_eq!((problem.status, problem.code.as_str()), (422, "invalid"));
    assert_eq!(problem.errors[0].field, "note");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn a_refusal_that_is_not_wakeposts_has_no_code() {
    let server = StandIn::start(|_| bytes_answer(502, b"<html>bad gateway</html>"));
    let error = client(&server).get_job("job_1").await.expect_err("502");
    assert_eq!(error.to_string(), "Bad Gateway (502)");
    assert!(error.is_transient());
}

#[tokio::test]
async fn nobody_listening_is_unreachable_and_a_strange_answer_is_not() {
    let away = Client::new("http://127.0.0.1:1", "k").expect("a client");
    let error = away.get_job("job_1").await.expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    let server = StandIn::start(|_| bytes_answer(200, b"hello"));
    let error = client(&server).get_job("job_1").await.expect_err("text");
    assert!(matches!(error, Error::Protocol(_)), "{error}");
    let moved = StandIn::start(|_| bytes_answer(302, b""));
    let error = client(&moved).get_job("job_1").await.expect_err("302");
    assert!(matches!(error, Error::Protocol(_)), "{error}");
}

#[tokio::test]
async fn an_answer_over_the_limit_is_not_read_whole() {
    let server = StandIn::start(|_| bytes_answer(200, &[b'x'; 2000]));
    let client = client(&server).with_body_bytes_max(1000);
    let error = client.get_event_raw("evt_1").await.expect_err("too long");
    assert!(error.to_string().contains("1000 bytes"), "{error}");
    let whole = client.with_body_bytes_max(2000).get_event_raw("evt_1").await;
    assert_eq!(whole.expect("the bytes").len(), 2000);
}

#[tokio::test]
async fn creates_can_carry_an_idempotency_key_and_deletes_have_no_answer() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "POST /api/v1/jobs" => json_answer(201, json!({"id": "job_1", "status": "pending"})),
        _ => bytes_answer(204, b""),
    });
    let new = NewJob { input: json!({"a": 1}), ..NewJob::default() };
    let job = client(&server).create_job(&new).idempotency_key("once").await;
    assert_eq!(job.expect("a job").id, "job_1");
    client(&server).delete_key("key_1").await.expect("deleted");
    assert_eq!(server.seen()[0].idempotency_key, "once");
    assert_eq!(server.seen()[0].body, json!({"input": {"a": 1}}));
}

#[tokio::test]
async fn worker_calls_carry_the_lease_token() {
    let server = StandIn::start(|seen| match seen.line.as_str() {
        "POST /api/v1/jobs/finish" => json_answer(
            200,
            json!({"jobs": [{"id": "job_1", "ok": true}, {"id": "job_2", "ok": false, "code": "lease_lost"}]}),
        ),
        "POST /api/v1/jobs/job_1/heartbeat" => problem(409, "lease_lost", "gone"),
        _ => json_answer(200, json!({"id": "job_1", "status": "succeeded"})),
    });
    let client = client(&server);
    let done = Completion { result: Some(json!(1)), ..Completion::default() };
    client.complete_job("job_1", "t", &done).await.expect("done");
    let lost = client
        .heartbeat("job_1", "t", &Extension { extend_s: Some(9), cost: None })
        .await
        .expect_err("lost");
    assert!(lost.is_code("lease_lost"));
    let jobs = [
        Finish {
            id: "job_1".to_owned(),
            lease_token: "t".to_owned(),
            outcome: FinishOutcome::Complete(done),
        },
        Finish {
            id: "job_2".to_owned(),
            lease_token: "u".to_owned(),
            outcome: FinishOutcome::Fail(Failure { error: "no".to_owned(), ..Failure::default() }),
        },
    ];
    let finished = client.finish_jobs(&jobs).await.expect("finished");
    assert_eq!(finished.jobs[1].code.as_deref(), Some("lease_lost"));
    let replay = Replay { note: "why".to_owned(), scope: Some(Scope::Fresh) };
    client.replay_job("job_1", &replay).await.expect("replayed");
    let bodies: Vec<_> = server.seen().into_iter().map(|seen| seen.body).collect();
    assert_eq!(
        bodies,
        [
            json!({"lease_token": "t", "result": 1}),
            json!({"lease_token": "t", "extend_s": 9}),
            json!({"jobs": [
                {"id": "job_1", "lease_token": "t", "outcome": "complete", "result": 1},
                {"id": "job_2", "lease_token": "u", "outcome": "fail", "error": "no"}]}),
            json!({"note": "why", "scope": "fresh"}),
        ]
    );
}

#[tokio::test]
async fn health_is_outside_the_api_and_needs_no_key() {
    let server = StandIn::start(|_| bytes_answer(200, b"\"ok\""));
    let client = Client::without_key(&server.url).expect("a client");
    client.health().await.expect("healthy");
    let seen = &server.seen()[0];
    assert_eq!((seen.line.as_str(), seen.authorization.as_str()), ("GET /healthz", ""));
}

#[tokio::test]
async fn a_stream_is_read_event_by_event_whatever_stands_between() {
    let server = StandIn::start(|_| {
        bytes_answer(
            200,
            b": hello\n\nevent: state\nid: 1-0-0-0-0\ndata: {\"status\":\"pending\"}\n\n:\r\n\r\n\
              event:progress\r\nid:1-1-0-0-0\r\ndata:{\"message\":\r\ndata:\"half\"}\r\n\r\n\
              event: state\nid: 9-1-0-0-0\ndata: {\"status\":\"succeeded\"}\n\nevent: cut\ndata: {",
        )
    });
    let events = client(&server).watch_job("job_1", Some("0-0-0-0-0"), Some(0)).await;
    let mut events = events.expect("a stream");
    let mut read = Vec::new();
    while let Some(event) = events.next().await.expect("an event") {
        read.push(event);
    }
    let ids: Vec<&str> = read.iter().map(|event| event.id.as_str()).collect();
    assert_eq!(ids, ["1-0-0-0-0", "1-1-0-0-0", "9-1-0-0-0"]);
    assert_eq!((read[1].event.as_str(), &read[1].data["message"]), ("progress", &json!("half")));
    assert!(!read[0].is_last() && read[2].is_last());
    assert_eq!(server.lines(), ["GET /api/v1/jobs/job_1/events?for_s=0"]);
    assert_eq!(server.seen()[0].headers["last-event-id"], "0-0-0-0-0");

    let refusing = StandIn::start(|_| json_answer(404, json!({"code": "not_found"})));
    let refused = client(&refusing).watch_job("job_1", None, None).await.expect_err("a refusal");
    assert!(refused.is_code("not_found"));
}

#[tokio::test]
async fn a_job_that_was_made_shows_its_secrets_once_and_not_in_debug_output() {
    let server = StandIn::start(|_| {
        let job = json!({"id": "job_1", "input": {"n": 1}, "duplicate": false,
            "executor_secret": "whsec_e", "callback_secret": "whsec_c"});
        json_answer(201, job)
    });
    let made = client(&server).create_job(&NewJob::default()).await.expect("made");
    assert_eq!(made.executor_secret.as_deref(), Some("whsec_e"));
    assert_eq!(made.callback_secret.as_deref(), Some("whsec_c"));
    assert_eq!((&made.input, made.duplicate), (&json!({"n": 1}), Some(false)));
    assert!(!format!("{made:?}").contains("whsec_"));
}
