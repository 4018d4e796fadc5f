//! Identifiers: a prefix that says what it is, and 26 characters that say which one.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ports::Entropy;
use crate::time::Timestamp;
use crate::work::WorkKind;

/// Crockford's base 32, the alphabet of ULIDs.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const TEXT_LEN: usize = 26;

/// 128 bits: 48 of Unix milliseconds, then 80 of chance, so that ids sort by time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid(u128);

/// The text was not an id of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a valid id: expected {expected}_ followed by 26 characters")]
pub struct InvalidId {
    /// The prefix that was expected, without its underscore.
    pub expected: &'static str,
}

impl Ulid {
    /// The smallest id.
    pub const MIN: Ulid = Ulid(0);
    /// The largest id.
    pub const MAX: Ulid = Ulid(u128::MAX);

    /// A new id for something that happens now.
    pub fn new(now: Timestamp, entropy: &dyn Entropy) -> Ulid {
        let mut chance = [0u8; 16];
        entropy.fill(&mut chance[6..]);
        Ulid::from_parts(now, u128::from_be_bytes(chance))
    }

    /// The next id of the same millisecond: things that one node makes one after the other sort so. The
    /// step leaves room for what follows from an id (its runs).
    pub fn next(self) -> Ulid {
        Ulid(self.0.saturating_add(1 << 40))
    }

    /// 128 bits of chance and no time, for ids that stand in public URLs.
    pub fn random(entropy: &dyn Entropy) -> Ulid {
        let mut chance = [0u8; 16];
        entropy.fill(&mut chance);
        Ulid(u128::from_be_bytes(chance))
    }

    /// The id with this time and the low 80 bits of `chance`.
    pub fn from_parts(time: Timestamp, chance: u128) -> Ulid {
        let ms = time.as_millis().clamp(0, (1 << 48) - 1) as u128;
        Ulid(ms << 80 | chance & ((1 << 80) - 1))
    }

    /// The smallest id that can carry this time: a bound for ranges and partitions.
    pub fn floor(time: Timestamp) -> Ulid {
        Ulid::from_parts(time, 0)
    }

    /// When the id was made, by the clock that made it.
    pub fn time(self) -> Timestamp {
        Timestamp::from_millis((self.0 >> 80) as i64)
    }

    /// The bits, most significant first.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id with these bits.
    pub fn from_bytes(bytes: [u8; 16]) -> Ulid {
        Ulid(u128::from_be_bytes(bytes))
    }

    /// The id as a number.
    pub fn as_u128(self) -> u128 {
        self.0
    }

    fn parse(text: &str) -> Option<Ulid> {
        if text.len() != TEXT_LEN {
            return None;
        }
        text.bytes()
            .enumerate()
            .try_fold(0u128, |bits, (index, byte)| {
                let digit =
                    ALPHABET.iter().position(|&known| known == byte.to_ascii_uppercase())? as u128;
                // 26 digits hold 130 bits: the first may use only three of its five.
                if index == 0 && digit > 7 { None } else { Some(bits << 5 | digit) }
            })
            .map(Ulid)
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; TEXT_LEN];
        for (index, slot) in text.iter_mut().enumerate() {
            *slot = ALPHABET[(self.0 >> (5 * (TEXT_LEN - 1 - index)) & 31) as usize];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse_prefixed(text: &str, prefix: &'static str) -> Result<Ulid, InvalidId> {
    text.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('_'))
        .and_then(Ulid::parse)
        .ok_or(InvalidId { expected: prefix })
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub Ulid);

        impl $name {
            /// What its text begins with.
            pub const PREFIX: &'static str = $prefix;

            /// The bits, for storage.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_bytes()
            }

            /// From storage.
            pub fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Ulid::from_bytes(bytes))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                parse_prefixed(text, $prefix).map(Self)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

id!(
    /// One thing that happened.
    EventId, "evt"
);
id!(
    /// One integration of one tenant; 128 bits of chance, since it stands in a public URL.
    SourceId, "src"
);
id!(
    /// One try at a work item.
    RunId, "run"
);
id!(
    /// One API key (its name, not its secret).
    KeyId, "key"
);
id!(
    /// One request that was received, whatever became of it.
    ReceiptId, "rcp"
);
id!(
    /// One operator's action.
    AuditId, "aud"
);
id!(
    /// One piece of bulk work.
    OperationId, "op"
);
id!(
    /// One schedule.
    ScheduleId, "sch"
);
id!(
    /// One subscription.
    WebhookId, "wh"
);
id!(
    /// One alert, from its firing to its end.
    AlertId, "alr"
);

/// One durable thing to do. Its text needs the kind, which gives the prefix: `job_…`, `dlv_…`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub Ulid);

impl WorkId {
    /// The id as clients see it.
    pub fn text(self, kind: WorkKind) -> String {
        format!("{}_{}", kind.id_prefix(), self.0)
    }

    /// Reads an id of one kind of work.
    pub fn parse(text: &str, kind: WorkKind) -> Result<WorkId, InvalidId> {
        parse_prefixed(text, kind.id_prefix()).map(WorkId)
    }

    /// Reads an id of any kind of work.
    pub fn parse_any(text: &str) -> Option<(WorkKind, WorkId)> {
        WorkKind::ALL.into_iter().find_map(|kind| Some((kind, WorkId::parse(text, kind).ok()?)))
    }

    /// The first work item that an event makes carries the event's own bits, so that neither needs to
    /// store or index the way to the other.
    pub fn first_of(event: EventId) -> WorkId {
        WorkId(event.0)
    }

    /// The bits, for storage.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// From storage.
    pub fn from_bytes(bytes: [u8; 16]) -> WorkId {
        WorkId(Ulid::from_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_reads_back_as_written(bits: u128) {
            let id = EventId(Ulid(bits));
            prop_assert_eq!(id.to_string().parse::<EventId>(), Ok(id));
            prop_assert_eq!(EventId::from_bytes(id.to_bytes()), id);
        }

        #[test]
        fn text_order_is_time_order(a in 0i64..1 << 47, b in 0i64..1 << 47, chance: u128) {
            let (x, y) = (Ulid::from_parts(Timestamp::from_millis(a), chance),
                          Ulid::from_parts(Timestamp::from_millis(b), !chance));
            if a < b {
                prop_assert!(x < y && x.to_string() < y.to_string());
            }
            prop_assert_eq!(x.time().as_millis(), a);
        }

        #[test]
        fn ids_of_one_millisecond_only_grow(ms in 0i64..1 << 47, chance: u128) {
            let id = Ulid::from_parts(Timestamp::from_millis(ms), chance);
            prop_assert!(id.next() > id);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "\\PC*") {
            let _ = text.parse::<EventId>();
        }
    }

    #[test]
    fn a_wrong_prefix_or_too_many_bits_are_refused() {
        assert!("job_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse::<EventId>().is_err());
        assert!("evt_81ARZ3NDEKTSV4RRFFQ69G5FAV".parse::<EventId>().is_err());
        assert!("evt_01ARZ3NDEKTSV4RRFFQ69G5FA".parse::<EventId>().is_err());
        assert!("evt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse::<EventId>().is_ok());
    }
}
