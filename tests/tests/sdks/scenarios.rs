//! What an agent written with any of our SDKs does.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use wakepost_tests::platform::Telegram;
use wakepost_tests::{Database, Sdk, until};

use super::World;

/// Stamps out a test of each scenario for each SDK.
macro_rules! with_each_sdk {
    ($($name:ident),+ $(,)?) => {
        $(
            mod $name {
                use super::*;

                #[tokio::test]
                async fn in_rust() {
                    super::$name(World::start(Sdk::Rust, Database::Sqlite).await).await;
                }

                #[tokio::test]
                async fn in_python() {
                    super::$name(World::start(Sdk::Python, Database::Sqlite).await).await;
                }

                #[tokio::test]
                async fn in_typescript() {
                    super::$name(World::start(Sdk::TypeScript, Database::Sqlite).await).await;
                }
            }
        )+
    };
}

with_each_sdk!(
    a_run_ends_as_its_agent_says,
    an_effect_happens_once_over_all_runs,
    an_act_that_did_not_happen_is_tried_again,
    an_act_nobody_knows_of_waits_for_an_operator,
    an_act_that_is_safe_to_repeat_is_repeated_under_the_same_key,
    a_run_goes_on_from_its_checkpoint_and_tells_how_it_goes,
    a_cancelled_run_learns_of_it_and_stops,
    a_heartbeat_keeps_a_long_run_and_a_frozen_agent_loses_it,
    a_stopping_agent_finishes_or_hands_back,
    an_agent_outlives_a_restart_of_the_server,
    an_agent_runs_several_jobs_at_once,
    an_act_that_needs_approval_is_done_once_a_person_agreed,
    a_reply_stands_on_the_thread_that_the_event_came_from,
    a_job_that_an_agent_makes_knows_what_led_to_it,
    what_a_run_cost_is_known_though_it_died,
    the_same_signatures_are_believed,
);

async fn a_run_ends_as_its_agent_says(world: World) {
    let steps = json!([{"result": {"answer": 42}, "reply": "done", "cost": 2.5}]);
    let completes = world.job(steps).await;
    let nothing = world.job(json!([])).await;
    let gives_up = world.job(json!([{"fail": "never", "retryable": false}])).await;
    let waits = world.job(json!([{"fail": "later", "retry_after_s": 3600}])).await;
    let throws = world.job(json!([{"throw": "a plain error"}])).await;
    let _agent = world.agent(&[]).await;

    let job = world.becomes(&completes, "succeeded").await;
    assert_eq!(job["result"], json!({"answer": 42}));
    assert_eq!((&job["reply"], &job["cost"]), (&json!("done"), &json!(2.5)));
    let job = world.becomes(&nothing, "succeeded").await;
    assert_eq!(job["result"], json!({"effects": {}, "attempt": 1}));
    let job = world.becomes(&gives_up, "dead_letter").await;
    assert_eq!((&job["last_error"], &job["attempts"]), (&json!("never"), &json!(1)));
    let job = world.becomes(&waits, "retrying").await;
    assert_eq!(job["last_error"], "later");
    let job = world.becomes(&throws, "retrying").await;
    let error = job["last_error"].as_str().expect("an error");
    assert!(error.contains("a plain error"), "{error}");
}

async fn an_effect_happens_once_over_all_runs(world: World) {
    let steps = json!([
        {"effect": "mail", "post": "/mail"},
        {"fail": "not yet", "retry_after_s": 0},
    ]);
    let id = world.job(steps).await;
    let _agent = world.agent(&[]).await;
    let job = world.becomes(&id, "dead_letter").await;
    assert_eq!(job["attempts"], 3);
    let sent = world.meeting.came("/mail");
    assert_eq!(sent.len(), 1, "three runs, one mail");
    assert!(sent[0].idempotency_key.as_ref().is_some_and(|key| !key.is_empty()));
    assert_eq!(sent[0].body, json!({"job": id, "key": "mail"}));
    assert_eq!(job["effects"][0]["state"], "committed");
    assert_eq!(job["effects"][0]["result"], json!({"count": 1}));

    // A replay shares what was done, and hands the stored result to the agent.
    let again = json!({"note": "once more"});
    let again = world.gateway.admin().post(&format!("/jobs/{id}/replay"), again).await.is(202);
    world.becomes(&again.text("job_id"), "dead_letter").await;
    assert_eq!(world.meeting.came("/mail").len(), 1);
    let id = world.job(json!([{"effect": "mail", "post": "/mail"}, {"fail_first": 0}])).await;
    let job = world.becomes(&id, "succeeded").await;
    assert_eq!(job["result"]["effects"]["mail"], json!({"count": 2}), "another job, another scope");
}

