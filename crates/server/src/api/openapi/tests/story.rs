//! Every operation once, with an answer that is just as described.

use http::HeaderMap;
use serde_json::{Value, json};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{TenantId, Timestamp, Ulid, WorkId};
use wakepost_store::moves::Item;

use super::world::{World, operations};

#[tokio::test]
async fn every_call_is_answered_as_described() {
    let mut world = World::start().await;
    settings(&mut world).await;
    sources(&mut world).await;
    receiving(&mut world).await;
    shaking_hands(&mut world).await;
    integrating(&mut world).await;
    answering(&mut world).await;
    calling_itself(&mut world).await;
    working(&mut world).await;
    doubting(&mut world).await;
    approving(&mut world).await;
    giving_up(&mut world).await;
    recurring(&mut world).await;
    cataloguing(&mut world).await;
    opening(&mut world).await;
    super::sending::sending(&mut world).await;
    looking_after(&mut world).await;
    let api = super::described();
    for operation in operations(&api) {
        let name = operation.about["operationId"].as_str().unwrap();
        assert!(world.done.contains(name), "{name} was never called");
    }
}

async fn settings(world: &mut World) {
    let tenant = json!({"slug": "acme", "name": "Acme", "weight": 2, "concurrency": 5,
        "rate_per_s": 0.5, "strict_types": true, "max_webhooks": 3, "retry_s": [0, 5, 60]});
    for bad in [json!({"rate_per_s": 0}), json!({"rate_per_s": 1e7}), json!({"weight": 0})] {
        world.call("PATCH", "/tenants/default", bad, 422).await;
    }
    assert_eq!(world.post("/tenants", tenant.clone(), 201).await["id"], "acme");
    world.post("/tenants", tenant, 409).await;
    let changes =
        json!({"concurrency": null, "backoff_s": [1, 2], "default_executor": {"kind": "pull"}});
    let changed = world.call("PATCH", "/tenants/acme", changes, 200).await;
    assert_eq!((&changed["concurrency"], &changed["weight"]), (&Value::Null, &json!(2)));
    assert_eq!((&changed["strict_types"], &changed["max_webhooks"]), (&json!(true), &json!(3)));
    assert_eq!(changed["retry_s"], json!([0, 5, 60]));
    let kept = json!({"retention": {"bodies_days": 3, "runs_days": 30}});
    let kept = world.call("PATCH", "/tenants/acme", kept, 200).await;
    assert_eq!(kept["retention"], json!({"bodies_days": 3, "runs_days": 30}));
    let fewer = json!({"retention": {"runs_days": null, "receipts_days": 1}});
    let fewer = world.call("PATCH", "/tenants/acme", fewer, 200).await;
    assert_eq!(fewer["retention"], json!({"bodies_days": 3, "receipts_days": 1}));
    let changed = world.call("PATCH", "/tenants/acme", json!({"retention": null}), 200).await;
    assert_eq!(changed["retention"], Value::Null);
    assert_eq!(world.get("/tenants/acme").await, changed);
    let page = world.get("/tenants?limit=1").await;
    assert_eq!(page["data"][0]["id"], "acme");
    let cursor = page["next_cursor"].as_str().unwrap();
    let page = world.get(&format!("/tenants?limit=1&cursor={cursor}")).await;
    assert_eq!(page["data"][0]["id"], "default");

    let key = json!({"name": "ci", "role": "viewer", "tenant": "acme"});
    let key = world.post("/keys", key, 201).await;
    assert_eq!(world.get("/keys?tenant=acme").await["data"][0]["id"], key["id"]);
    assert_eq!(world.get("/keys?limit=1").await["data"].as_array().unwrap().len(), 1);
    let path = format!("/keys/{}", key["id"].as_str().unwrap());
    world.call("DELETE", &path, Value::Null, 204).await;
    world.call("DELETE", &path, Value::Null, 404).await;
    world.get("/audit?limit=2").await;
}

