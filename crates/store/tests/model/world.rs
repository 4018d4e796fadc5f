//! Who takes part: two tenants, their sources and lanes, and the ids they are given.

use wakepost_domain::approval::ProposalHash;
use wakepost_domain::lane::{LaneId, LaneKey};
use wakepost_domain::tenant::TenantSettings;
use wakepost_domain::work::{Priority, WorkKind};
use wakepost_domain::{AuditId, SourceId, TenantId, Timestamp, Ulid};
use wakepost_store::Store;
use wakepost_store::moves::{AuditEntry, Once, proposal_hash};
use wakepost_store::vault::Sealed;

/// When a sequence begins: an evening, so that steps of the clock lead to another day.
pub const BEGINNING: Timestamp = Timestamp::from_secs(1_794_859_200);

/// One tenant, with one source.
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
}

impl Party {
    pub fn lanes(&self) -> [LaneId; 5] {
        [self.of_source, self.let_go, self.of_api, self.callbacks, self.replies]
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
    Party {
        tenant,
        source,
        of_source: lane(usual.clone()).await,
        let_go: lane(usual.let_go()).await,
        of_api: lane(of_api).await,
        callbacks: lane(callbacks).await,
        replies: lane(replies).await,
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