async fn an_act_that_did_not_happen_is_tried_again(world: World) {
    world.meeting.answers("/charge", &[409]);
    let id = world.job(json!([{"effect": "charge", "post": "/charge"}])).await;
    let agent = world.agent(&[]).await;
    let job = until("the act is refused", || async {
        Some(world.show(&id).await).filter(|job| job["effects"][0]["state"] == "aborted")
    })
    .await;
    assert_eq!(job["effects"][0]["key"], "charge");
    let job = world.becomes(&id, "retrying").await;
    assert_eq!(job["next_action"], "retry-safe: no side effect committed");
    // It need not be waited for: what was aborted may be done again at once, by anyone.
    agent.kill().await;
    world.gateway.admin().post(&format!("/jobs/{id}/cancel"), json!({})).await.is(200);
    let replay = json!({"note": "again"});
    let again = world.gateway.admin().post(&format!("/jobs/{id}/replay"), replay).await.is(202);
    let _agent = world.agent(&[]).await;
    let job = world.becomes(&again.text("job_id"), "succeeded").await;
    assert_eq!(job["result"]["effects"]["charge"], json!({"count": 2}));
}

async fn an_act_nobody_knows_of_waits_for_an_operator(world: World) {
    // One agent for both: one that was just killed may still be given a job by the server, which is lost to it.
    let _agent = world.agent(&[]).await;
    for (path, outcome, count) in [("/lost", "not_done", 2), ("/answered", "committed", 1)] {
        world.meeting.answers(path, &[500]);
        let steps = json!([{"effect": "charge", "post": path}]);
        let id = world.job(steps).await;
        // The first run fails and is tried again after a while; a replay does not wait.
        let job = world.becomes(&id, "retrying").await;
        assert_eq!(job["effects"][0]["state"], "in_doubt", "{job}");
        world.gateway.admin().post(&format!("/jobs/{id}/cancel"), json!({})).await.is(200);
        let replay = json!({"note": "again"});
        let again = world.gateway.admin().post(&format!("/jobs/{id}/replay"), replay).await.is(202);
        let again = again.text("job_id");
        let job = world.becomes(&again, "held").await;
        assert_eq!((&job["held_reason"], &job["attempts"]), (&json!("in_doubt"), &json!(0)));
        assert_eq!(world.meeting.came(path).len(), 1, "nothing is repeated in doubt");
        world.resolve(&again, "charge", outcome).await;
        world.becomes(&again, "succeeded").await;
        assert_eq!(world.meeting.came(path).len(), count);
    }
}

async fn an_act_that_is_safe_to_repeat_is_repeated_under_the_same_key(world: World) {
    world.meeting.open("never");
    let steps = json!([{"effect": "put", "post": "/put", "on_doubt": "execute", "inside": "put"}]);
    let id = world.job(steps).await;
    let first = world.agent(&[("AGENT_LEASE_S", "1")]).await;
    world.meeting.wait_at("put", 1).await;
    first.kill().await;
    world.meeting.open("put");
    let _second = world.agent(&[]).await;
    world.becomes(&id, "succeeded").await;
    let put = world.meeting.came("/put");
    assert_eq!(put.len(), 2);
    assert_eq!(put[0].idempotency_key, put[1].idempotency_key);
}

