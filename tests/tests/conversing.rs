//! Conversing: the messages of a thread are one job while it waits, and one run at a time.

use serde_json::{Value, json};
use wakepost_tests::{Api, Database, Gateway, Source, on_both};

on_both!(
    rapid_messages_become_one_job,
    a_message_while_a_job_runs_makes_the_next,
    an_interrupting_message_takes_the_lease_away,
    a_reply_starts_a_job_only_in_a_thread_the_agent_is_in,
    a_replayed_conversation_has_all_its_messages,
    messages_through_two_nodes_are_one_job,
    a_newer_event_supersedes_a_queued_older_one,
    a_later_number_waits_for_the_missing_one,
    fields_that_do_not_fit_together_are_refused,
);

/// A Slack message in a thread; `channel_type` says whether it is for the agent alone.
fn said(id: &str, thread: &str, channel_type: &str) -> String {
    json!({
        "type": "event_callback", "event_id": id, "event_time": 1_700_000_000,
        "team_id": "T_ACME", "api_app_id": "A_1",
        "authorizations": [{"team_id": "T_ACME", "user_id": "U_BOT", "is_bot": true}],
        "event": {
            "type": "message", "channel_type": channel_type, "channel": "C_1", "user": "U_ADA",
            "team": "T_ACME", "ts": format!("1700000001.{id}"), "thread_ts": thread, "text": id,
        },
    })
    .to_string()
}

const THREAD: &str = "1700000000.000100";

async fn slack(api: &Api, fields: Value) -> Source {
    let mut all = json!({"settings": {}, "quiet_ms": 0});
    all.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
    api.source_with("slack", all).await
}

/// Says something to the agent in the thread; answers what the sender was told.
async fn say(gateway: &Gateway, source: &Source, id: &str) -> Value {
    let event = source.event(id).with_body(said(id, THREAD, "im"));
    gateway.send(source, &event).await.is(202).json()
}

async fn rapid_messages_become_one_job(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    // Long enough that no message comes too late on a busy machine.
    let source = slack(&api, json!({"quiet_ms": 600_000, "quiet_cap_ms": 600_000})).await;
    assert_eq!(source.made["thread_policy"], "merge");
    let first = say(&gateway, &source, "100001").await;
    let second = say(&gateway, &source, "100002").await;
    assert_eq!(second["status"], "accepted");
    assert_eq!(second["job_id"], first["job_id"]);
    assert_ne!(second["event_id"], first["event_id"]);
    let event = source.event("100002").with_body(said("100002", THREAD, "im"));
    let again = gateway.send(&source, &event).await.is(200).json();
    assert_eq!((&again["status"], &again["job_id"]), (&json!("duplicate"), &first["job_id"]));

    let job = first["job_id"].as_str().expect("an id");
    let shown = api.show_job(job).await;
    let ids = json!([first["event_id"], second["event_id"]]);
    assert_eq!((&shown["status"], &shown["event_ids"]), (&json!("scheduled"), &ids));
    let joined = format!("/inbox/{}", second["event_id"].as_str().expect("an id"));
    let story = api.get(&joined).await.is(200).json();
    assert_eq!((&story["status"], &story["work"][0]["id"]), (&json!("scheduled"), &json!(job)));
    let thread = format!("A_1:T_ACME:C_1:{THREAD}");
    assert_eq!(api.list(&format!("/inbox?thread={thread}")).await.len(), 2);
    assert_eq!(api.list(&format!("/jobs?thread={thread}")).await.len(), 1);
    assert_eq!(api.list("/jobs?thread=another").await.len(), 0);

    // With a shorter quiet time the next message lets it go.
    let path = format!("/sources/{}", source.id);
    api.patch(&path, json!({"quiet_ms": 0, "quiet_cap_ms": null})).await.is(200);
    let third = say(&gateway, &source, "100003").await;
    assert_eq!(third["job_id"], first["job_id"]);
    let lease = gateway.worker("w").wait().await;
    assert_eq!(lease.id(), job);
    assert_eq!(lease.job["envelope"]["message"]["text"], "100001");
    let events = lease.job["events"].as_array().expect("a list");
    let texts: Vec<&Value> = events.iter().map(|event| &event["message"]["text"]).collect();
    assert_eq!(texts, ["100001", "100002", "100003"]);
    lease.complete(json!({})).await.is(200);
    assert_eq!(api.get(&joined).await.json()["status"], "succeeded");
}

