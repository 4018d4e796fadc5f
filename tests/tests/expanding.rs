//! Expanding: what a webhook only announces is fetched before an agent gets it, and nothing is lost or doubled.

use std::time::Duration;

use serde_json::{Value, json};
use wakepost_providers::SignedRequest;
use wakepost_tests::{
    Act, Answer, Api, Database, Drive, Gateway, Mailbox, Reply, Source, Worker, on_both, until,
};

on_both!(
    a_mail_is_fetched_before_an_agent_gets_it,
    a_mail_that_is_not_there_is_a_dead_letter_that_says_so,
    a_machines_mail_never_reaches_an_agent_unless_somebody_wants_it_to,
    each_comment_that_names_the_agent_is_one_job,
    a_fault_before_it_is_noted_how_far_was_read_doubles_nothing,
    what_google_cannot_say_now_is_asked_again,
    a_channel_is_renewed_before_it_ends_by_one_node,
);

async fn mail_source(api: &Api, resend: &Mailbox) -> Source {
    let fields = json!({"settings": resend.settings(), "backoff_s": [1], "max_attempts": 30});
    api.source_with("email-resend", fields).await
}

async fn announce(gateway: &Gateway, source: &Source, announcement: &Value) -> Answer {
    let id = announcement["data"]["email_id"].as_str().expect("an id");
    let event = source.event(id).with_body(announcement.to_string());
    gateway.send(source, &event).await
}

/// Waits until a job stands like this.
async fn stands(api: &Api, job: &str, status: &str) -> Value {
    until(&format!("{job} is {status}"), async || {
        let shown = api.show_job(job).await;
        (shown["status"] == status).then_some(shown)
    })
    .await
}

async fn a_mail_is_fetched_before_an_agent_gets_it(database: Database) {
    let (gateway, resend) = (Gateway::start(database).await, Mailbox::start().await);
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let source = mail_source(&api, &resend).await;
    resend.fail(Some(Reply::new(503, "")));
    let references = json!({"references": "<first@corp.example>"});
    let announcement = resend.receive("mail-1", "When does it start?\n", references);
    let answer = announce(&gateway, &source, &announcement).await.is(202);
    let (event, job) = (answer.text("event_id"), answer.text("job_id"));
    until("it was tried twice", async || (resend.asked() >= 2).then_some(())).await;
    let waiting = stands(&api, &job, "retrying").await;
    assert_eq!(waiting["waiting_on"], "expansion", "{waiting}");
    assert!(waiting["last_error"].as_str().is_some_and(|text| text.contains("503")), "{waiting}");
    assert!(worker.lease().await.is_none(), "nobody gets half a mail");
    resend.fail(Some(Reply::new(429, "").with_header("retry-after", 1)));
    let asked = resend.asked();
    until("it was tried again", async || (resend.asked() > asked).then_some(())).await;
    resend.fail(None);

    let lease = worker.wait().await;
    assert_eq!((lease.id(), lease.attempt()), (job.as_str(), 1), "the agent has all its tries");
    let envelope = &lease.job["envelope"];
    assert_eq!(envelope["message"]["text"], "When does it start?");
    assert_eq!(envelope["message"]["thread_id"], "ada@corp.example::first@corp.example");
    assert_eq!(envelope["actor"]["email"], "ada@corp.example");
    assert_eq!(envelope["data"]["email"]["subject"], "Rocket");
    lease.complete(json!({})).await.is(200);
    let raw = api.get(&format!("/inbox/{event}/raw")).await.is(200);
    assert_eq!(raw.body, announcement.to_string(), "as it came, byte for byte");
    let shown = api.show_event(&event).await;
    assert_eq!(shown["envelope"]["message"]["text"], "When does it start?");
    // The same mail announced again is not fetched again.
    let asked = resend.asked();
    announce(&gateway, &source, &announcement).await.is(200);
    assert!(worker.lease().await.is_none());
    assert_eq!(resend.asked(), asked);
}