async fn sources(world: &mut World) {
    assert_eq!(world.get("/providers?limit=2").await["data"].as_array().unwrap().len(), 2);
    let executor = json!({"kind": "http", "url": "https://agent.example/run"});
    let fields = json!({"provider": "github", "executor": executor, "filter": ["issues.*"],
        "lease_s": 30, "allow_from": ["10.0.0.0/8"], "preflight_url": "https://agent.example/go"});
    let source = world.post("/sources", fields, 201).await;
    assert!(source["executor_secret"].is_string());
    let path = format!("/sources/{}", source["id"].as_str().unwrap());
    let changes = json!({"filter": null, "lease_s": null, "executor": null, "name": "renamed"});
    let changed = world.call("PATCH", &path, changes, 200).await;
    assert_eq!((&changed["filter"], &changed["lease_s"]), (&json!([]), &Value::Null));
    assert_eq!(world.get(&path).await, changed);
    let own = json!({"kind": "self_webhook", "run": {"kind": "http", "url": "https://agent.example/run"},
        "budget_s": 60});
    let changed = world.call("PATCH", &path, json!({"executor": own}), 200).await;
    assert_eq!(changed["executor"], own);
    world.post(&format!("{path}/rotate"), json!({"secret": "another-secret"}), 200).await;
    let off = world.post(&format!("{path}/disable"), Value::Null, 200).await;
    assert_eq!(off["status"], "disabled");
    world.post(&format!("{path}/enable"), json!({}), 200).await;
    world.call("DELETE", &path, Value::Null, 204).await;
    world.call("DELETE", &path, Value::Null, 404).await;
}

async fn shaking_hands(world: &mut World) {
    let none = HeaderMap::new;
    let fields = json!({"provider": "whatsapp", "settings": {"verify_token": "t"}, "secret": "s"});
    let source = world.post("/sources", fields, 201).await;
    let ask = "hub.mode=subscribe&hub.verify_token=t&hub.challenge=7";
    let path = format!("/in/{}?{ask}", source["id"].as_str().unwrap());
    world.call_with("GET", &path, none(), None, 200).await;
    world
        .call_with("GET", &format!("/integrations/whatsapp/webhook?{ask}"), none(), None, 200)
        .await;
    let fields = json!({"provider": "cloudevents", "settings": {"header": "X-Signature"}});
    let source = world.post("/sources", fields, 201).await;
    let mut headers = HeaderMap::new();
    headers.insert("webhook-request-origin", http::HeaderValue::from_static("events.example"));
    let path = format!("/in/{}", source["id"].as_str().unwrap());
    world.call_with("OPTIONS", &path, headers.clone(), None, 200).await;
    let path = "/integrations/cloudevents/webhook";
    world.call_with("OPTIONS", path, headers, None, 200).await;
}

async fn integrating(world: &mut World) {
    let fields = json!({"provider": "stripe", "secret": "whsec_x", "rate_per_s": 5.5,
        "dedup_key": "{/id}", "owner": "ada@example.com",
        "budget": {"runs_per_day": 100, "cost_per_day": 2.5, "over": "refuse"}});
    let source = world.post("/sources", fields, 201).await;
    let path = format!("/sources/{}", source["id"].as_str().unwrap());
    assert_eq!(world.get(&format!("{path}/status")).await["configured"], true);
    let tried = json!({"event_type": "invoice.paid", "variant": "duplicate"});
    assert_eq!(world.post(&format!("{path}/test"), tried, 200).await["status_code"], 200);
    assert_eq!(world.post(&format!("{path}/setup"), json!({}), 200).await["status"], "manual");
    let none = HeaderMap::new;
    world.call_with("GET", "/integrations/status", none(), None, 200).await;
    world.call_with("GET", "/integrations/stripe/status", none(), None, 200).await;
    for word in ["disable", "enable", "setup"] {
        let path = format!("/integrations/stripe/{word}");
        world.call_with("POST", &path, none(), None, 200).await;
    }
    let fields = json!({"provider": "generic", "unsigned": true});
    world.post("/sources", fields, 201).await;
    let body = Some(json!({"id": 1}));
    world.call_with("POST", "/integrations/generic/webhook", none(), body, 200).await;
    for bad in [
        json!({"dedup_key": "plain"}),
        json!({"rate_per_s": 0}),
        json!({"rate_per_s": -1}),
        json!({"budget": {}}),
        json!({"budget": {"runs_per_day": 0}}),
        json!({"budget": {"cost_per_day": -1}}),
        json!({"budget": {"cost_per_day": 1e13}}),
        json!({"budget": {"runs_per_day": 1, "over": "stop"}}),
        json!({"budget": {"runs_per_week": 1}}),
        json!({"owner": ""}),
    ] {
        world.call("PATCH", &path, bad, 422).await;
    }
}

