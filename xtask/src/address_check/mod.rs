//! Another implementation beside our address guard: the same addresses and URLs, put to both.
//!
//! The other one is npm's ipaddr.js, with Node's own reader of URLs (`xtask/oracle`); ours is asked through
//! `crates/server/examples/address_guard`. `samples` makes what is asked: the corpus, both sides of every edge of every
//! network that either of them knows, and much at random. `differences` knows where they differ on purpose.

mod differences;
mod samples;

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};

use crate::asked::Asked;
use crate::pinned;
use differences::Differences;
use samples::Chance;

/// How many addresses or URLs are asked for at once.
const QUESTION_MAX: usize = 5_000;
/// How many disagreements are shown: one mistake makes many.
const SHOWN_MAX: usize = 10;

/// How much is asked at random.
#[derive(Clone, Copy)]
pub struct Size {
    /// Addresses.
    pub addresses: usize,
    /// URLs, each a little spoiled.
    pub urls: usize,
}

#[derive(Serialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Question<'a> {
    Version,
    Corpus,
    Networks,
    Addresses { addresses: &'a [IpAddr] },
    Urls { urls: &'a [String] },
}

#[derive(Deserialize)]
struct Version {
    version: String,
}

#[derive(Deserialize)]
struct Corpus {
    addresses: Vec<IpAddr>,
    urls: Vec<String>,
}

#[derive(Deserialize)]
struct Networks {
    #[serde(deserialize_with = "networks")]
    networks: Vec<IpNet>,
}

#[derive(Deserialize)]
struct Refusals {
    refusals: Vec<Option<String>>,
}

#[derive(Deserialize)]
struct Reads {
    read: Vec<Read>,
}

/// Where a URL leads, or why it leads nowhere.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
enum Read {
    Leads { host: String, port: u16 },
    Refused { refusal: String },
}

/// Compares the guard in this program with the other implementation, and says what was compared.
pub fn run(guard: &Path, size: Size, seed: u64) -> anyhow::Result<()> {
    let mut judge = Command::new(guard);
    judge.arg("judge");
    println!("seed {seed}");
    let mut ours = Asked::start(judge)?;
    let mut theirs = Asked::start(pinned::node("oracle")?)?;
    let Version { version } = theirs.ask(&Question::Version).context("asking ipaddr.js")?;
    let mut chance = Chance::new(seed);
    let corpus: Corpus = ours.ask(&Question::Corpus).context("asking the guard")?;

    let mut networks = ours.ask::<Networks>(&Question::Networks)?.networks;
    networks.extend(theirs.ask::<Networks>(&Question::Networks)?.networks);
    let mut addresses = corpus.addresses;
    addresses.extend(samples::edges(&networks));
    addresses.extend((0..size.addresses).map(|_| samples::address(&mut chance, &networks)));
    let mut differences = Differences::read()?;
    compare_addresses(&mut ours, &mut theirs, &addresses, &mut differences)?;

    let spoiled = (0..size.urls).map(|_| samples::spoiled(&mut chance, &corpus.urls));
    let urls: Vec<_> = spoiled.collect::<Vec<_>>().into_iter().chain(corpus.urls).collect();
    let led = compare_urls(&mut ours, &mut theirs, &urls)?;
    println!("ipaddr.js {version} and our guard agree on {} addresses, but for:", addresses.len());
    print!("{differences}");
    println!("of {} URLs {led} lead somewhere, all to the same host and port for Node", urls.len());
    Ok(())
}

fn compare_addresses(
    ours: &mut Asked,
    theirs: &mut Asked,
    addresses: &[IpAddr],
    differences: &mut Differences,
) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for asked in addresses.chunks(QUESTION_MAX) {
        let question = Question::Addresses { addresses: asked };
        let our: Refusals = ours.ask(&question).context("asking the guard")?;
        let their: Refusals = theirs.ask(&question).context("asking ipaddr.js")?;
        let counts = [our.refusals.len(), their.refusals.len()];
        ensure!(counts == [asked.len(); 2], "{} addresses, {counts:?} verdicts", asked.len());
        for ((ip, our), their) in asked.iter().zip(our.refusals).zip(their.refusals) {
            if our.is_some() != their.is_some() && !differences.knows(*ip, &our, &their) {
                wrong.push(format!("{ip}: by us {}, by it {}", word(&our), word(&their)));
            }
        }
    }
    agreed("addresses", &wrong)?;
    let unseen = differences.unseen();
    ensure!(unseen.is_empty(), "listed differences that are none: {}", unseen.join("; "));
    Ok(())
}

/// What leads somewhere for us must lead there for the other, too. The other way round need not be: we refuse text that
/// Node repairs. Returns how many lead somewhere.
fn compare_urls(ours: &mut Asked, theirs: &mut Asked, urls: &[String]) -> anyhow::Result<usize> {
    let (mut led, mut wrong) = (0, Vec::new());
    for asked in urls.chunks(QUESTION_MAX) {
        let question = Question::Urls { urls: asked };
        let our: Reads = ours.ask(&question).context("asking the guard")?;
        let their: Reads = theirs.ask(&question).context("asking Node")?;
        let counts = [our.read.len(), their.read.len()];
        ensure!(counts == [asked.len(); 2], "{} URLs, {counts:?} verdicts", asked.len());
        for ((url, our), their) in asked.iter().zip(our.read).zip(their.read) {
            if matches!(our, Read::Leads { .. }) {
                led += 1;
                if our != their {
                    wrong.push(format!("{url:?}: by us {our:?}, by it {their:?}"));
                }
            }
        }
    }
    agreed("URLs", &wrong)?;
    Ok(led)
}

fn agreed(what: &str, wrong: &[String]) -> anyhow::Result<()> {
    for disagreement in wrong.iter().take(SHOWN_MAX) {
        eprintln!("{disagreement}");
    }
    ensure!(wrong.is_empty(), "the guard and its oracle disagree on {} {what}", wrong.len());
    Ok(())
}

/// The word of a verdict.
fn word(refusal: &Option<String>) -> &str {
    refusal.as_deref().unwrap_or("allowed")
}

fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpNet>, D::Error> {
    let texts = Vec::<String>::deserialize(from)?;
    texts.iter().map(|text| text.parse().map_err(serde::de::Error::custom)).collect()
}
