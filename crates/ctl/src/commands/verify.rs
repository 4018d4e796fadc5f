//! `webhookctl verify`: why a saved request is accepted or refused, without a server.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Serialize;
use wakepost_domain::Timestamp;
use wakepost_providers::{
    Check, OtherSecret, Provider, Refusal, Settings, SignedRequest, explain, registry,
};

use super::sources::Setting;
use super::trigger::now;
use crate::exit::Usage;
use crate::output::{self, Cell, Fields, Paint};

const NOTES: &str = "The file holds a request as it went over the wire: a line with the method and the URL, the \
                     headers, an empty line, the body. `webhookctl trigger --print` writes one; so do most \
                     proxies and request recorders. Exit code: 0 accepted, 1 refused, 2 wrong usage.";

#[derive(Args)]
#[command(after_help = NOTES)]
pub struct Verify {
    /// Who sent it: github, stripe, slack …
    provider: String,
    /// The saved request; - reads standard input
    file: PathBuf,
    /// The signing secret; several are tried in turn
    #[arg(long, required = true, env = "WAKEPOST_SOURCE_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// A setting of the source, where the check needs one; may be repeated
    #[arg(long = "setting", value_name = "NAME=TEXT")]
    settings: Vec<Setting>,
    /// The address that was registered at the provider, where that is signed
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    /// When it was received; by default now
    #[arg(long, value_name = "RFC3339")]
    at: Option<jiff::Timestamp>,
    /// How far a signed time may be off
    #[arg(long, value_name = "SECONDS")]
    tolerance_s: Option<u64>,
}

impl Verify {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let provider = registry::find(&self.provider)
            .ok_or_else(|| Usage(format!("there is no provider {:?}", self.provider)))?;
        let settings: Settings = self
            .settings
            .iter()
            .map(|setting| (setting.name.clone(), setting.value.clone()))
            .collect();
        let mut request = read_request(&read_file(&self.file)?)?;
        if let Some(url) = &self.public_url {
            request.url.clone_from(url);
        }
        let secrets: Vec<&str> = self.secret.iter().map(String::as_str).collect();
        let at = self.at.map_or_else(now, |at| Timestamp::from_millis(at.as_millisecond()));
        let tolerance = self.tolerance_s.map(Duration::from_secs);
        let check = Check {
            secrets: &secrets,
            settings: &settings,
            now: at,
            tolerance: tolerance.unwrap_or(provider.facts_for(&settings).tolerance),
        };
        let verdict = provider.verify(&request.as_request(), &check);
        let mut said = Said::default();
        match &verdict {
            Ok(verified) => {
                said.verdict = "accepted";
                said.secret = (secrets.len() > 1)
                    .then(|| format!("{} of {}", verified.secret_index + 1, secrets.len()));
                said.signed_at = verified.signed_at.map(|at| at.to_string());
                said.map(provider, &request, &settings);
            }
            Err(refusal) => {
                said.verdict = refusal.verdict().as_str();
                said.reason = Some(refusal.to_string());
                said.hint = hint(provider, &request, &check, refusal);
            }
        }
        said.print(as_json)?;
        match verdict {
            Ok(_) => Ok(()),
            Err(_) => Err(anyhow::anyhow!("the request would be refused")),
        }
    }
}

/// What there is to say of a request.
#[derive(Default, Serialize)]
struct Said {
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unmapped: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<SaidEvent>,
}

/// One event that it tells of.
#[derive(Serialize)]
struct SaidEvent {
    event: String,
    /// `None`: the body's hash.
    dedup_key: Option<String>,
}

impl Said {
    fn map(&mut self, provider: &dyn Provider, request: &SignedRequest, settings: &Settings) {
        match provider.map(&request.as_request(), settings) {
            Err(reason) => self.unmapped = Some(reason.to_string()),
            Ok(events) => {
                let events = events.into_iter();
                self.events = events
                    .map(|event| SaidEvent { event: event.event_type, dedup_key: event.dedup_key })
                    .collect();
            }
        }
    }