async fn receiving(world: &mut World) {
    let source = world.source().await;
    world.get("/sources?limit=5").await;
    let first = world.event(&source, "d-1", 202).await;
    assert_eq!(world.event(&source, "d-1", 200).await["status"], "duplicate");
    world.call_with("GET", &format!("/in/{source}"), HeaderMap::new(), None, 405).await;
    world.call_with("OPTIONS", "/in/src_unknown", HeaderMap::new(), None, 404).await;
    world.get(&format!("/sources/{source}/receipts?limit=1")).await;
    let id = first["event_id"].as_str().unwrap();
    let query = format!("/inbox?source={source}&provider=github&status=pending&q=issues&limit=1");
    assert_eq!(world.get(&query).await["data"][0]["id"], id);
    let query = "/inbox?type=issues.*&since=2020-01-01T00:00:00Z";
    assert_eq!(world.get(query).await["data"][0]["id"], id);
    assert_eq!(world.get("/inbox?status=succeeded").await["data"], json!([]));
    world.get("/inbox/stream?type=issues.*&for_s=0").await;
    let many = json!({"filter": {"type": "issues.*"}, "note": "Ada: all", "dry_run": true});
    let begun = world.post("/inbox/replay", many, 202).await;
    world.get(&format!("/operations/{}", begun["operation_id"].as_str().unwrap())).await;
    world.post("/inbox/replay", json!({"filter": {"status": "odd"}, "note": "?"}), 422).await;
    let story = world.get(&format!("/inbox/{id}")).await;
    assert_eq!(story["receipts"].as_array().unwrap().len(), 2);
    world.get(&format!("/inbox/{id}/raw")).await;
    world.get(&format!("/inbox/{id}/headers")).await;
    let kept = json!({"name": "first-issue"});
    let fixture = world.post(&format!("/inbox/{id}/fixture"), kept.clone(), 201).await;
    world.post(&format!("/inbox/{id}/fixture"), kept, 409).await;
    assert_eq!(world.get("/fixtures?limit=1").await["data"], json!([fixture]));
    let to = json!({"source": source});
    let tried = world.post("/fixtures/first-issue/send", to, 200).await;
    assert_eq!(tried["body"]["status"], "duplicate");
    world.call("DELETE", "/fixtures/first-issue", Value::Null, 204).await;
    let note = json!({"note": "Ada: to be sure"});
    world.post(&format!("/inbox/{id}/replay"), note.clone(), 409).await;

    let (job, token) = world.lease("issues.opened").await;
    let done = json!({"lease_token": token, "result": {"ok": true}, "reply": "Done.", "cost": 0.5});
    world.post(&format!("/jobs/{job}/complete"), done, 200).await;
    let again = world.post(&format!("/inbox/{id}/replay"), note, 202).await;
    assert!(again["job_id"].as_str().unwrap().starts_with("job_"));
    world.get(&format!("/inbox/{id}")).await;
}

