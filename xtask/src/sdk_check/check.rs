//! The cases: each is a request, a key and the verdict that both must give.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wakepost_domain::Timestamp;
use wakepost_domain::ports::Entropy;
use wakepost_providers::{self as providers, Facts, Keys, Provider, Settings, SignedRequest};

use super::driver::Driver;
use super::requests::{self, Unsigned};
use super::sdks::Refuses;
use super::spoil;
use super::{Sdk, Tally};

/// How far a case stays from the edge of the tolerance: the SDKs have clocks of their own, which go on.
const CLOCK_MARGIN: Duration = Duration::from_secs(20);

/// What must become of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Must {
    Pass,
    Fail,
}

impl fmt::Display for Must {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Must::Pass => "must be accepted",
            Must::Fail => "must be refused",
        })
    }
}

/// One provider of ours beside one SDK.
pub struct Check<'a> {
    provider: &'static dyn Provider,
    settings: Settings,
    facts: Facts,
    sdk: &'static Sdk,
    driver: &'a mut Driver,
    tally: &'a mut Tally,
}

impl Check<'_> {
    /// Puts every case to both.
    pub fn run(
        provider: &'static dyn Provider,
        driver: &mut Driver,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let settings = providers::examples(provider.settings());
        let (facts, sdk) = (provider.facts_for(&settings), tally.sdk);
        let mut check = Check { provider, settings, facts, sdk, driver, tally };
        let entropy = Counting::default();
        let made = || check.provider.sample_keys(&check.settings, &entropy);
        let (keys, other_keys) = (made(), made());
        let given = sdk.secrets.iter().map(|secret| Keys::shared(*secret));
        for keys in std::iter::once(keys.clone()).chain(given) {
            check.good(&keys)?;
        }
        check.spoiled(&keys, &other_keys)?;
        check.readdressed(&keys)?;
        check.off_time(&keys)?;
        check.joined(&keys, &other_keys)
    }

    /// What we sign, and what the SDK signs.
    fn good(&mut self, keys: &Keys) -> anyhow::Result<()> {
        for unsigned in self.requests() {
            let ours = self.signed(&unsigned, keys, now())?;
            self.expect(&format!("signed by us, {}", unsigned.name), &ours, keys, Must::Pass)?;
            if !self.sdk.signs {
                continue;
            }
            let theirs = self.signed_by_it(&unsigned, keys, now())?;
            self.expect(&format!("signed by it, {}", unsigned.name), &theirs, keys, Must::Pass)?;
        }
        Ok(())
    }

    /// What came to harm on its way, or is from somebody else.
    fn spoiled(&mut self, keys: &Keys, other_keys: &Keys) -> anyhow::Result<()> {
        let headers = &self.provider.signed_headers(&self.settings);
        let (url, left_alone) = (self.facts.signs_url, self.sdk.overlooks);
        let signed = spoil::Signed { headers, url, left_alone };
        let is_chosen = |unsigned: &Unsigned| {
            unsigned.name.starts_with("the sample") || unsigned.name == "a body: unicode"
        };
        // One id is as good as another here.
        let chosen = self.requests().into_iter().filter(is_chosen).step_by(requests::IDS.len());
        for unsigned in chosen.collect::<Vec<_>>() {
            let good = self.signed(&unsigned, keys, now())?;
            let name = &unsigned.name;
            self.expect(&format!("{name}, as signed"), &good, keys, Must::Pass)?;
            self.expect(&format!("{name}, another secret"), &good, other_keys, Must::Fail)?;
            for (what, bad) in spoil::every_way(&good, &signed) {
                self.expect(&format!("{name}, {what}"), &bad, keys, Must::Fail)?;
            }
        }
        Ok(())
    }

    /// Addresses that count as one, though they are not written alike.
    fn readdressed(&mut self, keys: &Keys) -> anyhow::Result<()> {
        for (signed, seen) in self.sdk.one_address {
            let mut unsigned = self.requests().swap_remove(0);
            unsigned.request.url = (*signed).to_owned();
            let mut request = self.signed(&unsigned, keys, now())?;
            request.url = (*seen).to_owned();
            self.expect(
                &format!("signed for {signed}, seen at {seen}"),
                &request,
                keys,
                Must::Pass,
            )?;
        }
        Ok(())
    }

    /// Times at both ends of the tolerance, where a time is signed.
    fn off_time(&mut self, keys: &Keys) -> anyhow::Result<()> {
        let unsigned = self.requests().swap_remove(0);
        let request = self.signed(&unsigned, keys, now())?;
        if !self.ours(&request, keys).is_ok_and(|signed_at| signed_at.is_some()) {
            return Ok(());
        }
        let near = self.facts.tolerance - CLOCK_MARGIN;
        let far = self.facts.tolerance + CLOCK_MARGIN;
        let mut cases = vec![
            ("a little old", now().before(near), Must::Pass),
            ("a little ahead", now().after(near), Must::Pass),
        ];
        if self.sdk.refuses != Refuses::None {
            cases.push(("too old", now().before(far), Must::Fail));
        }
        if self.sdk.refuses == Refuses::OldAndAhead {
            cases.push(("too far ahead", now().after(far), Must::Fail));
        }
        for (name, at, must) in cases {
            let ours = self.signed(&unsigned, keys, at)?;
            self.expect(&format!("signed by us, {name}"), &ours, keys, must)?;
            if self.sdk.signs {
                let theirs = self.signed_by_it(&unsigned, keys, at)?;
                self.expect(&format!("signed by it, {name}"), &theirs, keys, must)?;
            }
        }
        Ok(())
    }

    /// Two signatures in one header, as while a secret is replaced.
    fn joined(&mut self, keys: &Keys, other_keys: &Keys) -> anyhow::Result<()> {
        let Some(join) = self.sdk.joins else { return Ok(()) };
        let unsigned = self.requests().swap_remove(0);
        let header = self.provider.signed_headers(&self.settings).swap_remove(0).name;
        let at = now();
        let good = self.signed(&unsigned, keys, at)?;
        let other = self.signed(&unsigned, other_keys, at)?;
        let value = |request: &SignedRequest| {
            request.headers[&*header].to_str().map(str::to_owned).unwrap_or_default()
        };
        let (right, wrong) = (value(&good), value(&other));
        for (name, value, must) in [
            ("the first of two signatures fits", join(&right, &wrong), Must::Pass),
            ("the second of two signatures fits", join(&wrong, &right), Must::Pass),
            ("neither of two signatures fits", join(&wrong, &wrong), Must::Fail),
        ] {
            let mut request = good.clone();
            request.set(&header, &value)?;
            self.expect(name, &request, keys, must)?;
        }
        Ok(())
    }

    fn requests(&self) -> Vec<Unsigned> {
        let mut all = requests::all(self.provider, now());
        all.retain(|unsigned| self.sdk.takes_empty || !unsigned.request.body.is_empty());
        all
    }

    fn signed(
        &self,
        unsigned: &Unsigned,
        keys: &Keys,
        at: Timestamp,
    ) -> anyhow::Result<SignedRequest> {
        let mut request = unsigned.request.clone();
        self.provider.sign(&mut request, &keys.signs, &self.settings, unsigned.id, at)?;
        Ok(request)
    }

    fn signed_by_it(
        &mut self,
        unsigned: &Unsigned,
        keys: &Keys,
        at: Timestamp,
    ) -> anyhow::Result<SignedRequest> {
        let mut request = unsigned.request.clone();
        self.driver.sign(self.sdk, &mut request, &keys.signs, unsigned.id, at.as_secs())?;
        Ok(request)
    }

    /// When it was signed, if that is known; or why we refuse it.
    fn ours(&self, request: &SignedRequest, keys: &Keys) -> Result<Option<Timestamp>, String> {
        let check = providers::Check {
            secrets: &[&keys.verifies],
            settings: &self.settings,
            now: now(),
            tolerance: self.facts.tolerance,
        };
        let verified = self.provider.verify(&request.as_request(), &check);
        verified.map(|verified| verified.signed_at).map_err(|refusal| refusal.to_string())
    }

    fn expect(
        &mut self,
        case: &str,
        request: &SignedRequest,
        keys: &Keys,
        must: Must,
    ) -> anyhow::Result<()> {
        let ours = self.ours(request, keys).map(|_| ());
        let verdict = self.driver.verify(self.sdk, request, &keys.verifies)?;
        let theirs = if verdict.accepted { Ok(()) } else { Err(verdict.why) };
        let right = |said: &Result<(), String>| said.is_ok() == (must == Must::Pass);
        if right(&ours) && right(&theirs) {
            self.tally.agreed += 1;
        } else {
            let (sdk, provider) = (self.sdk, self.provider.name());
            let (ours, theirs) = (shown(&ours), shown(&theirs));
            self.tally.disagreements.push(format!(
                "{sdk}, {provider}: {case}: {must}, but by us it is {ours}, by the SDK {theirs}"
            ));
        }
        Ok(())
    }
}

/// In one line: some SDKs explain themselves at length.
fn shown(said: &Result<(), String>) -> String {
    match said.as_ref().map_err(|why| why.lines().next()) {
        Ok(()) => "accepted".to_owned(),
        Err(Some(why)) => format!("refused ({why})"),
        Err(None) => "refused".to_owned(),
    }
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_secs(since.as_secs() as i64)
}

/// Bytes that count up: keys differ from each other and are the same in every run.
#[derive(Default)]
pub struct Counting(AtomicU8);

impl Entropy for Counting {
    fn fill(&self, buffer: &mut [u8]) {
        buffer.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_shown_in_one_line() {
        assert_eq!(shown(&Ok(())), "accepted");
        assert_eq!(shown(&Err(String::new())), "refused");
        assert_eq!(shown(&Err("too old\n\nRead more".to_owned())), "refused (too old)");
    }
}
