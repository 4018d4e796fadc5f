//! A subscriber who comes late, and has its webhook sent what was published before: in the middle of it all, and once more
//! when nothing goes wrong.

use std::time::Duration;

use http::Method;
use serde_json::json;
use wakepost_crash::chance::Chance;

use super::{Desk, Phase};

/// Where its receiver is.
pub const PATH: &str = "/late";
/// What was on its way when the webhook was made has been stored, or never will be.
const SETTLED: Duration = Duration::from_secs(15);

/// Subscribes while things go wrong, and is brought up to date.
pub async fn run(desk: Desk, mut chance: Chance, webhook: serde_json::Value) {
    desk.nap(&mut chance, 1000, 60_000).await;
    let made = desk.must(Method::POST, "/webhooks", &webhook, "late", "id").await;
    let Some(id) = made else { return };
    desk.repeats.came_late(&id);
    desk.sleep(SETTLED).await;
    backfill(&desk, &id, "backfill-1").await;
    while desk.phase() == Phase::Load {
        desk.sleep(Duration::from_secs(1)).await;
    }
    desk.sleep(SETTLED).await;
    backfill(&desk, &id, "backfill-2").await;
}

async fn backfill(desk: &Desk, id: &str, key: &str) {
    let path = format!("/webhooks/{id}/backfill");
    let since = json!({"since": "2020-01-01T00:00:00Z"});
    let operation = desk.must(Method::POST, &path, &since, key, "operation_id").await;
    operation.into_iter().for_each(|operation| desk.repeats.backfills(&operation));
}
