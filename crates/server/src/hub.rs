//! What nodes say to each other: words, each of them a hint.

use std::fmt;
use std::str::FromStr;

use wakepost_domain::lane::LaneId;
use wakepost_domain::{SourceId, TenantId};

/// Tells the other nodes that something changed. A lost word costs a moment, never an event: every
/// reader also looks for itself now and then.
pub trait Hub: Send + Sync {
    /// Says a word to all nodes, this one included.
    fn tell(&self, word: Word);
}

/// For a node that is alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHub;

impl Hub for NoHub {
    fn tell(&self, _word: Word) {}
}

/// What one node says to all. As text it stays what it is: nodes of two releases work side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// A lane may have ready work.
    Ready(LaneId),
    /// A place under a tenant's bound on running items got free.
    Freed(TenantId),
    /// Settings were changed.
    Changed(Setting),
    /// Words may have been lost.
    Resync,
}

/// Settings of which nodes keep copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// A source.
    Source(SourceId),
    /// A tenant's webhooks, or its types of events.
    Webhooks(TenantId),
    /// The tenants.
    Tenants,
    /// The keys.
    Keys,
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Word::Ready(lane) => write!(f, "w:{}", lane.0),
            Word::Freed(tenant) => write!(f, "c:{}", tenant.0),
            Word::Changed(Setting::Source(source)) => write!(f, "s:{source}"),
            Word::Changed(Setting::Webhooks(tenant)) => write!(f, "h:{}", tenant.0),
            Word::Changed(Setting::Tenants) => f.write_str("t"),
            Word::Changed(Setting::Keys) => f.write_str("k"),
            Word::Resync => f.write_str("resync"),
        }
    }
}

/// A word that this program does not know: a newer node's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unknown;

impl FromStr for Word {
    type Err = Unknown;

    fn from_str(text: &str) -> Result<Word, Unknown> {
        fn read<T: FromStr>(text: &str) -> Result<T, Unknown> {
            text.parse().map_err(|_| Unknown)
        }
        Ok(match text.split_once(':') {
            Some(("w", lane)) => Word::Ready(LaneId(read(lane)?)),
            Some(("c", tenant)) => Word::Freed(TenantId(read(tenant)?)),
            Some(("s", source)) => Word::Changed(Setting::Source(read(source)?)),
            Some(("h", tenant)) => Word::Changed(Setting::Webhooks(TenantId(read(tenant)?))),
            None if text == "t" => Word::Changed(Setting::Tenants),
            None if text == "k" => Word::Changed(Setting::Keys),
            None if text == "resync" => Word::Resync,
            _ => return Err(Unknown),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wakepost_domain::Ulid;

    use super::*;

    /// One word of each kind.
    fn words(number: i64, tenant: i32, bits: u128) -> [Word; 7] {
        let source = SourceId(Ulid::from_bytes(bits.to_be_bytes()));
        [
            Word::Ready(LaneId(number)),
            Word::Freed(TenantId(tenant)),
            Word::Changed(Setting::Source(source)),
            Word::Changed(Setting::Webhooks(TenantId(tenant))),
            Word::Changed(Setting::Tenants),
            Word::Changed(Setting::Keys),
            Word::Resync,
        ]
    }

    #[test]
    fn words_stay_what_nodes_of_other_releases_know() {
        let said = words(12, 3, 1).map(|word| word.to_string());
        let source = "s:src_00000000000000000000000001";
        assert_eq!(said, ["w:12", "c:3", source, "h:3", "t", "k", "resync"]);
    }

    #[test]
    fn what_is_no_word_is_unknown() {
        for text in ["", "w", "w:", "w:x", "s:12", "h:", "t:1", "x:1", "resync:"] {
            assert_eq!(text.parse::<Word>(), Err(Unknown), "{text}");
        }
    }

    proptest! {
        #[test]
        fn each_word_is_heard_as_it_was_said(number: i64, tenant: i32, bits: u128) {
            for word in words(number, tenant, bits) {
                prop_assert_eq!(word.to_string().parse(), Ok(word));
            }
        }
    }
}
