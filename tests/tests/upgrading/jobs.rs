//! Jobs go on from where they stood, what agents left in them is there, and nothing is done twice.

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};
use wakepost_tests::{Lease, Worker};

use super::upgraded::Upgraded;

pub async fn check(upgraded: &Upgraded) {
    tokio::join!(
        waiting(upgraded),
        in_turn(upgraded),
        live(upgraded),
        left(upgraded),
        doubted(upgraded),
        proposed(upgraded),
        dead(upgraded),
        repeated(upgraded),
        gathered(upgraded),
        recurring(upgraded),
    );
}

/// Acts for good, once.
async fn act(lease: &Lease, key: &str) {
    let wish = json!({"key": key, "description": "refund 30 EUR to Ada"});
    let begun = lease.post("effects", wish).await.is(200).json();
    assert_eq!(begun["decision"], "execute", "{begun}");
    lease.commit(key, json!("now")).await.is(200);
}

/// Finds that it was done long ago.
async fn was_done(lease: &Lease, key: &str, result: Value) {
    let begun = lease.begin(key).await.is(200).json();
    assert_eq!((&begun["decision"], &begun["result"]), (&json!("skip"), &result), "E1");
}

async fn end(lease: &Lease) {
    lease.complete(json!("at last")).await.is(200);
}

async fn waiting(upgraded: &Upgraded) {
    for name in ["waiting", "due"] {
        let lease = upgraded.leased_again(name).await;
        assert_eq!(lease.job["input"], json!({"kind": name}));
        end(&lease).await;
        let shown = upgraded.api.show_job(lease.id()).await;
        assert_eq!((&shown["status"], &shown["result"]), (&json!("succeeded"), &json!("at last")));
    }
    let lease = upgraded.leased_again("retrying").await;
    assert_eq!(lease.attempt(), 2);
    let shown = upgraded.api.show_job(lease.id()).await;
    assert_eq!(shown["runs"][0]["error"], "not yet", "{shown}");
    end(&lease).await;

    let delayed = upgraded.api.show_job(&upgraded.job("delayed")).await;
    assert_eq!((&delayed["status"], &delayed["attempts"]), (&json!("scheduled"), &json!(0)));
    let done = json!({"subject": "own:thing:7", "note": "Ada: it is done"});
    let cancelled = upgraded.api.post("/jobs/cancel", done).await.is(200).json();
    assert_eq!(cancelled["cancelled"], 1, "{cancelled}");
    upgraded.becomes(&upgraded.job("remind"), "cancelled").await;
    let state = upgraded.leased("state").await;
    assert_eq!(state.id(), upgraded.job("state"));
    end(&state).await;
}

async fn in_turn(upgraded: &Upgraded) {
    let worker = Worker::new(&upgraded.api, "new");
    let names = ["first", "second", "third"];
    for name in names {
        let leased = worker.lease_many(json!({"kinds": names, "max": 9, "wait_s": 5})).await;
        let ids: Vec<&str> = leased.iter().map(Lease::id).collect();
        assert_eq!(ids, [upgraded.job(name)], "L9: one at a time, in order");
        end(&leased[0]).await;
    }
}

/// A worker that outlived the old server goes on, and frees the place that others wait for.
async fn live(upgraded: &Upgraded) {
    let next = upgraded.api.show_job(&upgraded.job("after_live")).await;
    assert_eq!(next["status"], "pending", "{next}");
    let lease = upgraded.lease("live");
    lease.heartbeat().await.is(200);
    was_done(&lease, "mail", json!({"sent": 3})).await;
    let worker = Worker::new(&upgraded.api, "new");
    assert!(worker.lease_many(json!({"kinds": ["live.next"]})).await.is_empty(), "the cap holds");
    end(&lease).await;
    upgraded.becomes(&upgraded.job("live"), "succeeded").await;
    let next = upgraded.leased("live.next").await;
    assert_eq!(next.id(), upgraded.job("after_live"));
    end(&next).await;
}

/// Workers that were not heard of again are nobody any more.
async fn left(upgraded: &Upgraded) {
    let zombie = upgraded.lease("rescued");
    let lease = upgraded.leased_again("rescued").await;
    for answer in [zombie.heartbeat().await, zombie.complete(json!("late")).await] {
        answer.refuses(409, "lease_lost");
    }
    assert_eq!((lease.attempt(), &lease.job["checkpoint"]), (2, &json!({"page": 7})));
    assert!(lease.fence() > zombie.fence());
    was_done(&lease, "mail", json!({"sent": 4})).await;
    end(&lease).await;
}

/// What may have been done is for a person to say, before the upgrade and after it.
async fn doubted(upgraded: &Upgraded) {
    let lease = upgraded.leased_again("doubtful").await;
    let begun = lease.begin("pay").await.is(200).json();
    assert_eq!(begun["decision"], "in_doubt", "E2: {begun}");
    for name in ["doubtful", "held"] {
        let id = upgraded.job(name);
        let held = upgraded.becomes(&id, "held").await;
        assert_eq!(held["held_reason"], "in_doubt");
        let word = json!({"outcome": "not_done", "note": "Ada: asked the bank"});
        upgraded.api.post(&format!("/jobs/{id}/effects/pay/resolve"), word).await.is(200);
        let lease = upgraded.leased_again(name).await;
        act(&lease, "pay").await;
        end(&lease).await;
    }
}

