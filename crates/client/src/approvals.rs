//! People in the loop: what a job would do, approved or rejected.

use serde::{Deserialize, Serialize};

use crate::call::post;
use crate::{Call, Client, Effect, Job, Moved};

/// One proposal, as the person who decides saw it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// The effect's key.
    pub key: String,
    /// What exactly it said: another hash is refused as `proposal_changed`.
    pub proposal_hash: String,
}

impl Job {
    /// The effects that wait for somebody to decide.
    pub fn proposed(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(|effect| effect.state == "proposed")
    }
}

impl Effect {
    /// What to approve or reject it by; `None` if it was never proposed.
    pub fn proposal(&self) -> Option<Proposal> {
        let proposal_hash = self.proposal_hash.clone()?;
        Some(Proposal { key: self.key.clone(), proposal_hash })
    }
}

#[derive(Serialize)]
struct Decision<'a> {
    effects: &'a [Proposal],
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

impl Client {
    /// `POST /jobs/{id}/approve`: the job goes on once nothing is left undecided.
    pub fn approve(&self, id: &str, effects: &[Proposal], note: Option<&str>) -> Call<Moved> {
        self.call(post(&["jobs", id, "approve"], &Decision { effects, note }))
    }

    /// `POST /jobs/{id}/reject`: the job is cancelled.
    pub fn reject(&self, id: &str, effects: &[Proposal], note: Option<&str>) -> Call<Moved> {
        self.call(post(&["jobs", id, "reject"], &Decision { effects, note }))
    }
}
