//! Where the other implementation and ours differ on purpose (`xtask/oracle/differences.toml`).

use std::fmt;
use std::net::IpAddr;

use anyhow::Context;
use ipnet::IpNet;
use serde::Deserialize;

use super::{networks, word};

/// The list, with how often each of them was seen.
pub struct Differences(Vec<Difference>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    difference: Vec<Difference>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    ours: String,
    theirs: String,
    #[serde(deserialize_with = "networks")]
    within: Vec<IpNet>,
    /// For whoever reads the list.
    #[serde(rename = "why")]
    _why: String,
    #[serde(skip)]
    seen: usize,
}

impl Differences {
    /// Reads the list.
    pub fn read() -> anyhow::Result<Differences> {
        let text = include_str!("../../oracle/differences.toml");
        let Listed { difference } = toml::from_str(text).context("reading the differences")?;
        Ok(Differences(difference))
    }

    /// Whether two verdicts on an address differ as is listed. Notes that it was seen.
    pub fn knows(&mut self, ip: IpAddr, ours: &Option<String>, theirs: &Option<String>) -> bool {
        let fits = |known: &&mut Difference| {
            known.ours == word(ours)
                && known.theirs == word(theirs)
                && known.within.iter().any(|network| network.contains(&ip))
        };
        match self.0.iter_mut().find(fits) {
            Some(known) => {
                known.seen += 1;
                true
            }
            None => false,
        }
    }

    /// Those that were never seen: what is listed without need would hide a mistake.
    pub fn unseen(&self) -> Vec<String> {
        let unseen = self.0.iter().filter(|known| known.seen == 0);
        unseen.map(|known| format!("{} / {}", known.ours, known.theirs)).collect()
    }
}

impl fmt::Display for Differences {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for known in &self.0 {
            let (ours, theirs, seen) = (&known.ours, &known.theirs, known.seen);
            writeln!(formatter, "  {seen:>7} by us {ours}, by it {theirs}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_counts_only_where_and_as_it_is_listed() {
        let mut differences = Differences::read().unwrap();
        let some = |word: &str| Some(word.to_owned());
        let azure = "168.63.129.16".parse().unwrap();
        assert!(differences.unseen().contains(&"cloud metadata / allowed".to_owned()));
        assert!(differences.knows(azure, &some("cloud metadata"), &None));
        assert!(!differences.unseen().contains(&"cloud metadata / allowed".to_owned()));
        assert!(!differences.knows(azure, &some("reserved"), &None));
        assert!(!differences.knows(azure, &None, &some("reserved")));
        let other = "168.63.129.17".parse().unwrap();
        assert!(!differences.knows(other, &some("cloud metadata"), &None));
    }
}
