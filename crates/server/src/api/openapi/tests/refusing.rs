//! Refusals: in one order everywhere, each naming what is wrong.

use http::{HeaderMap, HeaderValue, Method};
use serde_json::{Value, json};

use super::world::{Operation, World, operations};

const NO_JOB: &str = "job_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// Sends nonsense to operations of the API, which must refuse it for an earlier reason.
async fn all_refuse(
    world: &mut World,
    id: &str,
    of_these: impl Fn(&Operation<'_>) -> bool,
    status: u16,
) {
    let api = super::described();
    for operation in operations(&api).filter(|one| one.path.starts_with("/api/") && of_these(one)) {
        let path = operation.path.replace("{id}", id).replace(['{', '}'], "");
        let path = format!("{path}?no_such_parameter=1");
        let body = json!({"no_such_field": 1});
        let method = operation.method.as_str();
        world.call_with(method, &path, HeaderMap::new(), Some(body), status).await;
    }
}

#[tokio::test]
async fn without_a_key_nothing_is_told_but_what_is_open() {
    let mut world = World::start().await;
    world.with_key(None);
    all_refuse(&mut world, NO_JOB, |_| true, 401).await;
    let none = HeaderMap::new;
    assert_eq!(world.send(Method::GET, "/api/v1/nothing", none(), None).await.status, 401);
    assert_eq!(world.send(Method::PUT, "/api/v1/sources", none(), None).await.status, 401);
    assert_eq!(world.send(Method::GET, "/api/v1/jobs/%FF", none(), None).await.status, 401);
    world.as_admin();
    assert_eq!(world.send(Method::GET, "/api/v1/nothing", none(), None).await.status, 404);
    assert_eq!(world.send(Method::GET, "/api/v1/jobs/%FF", none(), None).await.status, 404);
    let answer = world.send(Method::PUT, "/api/v1/sources", none(), None).await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.headers["allow"], "GET,HEAD,POST");
    assert_eq!(answer.json()["code"], "method_not_allowed");
}

#[tokio::test]
async fn the_wrong_role_hears_that_before_anything_else() {
    let mut world = World::start().await;
    let key = json!({"name": "reader", "role": "viewer", "tenant": "default"});
    let key = world.post("/keys", key, 201).await;
    world.with_key(key["key"].as_str());
    all_refuse(&mut world, NO_JOB, |one| one.method != Method::GET, 403).await;
}

#[tokio::test]
async fn what_is_not_there_is_told_before_what_is_wrong_with_the_request() {
    let mut world = World::start().await;
    // What is not there is made by this one.
    let makes = |one: &Operation<'_>| one.about["operationId"] == "put_event_type";
    for id in ["x", NO_JOB] {
        all_refuse(&mut world, id, |one| one.path.contains('{') && !makes(one), 404).await;
    }
}

/// What a portal link may do beside looking after webhooks and deliveries.
const FOR_SUBSCRIBERS: [&str; 3] = ["list_event_types", "get_event_type", "list_event_deliveries"];

#[tokio::test]
async fn a_portal_link_opens_webhooks_and_deliveries_and_nothing_else() {
    let mut world = World::start().await;
    let link = world.post("/portal-links", json!({}), 201).await;
    let token = link["url"].as_str().unwrap().rsplit_once("/p/").unwrap().1.to_owned();
    world.with_key(Some(&token));
    let is_theirs = |one: &Operation<'_>| {
        let path = one.path.strip_prefix("/api/v1/").unwrap();
        let name = one.about["operationId"].as_str().unwrap();
        // Receiving is a program's business, with a key of its own.
        let pulls = ["lease_deliveries", "ack_delivery", "nack_delivery", "heartbeat_delivery"];
        !pulls.contains(&name)
            && (path.starts_with("webhooks")
                || path.starts_with("deliveries")
                || FOR_SUBSCRIBERS.contains(&name))
    };
    all_refuse(&mut world, NO_JOB, |one| !is_theirs(one), 403).await;
    let about_one = |one: &Operation<'_>| is_theirs(one) && one.path.contains('{');
    all_refuse(&mut world, NO_JOB, about_one, 404).await;
    world.get("/event-types").await;
    world.get("/webhooks").await;
}

