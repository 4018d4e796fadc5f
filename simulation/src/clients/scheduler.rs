//! A schedule that makes a job every twenty seconds, until some of its ticks have come while nothing went wrong.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Clock;

use super::Desk;
use crate::time::BACK_MS_MAX;

/// What is asked of the API.
pub const PATH: &str = "/schedules";
const CRON: &str = "*/20 * * * * *";
/// The time between two ticks, in milliseconds.
pub const PERIOD_MS: i64 = 20_000;
/// How long it goes on once nothing goes wrong any more.
const CALM: Duration = Duration::from_secs(70);
/// How far ahead its next tick may be, in milliseconds: the last one may have come before the clock was set back.
const AHEAD_MS_MAX: i64 = BACK_MS_MAX + PERIOD_MS;

/// The schedule.
pub fn schedule() -> Value {
    json!({"name": "every twenty seconds", "cron": CRON, "kind": "ticked", "input": {}})
}

/// Lets it go on for a while in calm, and ends it. What counts begins with its next tick: while the server was down ticks
/// were missed, which make one job together, and those before a clock was set back come no second time.
pub async fn in_time(desk: &Desk, id: &str) {
    while !desk.is_calm_for_good() {
        desk.sleep(Duration::from_secs(1)).await;
    }
    let path = format!("{PATH}/{id}");
    let shown = desk.read(&path).await.unwrap_or_default();
    let next = shown["next_at"].as_str().and_then(|next| next.parse::<Timestamp>().ok());
    let now = desk.world.time.now().as_millis();
    let Some(next) = next.map(Timestamp::as_millis).filter(|next| *next <= now + AHEAD_MS_MAX)
    else {
        let far = format!("the schedule ticks next at {}, and now is {now}", shown["next_at"]);
        return desk.told.violation("D5", far);
    };
    desk.record.ticks_count_from(next);
    let ahead = Duration::from_millis(u64::try_from(next - now).unwrap_or(0));
    desk.sleep(ahead + CALM).await;
    desk.repeats.ticked(next, desk.world.time.now().as_millis());
    desk.must(Method::PATCH, &path, &json!({"enabled": false}), "the end", "id").await;
}
