//! The side-effect ledger: ask before an irreversible act, commit after it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::post;
use crate::lenient::null_as_default;
use crate::{Call, Client, Moved};

/// One effect of a job.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Effect {
    /// Its key, chosen by the agent.
    pub key: String,
    /// `begun`, `in_doubt`, `committed` or `aborted`; where a person must agree, also `proposed`, `approved`,
    /// `rejected` or `withdrawn`.
    #[serde(alias = "status", deserialize_with = "null_as_default")]
    pub state: String,
    /// What it does, for people.
    pub description: Option<String>,
    /// What it returned.
    pub result: Value,
    /// Why it did not happen.
    pub error: Option<String>,
    /// What exactly was proposed.
    pub proposal_hash: Option<String>,
    /// Until when it can be decided on; then, until when an approval is good.
    pub expires_at: Option<String>,
    /// Who decided.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<String>,
}

/// An effect to begin.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NewEffect {
    /// Its key, chosen by the agent: the same act has the same key in every run.
    pub key: String,
    /// What it does, for people who approve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What to do when an earlier run began it and never said how it went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_doubt: Option<OnDoubt>,
}

impl From<&str> for NewEffect {
    fn from(key: &str) -> NewEffect {
        NewEffect { key: key.to_owned(), ..NewEffect::default() }
    }
}

impl From<String> for NewEffect {
    fn from(key: String) -> NewEffect {
        NewEffect::from(key.as_str())
    }
}

/// What to do about an effect in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDoubt {
    /// Hold the job until an operator says whether it happened.
    Hold,
    /// Do it again: whoever receives it dedupes by the idempotency key.
    Execute,
}

/// What `begin` answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Begun {
    /// Whether to act.
    pub decision: Decision,
    /// A stable key to pass on, so that whoever receives it can dedupe.
    #[serde(default, deserialize_with = "null_as_default")]
    pub idempotency_key: String,
    /// For `skip`: what the first time returned.
    #[serde(default)]
    pub result: Value,
    /// For `needs_approval`: what exactly is to be approved.
    #[serde(default)]
    pub proposal_hash: Option<String>,
}

/// Whether to act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Go ahead.
    Execute,
    /// It happened already.
    Skip,
    /// Nobody knows whether it happened; the run has ended and the job is held.
    InDoubt,
    /// A person must approve it first; the run has ended.
    NeedsApproval,
}

/// An operator's word on an effect in doubt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Resolution {
    /// Whether it happened.
    pub outcome: EffectOutcome,
    /// What it returned.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub result: Value,
    /// Who says so, and why. It stays in the audit trail.
    pub note: String,
}

/// Whether an effect in doubt happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectOutcome {
    /// It did.
    Committed,
    /// It did not.
    NotDone,
}

#[derive(Serialize)]
struct Begin<'a> {
    lease_token: &'a str,
    #[serde(flatten)]
    effect: &'a NewEffect,
}

#[derive(Serialize)]
struct Commit<'a> {
    lease_token: &'a str,
    result: &'a Value,
}

#[derive(Serialize)]
struct Abort<'a> {
    lease_token: &'a str,
    error: &'a str,
}

impl Client {
    /// `POST /jobs/{id}/effects`
    pub fn begin_effect(&self, job_id: &str, token: &str, effect: &NewEffect) -> Call<Begun> {
        let body = Begin { lease_token: token, effect };
        self.call(post(&["jobs", job_id, "effects"], &body))
    }

    /// `POST /jobs/{id}/effects/{key}/commit`: it happened.
    pub fn commit_effect(
        &self,
        job_id: &str,
        token: &str,
        key: &str,
        result: &Value,
    ) -> Call<Moved> {
        let body = Commit { lease_token: token, result };
        self.call(post(&["jobs", job_id, "effects", key, "commit"], &body))
    }

    /// `POST /jobs/{id}/effects/{key}/abort`: it certainly did not happen.
    pub fn abort_effect(&self, job_id: &str, token: &str, key: &str, error: &str) -> Call<Moved> {
        let body = Abort { lease_token: token, error };
        self.call(post(&["jobs", job_id, "effects", key, "abort"], &body))
    }

    /// `POST /jobs/{id}/effects/{key}/resolve`: a job held for it alone goes on.
    pub fn resolve_effect(&self, job_id: &str, key: &str, word: &Resolution) -> Call<Moved> {
        self.call(post(&["jobs", job_id, "effects", key, "resolve"], word))
    }
}
