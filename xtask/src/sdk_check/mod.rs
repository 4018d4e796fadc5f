//! The vendors' own SDKs beside our signature code: the same requests, put to both.
//!
//! `sdks` lists them and what each can do. `driver` holds one process per language that calls them (the programs are in
//! `xtask/sdks`). `requests` makes what is sent, `spoil` what came to harm, and `check` compares the verdicts.
//! `sent` puts our own deliveries to the libraries that subscribers verify with.
//! Nothing here talks to a vendor: every key is made up.

mod check;
mod driver;
mod requests;
mod sdks;
mod sent;
mod spoil;

use anyhow::{Context, bail};
use wakepost_providers::registry;

use check::Check;
use driver::Driver;
use sdks::{Language, SDKS, SUBSCRIBERS, Sdk};

use crate::pinned;

/// What became of one SDK's cases.
pub struct Tally {
    /// Which SDK.
    pub sdk: &'static Sdk,
    /// Its version, as installed.
    pub version: String,
    /// In how many cases it and we gave the right verdict.
    pub agreed: usize,
    /// The other cases: which, and who said what.
    pub disagreements: Vec<String>,
}

/// Installs the SDKs and puts every case to each of them and to us.
pub fn run() -> anyhow::Result<Vec<Tally>> {
    let mut node = Driver::start(pinned::node("sdks/node")?)?;
    let mut python = Driver::start(pinned::python("sdks/python")?)?;
    let mut tallies = Vec::new();
    for sdk in SDKS {
        let Some(provider) = registry::find(sdk.provider) else {
            bail!("{sdk} is for {}, which is not in this build", sdk.provider);
        };
        let driver = match sdk.language {
            Language::Node => &mut node,
            Language::Python => &mut python,
        };
        let version = driver.version(sdk).with_context(|| format!("asking {sdk}"))?;
        let mut tally = Tally { sdk, version, agreed: 0, disagreements: Vec::new() };
        Check::run(provider, driver, &mut tally).with_context(|| format!("asking {sdk}"))?;
        tallies.push(tally);
    }
    for subscriber in SUBSCRIBERS {
        let sdk = &subscriber.sdk;
        let driver = match sdk.language {
            Language::Node => &mut node,
            Language::Python => &mut python,
        };
        let version = driver.version(sdk).with_context(|| format!("asking {sdk}"))?;
        let mut tally = Tally { sdk, version, agreed: 0, disagreements: Vec::new() };
        sent::check(subscriber, driver, &mut tally).with_context(|| format!("asking {sdk}"))?;
        tallies.push(tally);
    }
    Ok(tallies)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sdk_is_for_a_provider_of_this_build() {
        for sdk in SDKS {
            let known = registry::find(sdk.provider).is_some();
            assert!(known, "{sdk}");
        }
    }
}
