//! How a job reaches its agent.

use serde::{Deserialize, Serialize};

/// Who runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Executor {
    /// A worker asks for it.
    #[default]
    Pull,
    /// It is posted to the agent.
    Http {
        /// Where to.
        url: String,
    },
    /// A local command runs it.
    Exec {
        /// The name of a command in `wakepost.toml`; the API can only name one.
        name: String,
    },
    /// The gateway does it itself, as it sends replies. Nobody can ask for it.
    #[serde(skip)]
    Gateway,
}

impl Executor {
    /// Whether the gateway itself starts the run.
    pub fn is_pushed(&self) -> bool {
        !matches!(self, Executor::Pull)
    }
}
