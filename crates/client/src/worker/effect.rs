//! An irreversible act, done once: begin, act, commit, as one call.

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::attempt::is_unacceptable;
use super::stop::with_causes;
use super::{JobContext, Stop};
use crate::{Decision, NewEffect};

/// How an act failed. Any error becomes [`ActError::Unknown`], the careful reading, so `?` works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ActError {
    /// It certainly did not happen, so a retry may do it.
    NotDone(String),
    /// It may have happened (a timeout, say): the effect is left in doubt, and the next run is held or acts
    /// again, as the effect's `on_doubt` says.
    Unknown(String),
}

impl<E: std::error::Error> From<E> for ActError {
    fn from(error: E) -> ActError {
        ActError::Unknown(with_causes(&error))
    }
}

impl JobContext {
    /// Does an irreversible act once over all runs of the job, and returns what it returned. `act` gets the
    /// idempotency key to pass on. If an earlier run did it, `act` is not called.
    ///
    /// Within one run a key is acted on once at a time, and not again after it may have happened (an error other than
    /// [`ActError::NotDone`], a dropped call, a commit that was refused), unless `on_doubt` is
    /// [`OnDoubt::Execute`](crate::OnDoubt::Execute).
    pub async fn effect<T, F, R>(&self, effect: impl Into<NewEffect>, act: F) -> Result<T, Stop>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce(String) -> R,
        R: Future<Output = Result<T, ActError>>,
    {
        let effect = effect.into();
        let mut entered = self.run.effects.enter(&effect.key, effect.on_doubt)?;
        let (id, token) = (&self.job.id, &self.job.lease_token);
        let begun = self.insist(|| self.client.begin_effect(id, token, &effect)).await?;
        match begun.decision {
            Decision::Skip => serde_json::from_value(begun.result).map_err(|error| {
                Stop::give_up(format!("effect {}'s stored result: {error}", effect.key))
            }),
            // The run is over: the server released the lease, and counts no attempt.
            Decision::InDoubt | Decision::NeedsApproval => Err(Stop::Ended),
            Decision::Execute => {
                // From here on it may have happened, whichever way this ends: also where the caller drops it.
                entered.acts();
                match act(begun.idempotency_key).await {
                    Ok(done) => {
                        self.commit(&effect.key, serde_json::to_value(&done)).await?;
                        entered.is_settled();
                        Ok(done)
                    }
                    Err(ActError::NotDone(error)) => {
                        self.insist(|| self.client.abort_effect(id, token, &effect.key, &error))
                            .await?;
                        entered.is_settled();
                        Err(Stop::retry(error))
                    }
                    Err(ActError::Unknown(error)) => Err(Stop::retry(error)),
                }
            }
        }
    }

    /// It happened, so it is committed even if its result cannot be kept.
    async fn commit(&self, key: &str, result: serde_json::Result<Value>) -> Result<(), Stop> {
        let (id, token) = (&self.job.id, &self.job.lease_token);
        let result = result.unwrap_or(Value::Null);
        match self.insist_or(|| self.client.commit_effect(id, token, key, &result)).await {
            Err(error) if is_unacceptable(&error) => {
                self.insist(|| self.client.commit_effect(id, token, key, &Value::Null)).await?;
            }
            Err(error) => return Err(Stop::of(&error)),
            Ok(_) => {}
        }
        Ok(())
    }
}