async fn a_message_while_a_job_runs_makes_the_next(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = slack(&api, json!({})).await;
    let worker = gateway.worker("w");
    let first = say(&gateway, &source, "100001").await;
    let running = worker.wait().await;
    assert_eq!(running.job["events"], Value::Null, "one event is the envelope alone");
    let next = say(&gateway, &source, "100002").await;
    assert_ne!(next["job_id"], first["job_id"]);
    assert_eq!(say(&gateway, &source, "100003").await["job_id"], next["job_id"]);
    assert!(worker.lease().await.is_none(), "one run at a time");
    let shown = api.show_job(next["job_id"].as_str().expect("an id")).await;
    assert_eq!(shown["waiting_on"], "order_key");
    running.complete(json!({})).await.is(200);
    assert_eq!(worker.wait().await.job["id"], next["job_id"]);
}

async fn an_interrupting_message_takes_the_lease_away(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = slack(&api, json!({"thread_policy": "interrupt", "concurrency": 1})).await;
    let worker = gateway.worker("w");
    let first = say(&gateway, &source, "100001").await;
    let running = worker.wait().await;
    let second = say(&gateway, &source, "100002").await;
    assert_eq!(second["job_id"], first["job_id"]);
    for answer in [running.heartbeat().await, running.complete(json!({})).await] {
        assert_eq!(answer.is(409).json()["code"], "lease_lost");
    }
    let again = worker.wait().await;
    assert_eq!((again.id(), again.attempt()), (running.id(), 1));
    assert!(again.fence() > running.fence());
    assert_eq!(again.job["events"].as_array().expect("a list").len(), 2);
    let shown = api.show_job(again.id()).await;
    assert_eq!(shown["runs"][0]["outcome"], "interrupted");
    again.complete(json!({})).await.is(200);
}

async fn a_reply_starts_a_job_only_in_a_thread_the_agent_is_in(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = slack(&api, json!({})).await;
    let reply = async |id: &str| {
        let event = source.event(id).with_body(said(id, THREAD, "channel"));
        gateway.send(&source, &event).await.json()
    };
    let stranger = reply("100001").await;
    assert_eq!((&stranger["status"], &stranger["job_id"]), (&json!("ignored"), &Value::Null));
    let ignored = format!("/inbox/{}", stranger["event_id"].as_str().expect("an id"));
    assert_eq!(api.get(&ignored).await.json()["status"], "ignored");
    // The agent is spoken to in that thread, and is in it from then on.
    say(&gateway, &source, "100002").await;
    let known = reply("100003").await;
    assert_eq!(known["status"], "accepted");
    assert!(known["job_id"].is_string());
}

async fn a_replayed_conversation_has_all_its_messages(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = slack(&api, json!({"quiet_ms": 300, "max_attempts": 1})).await;
    let first = say(&gateway, &source, "100001").await;
    say(&gateway, &source, "100002").await;
    let worker = gateway.worker("w");
    let lease = worker.wait().await;
    let events = lease.job["events"].clone();
    lease.fail("no").await.is(200);
    let path = format!("/jobs/{}/replay", first["job_id"].as_str().expect("an id"));
    let replayed = api.post(&path, json!({"note": "again"})).await.is(202).json();
    let again = worker.wait().await;
    assert_eq!((&again.job["id"], &again.job["events"]), (&replayed["job_id"], &events));
}

async fn messages_through_two_nodes_are_one_job(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let api = nodes[0].admin();
    let source = slack(&api, json!({"quiet_ms": 600_000, "quiet_cap_ms": 600_000})).await;
    let source_there = &source;
    let sends = (0..12).map(|turn| {
        let node = &nodes[turn % nodes.len()];
        async move { say(node, source_there, &format!("{}", 100_000 + turn)).await }
    });
    let answers = futures_util::future::join_all(sends).await;
    assert!(answers.iter().all(|answer| answer["job_id"] == answers[0]["job_id"]));
    assert_eq!(api.list("/jobs").await.len(), 1);
}