async fn a_run_goes_on_from_its_checkpoint_and_tells_how_it_goes(world: World) {
    let steps = json!([
        {"at": "once"},
        {"progress": "half way", "percent": 50, "step": "first"},
        {"checkpoint": true},
        {"progress": "nearly"},
        {"at": "twice"},
        {"result": "whole"},
    ]);
    world.meeting.open("once");
    let id = world.job(steps).await;
    let first = world.agent(&[("AGENT_LEASE_S", "1")]).await;
    world.meeting.wait_at("twice", 1).await;
    first.kill().await;
    world.meeting.open("twice");
    let _second = world.agent(&[]).await;
    let job = world.becomes(&id, "succeeded").await;
    assert_eq!((&job["result"], &job["attempts"]), (&json!("whole"), &json!(2)));
    assert_eq!(world.meeting.came("/at/once").len(), 1, "what was before the checkpoint is done");
    assert_eq!(world.meeting.came("/at/twice").len(), 2);
    let told = told(&world, &id).await;
    let messages: Vec<&Value> = told.iter().map(|told| &told["message"]).collect();
    assert_eq!(messages, ["half way", "nearly", "nearly"]);
    assert_eq!((&told[0]["percent"], &told[0]["step"]), (&json!(50.0), &json!("first")));
}

/// The progress of a job that has ended, from its own stream.
async fn told(world: &World, id: &str) -> Vec<Value> {
    let stream = world.gateway.admin().get(&format!("/jobs/{id}/events")).await.is(200);
    let stream = String::from_utf8(stream.body.to_vec()).expect("text");
    let progress = stream.split("\n\n").filter(|event| event.contains("event: progress"));
    let data =
        progress.filter_map(|event| event.lines().find_map(|line| line.strip_prefix("data: ")));
    data.map(|data| serde_json::from_str(data).expect("JSON")).collect()
}

async fn a_cancelled_run_learns_of_it_and_stops(world: World) {
    let id = world.job(json!([{"at": "start"}, {"until_cancelled": true}])).await;
    world.meeting.open("start");
    let _agent = world.agent(&[("AGENT_LEASE_S", "2")]).await;
    world.meeting.wait_at("start", 1).await;
    world.gateway.admin().post(&format!("/jobs/{id}/cancel"), json!({"note": "no"})).await.is(200);
    world.becomes(&id, "cancelled").await;
    assert_eq!(world.meeting.came("/cancelled").len(), 1);
}

async fn a_heartbeat_keeps_a_long_run_and_a_frozen_agent_loses_it(world: World) {
    let keeps = world.job(json!([{"sleep_ms": 2500}])).await;
    let agent = world.agent(&[("AGENT_LEASE_S", "1")]).await;
    let job = world.becomes(&keeps, "succeeded").await;
    assert_eq!(job["attempts"], 1);

    let steps = json!([{"at": "frozen"}, {"effect": "charge", "post": "/charge"}]);
    let id = world.job(steps).await;
    world.meeting.wait_at("frozen", 1).await;
    agent.pause().await;
    world.meeting.open("frozen");
    let other = world.agent(&[("AGENT_NAME", "other")]).await;
    let job = world.becomes(&id, "succeeded").await;
    assert_eq!(job["attempts"], 2);
    // What the first does now is too late: it cannot act, nor change what is done.
    agent.resume();
    let next = world.job(json!([])).await;
    other.stop().await;
    world.becomes(&next, "succeeded").await;
    assert_eq!(world.meeting.came("/charge").len(), 1);
    let after = world.show(&id).await;
    assert_eq!((&after["result"], &after["attempts"]), (&job["result"], &job["attempts"]));
}

