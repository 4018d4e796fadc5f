//! Forgetting: what is old goes unless something needs it, and a dedup key blocks as long as the body it guards is there.

use wakepost_domain::{EventId, Ulid};
use wakepost_store::moves::{DedupKey, OwnWalk, Walked};

use super::working::is_open_letter;
use super::{Item, Model};
use crate::call::{Answer, tell};

impl Model {
    /// Who has a dedup key whose time is not over, or whose body is there.
    pub(super) fn holder(&self, key: DedupKey) -> Option<Ulid> {
        let (holder, until) = self.keys.get(&key)?;
        let blocks = *until > self.now || self.bodies.contains(&EventId(*holder));
        blocks.then_some(*holder)
    }

    /// Bodies from before a moment go.
    pub(super) fn prune_own(&mut self, walk: &OwnWalk) -> Answer {
        let OwnWalk::Bodies(tenant, before) = walk else { unreachable!("no wish is for more") };
        let first_kept = Ulid::floor(*before);
        let goes = |id: &EventId| {
            self.events[id].tenant == *tenant && id.0 < first_kept && !self.is_needed(*id)
        };
        let gone: Vec<EventId> = self.bodies.iter().copied().filter(goes).collect();
        self.bodies.retain(|id| !gone.contains(id));
        tell(Ok(Walked { rows: gone.len() as u64, next: None }))
    }

    /// Live work is about it, or a dead letter that nobody dealt with.
    fn is_needed(&self, event: EventId) -> bool {
        let is_about = |item: &&Item| item.row.event == Some(event) || item.joined.contains(&event);
        let mut about = self.items.values().filter(is_about);
        about.any(|item| item.is_live() || is_open_letter(&item.row))
    }
}