#[tokio::test]
async fn a_conflict_is_told_before_what_is_wrong_with_the_request() {
    let mut world = World::start().await;
    let job = world.post("/jobs", json!({"input": 1}), 201).await;
    let path = format!("/jobs/{}", job["id"].as_str().unwrap());
    for call in ["release", "replay"] {
        for body in [json!({}), json!({"note": " "}), json!({"note": "Ada: now"})] {
            let refusal = world.post(&format!("{path}/{call}"), body, 409).await;
            assert_eq!(refusal["code"], "invalid_state");
        }
    }
    world.post(&format!("{path}/cancel"), json!({"note": ""}), 422).await;
    world.post(&format!("{path}/cancel"), Value::Null, 200).await;
    world.post(&format!("{path}/cancel"), json!({"note": ""}), 409).await;
    world.post(&format!("{path}/replay"), json!({}), 422).await;

    let (id, token) = world.leased("lost").await;
    let path = format!("/jobs/{id}/heartbeat");
    let long = json!({"lease_token": token, "extend_s": 3601});
    world.post(&path, long.clone(), 422).await;
    world.post(&path, json!({}), 422).await;
    world.post(&path, json!({"lease_token": "?"}), 409).await;
    world.post(&format!("/jobs/{id}/complete"), json!({"lease_token": token}), 200).await;
    assert_eq!(world.post(&path, long, 409).await["code"], "lease_lost");
}

#[tokio::test]
async fn a_wrong_parameter_is_refused_by_name() {
    let mut world = World::start().await;
    let lists = [
        "/audit",
        "/dead-letters",
        "/event-types",
        "/fixtures",
        "/inbox",
        "/jobs",
        "/keys",
        "/providers",
        "/sources",
        "/tenants",
    ];
    for list in lists {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=501", "limit"),
            ("limit=x", "limit"),
            ("cursor=!", "cursor"),
            ("limit=1&limit=2", "limit"),
            ("no_such_parameter=1", "no_such_parameter"),
        ] {
            let refusal = world.call("GET", &format!("{list}?{query}"), Value::Null, 422).await;
            assert_eq!(refusal["errors"][0]["field"], field, "{list}?{query}");
        }
        world.get(&format!("{list}?limit=500&tenant=default")).await;
    }
    for (query, field) in [
        ("/jobs?status=lost", "status"),
        ("/jobs?source=x", "source"),
        ("/inbox?since=yesterday", "since"),
        ("/inbox?status=lost", "status"),
        ("/dead-letters?kind=letter", "kind"),
        ("/dead-letters?ids=", "ids"),
        ("/dead-letters?ids=evt_01ARZ3NDEKTSV4RRFFQ69G5FAV", "ids"),
        ("/tenants/default?x=1", "x"),
        ("/event-types?format=xml", "format"),
        ("/event-types?format=openapi&limit=1", "limit"),
    ] {
        let refusal = world.call("GET", query, Value::Null, 422).await;
        assert_eq!(refusal["errors"][0]["field"], field, "{query}");
    }
    world.call("GET", "/jobs?tenant=nobody&limit=0", Value::Null, 404).await;
}

