//! What is known of one job: its leases, one at a time with a growing fence (L1), its checkpoint, its end (L5).

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{EffectTold, Inner, Problem};

/// How a run ended, or was to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this result.
    Complete(u64),
    /// To be tried again.
    Fail,
    /// For good.
    Dead,
}

/// What is known of one job.
#[derive(Debug, Default)]
pub struct JobTold {
    pub(super) leases: Vec<Lease>,
    /// The end that a worker was told of, and when.
    pub(super) ended: Option<(End, i64)>,
    /// Ends that were asked for and not refused.
    pub asked: Vec<End>,
    /// The state that was saved last, and by which run.
    checkpoint: Option<(i64, u64)>,
    /// States that may have been saved: nobody was told yet, or ever.
    pub(super) checkpoints_unknown: HashSet<u64>,
    /// Its effects, by key.
    pub effects: HashMap<String, EffectTold>,
}

/// One lease.
#[derive(Debug)]
pub struct Lease {
    pub(super) fence: i64,
    pub(super) asked: i64,
    pub(super) granted: i64,
    pub(super) live_until: i64,
    pub(super) maybe_over: bool,
}

impl JobTold {
    /// The end that a worker was told of.
    pub fn ended(&self) -> Option<End> {
        self.ended.map(|(end, _)| end)
    }

    /// Whether a worker was given the job with a higher fence before.
    pub(super) fn newer(&self, fence: i64, at: i64) -> bool {
        self.leases.iter().any(|lease| lease.fence > fence && lease.granted < at)
    }

    /// What is wrong with a new lease.
    pub(super) fn lease_problems(&self, new: &Lease) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.ended.is_some_and(|(_, at)| at < new.asked) {
            problems.push(("L5", "given out after it had ended".to_owned()));
        }
        for old in &self.leases {
            if old.fence == new.fence || (old.fence > new.fence && old.granted < new.asked) {
                problems.push(("L1", format!("the fence did not grow from {}", old.fence)));
            } else if old.fence < new.fence && !old.maybe_over && new.granted + 1 < old.live_until {
                // Of a later lease whose answer overtook this one nothing follows: this one was over before it began.
                problems.push((
                    "L1",
                    format!("given out while the lease with fence {} lived", old.fence),
                ));
            }
        }
        problems
    }

    /// A run was told that it saved a state. If a later one was told so before, this one came first all the same.
    pub(super) fn saved(&mut self, fence: i64, state: u64) {
        if self.checkpoint.is_none_or(|(known, _)| known <= fence) {
            self.checkpoint = Some((fence, state));
        }
    }

    /// What a run is handed is the last state that was saved, or one whose saving got no answer. Of a run whose answer was
    /// overtaken by that of a later one nothing follows: what is known now was saved since.
    pub(super) fn checkpoint_problem(&self, fence: i64, handed: &Value) -> Option<Problem> {
        if self.leases.iter().any(|lease| lease.fence > fence) {
            return None;
        }
        let handed = handed["step"].as_u64();
        let expected = self.checkpoint.map(|(_, state)| state);
        let possible = handed == expected
            || handed.is_some_and(|state| self.checkpoints_unknown.contains(&state));
        (!possible).then(|| ("L2", format!("the checkpoint is {handed:?} and was {expected:?}")))
    }
}

impl Inner {
    /// A lease, by its fence.
    pub(super) fn lease_of(&mut self, job: &str, fence: i64) -> Option<&mut Lease> {
        self.jobs.get_mut(job)?.leases.iter_mut().find(|lease| lease.fence == fence)
    }
}
