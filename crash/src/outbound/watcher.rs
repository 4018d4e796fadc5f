//! The watcher: counts deliveries while everything runs. None may be missing, and none too many, at any moment (O1).

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::Office;
use super::hooks::Hook;
use crate::caller::Said;
use crate::chance::Chance;
use crate::clients::Phase;

const PAUSE: Duration = Duration::from_millis(200);
/// Beyond so many the server counts no further.
const COUNTED_MAX: u64 = 100_000;
const UNFINISHED: [&str; 6] =
    ["pending", "scheduled", "retrying", "running", "held", "awaiting_approval"];

/// Counts until everybody goes home.
pub async fn run(office: Office, mut chance: Chance) {
    while office.desk.phase() != Phase::Over {
        let mut waiting = 0;
        for hook in Hook::ALL {
            waiting += look(&office, &mut chance, hook).await.unwrap_or(0);
        }
        office.waiting.store(usize::try_from(waiting).unwrap_or(usize::MAX), Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
}

/// How many deliveries of a webhook have not ended; nothing if nobody answers. Created are at least the events whose
/// publishers knew of them before the question, and at most those that anybody asked for before the answer.
pub async fn look(office: &Office, chance: &mut Chance, hook: Hook) -> Option<u64> {
    let expected = || office.record.lock().expected.get(&hook).copied().unwrap_or_default();
    let known = expected().known;
    let path = format!("/webhooks/{}/stats", office.hooks.id(hook));
    let said = office.desk.caller.call(chance, Method::GET, &path, None).await.said;
    let Said::Yes(_, stats) = said else { return None };
    let asked = expected().asked;
    let there = sum(&stats, |_| true);
    if there < known && there < COUNTED_MAX {
        let problem =
            format!("{hook:?}: {known} deliveries were made and {there} are there: {stats}");
        office.desk.told.violation("O1", problem);
    }
    if there > asked {
        let problem =
            format!("{hook:?}: {asked} events were published and {there} deliveries are there");
        office.desk.told.violation("O1", problem);
    }
    Some(sum(&stats, |status| UNFINISHED.contains(&status)))
}

fn sum(stats: &Value, of: impl Fn(&str) -> bool) -> u64 {
    let counts = stats["deliveries"].as_object().into_iter().flatten();
    counts.filter(|(status, _)| of(status)).filter_map(|(_, count)| count.as_u64()).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_states_are_counted_and_some_of_them_have_not_ended() {
        let stats =
            json!({"deliveries": {"pending": 2, "running": 1, "succeeded": 5, "dead_letter": 1}});
        assert_eq!(sum(&stats, |_| true), 9);
        assert_eq!(sum(&stats, |status| UNFINISHED.contains(&status)), 3);
    }
}
