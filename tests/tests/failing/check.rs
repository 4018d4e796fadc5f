//! The check: what is there in the end, against what clients were told. It asks through the API alone.

use serde_json::json;

use crate::load::{Load, event};

/// Panics unless every promise was kept.
pub async fn check(load: &mut Load) {
    events(load).await;
    jobs(load).await;
    ghosts(load).await;
}

async fn events(load: &Load) {
    let api = load.client.gateway.admin();
    let rows = api.list("/inbox").await;
    assert_eq!(rows.len(), load.told.events.len(), "D1, D3: as many events as were sent");
    for (name, id) in &load.told.events {
        let row = rows.iter().find(|row| row["dedup_key"] == *name);
        let row = row.unwrap_or_else(|| panic!("D1: {name} was acknowledged and is lost"));
        assert_eq!(row["id"], *id, "U1: {name}");
        let raw = api.get(&format!("/inbox/{id}/raw")).await.is(200);
        assert_eq!(raw.body, event(&load.source, name).body, "D1: {name}");
        let shown = api.show_event(id).await;
        let work = shown["work"].as_array().expect("work");
        assert_eq!(work.len(), 1, "U1: one job for {name}: {shown}");
    }
}

async fn jobs(load: &Load) {
    let api = load.client.gateway.admin();
    let rows = api.list("/jobs").await;
    assert_eq!(rows.len(), load.told.jobs.len(), "U1: as many jobs as were made");
    for (id, told) in &load.told.jobs {
        let shown = api.show_job(id).await;
        let told = told.expect("all have ended");
        assert_eq!(shown["status"], told, "L5: {id} ended otherwise than was told");
        if let Some(result) = load.told.committed.get(id) {
            assert_eq!(shown["effects"][0]["result"], *result, "E1: {id}");
        }
    }
    for (id, count) in &load.told.executed {
        let shown = api.show_job(id).await;
        assert_eq!(*count, 1, "E1: {id}");
        assert_eq!(shown["effects"][0]["state"], "committed", "E1: {id}: {shown}");
    }
    assert_eq!(load.told.executed.len(), load.told.events.len() + 1, "each effect was done");
}

/// Runs that were left in the middle, and whose jobs others have ended, come back.
async fn ghosts(load: &Load) {
    let api = load.client.gateway.admin();
    for ghost in &load.told.ghosts {
        let ghost = ghost.through(&api);
        ghost.heartbeat().await.refuses(409, "lease_lost");
        ghost.begin("other").await.refuses(409, "lease_lost");
        ghost.commit("charge", json!(1)).await.refuses(409, "lease_lost");
        ghost.complete(json!(2)).await.refuses(409, "lease_lost");
    }
}