async fn answering(world: &mut World) {
    let fields = json!({"provider": "telegram", "secret": "s", "quiet_ms": 0,
        "settings": {"bot_token": "7:t"}});
    let source = world.post("/sources", fields, 201).await;
    let path = format!("/sources/{}/test", source["id"].as_str().unwrap());
    world.post(&path, json!({"event_type": "message"}), 200).await;
    let (job, token) = world.lease("message").await;
    let reply = json!({"lease_token": token, "text": "Working on it…", "update": true});
    let reply = world.post(&format!("/jobs/{job}/reply"), reply, 200).await;
    let id = reply["id"].as_str().unwrap();
    assert_eq!(world.get(&format!("/jobs/{id}")).await["parent_id"], job);
    world.post(&format!("/jobs/{id}/cancel"), json!({"note": "not now"}), 200).await;
}

async fn calling_itself(world: &mut World) {
    let job = world.post("/jobs", json!({"kind": "own", "input": 1}), 201).await;
    let job = job["id"].as_str().unwrap();
    let call = async |world: &mut World, work: WorkId, life_s: i64, id: &str, status| {
        let item = Item { tenant: TenantId::DEFAULT, work };
        let until = Timestamp::from_millis(world.context.now().as_millis() + life_s * 1000);
        let token = world.context.tokens.task(item, until);
        world.with_key(Some(&token));
        let task = Some(json!({"task_id": id}));
        let path = "/integrations/_process-task";
        let answer = world.call_with("POST", path, HeaderMap::new(), task, status).await;
        world.as_admin();
        answer.json()
    };
    let work = WorkId::parse(job, WorkKind::Job).unwrap();
    let answer = call(world, work, 60, job, 200).await;
    assert_eq!(answer, json!({"id": job, "status": "pending", "ran": false}), "workers pull it");
    call(world, work, -1, job, 401).await;
    let gone = WorkId(Ulid::MAX);
    call(world, gone, 60, &gone.text(WorkKind::Job), 404).await;
    call(world, gone, 60, job, 401).await;
}

async fn working(world: &mut World) {
    let (job, token) = world.leased("work").await;
    let path = format!("/jobs/{job}");
    let bad = json!({"lease_token": token, "cost": -0.1});
    world.post(&format!("/jobs/{job}/heartbeat"), bad, 422).await;
    world.get("/stats").await;
    let beat = json!({"lease_token": token, "extend_s": 90, "cost": 0.1});
    world.post(&format!("{path}/heartbeat"), beat, 200).await;
    let (own, other) =
        (json!({"id": job, "lease_token": token}), json!({"id": "job_x", "lease_token": "?"}));
    let beats = world.post("/jobs/heartbeat", json!({"jobs": [own, other]}), 200).await;
    assert_eq!(beats["jobs"][1]["code"], "not_found");
    let state = json!({"lease_token": token, "state": {"page": 3}});
    world.call("PUT", &format!("{path}/checkpoint"), state, 200).await;
    let progress =
        json!({"lease_token": token, "message": "half", "percent": 50, "data": {"n": 1}});
    world.post(&format!("{path}/progress"), progress, 200).await;
    world.get(&format!("{path}/events?for_s=0")).await;
    let reply = json!({"lease_token": token, "text": "Working on it…"});
    world.post(&format!("{path}/reply"), reply, 409).await;

    let wish =
        json!({"lease_token": token, "key": "mail", "description": "a mail", "on_doubt": "hold"});
    let begun = world.post(&format!("{path}/effects"), wish.clone(), 200).await;
    assert_eq!(begun["decision"], "execute");
    let result = json!({"lease_token": token, "result": {"sent": 1}});
    world.post(&format!("{path}/effects/mail/commit"), result, 200).await;
    let begun = world.post(&format!("{path}/effects"), wish, 200).await;
    assert_eq!((&begun["decision"], &begun["result"]), (&json!("skip"), &json!({"sent": 1})));
    let wish = json!({"lease_token": token, "key": "call"});
    world.post(&format!("{path}/effects"), wish, 200).await;
    let error = json!({"lease_token": token, "error": "nobody there"});
    world.post(&format!("{path}/effects/call/abort"), error, 200).await;
    world.get(&path).await;

    let good = json!({"id": job, "lease_token": token, "outcome": "complete", "result": 1});
    let bad = json!({"id": job, "lease_token": token, "outcome": "complete", "error": "?"});
    let ends = world.post("/jobs/finish", json!({"jobs": [good, bad]}), 200).await;
    assert_eq!(ends["jobs"][0]["status"], "succeeded");
    assert_eq!(ends["jobs"][1]["code"], "invalid_request");
    world.get(&path).await;
    world.get("/jobs?status=succeeded&kind=work&limit=1").await;
    world.post(&format!("{path}/cancel"), json!({"note": "too late"}), 409).await;
}

