//! Checking: the checks say nothing of what moves made, and each finds what no move would make.

use std::time::Duration;

use wakepost_domain::transition::Ending;
use wakepost_domain::{TenantId, Timestamp};

use super::Harness;
use super::drafts::Inbox;
use super::world::{World, given_up};
use crate::moves::{CHECKS, CheckScope};

/// Everything.
const ALL: CheckScope = CheckScope {
    since: Timestamp::from_millis(0),
    runs_since: Timestamp::from_millis(0),
    rows_max: 100_000,
};

impl<H: Harness> World<'_, H> {
    /// What the checks complain of.
    pub async fn complaints(&self, scope: CheckScope) -> Vec<&'static str> {
        let checked = self.store.check(scope).await.unwrap();
        assert_eq!(checked.len(), CHECKS.len());
        checked.into_iter().filter(|one| !one.wrong.is_empty()).map(|one| one.check.says).collect()
    }
}

/// Work in every state, with events, effects and dead letters.
async fn eventful<H: Harness>(world: &World<'_, H>) -> Inbox {
    let inbox = world.inbox().await;
    world.accept(world.event(&inbox).ignored()).await;
    world.accept(world.event(&inbox).unmapped()).await;
    world.ended(&inbox, Ending::Succeeded).await;
    world.ended(&inbox, given_up()).await;
    let claimed = world.running(&inbox).await;
    world.begin(&claimed.ticket, "mail").await;
    world.commit(&claimed.ticket, "mail", "sent").await.unwrap();
    world.begin(&claimed.ticket, "in doubt").await;
    world.accepted(&inbox).await;
    let until = world.now().await.after(Duration::from_secs(3600));
    world.created(world.job(&inbox).with_key("mine", until)).await;
    inbox
}

/// What each plant makes wrong. Later ones may rest on earlier ones.
const PLANTS: [(&str, &str); CHECKS.len()] = [
    (
        "a webhook's lane is there",
        "INSERT INTO webhooks (id, tenant, lane, config, secrets, circuit, notices, signs_publicly, version)
         SELECT id, tenant, 999999, '{}', content, '{}', '{}', (1 = 1), 1 FROM bodies LIMIT 1",
    ),
    (
        "no item is both live and done",
        "INSERT INTO work_done (tenant, id, kind, lane, state, run_at, attempts, max_attempts, fence,
                                event_id, scope, finished_at)
         SELECT tenant, id, kind, lane, 6, run_at, attempts, max_attempts, fence, event_id, scope, run_at
         FROM work WHERE state = 5",
    ),
    (
        "what runs has a lease, a worker and a fence; nothing else has a lease",
        "UPDATE work SET lease_expires_at = NULL WHERE state = 5",
    ),
    (
        "live work stands in a live state, and done work in a final one",
        "UPDATE work_done SET state = 2 WHERE state = 6",
    ),
    (
        "nothing was tried more often than it may be",
        "UPDATE work SET attempts = max_attempts + 1 WHERE state = 5",
    ),
    ("a dead letter has its reason", "UPDATE work_done SET last_error = NULL WHERE state = 8"),
    (
        "a bound's counter is how many run",
        "INSERT INTO lane_caps (scope, running) VALUES ('nobody', 3)",
    ),
    (
        "of an order key's items one is the first, and only that one runs",
        "UPDATE work SET order_key = id, behind = (1 = 1) WHERE state = 0",
    ),
    ("live work is in a lane that is there", "UPDATE work SET lane = 999999 WHERE state = 0"),
    (
        "an effect that was committed says when, and one in doubt does not",
        "UPDATE effects SET resolved_at = NULL WHERE state = 1",
    ),
    (
        "only what is proposed waits for a decision",
        "UPDATE effects SET undecided_until = 1 WHERE state = 1",
    ),
    (
        "a delivery is of an event that was published",
        "UPDATE work SET kind = 1, event_id = NULL WHERE state = 5",
    ),
    (
        "what live work has to do is there: its event, and the event's body",
        "DELETE FROM bodies WHERE id IN (SELECT id FROM work WHERE state = 0)",
    ),
    (
        "an event that makes a job has one",
        "UPDATE events SET route = 0 WHERE route = 1",
    ),
    (
        "an event that joined a job is one of its events",
        "UPDATE events SET route = 3 WHERE route = 2",
    ),
    ("the outcome of an event is a known one", "UPDATE events SET route = 7 WHERE route = 3"),
    ("a live dedup key names an event or a job that is there", "UPDATE dedup_keys SET tenant = 99"),
    ("an event's job is its tenant's", "UPDATE work SET tenant = 2 WHERE state = 0"),
    ("everything belongs to a tenant that is there", "UPDATE work SET tenant = 999"),
];

pub async fn every_check_passes_on_rows_that_moves_made_and_finds_what_was_planted(
    harness: &impl Harness,
) {
    let world = World::new(harness).await;
    assert_eq!(world.complaints(ALL).await, Vec::<&str>::new(), "of an empty database");
    eventful(&world).await;
    assert_eq!(world.tenant("acme").await, TenantId(2));
    assert_eq!(world.complaints(ALL).await, Vec::<&str>::new(), "of what moves made");
    for (says, plant) in PLANTS {
        let before = world.complaints(ALL).await;
        assert!(!before.contains(&says), "{says}: before it was planted");
        harness.execute(plant).await;
        let after = world.complaints(ALL).await;
        assert!(after.contains(&says), "{says}: not found");
    }
    let named = world.store.check(ALL).await.unwrap();
    let examples = named.iter().flat_map(|checked| &checked.wrong);
    assert!(examples.clone().any(|id| id.len() == 32), "{named:?}");
}

pub async fn a_check_looks_no_further_than_it_is_told(harness: &impl Harness) {
    let world = World::new(harness).await;
    eventful(&world).await;
    harness.execute("UPDATE work_done SET last_error = NULL WHERE state = 8").await;
    let says = "a dead letter has its reason";
    assert!(world.complaints(ALL).await.contains(&says));
    let later = world.now().await.after(Duration::from_secs(3600));
    let young = CheckScope { since: later, ..ALL };
    assert!(!world.complaints(young).await.contains(&says));
}