async fn a_mail_that_is_not_there_is_a_dead_letter_that_says_so(database: Database) {
    let (gateway, resend) = (Gateway::start(database).await, Mailbox::start().await);
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let source = mail_source(&api, &resend).await;
    let answer = announce(&gateway, &source, &Mailbox::announcement("mail-2")).await.is(202);
    let dead = stands(&api, &answer.text("job_id"), "dead_letter").await;
    assert_eq!(dead["last_error"], "Resend answered 404: Email not found");
    assert_eq!(dead["attempts"], 1);
    resend.receive("mail-2", "Here I am", json!({}));
    let path = format!("/inbox/{}/replay", answer.text("event_id"));
    api.post(&path, json!({"note": "it is there now"})).await.is(202);
    assert_eq!(worker.wait().await.job["envelope"]["message"]["text"], "Here I am");

    // A tenant cannot send this server to a private address.
    let acme = api.tenant("acme").await;
    let theirs = mail_source(&acme, &resend).await;
    let asked = resend.asked();
    let answer = announce(&gateway, &theirs, &Mailbox::announcement("mail-2")).await.is(202);
    let dead = stands(&acme, &answer.text("job_id"), "dead_letter").await;
    assert!(dead["last_error"].as_str().is_some_and(|text| text.contains("api_url")), "{dead}");
    assert_eq!(resend.asked(), asked);
}

async fn a_machines_mail_never_reaches_an_agent_unless_somebody_wants_it_to(database: Database) {
    let (gateway, resend) = (Gateway::start(database).await, Mailbox::start().await);
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let source = mail_source(&api, &resend).await;
    let headers = json!({"auto-submitted": "auto-replied"});
    let announcement = resend.receive("mail-3", "I am on holiday", headers);
    let answer = announce(&gateway, &source, &announcement).await.is(202);
    let ended = stands(&api, &answer.text("job_id"), "cancelled").await;
    assert_eq!(ended["last_error"], "ignored: a machine or a list sent the mail");
    assert!(worker.lease().await.is_none());
    let event = api.show_event(&answer.text("event_id")).await;
    assert_eq!(event["envelope"]["message"]["text"], "I am on holiday");
    let asked = resend.asked();
    let path = format!("/inbox/{}/replay", answer.text("event_id"));
    api.post(&path, json!({"note": "run it all the same"})).await.is(202);
    assert_eq!(worker.wait().await.job["envelope"]["message"]["text"], "I am on holiday");
    assert_eq!(resend.asked(), asked, "it was fetched before");
}

/// A source that is set up.
async fn docs_source(api: &Api, google: &Drive) -> Source {
    let fields = json!({"settings": google.settings(), "backoff_s": [1], "max_attempts": 30});
    let source = api.source_with("google-docs", fields).await;
    let status = async || api.get(&format!("/sources/{}/status", source.id)).await.is(200).json();
    let before = status().await;
    assert_eq!(before["missing_settings"], json!(["channel_id"]), "{before}");
    let done = api.post(&format!("/sources/{}/setup", source.id), json!({})).await.is(200).json();
    assert_eq!(done["status"], "registered", "{done}");
    let after = status().await;
    assert_eq!((&after["configured"], &after["error"]), (&json!(true), &Value::Null), "{after}");
    assert!(after["expires_at"].is_string(), "{after}");
    source
}

/// Takes as many jobs as there must be, and no more.
async fn leased(worker: &Worker, count: usize) -> Vec<Value> {
    let mut jobs = Vec::new();
    while jobs.len() < count {
        let lease = worker.wait().await;
        lease.complete(json!({})).await.is(200);
        jobs.push(lease.job["envelope"].clone());
    }
    assert!(worker.lease().await.is_none(), "one more than {count}");
    jobs.sort_by_key(|envelope| envelope["dedup_key"].to_string());
    jobs
}

/// What the runs for all pushes so far found, once they are over.
async fn reported(api: &Api, pushes: usize) -> Vec<Value> {
    until("the pushes were followed up", async || {
        let done = api.list("/jobs?kind=change&status=succeeded").await;
        (done.len() == pushes).then_some(())
    })
    .await;
    let mut results = Vec::new();
    for job in api.list("/jobs?kind=change&status=succeeded").await.iter().rev() {
        results.push(api.show_job(job["id"].as_str().expect("an id")).await["result"].clone());
    }
    results
}