/// What a person agreed to may be done; what nobody agreed to yet still waits.
async fn proposed(upgraded: &Upgraded) {
    let lease = upgraded.leased_again("approved").await;
    assert_eq!(lease.job["checkpoint"], json!({"read": "the order"}));
    act(&lease, "refund").await;
    end(&lease).await;

    let id = upgraded.job("proposed");
    let shown = upgraded.api.show_job(&id).await;
    assert_eq!(shown["status"], "awaiting_approval", "{shown}");
    let hash = &upgraded.told["proposals"]["proposed"];
    let effects = json!([{"key": "refund", "proposal_hash": hash}]);
    let word = json!({"effects": effects, "note": "Grace: the order was returned"});
    upgraded.api.post(&format!("/jobs/{id}/approve"), word).await.is(200);
    let lease = upgraded.leased_again("proposed").await;
    act(&lease, "refund").await;
    end(&lease).await;

    let id = upgraded.job("reply");
    let reply = upgraded.api.show_job(&id).await;
    let effect = &reply["effects"][0];
    assert_eq!(effect["description"], "Nothing is open.", "{reply}");
    let effects = json!([{"key": effect["key"], "proposal_hash": effect["proposal_hash"]}]);
    let word = json!({"effects": effects, "note": "Grace: too late now"});
    upgraded.api.post(&format!("/jobs/{id}/reject"), word).await.is(200);
    upgraded.becomes(&id, "cancelled").await;
}

async fn dead(upgraded: &Upgraded) {
    let replay = async |name: &str, kind: &str| {
        let note = json!({"note": "Ada: again", "scope": "same"});
        let path = format!("/dead-letters/{}/replay", upgraded.job(name));
        let id = upgraded.api.post(&path, note).await.is(202).text("job_id");
        let lease = upgraded.leased(kind).await;
        assert_eq!(lease.id(), id, "{name}");
        lease
    };
    let lease = replay("hopeless", "hopeless").await;
    was_done(&lease, "mail", json!({"sent": 2})).await;
    end(&lease).await;
    let lease = replay("given_up", "given.up").await;
    assert_eq!(lease.job["envelope"]["event_type"], "given.up");
    end(&lease).await;
    let lease = upgraded.leased("replayed").await;
    assert_eq!(lease.id(), upgraded.job("replay"));
    end(&lease).await;
}

/// Calls that are made again are known.
async fn repeated(upgraded: &Upgraded) {
    let again =
        json!({"kind": "deduplicated", "input": {"kind": "deduplicated"}, "dedup_key": "mine"});
    let again = upgraded.api.post("/jobs", again).await.is(200).json();
    let id = upgraded.job("deduplicated");
    assert_eq!((&again["id"], &again["duplicate"]), (&json!(id), &json!(true)));
    end(&upgraded.leased_again("deduplicated").await).await;

    let once = &upgraded.told["jobs"]["idempotent"];
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_static("call-1"));
    let call = upgraded.api.call_with(Method::POST, "/jobs", headers, Some(&once["body"]));
    assert_eq!(call.await.is(201).json(), once["answer"]);
    let lease = upgraded.leased("once").await;
    assert_eq!(lease.id(), once["answer"]["id"]);
    end(&lease).await;
}

/// Messages that came before make one job, which anyone may get among others of its kind.
async fn gathered(upgraded: &Upgraded) {
    let id = upgraded.job("gathering");
    loop {
        let lease = upgraded.leased("message").await;
        if lease.id() == id {
            let events = lease.job["events"].as_array().expect("a list").iter();
            let texts: Vec<&Value> = events.map(|event| &event["message"]["text"]).collect();
            assert_eq!(texts, ["100001", "100002"]);
            return end(&lease).await;
        }
        end(&lease).await;
    }
}

/// A schedule makes up for what it missed by one tick, and goes on.
async fn recurring(upgraded: &Upgraded) {
    let show = async |name: &str| {
        let id = upgraded.told["schedules"][name].as_str().expect("an id");
        upgraded.api.get(&format!("/schedules/{id}")).await.is(200).json()
    };
    let lease = upgraded.leased("minutely").await;
    assert_eq!(lease.job["input"], json!({"from": "minutely"}));
    end(&lease).await;
    assert_eq!(show("off").await["next_at"], Value::Null);
    let yearly = show("yearly").await;
    let next: wakepost_domain::Timestamp =
        yearly["next_at"].as_str().expect("a time").parse().expect("a time");
    assert!(next > wakepost_tests::now(), "{yearly}");
    assert_eq!(yearly["last_job_id"], Value::Null, "{yearly}");
}