async fn doubting(world: &mut World) {
    let (job, token) = world.leased("doubt").await;
    let path = format!("/jobs/{job}");
    let pay = |token: &str| json!({"lease_token": token, "key": "pay"});
    let begun = world.post(&format!("{path}/effects"), pay(&token), 200).await;
    assert_eq!(begun["decision"], "execute");
    let failure = json!({"lease_token": token, "error": "lost the line", "retry_after_s": 0});
    world.post(&format!("{path}/fail"), failure, 200).await;
    world.post("/admin/sweep", Value::Null, 200).await;
    let token = world.lease("doubt").await.1;
    let begun = world.post(&format!("{path}/effects"), pay(&token), 200).await;
    assert_eq!(begun["decision"], "in_doubt");
    assert_eq!(world.get(&path).await["held_reason"], "in_doubt");

    let note = json!({"note": "Ada: look again"});
    let released = world.post(&format!("{path}/release"), note, 200).await;
    assert_eq!(released["status"], "pending");
    let token = world.lease("doubt").await.1;
    world.post(&format!("{path}/effects"), pay(&token), 200).await;
    let word = json!({"outcome": "not_done", "note": "Ada: asked the bank"});
    let resolved = world.post(&format!("{path}/effects/pay/resolve"), word.clone(), 200).await;
    assert_eq!(resolved["status"], "pending");
    world.post(&format!("{path}/effects/pay/resolve"), word, 409).await;
    let cancelled = world.post(&format!("{path}/cancel"), json!({}), 200).await;
    assert_eq!(cancelled["status"], "cancelled");
}

async fn approving(world: &mut World) {
    for decision in ["approve", "reject"] {
        let fields = json!({"kind": decision, "input": 1, "mode": "draft"});
        assert_eq!(world.post("/jobs", fields, 201).await["mode"], "draft");
        let (job, token) = world.lease(decision).await;
        let path = format!("/jobs/{job}");
        let wish = json!({"lease_token": token, "key": "mail", "description": "a mail to Ada"});
        let begun = world.post(&format!("{path}/effects"), wish, 200).await;
        assert_eq!(begun["decision"], "needs_approval");
        let shown = world.get(&path).await;
        assert_eq!(shown["effects"][0]["proposal_hash"], begun["proposal_hash"]);
        let decide = format!("{path}/{decision}");
        world.post(&decide, json!({"effects": []}), 422).await;
        let other = json!({"effects": [{"key": "mail", "proposal_hash": "0".repeat(64)}]});
        world.post(&decide, other, 409).await;
        let seen = json!({"key": "mail", "proposal_hash": begun["proposal_hash"]});
        let word = json!({"effects": [seen], "note": "Ada: as it is"});
        world.post(&decide, word.clone(), 200).await;
        world.post(&decide, word, 409).await;
        world.get(&path).await;
    }
    world.get("/jobs?status=awaiting_approval").await;
    let (job, _) = world.lease("approve").await;
    world.post(&format!("/jobs/{job}/cancel"), json!({}), 200).await;
}

