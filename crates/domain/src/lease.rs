//! Leases: a worker's right to one item, for a while, proved by a fence that only grows.

use std::time::Duration;

use crate::id::{RunId, Ulid, WorkId};
use crate::tenant::TenantId;
use crate::time::Timestamp;

/// How long a pull worker's lease lasts, unless it or the source says otherwise.
pub const LEASE: Duration = Duration::from_secs(120);
/// How long a pushed run's lease lasts; the node renews it.
pub const PUSH_LEASE: Duration = Duration::from_secs(300);
/// How long a lease lasts on what the gateway does itself. Short, since somebody waits for it and the gateway
/// renews it all the time.
pub const OWN_LEASE: Duration = Duration::from_secs(15);
/// How long a run may take in all, unless the source says otherwise.
pub const RUN_TIMEOUT: Duration = Duration::from_secs(900);
/// The longest run timeout.
pub const RUN_TIMEOUT_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// The shortest lease.
pub const LEASE_MIN: Duration = Duration::from_secs(1);
/// The longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(3600);

/// What a claim gave out. It is what a lease token says, signed, so that a call needs no look-up to know
/// which row, which fence and which attempt it speaks of: none of these changes while the lease lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// The item.
    pub work: WorkId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Which claim of it.
    pub fence: i32,
    /// Which try this is; the first is 1.
    pub attempt: i32,
    /// How many there may be.
    pub max_attempts: i32,
    /// How long the lease was asked to last, in seconds: what a heartbeat extends it by.
    pub lease_s: i32,
    /// When the run began.
    pub started_at: Timestamp,
    /// Whether it has an order key: its end may let the next of that key go.
    pub ordered: bool,
}

impl Ticket {
    /// The run's id. It follows from the claim, so nothing has to store it while the run lives.
    pub fn run_id(&self) -> RunId {
        run_id(self.work, self.fence, self.started_at)
    }

    /// The ticket as bytes, to be signed.
    pub fn to_bytes(&self) -> [u8; Ticket::BYTES] {
        let mut bytes = [0u8; Ticket::BYTES];
        bytes[..16].copy_from_slice(&self.work.to_bytes());
        bytes[16..20].copy_from_slice(&self.tenant.0.to_be_bytes());
        bytes[20..24].copy_from_slice(&self.fence.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.attempt.to_be_bytes());
        bytes[28..32].copy_from_slice(&self.max_attempts.to_be_bytes());
        bytes[32..36].copy_from_slice(&self.lease_s.to_be_bytes());
        bytes[36..44].copy_from_slice(&self.started_at.as_millis().to_be_bytes());
        bytes[44] = self.ordered.into();
        bytes
    }

    /// Reads a ticket whose signature was checked.
    pub fn from_bytes(bytes: &[u8; Ticket::BYTES]) -> Ticket {
        let number =
            |at: usize| i32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        Ticket {
            work: WorkId::from_bytes(bytes[..16].try_into().expect("sixteen bytes")),
            tenant: TenantId(number(16)),
            fence: number(20),
            attempt: number(24),
            max_attempts: number(28),
            lease_s: number(32),
            started_at: Timestamp::from_millis(i64::from_be_bytes(
                bytes[36..44].try_into().expect("eight bytes"),
            )),
            ordered: bytes[44] != 0,
        }
    }

    /// How long a ticket is.
    pub const BYTES: usize = 45;
}

/// The id of the run that one claim of one item began.
pub fn run_id(work: WorkId, fence: i32, started_at: Timestamp) -> RunId {
    RunId(Ulid::from_parts(started_at, work.0.as_u128().wrapping_add(fence as u128)))
}

/// Which claim of an item a run came from.
pub fn fence_of(work: WorkId, run: RunId) -> i32 {
    let chance = |id: Ulid| id.as_u128() & ((1 << 80) - 1);
    let fence = chance(run.0).wrapping_sub(chance(work.0)) & ((1 << 80) - 1);
    i32::try_from(fence).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_ticket_reads_back_as_written(
            bits: [u8; 16], tenant: i32, fence: i32, attempt: i32, max_attempts: i32, lease_s: i32,
            ms: i64, ordered: bool,
        ) {
            let ticket = Ticket {
                work: WorkId::from_bytes(bits),
                tenant: TenantId(tenant),
                fence,
                attempt,
                max_attempts,
                lease_s,
                started_at: Timestamp::from_millis(ms),
                ordered,
            };
            prop_assert_eq!(Ticket::from_bytes(&ticket.to_bytes()), ticket);
        }
    }

    #[test]
    fn each_claim_has_its_own_run() {
        let work = WorkId(Ulid::MAX);
        let at = Timestamp::from_millis(5);
        assert_ne!(run_id(work, 1, at), run_id(work, 2, at));
        assert_eq!(run_id(work, 1, at), run_id(work, 1, at));
        assert_eq!(fence_of(work, run_id(work, 7, at)), 7);
        assert_eq!(fence_of(WorkId(Ulid::MIN), run_id(WorkId(Ulid::MIN), 3, at)), 3);
    }
}
