//! The moves, by room: what each takes, answers and promises.

mod accept;
mod alerts;
mod approvals;
mod backup;
pub mod callback;
mod caps;
mod checks;
mod data_keys;
mod dead_letters;
mod effects;
mod fixtures;
mod operations;
mod queue;
mod read;
mod registration;
mod schedules;
mod series;
mod settings;
mod stats;
mod upkeep;
mod webhooks;
mod work;

pub use accept::{
    Accepted, CancelKey, CoalesceKey, DedupKey, Ledger, NewDelivery, NewEvent, NewJob, NewOrder,
    NewReceipt, NewSequence, NewThread, OrderKey, Received, SharedBody, delivery_of,
};
pub(crate) use accept::{HandedDown, Spot};
pub use alerts::{Alert, Alerts, Streak, Untold};
pub(crate) use approvals::UNDECIDED;
pub use approvals::{
    ApprovalRow, Approvals, Ask, Decide, Decided, Draft, Overdue, SeenProposal, proposal_hash,
};
pub use backup::{COUNTED, Counted};
pub(crate) use caps::names;
pub use caps::{Bound, Cap, CapScope, Caps, Count, Counts};
pub use checks::{CHECKS, Check, CheckScope, Checked, Checks, EXAMPLES_MAX};
pub(crate) use checks::{Dialect, statement};
pub use data_keys::{DataKeyRow, DataKeys, Rewrap, SealedRow, WrappedKey};
pub use dead_letters::{DeadFilter, DeadLetters};
pub use effects::{Begin, BeginOutcome, EffectRow, Effects, Resolve};
pub use fixtures::{Fixture, Fixtures};
pub use operations::{Operation, OperationKind, OperationStep, Operations};
pub use queue::{
    ClaimLane, ClaimRequest, Claimed, Evidence, Expanded, Guard, Heartbeat, HeartbeatAnswer, Item,
    Progress, Queue, Settle, Settled,
};
pub use read::{
    Cursor, EventFilter, EventRow, JobState, Page, ProgressRow, Reading, ReceiptRow, WorkFilter,
    WorkRow,
};
pub use registration::{Registrations, Renewal, SourceState};
pub use schedules::{Firing, Schedule, Schedules};
pub(crate) use series::summed;
pub use series::{InMinute, Series, Standing};
pub use settings::{
    AuditEntry, AuditFilter, AuditRow, Idempotency, KeyRecord, Once, Replayed, Settings,
    SourceRecord,
};
pub(crate) use settings::{after_prefix, lane_hash};
pub use stats::{LiveCount, LiveCounts, Stats};
pub use upkeep::{DueLane, Expired, OwnWalk, PruneBefore, Pruned, StatCount, Upkeep, Walked};
pub(crate) use upkeep::{Found, OWN_LOOK, OWN_STEP};
pub use webhooks::{EventTypes, Outbox, Outboxed, WebhookRecord, Webhooks};
pub(crate) use webhooks::{check_end, too_many_types, type_exists};
pub use work::{
    CancelOutcome, HOP_LIMIT, Lineage, NewWork, Replay, ReplayFrom, SubjectStep, WorkMeta,
    WorkMoves,
};

/// Everything a database must be able to do.
pub trait Store:
    Ledger
    + Queue
    + Effects
    + Approvals
    + WorkMoves
    + Settings
    + DataKeys
    + Checks
    + Fixtures
    + Operations
    + DeadLetters
    + Registrations
    + Schedules
    + Webhooks
    + EventTypes
    + Outbox
    + Reading
    + Upkeep
    + Caps
    + Stats
    + Series
    + Alerts
    + Send
    + Sync
    + 'static
{
}

impl<T> Store for T where
    T: Ledger
        + Queue
        + Effects
        + Approvals
        + WorkMoves
        + Settings
        + DataKeys
        + Checks
        + Fixtures
        + Operations
        + DeadLetters
        + Registrations
        + Schedules
        + Webhooks
        + EventTypes
        + Outbox
        + Reading
        + Upkeep
        + Caps
        + Stats
        + Series
        + Alerts
        + Send
        + Sync
        + 'static
{
}