async fn giving_up(world: &mut World) {
    let (job, token) = world.leased("hopeless").await;
    let failure = json!({"lease_token": token, "error": "no such city", "retryable": false});
    let failed = world.post(&format!("/jobs/{job}/fail"), failure, 200).await;
    assert_eq!(failed["status"], "dead_letter");
    let query = "/dead-letters?kind=job&since=2020-01-01T00:00:00Z&limit=1";
    assert_eq!(world.get(query).await["data"][0]["id"], job);
    assert_eq!(world.get("/dead-letters?q=no+such").await["data"][0]["id"], job);
    assert_eq!(world.get("/dead-letters?until=2020-01-01T00:00:00Z").await["data"], json!([]));
    let these = format!("/dead-letters?ids=rpl_01ARZ3NDEKTSV4RRFFQ69G5FAV,{job}");
    assert_eq!(world.get(&these).await["data"][0]["id"], job);
    world.get(&format!("/dead-letters/{job}")).await;
    world.get("/dead-letters/export?kind=job").await;
    let all = json!({"filter": {"kind": "job"}, "note": "Ada: how many?", "dry_run": true});
    world.post("/dead-letters/replay", all, 202).await;
    let these = json!({"kind": "delivery", "ids": [job]});
    let none = json!({"filter": these, "note": "Ada: to be sure", "scope": "same"});
    let begun = world.post("/dead-letters/replay", none, 202).await;
    world.get(&format!("/operations/{}", begun["operation_id"].as_str().unwrap())).await;
    let none = json!({"filter": {"kind": "delivery"}, "note": "Ada: to be sure"});
    let begun = world.post("/dead-letters/purge", none, 202).await;
    world.get(&format!("/operations/{}", begun["operation_id"].as_str().unwrap())).await;
    let note = json!({"note": "Ada: the city is there now", "scope": "fresh"});
    let again = world.post(&format!("/dead-letters/{job}/replay"), note.clone(), 202).await;
    world.post(&format!("/jobs/{job}/replay"), note.clone(), 409).await;
    let path = format!("/jobs/{}", again["job_id"].as_str().unwrap());
    world.post(&format!("{path}/cancel"), Value::Null, 200).await;
    world.post(&format!("{path}/replay"), note, 202).await;
    world.get(&path).await;

    let told = json!({"input": 1, "callback_url": "https://agent.example/done"});
    let told = world.post("/jobs", told, 201).await;
    assert!(told["callback_secret"].as_str().unwrap().starts_with("whsec_"));
    let many = json!([{"input": 1, "dedup_key": "a"}, {"input": null, "delay_s": 60}]);
    let many = world.post("/jobs", many, 201).await;
    assert_eq!(many["data"][1]["status"], "scheduled");
    let first = world.post("/jobs", json!({"input": 1, "dedup_key": "a"}), 200).await;
    assert_eq!((&first["id"], &first["duplicate"]), (&many["data"][0]["id"], &json!(true)));
}

async fn recurring(world: &mut World) {
    let executor = json!({"kind": "http", "url": "https://agent.example/run"});
    let fields = json!({"name": "nightly", "cron": "30 2 * * MON-FRI", "time_zone": "Europe/Berlin",
        "kind": "tidy", "input": {"deep": true}, "priority": "batch", "executor": executor,
        "order_key": "tidy", "subject": "own:tidy:1", "owner": "ada", "max_attempts": 2});
    let made = world.post("/schedules", fields, 201).await;
    assert!(made["executor_secret"].is_string());
    let path = format!("/schedules/{}", made["id"].as_str().unwrap());
    let off = json!({"enabled": false, "executor": null, "max_attempts": null, "owner": null});
    let changed = world.call("PATCH", &path, off, 200).await;
    assert_eq!((&changed["next_at"], &changed["executor"]), (&Value::Null, &Value::Null));
    assert_eq!(world.get(&path).await, changed);
    assert_eq!(world.get("/schedules?limit=1").await["data"][0]["id"], made["id"]);
    world.post("/schedules", json!({"name": "n", "cron": "0 0 30 2 *", "input": 1}), 422).await;
    world.call("DELETE", &path, Value::Null, 204).await;
    world.call("DELETE", &path, Value::Null, 404).await;

    let subject = "own:thing:7";
    let job = json!({"kind": "remind", "input": 1, "subject": subject, "delay_s": 3600,
        "cancel_on": {"type": "thing.*"}});
    let job = world.post("/jobs", job, 201).await;
    assert_eq!(job["cancel_on"]["type"], "thing.*");
    let body = json!({"subject": subject, "note": "Ada: it is done"});
    let done = world.post("/jobs/cancel", body, 200).await;
    assert_eq!(done, json!({"subject": subject, "cancelled": 1, "requested": 0}));
}

