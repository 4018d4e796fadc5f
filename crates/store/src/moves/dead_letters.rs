//! Dead letters: what was given up after the last try, until it is replayed or purged.

use async_trait::async_trait;
use wakepost_domain::lane::LaneId;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, OperationId, SourceId, TenantId, Timestamp, Ulid, WorkId};

use super::read::{Cursor, WorkRow};
use crate::error::Result;

/// Which dead letters.
#[derive(Debug, Clone, Default)]
pub struct DeadFilter {
    /// These, by their ids.
    pub chosen: Option<Vec<(WorkKind, WorkId)>>,
    /// Of this kind.
    pub kind: Option<WorkKind>,
    /// Of this source.
    pub source: Option<SourceId>,
    /// Of this lane.
    pub lane: Option<LaneId>,
    /// Not given up before.
    pub since: Option<Timestamp>,
    /// Given up before.
    pub until: Option<Timestamp>,
    /// Whose id, event, kind or subject begins with this, or whose last error has it.
    pub text: Option<String>,
    /// Also those that were replayed or purged.
    pub dealt_with: bool,
    /// Whatever the text: those that this operation purged, whose last error is gone.
    pub purged_by: Option<OperationId>,
}

impl DeadFilter {
    /// The items whose id begins with the text, if it can be the beginning of one.
    pub(crate) fn ids(&self) -> Option<(WorkKind, Ulid, Ulid)> {
        let text = self.text.as_deref()?;
        WorkKind::ALL.into_iter().find_map(|kind| {
            let (first, last) = range(text, kind.id_prefix())?;
            Some((kind, first, last))
        })
    }

    /// The events whose id begins with the text, if it can be the beginning of one.
    pub(crate) fn events(&self) -> Option<(Ulid, Ulid)> {
        range(self.text.as_deref()?, EventId::PREFIX)
    }
}

/// The ids whose text begins with this.
fn range(text: &str, prefix: &str) -> Option<(Ulid, Ulid)> {
    const DIGITS: usize = 26;
    let digits = text.strip_prefix(prefix)?.strip_prefix('_')?;
    let fill = |digit: &str, first: &str| {
        let digits = if digits.is_empty() { first } else { digits };
        let rest = DIGITS.checked_sub(digits.len())?;
        let text = format!("{}_{digits}{}", EventId::PREFIX, digit.repeat(rest));
        text.parse::<EventId>().ok().map(|id| id.0)
    };
    // The first digit of an id is at most 7: it has three bits.
    Some((fill("0", "0")?, fill("Z", "7")?))
}

/// What can be done to many dead letters at once.
#[async_trait]
pub trait DeadLetters {
    /// Dead letters, newest first.
    async fn dead_letters(
        &self,
        tenant: TenantId,
        filter: DeadFilter,
        page: Cursor,
    ) -> Result<Vec<WorkRow>>;

    /// Purges those of these items that are dead letters which nobody dealt with yet: what they carried and how they
    /// went is gone, and only their rows stay, so that their events do not look as if all had gone well. Answers how
    /// many there were.
    async fn purge(&self, tenant: TenantId, works: Vec<WorkId>, by: OperationId) -> Result<u64>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> DeadFilter {
        DeadFilter { text: Some(text.to_owned()), ..DeadFilter::default() }
    }

    #[test]
    fn the_beginning_of_an_id_is_a_range_of_ids() {
        let id: EventId = "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        for text in ["rpl_", "rpl_0", "rpl_01ARZ3", "rpl_01arz3", "rpl_01ARZ3NDEKTSV4RRFFQ69G5FAV"]
        {
            let (kind, first, last) = of(text).ids().unwrap();
            assert_eq!(kind, WorkKind::Reply);
            assert!(first <= id.0 && id.0 <= last, "{text}");
        }
        assert_eq!(of("evt_01ARZ3NDEKTSV4RRFFQ69G5FAV").events(), Some((id.0, id.0)));
        for text in ["", "rpl", "rpl_U", "rpl_8", "timeout", "job_01ARZ3NDEKTSV4RRFFQ69G5FAVX"] {
            assert_eq!(of(text).ids(), None, "{text}");
        }
    }
}