async fn each_comment_that_names_the_agent_is_one_job(database: Database) {
    let (gateway, google) = (Gateway::start(database).await, Drive::start().await);
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let source = docs_source(&api, &google).await;
    let channels = google.channels();
    assert_eq!(
        (channels.len(), channels[0].greeted),
        (1, 200),
        "a channel is known before it greets"
    );
    assert_eq!(channels[0].asked["address"], source.made["ingest_url"]);
    assert_eq!(channels[0].asked["token"], source.secret());

    google.comment("doc1", "c1", "Ada", "@agent what is this?");
    google.comment("doc1", "c2", "agent", "@agent is my name");
    google.comment("doc1", "c3", "Bob", "@agent never mind");
    google.resolve("c3");
    google.comment("doc2", "c4", "Bob", "nothing for a machine");
    google.reply("c4", "r1", "Ada", "@Agent, but this is");
    google.reply("c4", "r2", "agent", "@agent did it");
    assert_eq!(google.push().await, [202]);
    let jobs = leased(&worker, 2).await;
    let (first, second) = (&jobs[0], &jobs[1]);
    assert_eq!(
        (&first["event_type"], &first["dedup_key"]),
        (&json!("comment.created"), &json!("doc1:c1"))
    );
    assert_eq!(first["message"]["thread_id"], "doc1:c1");
    assert_eq!(first["message"]["text"], "what is this?");
    assert_eq!(first["message"]["conversation_type"], "document");
    assert_eq!(first["message"]["trigger"], "comment");
    assert_eq!(
        (&first["actor"]["name"], &first["actor"]["verified"]),
        (&json!("Ada"), &json!(true))
    );
    assert_eq!(first["subject"]["id"], "doc1");
    assert_eq!(first["data"]["comment"]["id"], "c1");
    assert_eq!(
        (&second["event_type"], &second["dedup_key"]),
        (&json!("comment.replied"), &json!("doc2:c4:r1"))
    );
    assert_eq!(second["message"]["thread_id"], "doc2:c4");
    assert_eq!(reported(&api, 1).await, [json!({"found": 2, "new": 2})]);

    // The documents change and are pushed again and again: nothing that was said is said again.
    google.change("doc1");
    google.change("doc2");
    assert_eq!(google.push().await, [202]);
    assert_eq!(google.push().await, [202]);
    assert_eq!(
        reported(&api, 3).await[1..],
        [json!({"found": 0, "new": 0}), json!({"found": 0, "new": 0})]
    );
    google.reply("c1", "r3", "Ada", "thank you, @agent");
    assert_eq!(google.push().await, [202]);
    assert_eq!(leased(&worker, 1).await[0]["message"]["text"], "thank you,");
    // More changes than one page holds.
    for number in 0..50 {
        google.change(&format!("many{number}"));
    }
    google.comment("doc3", "c9", "Ada", "@agent at the end");
    google.push().await;
    assert_eq!(leased(&worker, 1).await[0]["message"]["text"], "at the end");
    // What a push brings along is no comment, whoever sends it.
    let body = json!({"file": {"id": "x"}, "comment": {"id": "y", "content": "@agent obey"}});
    let mut request = SignedRequest::post(format!("/in/{}", source.id), body.to_string());
    let channel = channels[0].asked["id"].as_str().expect("an id");
    for (name, value) in [
        ("x-goog-channel-id", channel),
        ("x-goog-channel-token", source.secret()),
        ("x-goog-message-number", "999"),
        ("x-goog-resource-state", "change"),
    ] {
        request.set(name, value).expect("a header");
    }
    let answer = gateway.send_request(&request).await.is(202);
    stands(&api, &answer.text("job_id"), "succeeded").await;
    assert!(worker.lease().await.is_none());
}

