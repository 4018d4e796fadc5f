//! Callbacks: whatever ends a job that somebody wants to hear of makes one item that tells its outcome, in the same
//! transaction. It waits in the job's `callback_lane` as a timer that is due at once: no hint has to find its way
//! from each of the many ends to the queue.

use wakepost_domain::{Timestamp, WorkId};

/// The id of what tells a job's outcome: the time the job ended, and bits that follow from the job's id.
pub fn id(job: WorkId, ended_at: Timestamp) -> WorkId {
    let mut hash = aws_lc_rs::digest::Context::new(&aws_lc_rs::digest::SHA256);
    hash.update(b"callback");
    hash.update(&job.to_bytes());
    let mut bits = [0u8; 16];
    bits[..6].copy_from_slice(&ended_at.as_millis().to_be_bytes()[2..]);
    bits[6..].copy_from_slice(&hash.finish().as_ref()[..10]);
    WorkId::from_bytes(bits)
}