async fn a_stopping_agent_finishes_or_hands_back(world: World) {
    let quick = world.job(json!([{"at": "quick"}, {"result": "in time"}])).await;
    let agent = world.agent(&[("AGENT_GRACE_S", "20")]).await;
    world.meeting.wait_at("quick", 1).await;
    agent.terminate();
    world.meeting.open("quick");
    let job = world.becomes(&quick, "succeeded").await;
    assert_eq!(job["result"], "in time");
    let mut agent = agent;
    assert_eq!(agent.ended().await.code(), Some(0));

    let slow = world.job(json!([{"at": "slow"}, {"sleep_ms": 60_000}])).await;
    world.meeting.open("slow");
    let agent = world.agent(&[("AGENT_GRACE_S", "1"), ("AGENT_LEASE_S", "60")]).await;
    world.meeting.wait_at("slow", 1).await;
    assert_eq!(agent.stop().await.code(), Some(0));
    // Handed back at once, and no attempt was counted.
    let job = world.show(&slow).await;
    assert_eq!((&job["status"], &job["attempts"]), (&json!("pending"), &json!(0)), "{job}");
    let _agent = world.agent(&[]).await;
    world.meeting.wait_at("slow", 2).await;
}

async fn an_agent_outlives_a_restart_of_the_server(mut world: World) {
    let steps = json!([
        {"effect": "first", "post": "/first"},
        {"at": "middle"},
        {"effect": "second", "post": "/second"},
        {"checkpoint": true},
    ]);
    let id = world.job(steps).await;
    let _agent = world.agent(&[("AGENT_LEASE_S", "30")]).await;
    world.meeting.wait_at("middle", 1).await;
    world.gateway.kill().await;
    world.meeting.open("middle");
    world.gateway.start_again_there().await;
    let job = world.becomes(&id, "succeeded").await;
    assert_eq!(job["attempts"], 1, "the lease lived on");
    assert_eq!(world.meeting.came("/first").len(), 1);
    assert_eq!(world.meeting.came("/second").len(), 1);
    let next = world.job(json!([])).await;
    world.becomes(&next, "succeeded").await;
}

async fn an_agent_runs_several_jobs_at_once(world: World) {
    for _ in 0..3 {
        world.job(json!([{"at": "together"}])).await;
    }
    let _agent = world.agent(&[("AGENT_CONCURRENCY", "3")]).await;
    let met = world.meeting.wait_at("together", 3).await;
    world.meeting.open("together");
    for came in met {
        world.becomes(came.body["job"].as_str().expect("an id"), "succeeded").await;
    }
}

async fn an_act_that_needs_approval_is_done_once_a_person_agreed(world: World) {
    let steps = json!([
        {"at": "reading"},
        {"checkpoint": true},
        {"effect": "refund", "post": "/refund", "description": "refund 30 EUR to Ada"},
    ]);
    world.meeting.open("reading");
    let _agent = world.agent(&[]).await;
    for (word, status, acts) in [("approve", "succeeded", 1), ("reject", "cancelled", 1)] {
        let draft = json!({"kind": "conformance", "mode": "draft", "input": {"steps": steps}});
        let id = world.gateway.admin().job_with(draft).await;
        let job = world.becomes(&id, "awaiting_approval").await;
        assert_eq!(job["attempts"], 0, "the run ended quietly");
        assert_eq!(job["effects"][0]["description"], "refund 30 EUR to Ada");
        world.decide(&job, word).await;
        let job = world.becomes(&id, status).await;
        assert_eq!(world.meeting.came("/refund").len(), acts, "{job}");
    }
    assert_eq!(world.meeting.came("/at/reading").len(), 2, "each went on from its checkpoint");
}

