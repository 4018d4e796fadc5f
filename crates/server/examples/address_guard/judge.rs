//! What the guard makes of addresses and URLs, asked line by line.

use std::io::{BufRead, Write, stdin, stdout};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use wakepost_server::outbound::{AddressPolicy, Target, address};

use crate::corpus::{self, Corpus};

#[derive(Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case")]
enum Question {
    /// What is in the corpus.
    Corpus,
    /// Which networks have a word of their own.
    Networks,
    /// Whether these may be reached.
    Addresses { addresses: Vec<IpAddr> },
    /// Where these lead.
    Urls { urls: Vec<String> },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Corpus {
        addresses: Vec<IpAddr>,
        urls: Vec<String>,
    },
    Networks {
        networks: Vec<String>,
    },
    /// The word of each refusal; nothing where there is none.
    Addresses {
        refusals: Vec<Option<&'static str>>,
    },
    Urls {
        read: Vec<Read>,
    },
}

/// Where a URL leads, or why it leads nowhere.
#[derive(Serialize)]
#[serde(untagged)]
enum Read {
    Leads { host: String, port: u16 },
    Refused { refusal: String },
}

/// Answers until the input ends.
pub fn run() -> anyhow::Result<()> {
    let mut answers = stdout().lock();
    for line in stdin().lock().lines() {
        let answer = answer(serde_json::from_str(&line?)?);
        serde_json::to_writer(&mut answers, &answer)?;
        answers.write_all(b"\n")?;
        answers.flush()?;
    }
    Ok(())
}

fn answer(question: Question) -> Answer {
    match question {
        Question::Corpus => {
            let Corpus { urls, addresses, harmless, .. } = Corpus::read();
            let hostile = addresses.into_iter().map(|hostile| hostile.ip);
            let addresses: Vec<_> = hostile.chain(harmless.addresses).collect();
            let written = addresses.iter().map(|ip| format!("https://{}/", corpus::host(*ip)));
            let urls = urls.into_iter().map(|hostile| hostile.url).chain(harmless.urls);
            Answer::Corpus { urls: urls.chain(written).collect(), addresses }
        }
        Question::Networks => {
            Answer::Networks { networks: address::networks().map(|net| net.to_string()).collect() }
        }
        Question::Addresses { addresses } => {
            Answer::Addresses { refusals: addresses.into_iter().map(address::refusal).collect() }
        }
        Question::Urls { urls } => {
            Answer::Urls { read: urls.iter().map(|url| read(url)).collect() }
        }
    }
}

fn read(url: &str) -> Read {
    match Target::parse(url, &AddressPolicy::default()) {
        Ok(target) => Read::Leads { host: target.host().to_string(), port: target.port() },
        Err(refusal) => Read::Refused { refusal: refusal.to_string() },
    }
}
