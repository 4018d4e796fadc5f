//! Lanes: the unit of independence in the queue. A slow or failing lane never delays another.

use serde::{Deserialize, Serialize};

use crate::executor::Executor;
use crate::id::Ulid;
use crate::tenant::TenantId;
use crate::work::{Priority, WorkKind};

/// A lane's number in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub i64);

/// What makes two items share a lane. Items of one lane are alike to whoever claims them, so a claim never
/// has to look past an item it cannot take.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LaneKey {
    /// Whose work it is.
    pub tenant: TenantId,
    /// What executes it.
    pub kind: WorkKind,
    /// Which queue it waits in.
    pub priority: Priority,
    /// The source or subscriber it belongs to; none for jobs made through the API.
    pub origin: Option<Ulid>,
    /// The job's kind, which workers may choose by; empty in a lane that many names share.
    pub name: String,
    /// The job's own executor; none where the source or tenant decides.
    pub executor: Option<ExecutorKey>,
}

/// An executor as part of a lane's key.
pub type ExecutorKey = String;

/// The executor of a lane in which events wait that only announce something. No job can name it: what a job
/// chooses for itself is a JSON object.
const EXPAND: &str = "expand";

/// The executor of a lane for work that an operator let go though its source's budget was spent. Such work runs as
/// its source says; only the budget does not bind it.
const LET_GO: &str = "let_go";

/// A lane with its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Its number.
    pub id: LaneId,
    /// What it holds.
    pub key: LaneKey,
}

impl LaneKey {
    /// The text whose hash identifies the lane in the database.
    pub fn text(&self) -> String {
        let origin = self.origin.map(|origin| origin.to_string()).unwrap_or_default();
        let executor = self.executor.as_deref().unwrap_or_default();
        format!(
            "{}\n{}\n{}\n{origin}\n{}\n{executor}",
            self.tenant.0, self.kind as i16, self.priority as i16, self.name
        )
    }

    /// The lane for those of its items whose event only announces something.
    pub fn before_expansion(self) -> LaneKey {
        LaneKey { executor: Some(EXPAND.to_owned()), ..self }
    }

    /// The lane for its items once their event is whole.
    pub fn after_expansion(self) -> LaneKey {
        LaneKey { executor: None, ..self }
    }

    /// Whether the gateway itself fetches here what events only announced.
    pub fn expands(&self) -> bool {
        self.executor.as_deref() == Some(EXPAND)
    }

    /// The lane for those of its items that an operator lets go though the budget is spent. A job that chose its
    /// executor itself has no source, and so no budget.
    pub fn let_go(self) -> LaneKey {
        match self.executor {
            None => LaneKey { executor: Some(LET_GO.to_owned()), ..self },
            Some(_) => self,
        }
    }

    /// Whether an operator let its items go though their source's budget was spent.
    pub fn is_let_go(&self) -> bool {
        self.executor.as_deref() == Some(LET_GO)
    }

    /// The executor named in the key, if any.
    pub fn own_executor(&self) -> Option<OwnExecutor> {
        serde_json::from_str(self.executor.as_deref()?).ok()
    }
}

/// An executor that a job chose for itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnExecutor {
    /// The executor.
    pub executor: Executor,
    /// Whether an administrator of all tenants chose it: its address may then be private.
    pub trusted: bool,
}

impl OwnExecutor {
    /// The executor as a lane's key holds it.
    pub fn key(&self) -> ExecutorKey {
        serde_json::to_string(self).expect("an executor is plain data")
    }
}
