//! People in the loop: who must be asked before an act, what exactly they agree to, and for how long.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How long a person has to decide, unless the source says otherwise. Then it is as if they had refused.
pub const APPROVAL_EXPIRES: Duration = Duration::from_secs(24 * 3600);
/// The longest a source may give them.
pub const APPROVAL_EXPIRES_MAX: Duration = Duration::from_secs(30 * 24 * 3600);

/// Whether a person must agree before a job acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It acts.
    #[default]
    Auto,
    /// It proposes, and waits.
    Draft,
}

impl Mode {
    /// Both.
    pub const ALL: [Mode; 2] = [Mode::Auto, Mode::Draft];
}

/// What exactly is proposed, as a hash: another text under the same key is another proposal.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProposalHash(pub [u8; 32]);

impl ProposalHash {
    /// What is hashed: how many bytes the key has, a colon, the key, and the description. The length keeps two
    /// proposals from reading alike, whatever is in them. Without a description it is empty.
    pub fn text(key: &str, description: Option<&str>) -> String {
        format!("{}:{key}{}", key.len(), description.unwrap_or_default())
    }

    /// From the word clients use; `None` if no proposal can have it.
    pub fn from_word(word: &str) -> Option<ProposalHash> {
        let digits: &[u8; 64] = word.as_bytes().try_into().ok()?;
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(ProposalHash(bytes))
    }
}

fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for ProposalHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ProposalHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProposalHash({self})")
    }
}

impl Serialize for ProposalHash {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hash_is_read_as_it_is_written(bytes in any::<[u8; 32]>()) {
            let hash = ProposalHash(bytes);
            prop_assert_eq!(ProposalHash::from_word(&hash.to_string()), Some(hash));
        }

        #[test]
        fn two_proposals_never_read_alike(
            a in "[0-9:x]{0,6}", b in "[0-9:x]{0,6}", c in "[0-9:x]{0,6}", d in "[0-9:x]{0,6}",
        ) {
            let same = ProposalHash::text(&a, Some(&b)) == ProposalHash::text(&c, Some(&d));
            prop_assert_eq!(same, (a, b) == (c, d));
        }
    }

    #[test]
    fn only_small_hexadecimal_digits_are_a_hash() {
        let good = "0f".repeat(32);
        assert!(ProposalHash::from_word(&good).is_some());
        for bad in ["", "0f", &good.to_uppercase(), &good[1..], &"0g".repeat(32)] {
            assert_eq!(ProposalHash::from_word(bad), None, "{bad}");
        }
    }
}
