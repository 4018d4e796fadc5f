//! Who takes part: two tenants, their sources and lanes, and the ids they are given.

use wakepost_domain::approval::ProposalHash;
use wakepost_domain::circuit::Circuit;
use wakepost_domain::lane::{LaneId, LaneKey};
use wakepost_domain::tenant::TenantSettings;
use wakepost_domain::webhook::{Webhook, WebhookConfig};
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{AuditId, SourceId, TenantId, Timestamp, Ulid, WebhookId};
use wakepost_store::Store;
use wakepost_store::moves::{AuditEntry, Once, WebhookRecord, proposal_hash};
use wakepost_store::vault::Sealed;

/// When a sequence begins: an evening, so that steps of the clock lead to another day.
pub const BEGINNING: Timestamp = Timestamp::from_secs(1_794_859_200);

/// One tenant, with one source and two webhooks.
#[derive(Debug, Clone, Copy)]
pub struct Party {
    pub tenant: TenantId,
    pub source: SourceId,
    /// Of the source's jobs.
    pub of_source: LaneId,
    /// Of the source's jobs that an operator let go though the budget was spent.
    pub let_go: LaneId,
    /// Of jobs made through the API.
    pub of_api: LaneId,
    pub callbacks: LaneId,
    pub replies: LaneId,
    pub hooks: [Hook; 2],
}

/// A webhook, and where its deliveries wait.
#[derive(Debug, Clone, Copy)]
pub struct Hook {
    pub id: WebhookId,
    pub lane: LaneId,
}

impl Party {
    pub fn lanes(&self) -> [LaneId; 7] {
        let [first, second] = self.hooks.map(|hook| hook.lane);
        [self.of_source, self.let_go, self.of_api, self.callbacks, self.replies, first, second]
    }

    /// Its webhooks, as a sequence finds them.
    pub fn webhooks(&self) -> [WebhookRecord; 2] {
        self.hooks.map(|hook| webhook(self.tenant, hook))
    }
}

fn webhook(tenant: TenantId, hook: Hook) -> WebhookRecord {
    WebhookRecord {
        id: hook.id,
        tenant,
        lane: hook.lane,
        config: WebhookConfig { events: vec!["*".to_owned()], ..WebhookConfig::default() },
        secrets: sealed("secrets"),
        circuit: Circuit::default(),
        notices: Vec::new(),
        shut_until: None,
        due_at: None,
        version: 0,
    }
}

/// Makes both, in an empty database.
pub async fn settle_in(store: &dyn Store) -> [Party; 2] {
    let mut ids = Ids::default();
    let audit =
        AuditEntry { tenant: None, ..ids.audit(BEGINNING, TenantId::DEFAULT, "tenant.create") };
    let made = store.create_tenant("acme".to_owned(), TenantSettings::default(), audit, None).await;
    let Once::Now(acme) = made.unwrap() else { unreachable!("no idempotency key was given") };
    [party(store, TenantId::DEFAULT, 1).await, party(store, acme.id, 2).await]
}

async fn party(store: &dyn Store, tenant: TenantId, number: u8) -> Party {
    let source = SourceId::from_bytes([number; 16]);
    let usual = LaneKey {
        tenant,
        kind: WorkKind::Job,
        priority: Priority::Webhook,
        origin: Some(source.0),
        name: String::new(),
        executor: None,
    };
    let of_api = LaneKey { origin: None, name: "tidy".to_owned(), ..usual.clone() };
    let callbacks = LaneKey { kind: WorkKind::Callback, origin: None, ..usual.clone() };
    let replies = LaneKey { kind: WorkKind::Reply, origin: None, ..usual.clone() };
    let lane = async |key: LaneKey| store.lane(key).await.unwrap().id;
    let mut hooks = Vec::new();
    for nth in 0..2 {
        let id = WebhookId::from_bytes([0x20 * number + nth; 16]);
        let hook = Hook { id, lane: lane(Webhook::lane_key(tenant, id)).await };
        let audit = Ids::default().audit(BEGINNING, tenant, "webhook.create");
        let audit = AuditEntry { id: AuditId(id.0), ..audit };
        store.create_webhook(webhook(tenant, hook), 2, audit, None).await.unwrap();
        hooks.push(hook);
    }
    Party {
        tenant,
        source,
        of_source: lane(usual.clone()).await,
        let_go: lane(usual.let_go()).await,
        of_api: lane(of_api).await,
        callbacks: lane(callbacks).await,
        replies: lane(replies).await,
        hooks: [hooks[0], hooks[1]],
    }
}

/// Ids that follow from how many there were before, so that a sequence has the same each time.
#[derive(Debug, Default)]
pub struct Ids(u64);

impl Ids {
    pub fn next(&mut self, now: Timestamp) -> Ulid {
        self.0 += 1;
        // The low bits stay free: a run's id is its item's plus a small number.
        Ulid::from_parts(now, u128::from(self.0) << 32)
    }

    pub fn audit(&mut self, now: Timestamp, tenant: TenantId, action: &str) -> AuditEntry {
        AuditEntry {
            id: AuditId(self.next(now)),
            tenant: Some(tenant),
            actor: "key_grace".to_owned(),
            action: action.to_owned(),
            target: "what it was done to".to_owned(),
            note: None,
        }
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.0
    }
}

pub fn sealed(text: &str) -> Sealed {
    Sealed::from_stored(text.as_bytes().to_vec())
}

/// What an effect would do, in one of two wordings.
pub fn wording(text: u8) -> String {
    format!("in these words: {text}")
}

pub fn hash(key: &str, text: u8) -> ProposalHash {
    proposal_hash(key, Some(&wording(text)))
}
