//! Receivers that stay away: all attempts at a delivery, and all that a circuit does, on a clock that the test moves.

use std::time::Duration;

use wakepost_domain::TenantId;
use wakepost_domain::circuit::{CircuitState, Outcome};
use wakepost_domain::transition::{self, Ending};
use wakepost_domain::webhook::{Retries, Webhook, WebhookSecrets};
use wakepost_domain::work::State;

use super::Harness;
use super::drafts::end;
use super::subscribers::Hook;
use super::world::World;
use crate::moves::{Claimed, Settle, WebhookRecord};

const TENANT: TenantId = TenantId::DEFAULT;
const SECOND: Duration = Duration::from_secs(1);
const AWAY: Ending = Ending::Failed { retryable: true, retry_after: None };

/// The end of a run, by the schedule of deliveries.
fn scheduled(claimed: &Claimed, ending: Ending) -> Settle {
    let ticket = &claimed.ticket;
    let backoff = Retries::of(None, None).backoff;
    let settlement = transition::settle(ending, ticket.attempt, ticket.max_attempts, &backoff, 0.5);
    Settle { settlement, ..end(ticket, ending) }
}

pub async fn a_delivery_is_tried_ten_times_over_37_hours(harness: &impl Harness) {
    let world = World::new(harness).await;
    let hook = world.hook().await;
    let attempts = Retries::of(None, None).attempts;
    let event =
        world.published(world.publication(TENANT).to(&[&hook]).tried_at_most(attempts)).await;
    let work = hook.delivery(event);
    let began = world.now().await;
    let delays = [10, 30, 60, 300, 900, 3600, 4 * 3600, 8 * 3600, 24 * 3600];
    for (failed, delay) in delays.into_iter().map(Duration::from_secs).enumerate() {
        let claimed = world.claim(&hook).one().await;
        assert_eq!(claimed.ticket.attempt as usize, failed + 1);
        let settled = world.settle(scheduled(&claimed, AWAY)).await.unwrap();
        assert_eq!(settled.state, State::Retrying);
        world.advance(delay - SECOND).await;
        assert!(world.claim(&hook).take().await.is_empty(), "{delay:?} after try {}", failed + 1);
        world.advance(SECOND).await;
    }
    let claimed = world.claim(&hook).one().await;
    assert_eq!(claimed.ticket.attempt, 10);
    let settled = world.settle(scheduled(&claimed, AWAY)).await.unwrap();
    assert_eq!(settled.state, State::DeadLetter);
    assert_eq!(world.now().await.since(began).as_secs() / 3600, 37);
    assert_eq!(world.store.runs(TENANT, work).await.unwrap().len(), 10);
}

/// A webhook as a node keeps it: every change of it is stored with what it means for its lane.
struct Kept<'w, 'h, H: Harness> {
    world: &'w World<'h, H>,
    hook: Hook,
    webhook: Webhook,
}

impl<'w, 'h, H: Harness> Kept<'w, 'h, H> {
    async fn new(world: &'w World<'h, H>) -> Kept<'w, 'h, H> {
        let (hook, record) = world.subscriber().await;
        let mut config = record.config;
        // Nobody is to be told how old it is.
        config.secret_made_at = world.now().await;
        let webhook = Webhook {
            id: hook.id,
            tenant: TENANT,
            lane: hook.lane,
            config,
            secrets: WebhookSecrets::default(),
            circuit: record.circuit,
            notices: Vec::new(),
            version: 0,
        };
        Kept { world, hook, webhook }
    }

    async fn store(&mut self) {
        let seen = self.world.store.webhook(self.hook.id).await.unwrap().expect("it is there");
        let record = WebhookRecord {
            config: self.webhook.config.clone(),
            circuit: self.webhook.circuit.clone(),
            shut_until: self.webhook.shut_until(),
            due_at: self.webhook.due_at(),
            ..seen
        };
        self.world.store.update_webhook(record, None).await.unwrap();
    }

