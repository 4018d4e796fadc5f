//! Cataloguing: types of events are registered with their schemas, and publishing keeps to them.

use http::HeaderMap;
use serde_json::{Value, json};
use wakepost_tests::{Api, Database, Gateway, on_both, until};

on_both!(
    what_is_published_must_fit_the_registered_schema,
    a_strict_tenant_publishes_registered_types_only,
    types_of_the_default_tenant_apply_to_all_and_a_tenants_own_wins,
    a_change_of_a_type_reaches_every_node,
    a_bad_type_is_refused_by_the_place_of_what_is_wrong,
    doubtful_schemas_are_registered_with_a_warning,
    the_catalogue_is_listed_page_by_page_and_as_openapi_webhooks,
    a_type_is_registered_once_under_one_key_and_its_changes_are_audited,
);

fn version(schema: Value) -> Value {
    json!({"versions": {"2026-11-15": {"schema": schema}}})
}

fn with_number() -> Value {
    json!({"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}})
}

async fn publish(api: &Api, name: &str, data: Value) -> wakepost_tests::Answer {
    api.post("/events", json!({"type": name, "data": data})).await
}

async fn what_is_published_must_fit_the_registered_schema(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    publish(&api, "order.made", json!({"n": "any"})).await.is(202);
    api.put("/event-types/order.made", version(with_number())).await.is(201);
    publish(&api, "order.made", json!({"n": "any"})).await.refuses_field("data.n");
    publish(&api, "order.made", json!({})).await.refuses_field("data");
    let id = publish(&api, "order.made", json!({"n": 1})).await.is(202).text("id");
    let event = api.get(&format!("/events/{id}")).await.is(200).json();
    assert_eq!(event["api_version"], "2026-11-15", "the newest one");
    let other = json!({"type": "order.made", "data": {"n": 1}, "api_version": "1999-01-01"});
    api.post("/events", other).await.refuses_field("api_version");
    let many = json!([{"type": "order.made", "data": {"n": 1}}, {"type": "order.made", "data": {"n": "x"}}]);
    api.post("/events", many).await.refuses_field("1.data.n");
    api.delete("/event-types/order.made").await.is(204);
    publish(&api, "order.made", json!({"n": "any"})).await.is(202);
}

async fn a_strict_tenant_publishes_registered_types_only(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let acme = admin.tenant("acme").await;
    publish(&acme, "order.made", json!(1)).await.is(202);
    let strict = json!({"strict_types": true});
    let changed = admin.patch("/tenants/acme", strict).await.is(200).json();
    assert_eq!(changed["strict_types"], true);
    publish(&acme, "order.made", json!(1)).await.refuses_field("type");
    acme.post("/event-types", json!({"name": "order.made"})).await.is(201);
    publish(&acme, "order.made", json!(1)).await.is(202);
    publish(&acme, "order.sent", json!(1)).await.refuses_field("type");
}

async fn types_of_the_default_tenant_apply_to_all_and_a_tenants_own_wins(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let acme = admin.tenant("acme").await;
    let globex = admin.tenant("globex").await;
    // It is known that there is none.
    publish(&acme, "order.made", json!({})).await.is(202);
    admin.put("/event-types/order.made", version(with_number())).await.is(201);
    for tenant in [&acme, &globex] {
        publish(tenant, "order.made", json!({})).await.refuses_field("data");
        let shown = tenant.get("/event-types/order.made").await.is(200).json();
        assert_eq!(shown["shared"], true);
    }
    // It is there to be used, and not theirs to change.
    acme.delete("/event-types/order.made").await.refuses(404, "not_found");
    let own = json!({"description": "Ours.", "versions": {"1": {"schema": {"type": "string"}}}});
    acme.put("/event-types/order.made", own).await.is(201);
    publish(&acme, "order.made", json!("text")).await.is(202);
    publish(&globex, "order.made", json!("text")).await.refuses_field("data");
    let listed = acme.list("/event-types").await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["description"], &listed[0]["shared"]), (&json!("Ours."), &json!(false)));
    acme.delete("/event-types/order.made").await.is(204);
    publish(&acme, "order.made", json!("text")).await.refuses_field("data");
}

async fn a_change_of_a_type_reaches_every_node(database: Database) {
    let nodes = Gateway::nodes(database).await;
    let first = nodes[0].admin();
    let acme = first.tenant("acme").await;
    let far = nodes.last().expect("a node").admin().with_key(acme.key());
    publish(&far, "order.made", json!({})).await.is(202);
    first.put("/event-types/order.made", version(with_number())).await.is(201);
    until("the other node heard of it", || async {
        (publish(&far, "order.made", json!({})).await.status == 422).then_some(())
    })
    .await;
    first.delete("/event-types/order.made").await.is(204);
    until("the other node heard that it is gone", || async {
        (publish(&far, "order.made", json!({})).await.status == 202).then_some(())
    })
    .await;
}

