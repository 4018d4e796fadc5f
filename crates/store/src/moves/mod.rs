//! The moves, by room: what each takes, answers and promises.

mod accept;
mod effects;
mod fixtures;
mod operations;
mod queue;
mod read;
mod registration;
mod settings;
mod upkeep;
mod work;

pub(crate) use accept::Spot;
pub use accept::{
    Accepted, CoalesceKey, DedupKey, Ledger, NewEvent, NewJob, NewOrder, NewReceipt, NewSequence,
    NewThread, OrderKey, Received, SharedBody,
};
pub use effects::{Begin, BeginOutcome, EffectRow, Effects, Resolve};
pub use fixtures::{Fixture, Fixtures};
pub use operations::{Operation, OperationKind, OperationStep, Operations};
pub use queue::{
    Cap, CapScope, ClaimLane, ClaimRequest, Claimed, Evidence, Expanded, Guard, Heartbeat,
    HeartbeatAnswer, Item, Progress, Queue, Settle, Settled,
};
pub use read::{
    Cursor, EventFilter, EventRow, JobState, Page, ProgressRow, Reading, ReceiptRow, WorkFilter,
    WorkRow,
};
pub use registration::{Registrations, Renewal, SourceState};
pub use settings::{
    AuditEntry, AuditRow, Idempotency, KeyRecord, Once, Replayed, Settings, SourceRecord,
};
pub use upkeep::{DueLane, Expired, PruneBefore, Pruned, StatCount, Upkeep};
pub use work::{CancelOutcome, NewWork, Replay, ReplayFrom, WorkMeta, WorkMoves};

/// Everything a database must be able to do.
pub trait Store:
    Ledger
    + Queue
    + Effects
    + WorkMoves
    + Settings
    + Fixtures
    + Operations
    + Registrations
    + Reading
    + Upkeep
    + Send
    + Sync
    + 'static
{
}

impl<T> Store for T where
    T: Ledger
        + Queue
        + Effects
        + WorkMoves
        + Settings
        + Fixtures
        + Operations
        + Registrations
        + Reading
        + Upkeep
        + Send
        + Sync
        + 'static
{
}
