//! A program that asks the SDKs of one language.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use wakepost_providers::SignedRequest;

use super::sdks::Sdk;
use crate::asked::Asked;

/// The program.
pub struct Driver(Asked);

/// What an SDK says of a request.
pub struct Verdict {
    /// Whether it accepts it.
    pub accepted: bool,
    /// Why not, in its words.
    pub why: String,
}

#[derive(Serialize)]
struct Question<'a> {
    ask: &'static str,
    sdk: &'a str,
    secret: &'a str,
    id: &'a str,
    time: i64,
    url: &'a str,
    headers: BTreeMap<&'a str, &'a str>,
    body: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Answer {
    version: Option<String>,
    accepted: bool,
    why: String,
    signed: Option<Signed>,
}

#[derive(Deserialize)]
struct Signed {
    url: Option<String>,
    headers: BTreeMap<String, String>,
}

impl Driver {
    /// Starts it.
    pub fn start(program: Command) -> anyhow::Result<Driver> {
        Asked::start(program).map(Driver)
    }

    /// The SDK's version, as installed.
    pub fn version(&mut self, sdk: &Sdk) -> anyhow::Result<String> {
        let nothing = SignedRequest::post("", "");
        let answer = self.ask(&question("version", sdk, &nothing, "", "", 0)?)?;
        answer.version.context("it did not say its version")
    }

    /// Whether the SDK accepts the request, by its own clock.
    pub fn verify(
        &mut self,
        sdk: &Sdk,
        request: &SignedRequest,
        secret: &str,
    ) -> anyhow::Result<Verdict> {
        let answer = self.ask(&question("verify", sdk, request, secret, "", 0)?)?;
        Ok(Verdict { accepted: answer.accepted, why: answer.why })
    }

    /// Has the SDK sign the request.
    pub fn sign(
        &mut self,
        sdk: &Sdk,
        request: &mut SignedRequest,
        secret: &str,
        id: &str,
        time: i64,
    ) -> anyhow::Result<()> {
        let answer = self.ask(&question("sign", sdk, request, secret, id, time)?)?;
        let signed = answer.signed.with_context(|| format!("it did not sign: {}", answer.why))?;
        request.url = signed.url.unwrap_or_else(|| std::mem::take(&mut request.url));
        for (name, value) in &signed.headers {
            request.set(name, value)?;
        }
        Ok(())
    }

    fn ask(&mut self, question: &Question<'_>) -> anyhow::Result<Answer> {
        self.0.ask(question)
    }
}

fn question<'a>(
    ask: &'static str,
    sdk: &'a Sdk,
    request: &'a SignedRequest,
    secret: &'a str,
    id: &'a str,
    time: i64,
) -> anyhow::Result<Question<'a>> {
    let headers = request.headers.iter().map(|(name, value)| Ok((name.as_str(), value.to_str()?)));
    Ok(Question {
        ask,
        sdk: sdk.package,
        secret,
        id,
        time,
        url: &request.url,
        headers: headers.collect::<anyhow::Result<_>>()?,
        body: STANDARD.encode(&request.body),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk_check::sdks::SDKS;

    /// A program that answers every line with this one.
    fn program(answer: &str) -> Driver {
        let mut command = Command::new("sh");
        command.args(["-c", "while read -r line; do echo \"$0\"; done", answer]);
        Driver::start(command).unwrap()
    }

    fn verdict(answer: &str) -> anyhow::Result<Verdict> {
        program(answer).verify(&SDKS[0], &SignedRequest::post("https://a.example/", "{}"), "s")
    }

    #[test]
    fn only_a_plain_yes_is_an_acceptance() {
        assert!(verdict(r#"{"accepted":true}"#).unwrap().accepted);
        let refused = verdict(r#"{"accepted":false,"why":"too old"}"#).unwrap();
        assert!(!refused.accepted && refused.why == "too old");
        assert!(!verdict("{}").unwrap().accepted);
        assert!(verdict("yes").is_err());
    }

    #[test]
    fn a_signature_is_put_into_the_request() {
        let mut request = SignedRequest::post("https://a.example/", "{}");
        let answer = r#"{"signed":{"url":"https://a.example/?x","headers":{"x-sig":"abc"}}}"#;
        program(answer).sign(&SDKS[0], &mut request, "s", "1", 2).unwrap();
        assert_eq!(request.url, "https://a.example/?x");
        assert_eq!(request.headers["x-sig"], "abc");
        assert!(program("{}").sign(&SDKS[0], &mut request, "s", "1", 2).is_err());
    }
}
