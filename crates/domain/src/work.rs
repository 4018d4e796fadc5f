//! Work items: the four kinds, their states and their priority.

use serde::{Deserialize, Serialize};

/// What executes an item. Everything else about it (waiting, leases, retries, cancelling) is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkKind {
    /// An agent's work.
    Job = 0,
    /// An event on its way to a subscriber.
    Delivery = 1,
    /// An answer on the platform that an event came from.
    Reply = 2,
    /// A job's outcome on its way to whoever asked for it.
    Callback = 3,
}

impl WorkKind {
    /// All kinds.
    pub const ALL: [WorkKind; 4] =
        [WorkKind::Job, WorkKind::Delivery, WorkKind::Reply, WorkKind::Callback];

    /// What ids of this kind begin with.
    pub fn id_prefix(self) -> &'static str {
        match self {
            WorkKind::Job => "job",
            WorkKind::Delivery => "dlv",
            WorkKind::Reply => "rpl",
            WorkKind::Callback => "clb",
        }
    }

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            WorkKind::Job => "job",
            WorkKind::Delivery => "delivery",
            WorkKind::Reply => "reply",
            WorkKind::Callback => "callback",
        }
    }

    /// From storage; `None` for a kind this binary does not know.
    pub fn from_code(code: i16) -> Option<WorkKind> {
        WorkKind::ALL.into_iter().find(|kind| *kind as i16 == code)
    }
}

/// Where an item stands. The order matters to storage: the first three can be claimed once due, and the
/// last three are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for a worker.
    Pending = 0,
    /// Waits for its time.
    Scheduled = 1,
    /// Failed, and waits for its next try.
    Retrying = 2,
    /// Waits for a person to approve its effects.
    AwaitingApproval = 3,
    /// Waits for an operator to decide.
    Held = 4,
    /// A worker has it.
    Running = 5,
    /// Done.
    Succeeded = 6,
    /// Given up on purpose.
    Cancelled = 7,
    /// Given up after the last try.
    DeadLetter = 8,
}

impl State {
    /// All states.
    pub const ALL: [State; 9] = [
        State::Pending,
        State::Scheduled,
        State::Retrying,
        State::AwaitingApproval,
        State::Held,
        State::Running,
        State::Succeeded,
        State::Cancelled,
        State::DeadLetter,
    ];

    /// Whether a worker may claim it once it is due.
    pub fn is_claimable(self) -> bool {
        self <= State::Retrying
    }

    /// Whether nothing but an audited replay, which makes a new item, can follow.
    pub fn is_terminal(self) -> bool {
        self >= State::Succeeded
    }

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Scheduled => "scheduled",
            State::Retrying => "retrying",
            State::AwaitingApproval => "awaiting_approval",
            State::Held => "held",
            State::Running => "running",
            State::Succeeded => "succeeded",
            State::Cancelled => "cancelled",
            State::DeadLetter => "dead_letter",
        }
    }

    /// From storage.
    pub fn from_code(code: i16) -> Option<State> {
        State::ALL.into_iter().find(|state| *state as i16 == code)
    }

    /// From the word clients use.
    pub fn from_word(word: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// Which of the three queues an item waits in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Priority {
    /// A person is waiting.
    Interactive = 0,
    /// The usual.
    Webhook = 1,
    /// Can wait, but still moves.
    Batch = 2,
}

impl Priority {
    /// All priorities, most urgent first.
    pub const ALL: [Priority; 3] = [Priority::Interactive, Priority::Webhook, Priority::Batch];

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Interactive => "interactive",
            Priority::Webhook => "webhook",
            Priority::Batch => "batch",
        }
    }

    /// The share of claims when all three have work.
    pub fn weight(self) -> u32 {
        match self {
            Priority::Interactive => 8,
            Priority::Webhook => 3,
            Priority::Batch => 1,
        }
    }

    /// From storage.
    pub fn from_code(code: i16) -> Option<Priority> {
        Priority::ALL.into_iter().find(|priority| *priority as i16 == code)
    }
}

/// Why an item waits for an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldReason {
    /// An effect was begun and nobody knows whether it happened.
    InDoubt = 0,
    /// Agents that call agents went round too often.
    HopLimit = 1,
    /// The day's budget is used up.
    Budget = 2,
    /// This binary does not know the kind of work.
    UnknownKind = 3,
}

impl HeldReason {
    /// From storage.
    pub fn from_code(code: i16) -> Option<HeldReason> {
        [HeldReason::InDoubt, HeldReason::HopLimit, HeldReason::Budget, HeldReason::UnknownKind]
            .into_iter()
            .find(|reason| *reason as i16 == code)
    }

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            HeldReason::InDoubt => "in_doubt",
            HeldReason::HopLimit => "hop_limit",
            HeldReason::Budget => "budget",
            HeldReason::UnknownKind => "unknown_kind",
        }
    }
}