async fn a_reply_stands_on_the_thread_that_the_event_came_from(world: World) {
    const CHAT: i64 = 60_112_233;
    let telegram = Telegram::start("7007:AAE").await;
    telegram.with(|telegram| telegram.hears(CHAT, 365, "a question"));
    let settings = json!({"bot_token": "7007:AAE", "api_url": telegram.url("")});
    let source = world.gateway.admin().source_with("telegram", json!({"settings": settings})).await;
    let steps = json!([
        {"reply": "this stays", "update": false},
        {"at": "said"},
        {"reply": "working on it"},
        {"at": "said-more"},
        {"result": 1, "reply": "it is done"},
    ]);
    // A message has no input, so its text says what to do.
    let mut request = source.sample("4711");
    let mut body: Value = serde_json::from_slice(&request.body).expect("JSON");
    body["message"]["text"] = json!({"steps": steps}).to_string().into();
    request.body = body.to_string().into_bytes();
    world.gateway.send_request(&request).await;
    let job = world.gateway.admin().list("/jobs").await.pop().expect("a job");
    let (id, kind) = (job["id"].as_str().expect("an id"), job["kind"].as_str().expect("a kind"));
    let _agent = world.agent(&[("AGENT_KINDS", kind)]).await;

    let said = |count: usize| {
        telegram.wait_for("the chat hears it", move |telegram| {
            Some(telegram.said(CHAT)).filter(|said| said.len() == count)
        })
    };
    world.meeting.wait_at("said", 1).await;
    assert_eq!(said(1).await[0].text, "this stays");
    world.meeting.open("said");
    assert_eq!(said(2).await[1].text, "working on it");
    world.meeting.open("said-more");
    let job = world.becomes(id, "succeeded").await;
    assert_eq!(job["reply"], "it is done");
    let shown = until("the last reply is said", || async {
        let shown = telegram.with(|telegram| telegram.said(CHAT));
        shown.iter().any(|message| message.text == "it is done").then_some(shown)
    })
    .await;
    let texts: Vec<&str> = shown.iter().map(|message| message.text.as_str()).collect();
    assert_eq!(texts, ["this stays", "it is done"], "it took the interim one's place");
}

async fn a_job_that_an_agent_makes_knows_what_led_to_it(world: World) {
    let id = world.job(json!([{"create": {"kind": "follow-up", "input": {"n": 1}}}])).await;
    let _agent = world.agent(&[]).await;
    let parent = world.becomes(&id, "succeeded").await;
    let made = world.gateway.admin().list("/jobs?kind=follow-up").await;
    assert_eq!(made.len(), 1);
    assert_eq!((&made[0]["parent_id"], &made[0]["hops"]), (&json!(id), &json!(1)));
    assert_eq!(made[0]["trace_id"], parent["trace_id"]);
}

async fn what_a_run_cost_is_known_though_it_died(world: World) {
    let id = world.job(json!([{"spent": 0.5}, {"at": "spending"}])).await;
    let agent = world.agent(&[("AGENT_LEASE_S", "1")]).await;
    world.meeting.wait_at("spending", 1).await;
    until("a heartbeat told what it cost", || async {
        Some(world.show(&id).await).filter(|job| job["cost"] == 0.5)
    })
    .await;
    agent.kill().await;
    let job = world.becomes(&id, "retrying").await;
    assert_eq!((&job["cost"], &job["runs"][0]["cost"]), (&json!(0.5), &json!(0.5)));
}

/// The cases that every verifier decides alike.
const SIGNATURES: &str = include_str!("../../../sdks/vectors/signatures.json");

async fn the_same_signatures_are_believed(world: World) {
    let cases: Vec<Value> = serde_json::from_str(SIGNATURES).expect("a list of cases");
    let steps = cases.iter().map(|case| {
        let mut step = case.clone();
        step["verify"] = step["name"].take();
        step
    });
    let id = world.job(steps.collect()).await;
    let _agent = world.agent(&[]).await;
    let job = world.becomes(&id, "succeeded").await;
    // Python checks Ed25519 with a package that is not everywhere, and says so.
    let cannot = |case: &Value| {
        let answer = &job["result"]["verified"][case["name"].as_str().expect("a name")];
        world.sdk == Sdk::Python && case["ed25519"] == true && answer.is_null()
    };
    let expected: BTreeMap<&str, bool> = cases
        .iter()
        .filter(|case| !cannot(case))
        .map(|case| {
            let name = case["name"].as_str().expect("a name");
            (name, case["accepted"].as_bool().expect("a verdict"))
        })
        .collect();
    let verified = job["result"]["verified"].as_object().expect("verdicts").iter();
    let found: BTreeMap<&str, bool> =
        verified.filter_map(|(name, verdict)| Some((name.as_str(), verdict.as_bool()?))).collect();
    assert_eq!(found, expected);
}