#[tokio::test]
async fn a_wrong_field_is_refused_by_name() {
    let mut world = World::start().await;
    let source = world.source().await;
    let rotate = format!("/sources/{source}/rotate");
    let enable = format!("/sources/{source}/enable");
    let command = json!({"kind": "exec", "name": "x"});
    for (method, path, body, field) in [
        ("POST", "/jobs", json!({}), "input"),
        ("POST", "/jobs", json!({"input": 1, "order_key": ""}), "order_key"),
        ("POST", "/jobs", json!({"input": 1, "callback_url": "x"}), "callback_url"),
        ("POST", "/jobs", json!([{"input": 1}, {"input": 1, "max_attempts": 0}]), "1.max_attempts"),
        ("POST", "/jobs", json!([{"input": 1, "executor": command}]), "0.executor.name"),
        ("POST", "/jobs?x=1", json!({"input": 1}), "x"),
        // What a reader of positions would take for fields.
        ("POST", "/jobs", json!([["a", null]]), "0"),
        ("PATCH", "/tenants/default", json!(["n", null]), "body"),
        ("POST", "/tenants", json!({"slug": "acme"}), "name"),
        ("POST", "/tenants", json!({"name": "Acme"}), "slug"),
        (
            "PATCH",
            "/tenants/default",
            json!({"default_executor": command}),
            "default_executor.name",
        ),
        ("PATCH", "/tenants/default", json!({"slug": "other"}), "slug"),
        ("PATCH", "/tenants/default", json!({"retry_s": []}), "retry_s"),
        ("PATCH", "/tenants/default", json!({"retry_s": vec![1; 101]}), "retry_s"),
        ("PATCH", "/tenants/default", json!({"retry_s": [604_801]}), "retry_s"),
        ("PATCH", "/tenants/default", json!({"max_webhooks": 1001}), "max_webhooks"),
        ("PATCH", "/tenants/default", json!({"strict_types": "yes"}), "strict_types"),
        ("PATCH", "/tenants/default", json!({"retention": 7}), "retention"),
        ("PATCH", "/tenants/default", json!({"retention": [7]}), "retention"),
        (
            "PATCH",
            "/tenants/default",
            json!({"retention": {"bodies_days": 0}}),
            "retention.bodies_days",
        ),
        (
            "PATCH",
            "/tenants/default",
            json!({"retention": {"bodies_days": 31}}),
            "retention.bodies_days",
        ),
        (
            "PATCH",
            "/tenants/default",
            json!({"retention": {"receipts_days": 1.5}}),
            "retention.receipts_days",
        ),
        (
            "PATCH",
            "/tenants/default",
            json!({"retention": {"body_days": 1}}),
            "retention.body_days",
        ),
        ("POST", "/event-types", json!({"name": "Order"}), "name"),
        ("POST", "/event-types", json!({"name": "job.done"}), "name"),
        (
            "POST",
            "/event-types",
            json!({"name": "a.b", "versions": {"1": {"x": 1}}}),
            "versions.1.x",
        ),
        ("PUT", "/event-types/order", json!({}), "name"),
        ("PUT", "/event-types/a.b", json!({"name": "a.b"}), "name"),
        ("POST", "/portal-links", json!({"expires_s": 59}), "expires_s"),
        ("POST", "/portal-links", json!({"expires_s": 604_801}), "expires_s"),
        ("POST", "/portal-links", json!({"tenant": "nobody"}), "tenant"),
        ("POST", "/sources", json!({}), "provider"),
        ("POST", "/keys", json!({"name": "x", "role": "king"}), "role"),
        ("POST", "/keys", json!({"name": "x", "role": "subscriber"}), "role"),
        ("POST", "/jobs/lease", json!({"worker": "w", "max": 501}), "max"),
        ("POST", "/admin/sweep", json!({"x": 1}), "x"),
        ("POST", &rotate, json!({"secret": ""}), "secret"),
        ("POST", &enable, json!({"x": 1}), "x"),
    ] {
        let refusal = world.call(method, path, body, 422).await;
        assert_eq!(refusal["errors"][0]["field"], field, "{path}");
    }
}

#[tokio::test]
async fn a_repeat_with_the_same_key_gets_the_first_answer_again() {
    let mut world = World::start().await;
    for (path, body, other) in [
        (
            "/tenants",
            json!({"slug": "acme", "name": "Acme"}),
            json!({"slug": "other", "name": "Other"}),
        ),
        ("/keys", json!({"name": "k", "role": "viewer"}), json!({"name": "l", "role": "viewer"})),
        (
            "/sources",
            json!({"provider": "github", "secret": "a secret"}),
            json!({"provider": "stripe"}),
        ),
        ("/jobs", json!({"input": 1}), json!({"input": 2})),
        ("/event-types", json!({"name": "order.made"}), json!({"name": "order.sent"})),
        ("/portal-links", json!({}), json!({"expires_s": 60})),
    ] {
        let path = format!("/api/v1{path}");
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", HeaderValue::from_static("k-1"));
        let first = world.call_with("POST", &path, headers.clone(), Some(body.clone()), 201).await;
        assert!(!first.headers.contains_key("idempotency-replayed"));
        let again = world.call_with("POST", &path, headers.clone(), Some(body), 201).await;
        assert_eq!(again.headers["idempotency-replayed"], "true");
        let mut first = first.json();
        // A secret is shown once.
        first.as_object_mut().unwrap().remove("key");
        assert_eq!(again.json(), first);
        let refusal = world.call_with("POST", &path, headers, Some(other), 409).await;
        assert_eq!(refusal.json()["code"], "idempotency_mismatch");
    }
}
