//! A tenant that keeps less: what is set through the API is what the loop goes by.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::World;
use crate::workers::retention;

const DAY: Duration = Duration::from_secs(24 * 3600);

async fn publish(world: &mut World, tenant: &str) -> String {
    let event = json!({"type": "order.created", "data": {"id": 7}, "dedup_key": "7"});
    let made = world.post(&format!("/events?tenant={tenant}"), event, 202).await;
    made["id"].as_str().unwrap().to_owned()
}

async fn pass(world: &World, days: u32) -> usize {
    let now = world.context.now().after(DAY * days);
    let walks = retention::own_walks(&world.context, now).await.unwrap();
    let count = walks.len();
    retention::go(&world.context, walks).await;
    count
}

#[tokio::test]
async fn what_a_tenant_says_it_keeps_is_what_it_keeps() {
    let mut world = World::start().await;
    world.post("/tenants", json!({"slug": "acme", "name": "Acme"}), 201).await;
    let (ours, theirs) = (publish(&mut world, "acme").await, publish(&mut world, "default").await);
    assert_eq!(pass(&world, 20).await, 0, "nobody keeps less");
    let kept = json!({"retention": {"events_days": 3, "bodies_days": 30, "runs_days": 1}});
    world.call("PATCH", "/tenants/acme", kept, 200).await;
    // What is as long as the server's needs no walk of its own.
    assert_eq!(pass(&world, 2).await, 2);
    world.get(&format!("/events/{ours}?tenant=acme")).await;
    pass(&world, 4).await;
    world.call("GET", &format!("/events/{ours}?tenant=acme"), Value::Null, 404).await;
    world.get(&format!("/events/{theirs}")).await;
    assert_eq!(publish(&mut world, "acme").await, ours, "a repeat stays one");
    let none = world.call("PATCH", "/tenants/acme", json!({"retention": null}), 200).await;
    assert_eq!(none["retention"], Value::Null);
    assert_eq!(pass(&world, 20).await, 0);
}