async fn a_newer_event_supersedes_a_queued_older_one(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let source = api.source_with("stripe", json!({"coalesce_by": "/data/object/id"})).await;
    let send = async |id: &str, object: &str| {
        let body = json!({"id": id, "type": "invoice.updated",
            "data": {"object": {"object": "invoice", "id": object}}});
        let event = source.event(id).with_body(body.to_string());
        gateway.send(&source, &event).await.is(202).text("job_id")
    };
    let old = send("evt_1", "in_1").await;
    let other = send("evt_2", "in_2").await;
    let new = send("evt_3", "in_1").await;
    let shown = api.show_job(&old).await;
    assert_eq!((&shown["status"], &shown["superseded_by"]), (&json!("cancelled"), &json!(new)));
    let leased = gateway.worker("w").lease_many(json!({"max": 9})).await;
    let ids: Vec<&str> = leased.iter().map(|lease| lease.id()).collect();
    assert_eq!(ids, [other.as_str(), new.as_str()]);
    // What runs goes on.
    send("evt_4", "in_1").await;
    leased[1].complete(json!({})).await.is(200);
}

async fn a_later_number_waits_for_the_missing_one(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"order_by": "/data/object/id", "sequence_by": "/data/object/version",
        "order_wait_s": 3600});
    let source = api.source_with("stripe", fields).await;
    let send = async |version: u64| {
        let id = format!("evt_{version}");
        let body = json!({"id": id, "type": "invoice.updated",
            "data": {"object": {"object": "invoice", "id": "in_1", "version": version}}});
        let event = source.event(&id).with_body(body.to_string());
        gateway.send(&source, &event).await.is(202).text("job_id")
    };
    let worker = gateway.worker("w");
    let first = send(1).await;
    let lease = worker.wait().await;
    assert_eq!(lease.id(), first);
    lease.complete(json!({})).await.is(200);
    let third = send(3).await;
    let shown = api.show_job(&third).await;
    assert_eq!((&shown["status"], &shown["waiting_on"]), (&json!("scheduled"), &json!("sequence")));
    assert_eq!(shown["flags"], json!(["out_of_order"]));
    assert!(worker.lease().await.is_none());
    let second = send(2).await;
    for job in [second, third] {
        let lease = worker.wait().await;
        assert_eq!(lease.id(), job);
        lease.complete(json!({})).await.is(200);
        assert_eq!(api.show_job(&job).await["flags"], json!([]));
    }
    // With no wait a gap is only told of, and what comes after all is late.
    let path = format!("/sources/{}", source.id);
    api.patch(&path, json!({"order_wait_s": 0})).await.is(200);
    let sixth = api.show_job(&send(6).await).await;
    assert_eq!((&sixth["status"], &sixth["flags"]), (&json!("pending"), &json!(["out_of_order"])));
    worker.wait().await.complete(json!({})).await.is(200);
    assert_eq!(api.show_job(&send(5).await).await["flags"], json!(["late"]));
}

async fn fields_that_do_not_fit_together_are_refused(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let refused = async |fields: Value, field: &str| {
        let mut body = json!({"provider": "stripe", "secret": "whsec_0123456789abcdef"});
        body.as_object_mut().expect("fields").extend(fields.as_object().expect("fields").clone());
        api.post("/sources", body).await.refuses_field(field);
    };
    refused(json!({"sequence_by": "/n"}), "sequence_by").await;
    refused(json!({"order_by": "/id", "order_wait_s": 5}), "order_wait_s").await;
    refused(json!({"coalesce_by": "id"}), "coalesce_by").await;
    refused(json!({"order_by": "/id", "thread_policy": "merge"}), "thread_policy").await;
    refused(json!({"coalesce_by": "/id", "thread_policy": "queue"}), "thread_policy").await;
    refused(json!({"quiet_ms": 20, "quiet_cap_ms": 10}), "quiet_cap_ms").await;
    refused(json!({"quiet_ms": 3_600_001}), "quiet_ms").await;
    let source = api.source_with("stripe", json!({"order_by": "/id", "sequence_by": "/n"})).await;
    assert_eq!(
        (&source.made["thread_policy"], &source.made["order_wait_s"]),
        (&json!("off"), &json!(30))
    );
    let path = format!("/sources/{}", source.id);
    api.patch(&path, json!({"order_by": null})).await.refuses_field("sequence_by");
}
