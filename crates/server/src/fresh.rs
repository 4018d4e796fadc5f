//! What was published a moment ago, until it is delivered: most deliveries leave before anybody forgets what they say,
//! and need not read it back, open it and take it apart.
//!
//! It is a cache and no more. What is not here, after a restart, on another node or at a later try, is read.

use std::collections::BTreeMap;

use bytes::Bytes;
use parking_lot::Mutex;
use wakepost_domain::EventId;

/// How much is kept; the oldest goes first.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// What one takes up beside its bytes.
const OVERHEAD: usize = 128;

/// Bodies of events that were just published.
#[derive(Default)]
pub struct Fresh(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// By their ids, and so by their age.
    bodies: BTreeMap<EventId, Body>,
    bytes: usize,
}

struct Body {
    said: Bytes,
    /// How many deliveries have not asked for it yet.
    left: usize,
}

impl Fresh {
    /// Keeps a body for so many deliveries that are due now.
    pub fn keep(&self, id: EventId, said: Bytes, deliveries: usize) {
        if deliveries == 0 || cost(&said) > BYTES_MAX {
            return;
        }
        let mut kept = self.0.lock();
        kept.bytes += cost(&said);
        if let Some(before) = kept.bodies.insert(id, Body { said, left: deliveries }) {
            kept.bytes -= cost(&before.said);
        }
        while kept.bytes > BYTES_MAX {
            let Some((_, oldest)) = kept.bodies.pop_first() else { return };
            kept.bytes -= cost(&oldest.said);
        }
    }

    /// The body of one delivery's event, if it is kept. It goes with the last that was announced.
    pub fn take(&self, id: EventId) -> Option<Bytes> {
        let mut kept = self.0.lock();
        let body = kept.bodies.get_mut(&id)?;
        body.left -= 1;
        if body.left > 0 {
            return Some(body.said.clone());
        }
        let Body { said, .. } = kept.bodies.remove(&id)?;
        kept.bytes -= cost(&said);
        Some(said)
    }
}

fn cost(said: &Bytes) -> usize {
    said.len() + OVERHEAD
}

impl std::fmt::Debug for Fresh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fresh")
    }
}

#[cfg(test)]
mod tests {
    use wakepost_domain::Ulid;

    use super::*;

    fn id(number: u8) -> EventId {
        EventId(Ulid::from_bytes([number; 16]))
    }

    #[test]
    fn a_body_is_there_for_as_many_deliveries_as_were_announced() {
        let fresh = Fresh::default();
        fresh.keep(id(1), Bytes::from_static(b"one"), 2);
        fresh.keep(id(2), Bytes::from_static(b"nobody asks"), 0);
        let found: Vec<_> = (0..3).map(|_| fresh.take(id(1))).collect();
        assert_eq!(found, [Some("one".into()), Some("one".into()), None]);
        assert_eq!(fresh.take(id(2)), None);
        assert_eq!(fresh.0.lock().bytes, 0);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many_bytes() {
        let fresh = Fresh::default();
        let third = Bytes::from(vec![b'x'; BYTES_MAX / 3]);
        for number in 1..=4 {
            fresh.keep(id(number), third.clone(), 1);
        }
        fresh.keep(id(5), Bytes::from(vec![b'x'; BYTES_MAX]), 1);
        let found: Vec<_> = (1..=5).map(|number| fresh.take(id(number)).is_some()).collect();
        assert_eq!(found, [false, false, true, true, false]);
        let kept = fresh.0.lock();
        assert_eq!((kept.bytes, kept.bodies.len()), (0, 0));
    }
}