    fn print(&self, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            let text = serde_json::to_string(self)?;
            return Ok(output::print(&output::json::pretty(&text)?)?);
        }
        let text = |text: &Option<String>| text.as_deref().map(Cell::new);
        let mut shown = Fields::default()
            .line("verdict", Cell::new(self.verdict))
            .line_if("secret", text(&self.secret))
            .line_if("signed at", text(&self.signed_at))
            .line_if("reason", text(&self.reason))
            .line_if("hint", text(&self.hint))
            .line_if("unmapped", text(&self.unmapped));
        for event in &self.events {
            let dedup_key = event.dedup_key.as_deref().unwrap_or("the body's hash");
            shown = shown
                .line("event", Cell::new(&event.event))
                .line("dedup key", Cell::new(dedup_key));
        }
        Ok(output::print(&shown.render(Paint::for_stdout()))?)
    }
}

fn hint(
    provider: &dyn Provider,
    request: &SignedRequest,
    check: &Check<'_>,
    refusal: &Refusal,
) -> Option<String> {
    let nobody: [OtherSecret<'_>; 0] = [];
    explain(provider, &request.as_request(), check, refusal, &nobody)
}

fn read_file(path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(bytes);
    }
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A request as it went over the wire. The body is taken as it stands.
fn read_request(bytes: &[u8]) -> anyhow::Result<SignedRequest> {
    let malformed = |what: &str| Usage(format!("the file is not a saved request: {what}"));
    let (head, body) = split_head(bytes).ok_or_else(|| malformed("no empty line after headers"))?;
    let head = std::str::from_utf8(head).map_err(|_| malformed("its head is not text"))?;
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let mut words = first.split_whitespace();
    let method: Method = words
        .next()
        .and_then(|word| word.parse().ok())
        .filter(|method: &Method| method.as_str().bytes().all(|byte| byte.is_ascii_uppercase()))
        .ok_or_else(|| malformed("its first line must begin with a method such as POST"))?;
    let url = words.next().ok_or_else(|| malformed("its first line has no URL"))?.to_owned();
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) =
            line.split_once(':').ok_or_else(|| malformed("a header line has no colon"))?;
        let name = HeaderName::try_from(name.trim())
            .map_err(|_| malformed("a header's name is malformed"))?;
        let value = HeaderValue::try_from(value.trim())
            .map_err(|_| malformed("a header's value is malformed"))?;
        headers.append(name, value);
    }
    Ok(SignedRequest { method, url, headers, body: body.to_vec() })
}

fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let find = |gap: &[u8]| bytes.windows(gap.len()).position(|window| window == gap);
    let (at, gap) = match (find(b"\r\n\r\n"), find(b"\n\n")) {
        (Some(windows), Some(unix)) if unix < windows => (unix, 2),
        (Some(windows), _) => (windows, 4),
        (None, Some(unix)) => (unix, 2),
        (None, None) => return None,
    };
    Some((&bytes[..at], &bytes[at + gap..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saved_request_is_read_with_its_body_as_it_stands() {
        for gap in ["\n", "\r\n"] {
            let text = format!("POST /in/x?a=b HTTP/1.1{gap}X-A: 1{gap}x-a:2{gap}{gap}line\r\n\n");
            let request = read_request(text.as_bytes()).unwrap();
            assert_eq!((request.method.as_str(), request.url.as_str()), ("POST", "/in/x?a=b"));
            assert_eq!(request.headers.get_all("x-a").iter().count(), 2);
            assert_eq!(request.body, b"line\r\n\n");
        }
    }

    #[test]
    fn what_is_no_request_is_refused_in_words() {
        for bad in ["", "hello", "POST /x\nno colon\n\n", "post /x\n\n", "POST\n\n", "X-A: 1\n\n{}"]
        {
            let error = read_request(bad.as_bytes()).err().expect("it is refused").to_string();
            assert!(error.contains("not a saved request"), "{bad:?}: {error}");
        }
    }
}