    /// One run, and what the circuit makes of it; whether it was a probe.
    async fn run(&mut self, ok: bool) -> bool {
        let claimed = self.world.claim(&self.hook).one().await;
        let (started_at, now) = (claimed.ticket.started_at, self.world.now().await);
        let was_probe = self.webhook.circuit.is_probe(started_at);
        let settings = self.webhook.config.circuit;
        self.webhook.circuit.note(&settings, Outcome { started_at, ok, ok_before: 0 }, now);
        self.store().await;
        let ending = match (ok, was_probe) {
            (true, _) => Ending::Succeeded,
            (false, true) => Ending::ProbeFailed,
            (false, false) => AWAY,
        };
        self.world.settle(scheduled(&claimed, ending)).await.unwrap();
        was_probe
    }

    async fn is_due(&self) -> bool {
        let due = self.world.other.due_webhooks(9).await.unwrap();
        due.iter().any(|record| record.id == self.hook.id)
    }

    /// Lets the rest pass: nothing is handed out before its end.
    async fn rest(&mut self) {
        let until = self.webhook.circuit.open_until.expect("it rests");
        let left = until.since(self.world.now().await);
        assert!(left > Duration::from_secs(29 * 60) && left <= Duration::from_secs(30 * 60));
        self.world.advance(left - SECOND).await;
        assert!(self.world.claim(&self.hook).up_to(9).take().await.is_empty());
        assert!(!self.is_due().await);
        self.world.advance(2 * SECOND).await;
        assert!(self.is_due().await);
        assert!(self.webhook.circuit.half_open(self.world.now().await));
        self.store().await;
    }

    /// Five runs that fail open it.
    async fn open(&mut self) {
        for _ in 0..5 {
            assert_eq!(self.webhook.circuit.state, CircuitState::Closed);
            assert!(!self.run(false).await);
        }
        assert_eq!(self.webhook.circuit.state, CircuitState::Open);
        assert!(self.world.claim(&self.hook).up_to(9).take().await.is_empty());
    }
}

pub async fn a_receiver_that_is_back_gets_what_waited(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mut kept = Kept::new(&world).await;
    world.published_many(&kept.hook, 8).await;
    kept.open().await;
    kept.rest().await;
    assert!(kept.run(true).await);
    assert_eq!(kept.webhook.circuit.state, CircuitState::HalfOpen);
    assert!(kept.run(true).await);
    assert!(kept.webhook.circuit.is_quiet() && kept.webhook.due_at() > Some(world.now().await));
    assert_eq!(world.claim(&kept.hook).up_to(9).take().await.len(), 6);
}

pub async fn a_receiver_that_stays_away_for_72_hours_is_given_up(harness: &impl Harness) {
    let world = World::new(harness).await;
    let mut kept = Kept::new(&world).await;
    let events = world.published_many(&kept.hook, 6).await;
    kept.open().await;
    let opened = world.now().await;
    let end = kept.webhook.circuit.disable_at(&kept.webhook.config.circuit).unwrap();
    assert_eq!(end.since(opened).as_secs().div_ceil(3600), 72);
    let mut probes = 0;
    while kept.webhook.circuit.open_until.expect("it rests") < end {
        kept.rest().await;
        assert!(kept.run(false).await, "only to see whether it is back");
        probes += 1;
    }
    assert!((140..=144).contains(&probes), "{probes} in 72 hours");
    world.advance(end.since(world.now().await)).await;
    // What a node does with one that is due now.
    assert!(kept.is_due().await);
    kept.webhook.disable(world.now().await, "away for too long");
    kept.webhook.notices.clear();
    kept.store().await;
    assert!(!kept.is_due().await);
    let reason = "the webhook is disabled".to_owned();
    world.store.end_waiting(kept.hook.lane, State::DeadLetter, reason, 99).await.unwrap();
    let mut attempts = Vec::new();
    for event in events {
        let row = world.row(TENANT, kept.hook.delivery(event)).await;
        assert_eq!(row.state, State::DeadLetter);
        attempts.push(row.attempts);
    }
    attempts.sort_unstable();
    assert_eq!(attempts, [0, 1, 1, 1, 1, 1], "probes count towards nobody's attempts");
}
