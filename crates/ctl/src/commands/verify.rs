//! `webhookctl verify`: why a saved request is accepted or refused, without a server.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::json;
use wakepost_domain::Timestamp;
use wakepost_providers::{
    Check, OtherSecret, Provider, Refusal, Settings, SignedRequest, explain, registry,
};

use super::sources::Setting;
use super::trigger::now;
use crate::exit::Usage;
use crate::output::{self, Cell, Fields, Paint};

/// The file holds a request as it went over the wire: a line with the method and the URL, the headers, an empty
/// line, the body. `webhookctl trigger --print` writes one; so do most proxies and request recorders.
#[derive(Args)]
pub struct Verify {
    /// Who sent it: github, stripe, slack …
    provider: String,
    /// The saved request; - reads standard input
    file: PathBuf,
    /// The signing secret; several are tried in turn
    #[arg(long, required = true, env = "WAKEPOST_SOURCE_SECRET", hide_env_values = true)]
    secret: Vec<String>,
    /// A setting of the source, where the check needs one
    #[arg(long = "set", value_name = "NAME=VALUE")]
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
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
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
        let mut fields = Vec::new();
        match &verdict {
            Ok(verified) => {
                fields.push(("verdict", "accepted".to_owned()));
                if secrets.len() > 1 {
                    fields.push(("secret", format!("the {}.", verified.secret_index + 1)));
                }
                if let Some(signed_at) = verified.signed_at {
                    fields.push(("signed at", signed_at.to_string()));
                }
                fields.extend(mapped(provider, &request, &settings));
            }
            Err(refusal) => {
                fields.push(("verdict", refusal.verdict().as_str().to_owned()));
                fields.push(("reason", refusal.to_string()));
                fields.extend(hint(provider, &request, &check, refusal));
            }
        }
        show(&fields, as_json)?;
        match verdict {
            Ok(_) => Ok(()),
            Err(_) => Err(anyhow::anyhow!("the request would be refused")),
        }
    }
}

fn mapped(
    provider: &dyn Provider,
    request: &SignedRequest,
    settings: &Settings,
) -> Vec<(&'static str, String)> {
    match provider.map(&request.as_request(), settings) {
        Err(reason) => vec![("mapping", format!("unmapped: {reason}"))],
        Ok(events) => events
            .into_iter()
            .flat_map(|event| {
                let id = event.dedup_key.unwrap_or_else(|| "the body's hash".to_owned());
                [("event", event.event_type), ("dedup key", id)]
            })
            .collect(),
    }
}

fn hint(
    provider: &dyn Provider,
    request: &SignedRequest,
    check: &Check<'_>,
    refusal: &Refusal,
) -> Option<(&'static str, String)> {
    let nobody: [OtherSecret<'_>; 0] = [];
    let found = explain(provider, &request.as_request(), check, refusal, &nobody);
    found.map(|text| ("hint", text))
}

fn show(fields: &[(&'static str, String)], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let object: serde_json::Map<String, serde_json::Value> =
            fields.iter().map(|(name, value)| (name.replace(' ', "_"), json!(value))).collect();
        return Ok(output::print(&serde_json::to_string_pretty(&object)?)?);
    }
    let mut shown = Fields::default();
    for (name, value) in fields {
        shown = shown.line(name, Cell::new(value));
    }
    Ok(output::print(&shown.render(Paint::for_stdout()))?)
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
            let error = read_request(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("not a saved request"), "{bad:?}: {error}");
        }
    }
}