async fn cataloguing(world: &mut World) {
    let version = json!({"schema": {"type": "object", "properties": {"amount": {"type": "number"}}},
        "example": {"amount": 1.5}, "change": "The first."});
    let fields = json!({"name": "order.created", "description": "An order was made.",
        "versions": {"2026-11-15": version}});
    let made = world.post("/event-types", fields.clone(), 201).await;
    assert_eq!((&made["id"], &made["shared"]), (&json!("order.created"), &json!(true)));
    assert!(made["warnings"][0].as_str().unwrap().contains("amount"), "{made}");
    world.post("/event-types", fields, 409).await;
    let path = "/event-types/order.created";
    let shown = world.get(path).await;
    assert_eq!(shown["versions"], made["versions"]);
    assert_eq!(world.get("/event-types?limit=1&format=json").await["data"], json!([shown]));
    let document = world.get("/event-types?format=openapi").await;
    assert!(document["webhooks"]["order.created"]["post"].is_object(), "{document}");
    let body = json!({"description": "Another word for it."});
    assert_eq!(world.call("PUT", path, body.clone(), 200).await["versions"], json!({}));
    world.call("PUT", "/event-types/order.sent", body, 201).await;
    world.call("DELETE", path, Value::Null, 204).await;
    world.call("DELETE", path, Value::Null, 404).await;
}

async fn opening(world: &mut World) {
    let none = HeaderMap::new;
    let link = world.post("/portal-links", json!({"tenant": "acme", "expires_s": 60}), 201).await;
    let token = link["url"].as_str().unwrap().rsplit_once("/p/").unwrap().1.to_owned();
    let trail = world.get("/audit?tenant=acme&limit=1").await;
    assert_eq!(trail["data"][0]["action"], "portal_link.create");
    assert_eq!(trail["data"][0]["target"], link["id"]);
    world.with_key(None);
    for bad in ["x", "%FF", &token[1..], &token.to_lowercase()] {
        world.call_with("GET", &format!("/e/{bad}"), none(), None, 404).await;
    }
    let set = world.call_with("GET", "/.well-known/wakepost-keys", none(), None, 200).await;
    assert_eq!(set.headers["cache-control"], "public, max-age=300");
    assert!(set.json()["keys"].is_array());
    world.as_admin();
}

async fn looking_after(world: &mut World) {
    for path in ["/alerts", "/alerts?status=firing", "/alerts?status=resolved&limit=1"] {
        assert_eq!(world.get(path).await["data"], json!([]));
    }
    world.call("GET", "/alerts?status=bad", Value::Null, 422).await;
    let series = world.get("/series?minutes=2880&tenant=acme").await;
    assert_eq!((&series["tenant"], &series["step_s"]), (&json!("acme"), &json!(24 * 60)));
    assert_eq!(world.get("/series").await["points"].as_array().unwrap().len(), 60);
    for wrong in ["0", "2881", "x", "-1", ""] {
        world.call("GET", &format!("/series?minutes={wrong}"), Value::Null, 422).await;
    }
    world.call_with("GET", "/metrics", HeaderMap::new(), None, 200).await;
    let message = |method: &str| json!({"jsonrpc": "2.0", "id": 1, "method": method});
    for (method, status) in [("ping", 200), ("tools/list", 200), ("no/such", 200)] {
        world.call_with("POST", "/mcp", HeaderMap::new(), Some(message(method)), status).await;
    }
    let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    world.call_with("POST", "/mcp", HeaderMap::new(), Some(told), 202).await;
    world.call_with("POST", "/mcp", HeaderMap::new(), Some(json!([])), 400).await;
    world.with_key(None);
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        world.call_with("GET", path, HeaderMap::new(), None, 200).await;
    }
    world.call_with("GET", "/metrics", HeaderMap::new(), None, 401).await;
}
