//! Who must be asked before an item acts: its maker's word, else its source's as it is now.

use std::time::Duration;

use wakepost_domain::SourceId;
use wakepost_domain::approval::{APPROVAL_EXPIRES, Mode};
use wakepost_store::Result;
use wakepost_store::moves::WorkRow;

use super::Directory;

impl Directory {
    /// How long a person has to decide on what an item would do; `None`: nobody is asked.
    pub async fn asks(&self, row: &WorkRow) -> Result<Option<Duration>> {
        let lane = self.lanes(&[row.lane]).await?.pop();
        let origin = row.event.and(lane).and_then(|lane| lane.key.origin);
        let (usual, expires) = match origin {
            None => (Mode::Auto, APPROVAL_EXPIRES),
            Some(origin) => match self.source(SourceId(origin)).await? {
                Some(live) => (live.source.config.mode, live.source.config.approval_expires()),
                // A source that is gone cannot say that nobody need be asked.
                None => (Mode::Draft, APPROVAL_EXPIRES),
            },
        };
        let mode = row.meta.mode.unwrap_or(usual);
        Ok((mode == Mode::Draft).then_some(expires))
    }
}
