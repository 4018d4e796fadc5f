//! What one run knows of its own effects: which are under way, and which may have happened.
//!
//! The server lets a run begin again what it has begun itself, since it cannot tell a repeated call from a repeated
//! act. We can: to act again on what is under way, or may have happened, is to act twice.

use std::collections::HashMap;

use tokio::sync::watch;

use super::Stop;
use crate::OnDoubt;

/// The effects of one run.
#[derive(Default)]
pub(super) struct Ledger {
    // Watched, since the worker waits for what is under way before it hands the job back.
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    keys: HashMap<String, Standing>,
    /// Nothing is begun any more: the job is to be handed back.
    closed: bool,
    /// Whether something was refused for that reason.
    refused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    UnderWay,
    InDoubt,
}

impl Ledger {
    /// Takes an effect's key. What becomes of it is decided when the answer is dropped, however that comes about.
    pub(super) fn enter(&self, key: &str, on_doubt: Option<OnDoubt>) -> Result<Entered<'_>, Stop> {
        let mut entered = Err(Stop::Ended);
        self.state.send_modify(|state| {
            let standing = state.keys.get(key).copied();
            let why = match standing {
                _ if state.closed => {
                    state.refused = true;
                    return;
                }
                Some(Standing::UnderWay) => "is under way in this run already",
                Some(Standing::InDoubt) if on_doubt != Some(OnDoubt::Execute) => {
                    "may have happened in this very run"
                }
                _ => {
                    state.keys.insert(key.to_owned(), Standing::UnderWay);
                    entered = Ok(Entered { ledger: self, key: key.to_owned(), standing });
                    return;
                }
            };
            entered = Err(Stop::retry(format!("effect {key} {why}")));
        });
        entered
    }

    /// Lets no further effect begin.
    pub(super) fn close(&self) {
        self.state.send_modify(|state| state.closed = true);
    }

    /// Whether an effect was refused since the ledger was closed.
    pub(super) fn has_refused(&self) -> bool {
        self.state.borrow().refused
    }

    /// Waits until no effect is under way.
    pub(super) async fn idle(&self) {
        let idle = |state: &State| !state.keys.values().any(|one| *one == Standing::UnderWay);
        // The sender is our own, so this ends only when it is so.
        let _ = self.state.subscribe().wait_for(idle).await;
    }
}

/// An effect under way.
pub(super) struct Entered<'a> {
    ledger: &'a Ledger,
    key: String,
    /// How it stands once this is dropped.
    standing: Option<Standing>,
}

impl Entered<'_> {
    /// The act begins: until it is settled, it may have happened.
    pub(super) fn acts(&mut self) {
        self.standing = Some(Standing::InDoubt);
    }

    /// The server knows whether it happened.
    pub(super) fn is_settled(&mut self) {
        self.standing = None;
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.ledger.state.send_modify(|state| match self.standing {
            Some(standing) => {
                state.keys.insert(self.key.clone(), standing);
            }
            None => {
                state.keys.remove(&self.key);
            }
        });
    }
}