async fn a_bad_type_is_refused_by_the_place_of_what_is_wrong(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    for name in ["order", "Order.made", "order.*", "webhook.ping", "job.done", "alert.x"] {
        api.post("/event-types", json!({"name": name})).await.refuses_field("name");
    }
    api.post("/event-types", json!({})).await.refuses_field("name");
    for (versions, field) in [
        (json!({"1": {"schema": {"type": "nonsense"}}}), "versions.1.schema"),
        (json!({"1": {"schema": {"$ref": "https://x.example/"}}}), "versions.1.schema"),
        (json!({"1": {"schema": with_number(), "example": {"n": "x"}}}), "versions.1.example.n"),
        (json!({"1": {"shape": {}}}), "versions.1.shape"),
        (json!({"a b": {}}), "versions.a b"),
        (json!({"1": {"change": "x".repeat(256 * 1024)}}), "versions"),
    ] {
        let fields = json!({"name": "order.made", "versions": versions});
        api.post("/event-types", fields).await.refuses_field(field);
        api.put("/event-types/order.made", json!({"versions": versions}))
            .await
            .refuses_field(field);
    }
    assert!(api.list("/event-types").await.is_empty());
}

async fn doubtful_schemas_are_registered_with_a_warning(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"amount": {"type": "number"}, "customer": {"properties": {"email": {}}},
        "api_key": {"type": "string"}, "total": {"type": "integer"}});
    let made = api.put("/event-types/order.made", version(json!({"properties": fields}))).await;
    let made = made.is(201).json();
    let warnings = made["warnings"].to_string();
    for part in
        ["2026-11-15", "amount is an amount", "customer.email", "api_key looks like a secret"]
    {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    assert!(!warnings.contains("total"), "{warnings}");
    let again = api.put("/event-types/order.made", version(with_number())).await.is(200).json();
    assert_eq!(again["warnings"], json!([]));
}

async fn the_catalogue_is_listed_page_by_page_and_as_openapi_webhooks(database: Database) {
    let gateway = Gateway::start(database).await;
    let admin = gateway.admin();
    let acme = admin.tenant("acme").await;
    for (api, name) in [(&acme, "a.b"), (&admin, "b.c"), (&acme, "c.d"), (&admin, "d.e")] {
        api.post("/event-types", json!({"name": name})).await.is(201);
    }
    let mut names = Vec::new();
    let mut path = "/event-types?limit=1".to_owned();
    loop {
        let page = acme.get(&path).await.is(200).json();
        names.extend(page["data"].as_array().expect("rows").iter().map(|row| row["name"].clone()));
        let Some(next) = page["next_cursor"].as_str() else { break };
        path = format!("/event-types?limit=1&cursor={next}");
    }
    assert_eq!(names, ["a.b", "b.c", "c.d", "d.e"]);
    acme.get("/event-types?cursor=!").await.refuses_field("cursor");
    // A page is full before it is too large to be read.
    let large = json!({"versions": {"1": {"change": "x".repeat(250_000)}}});
    for number in 0..20 {
        acme.put(&format!("/event-types/large.n{number}"), large.clone()).await.is(201);
    }
    let page = acme.get("/event-types?limit=500").await.is(200);
    assert!(page.body.len() < 5 * 1024 * 1024, "{}", page.body.len());
    assert!(page.json()["next_cursor"].is_string());
    assert_eq!(acme.list("/event-types").await.len(), 24);

    let answer = acme.get("/event-types?format=openapi").await.is(200);
    assert_eq!(answer.header("content-type"), "application/vnd.oai.openapi+json");
    let document = answer.json();
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["webhooks"].as_object().expect("webhooks").len(), 24);
    acme.get("/event-types?format=openapi&cursor=YQ").await.refuses_field("cursor");
    acme.get("/event-types?format=xml").await.refuses_field("format");
}

async fn a_type_is_registered_once_under_one_key_and_its_changes_are_audited(database: Database) {
    let gateway = Gateway::start(database).await;
    let api = gateway.admin();
    let fields = json!({"name": "order.made", "description": "An order was made."});
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", "k-1".parse().expect("a value"));
    for replayed in ["", "true"] {
        let made = api
            .call_with(http::Method::POST, "/event-types", headers.clone(), Some(&fields))
            .await
            .is(201);
        assert_eq!(made.header("idempotency-replayed"), replayed);
        assert_eq!(made.text("id"), "order.made");
    }
    api.post("/event-types", fields).await.refuses(409, "already_exists");
    api.put("/event-types/order.made", json!({})).await.is(200);
    api.delete("/event-types/order.made").await.is(204);
    let trail = api.list("/audit").await;
    let about = trail.iter().filter(|row| row["target"] == "order.made");
    let actions: Vec<_> = about.map(|row| row["action"].as_str().expect("a text")).collect();
    assert_eq!(actions, ["event_type.delete", "event_type.update", "event_type.create"]);
}
