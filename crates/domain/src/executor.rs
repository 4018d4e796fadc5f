//! How a job reaches its agent.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};

/// Who runs the job.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Executor {
    /// A worker asks for it.
    #[default]
    #[serde(deserialize_with = "nothing_more")]
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
    /// The gateway calls itself, and runs it within that request: for hosts that freeze a process between
    /// requests.
    SelfWebhook {
        /// What runs it there: `Http` or `Exec`.
        run: Box<Executor>,
        /// How long that request may take.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget_s: Option<u64>,
    },
}

/// Serde lets any field stand beside the tag of a variant that has none; we do not.
fn nothing_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}
    Nothing::deserialize(deserializer).map(|Nothing {}| ())
}

/// How long a run may take within a request, unless its executor says otherwise.
pub const BUDGET: Duration = Duration::from_secs(300);
/// The longest budget, in seconds.
pub const BUDGET_S_MAX: u64 = 3600;

impl Executor {
    /// Whether the gateway itself starts the run.
    pub fn is_pushed(&self) -> bool {
        !matches!(self, Executor::Pull)
    }

    /// What runs the job in the end.
    pub fn runner(&self) -> &Executor {
        match self {
            Executor::SelfWebhook { run, .. } => run.runner(),
            own => own,
        }
    }

    /// Whether the job is posted to an agent in the end.
    pub fn posts(&self) -> bool {
        matches!(self.runner(), Executor::Http { .. })
    }

    /// How long the gateway may spend on one run, where that is bound.
    pub fn budget(&self) -> Option<Duration> {
        match self {
            Executor::SelfWebhook { budget_s, .. } => {
                Some(budget_s.map_or(BUDGET, Duration::from_secs))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_self_webhook_names_what_runs_the_job() {
        let text = r#"{"kind":"self_webhook","run":{"kind":"http","url":"https://agent.example"}}"#;
        let executor: Executor = serde_json::from_str(text).unwrap();
        assert_eq!(executor.runner(), &Executor::Http { url: "https://agent.example".to_owned() });
        assert!(executor.posts() && executor.is_pushed());
        assert_eq!(executor.budget(), Some(BUDGET));
        assert_eq!(serde_json::to_string(&executor).unwrap(), text);
        let more = r#"{"kind":"self_webhook","run":{"kind":"pull"},"budget_s":5,"url":"x"}"#;
        assert!(serde_json::from_str::<Executor>(more).is_err());
    }

    #[test]
    fn nothing_stands_beside_a_pull() {
        assert_eq!(serde_json::from_str::<Executor>(r#"{"kind":"pull"}"#).unwrap(), Executor::Pull);
        assert!(serde_json::from_str::<Executor>(r#"{"kind":"pull","url":"x"}"#).is_err());
        assert_eq!(serde_json::to_string(&Executor::Pull).unwrap(), r#"{"kind":"pull"}"#);
    }
}