async fn a_fault_before_it_is_noted_how_far_was_read_doubles_nothing(database: Database) {
    const PLACE: &str = "expand.before_position";
    for act in Act::tried(Act::Kill) {
        let google = Drive::start().await;
        let mut gateway = Gateway::setup(database).failpoints(&act.at(PLACE, 1)).start().await;
        docs_source(&gateway.admin(), &google).await;
        google.comment("doc1", "c1", "Ada", "@agent one");
        google.comment("doc1", "c2", "Ada", "@agent two");
        assert_eq!(google.push().await, [202]);
        let port = gateway.url().to_owned();
        act.done(&mut gateway, PLACE).await;
        let (api, worker) = (gateway.admin(), gateway.worker("w"));
        assert_eq!(leased(&worker, 2).await.len(), 2, "they were stored");
        if act == Act::Kill {
            // The run that died waits for its lease to end, and the channel knows the old address only.
            google.moved(&port, gateway.url());
            assert_eq!(google.push().await, [202]);
        }
        // Who only waited had found both before.
        let new = if act == Act::Delay { 2 } else { 0 };
        assert_eq!(reported(&api, 1).await, [json!({"found": 2, "new": new})], "{act:?}");
        assert!(worker.lease().await.is_none(), "{act:?}");
        google.comment("doc1", "c3", "Ada", "@agent three");
        assert_eq!(google.push().await, [202]);
        assert_eq!(leased(&worker, 1).await[0]["message"]["text"], "three");
    }
}

async fn what_google_cannot_say_now_is_asked_again(database: Database) {
    let (gateway, google) = (Gateway::start(database).await, Drive::start().await);
    let (api, worker) = (gateway.admin(), gateway.worker("w"));
    let source = docs_source(&api, &google).await;
    google.fail(Some(Reply::new(500, "")));
    google.comment("doc1", "c1", "Ada", "@agent one");
    assert_eq!(google.push().await, [202]);
    until("it is tried again", async || {
        let waiting = api.list("/jobs?kind=change&status=retrying").await;
        let error = waiting.first()?["last_error"].as_str()?.to_owned();
        error.contains("500").then_some(())
    })
    .await;
    let setup = format!("/sources/{}/setup", source.id);
    api.post(&setup, json!({})).await.refuses(502, "registration_failed");
    google.fail(None);
    assert_eq!(leased(&worker, 1).await[0]["message"]["text"], "one");
    // Set up again, it goes on where it was, through the new channel.
    api.post(&setup, json!({})).await.is(200);
    google.comment("doc1", "c2", "Ada", "@agent two");
    assert_eq!(google.push().await, [202], "the channel before was ended");
    assert_eq!(leased(&worker, 1).await[0]["message"]["text"], "two");
}

async fn a_channel_is_renewed_before_it_ends_by_one_node(database: Database) {
    let google = Drive::start().await;
    google.channels_live(&[Duration::from_secs(9), Duration::from_secs(3600)]);
    let nodes = Gateway::nodes(database).await;
    let (api, worker) = (nodes[0].admin(), nodes[0].worker("w"));
    let source = docs_source(&api, &google).await;
    let status = async || api.get(&format!("/sources/{}/status", source.id)).await.is(200).json();
    let first_end = status().await["expires_at"].clone();
    let channels = until("the channel is renewed, and the first one ended", async || {
        let channels = google.channels();
        (channels.len() > 1 && channels[0].stopped > 0).then_some(channels)
    })
    .await;
    assert_eq!(channels[1].greeted, 200);
    assert!(status().await["expires_at"].as_str() > first_end.as_str());
    // A push of the first that was on its way when it was ended is still taken, and none is lost or doubled.
    google.comment("doc1", "c1", "Ada", "@agent across");
    assert_eq!(google.push_through(0).await, 202);
    assert_eq!(google.push_through(1).await, 202);
    assert_eq!(leased(&worker, 1).await[0]["message"]["text"], "across");
    // Each node has looked a few times by now, and more than one renewal would show.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let stopped: Vec<usize> = google.channels().iter().map(|channel| channel.stopped).collect();
    assert_eq!(stopped, [1, 0], "renewed once");
}
