//! Why a signature fits nothing: a secret that is not this source's, or a body that was changed on its way.

use std::borrow::Cow;
use std::time::Duration;

use serde_json::Value;

use crate::provider::Provider;
use crate::request::Request;
use crate::verdict::{Check, Refusal, Why};

/// Bodies larger than this are not tried in other forms.
pub const EXPLAINED_BYTES_MAX: usize = 64 * 1024;
/// How many other secrets are tried.
const OTHERS_MAX: usize = 20;

/// A secret that is not live here, and whose it is.
#[derive(Clone, Copy)]
pub struct OtherSecret<'a> {
    /// The secret.
    pub secret: &'a str,
    /// What to call it: "the previous secret, which ended a day ago".
    pub what: &'a str,
}

/// What an operator should know about a refused request beyond the refusal, if anything can be found out.
pub fn explain(
    provider: &dyn Provider,
    request: &Request<'_>,
    check: &Check<'_>,
    refusal: &Refusal,
    others: &[OtherSecret<'_>],
) -> Option<String> {
    if *refusal != Refusal::Signature(Why::Mismatch) {
        return None;
    }
    let signed_by = |request: &Request<'_>, secrets: &[&str]| {
        // How old it is does not matter here.
        let check = Check { secrets, tolerance: Duration::MAX, ..*check };
        provider.verify(request, &check).is_ok()
    };
    for other in others.iter().take(OTHERS_MAX) {
        if signed_by(request, &[other.secret]) {
            return Some(format!("it fits {}", other.what));
        }
    }
    if request.body.len() > EXPLAINED_BYTES_MAX {
        return None;
    }
    let forms = forms(request.body);
    let fits =
        forms.iter().find(|(_, body)| signed_by(&Request { body, ..*request }, check.secrets));
    fits.map(|(what, _)| format!("it fits the body {what}: something on its way re-encoded it"))
}

/// The body as it may have been before a proxy or a framework wrote it anew.
fn forms(body: &[u8]) -> Vec<(&'static str, Cow<'_, [u8]>)> {
    let mut forms: Vec<(&'static str, Cow<'_, [u8]>)> = Vec::new();
    match body.strip_suffix(b"\n") {
        Some(rest) => {
            let rest = rest.strip_suffix(b"\r").unwrap_or(rest);
            forms.push(("without its last line break", rest.into()));
        }
        None => forms.push(("with a line break at its end", [body, b"\n"].concat().into())),
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return forms;
    };
    if text.contains("\r\n") {
        forms.push(("with Unix line breaks", text.replace("\r\n", "\n").into_bytes().into()));
    } else if text.contains('\n') {
        forms.push(("with Windows line breaks", text.replace('\n', "\r\n").into_bytes().into()));
    }
    if let Some(text) = text.strip_prefix('\u{feff}') {
        forms.push(("without its byte order mark", text.as_bytes().into()));
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let compact = value.to_string();
        let spaced = serde_json::to_string_pretty(&value).unwrap_or_default();
        // Where all is ASCII, escaping changes nothing: it must not be named before the plain form.
        let compact_escaped = escaped(&compact);
        forms.push(("as compact JSON", compact.into_bytes().into()));
        forms.push(("as indented JSON", spaced.into_bytes().into()));
        forms.push(("with non-ASCII characters escaped", escaped(text).into_bytes().into()));
        forms.push((
            "as compact JSON with non-ASCII characters escaped",
            compact_escaped.into_bytes().into(),
        ));
    }
    forms
}

/// JSON text with `\u` escapes for everything that is not ASCII.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
            continue;
        }
        let mut units = [0u16; 2];
        for unit in character.encode_utf16(&mut units) {
            text.push_str(&format!("\\u{unit:04x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;
    use crate::request::SignedRequest;
    use crate::settings::Settings;
    use crate::testing::NOW;

    fn explained(sent: &str, received: &str, secrets: &[&str]) -> Option<String> {
        let github = registry::find("github").unwrap();
        let mut request = SignedRequest::post("https://hooks.example/", sent);
        github.sign(&mut request, "ours", &Settings::new(), "1", NOW).unwrap();
        request.body = received.into();
        let settings = Settings::new();
        let tolerance = Duration::from_secs(300);
        let check = Check { secrets, settings: &settings, now: NOW, tolerance };
        let refusal = github.verify(&request.as_request(), &check).unwrap_err();
        let others = [
            OtherSecret { secret: "other", what: "the other one" },
            OtherSecret { secret: "ours", what: "ours" },
        ];
        let others = if secrets == ["ours"] { &others[..1] } else { &others[..] };
        explain(github, &request.as_request(), &check, &refusal, others)
    }

    #[test]
    fn another_secret_is_named() {
        assert_eq!(explained("{}", "{}", &["new"]).as_deref(), Some("it fits ours"));
    }

    #[test]
    fn a_body_that_was_written_anew_is_recognized() {
        for (sent, received, what) in [
            ("{\"a\":1}", "{\"a\":1}\n", "without its last line break"),
            ("{\"a\":1}\n", "{\"a\":1}", "with a line break at its end"),
            ("{\"a\":1}", "{ \"a\": 1 }", "as compact JSON"),
            ("{\n  \"a\": 1\n}", "{\"a\":1}", "as indented JSON"),
            ("{\"a\":\"\\u00e9\"}", "{\"a\":\"é\"}", "with non-ASCII characters escaped"),
            ("a\nb", "a\r\nb", "with Unix line breaks"),
            ("a\r\nb", "a\nb", "with Windows line breaks"),
            ("{}", "\u{feff}{}", "without its byte order mark"),
        ] {
            let said = explained(sent, received, &["ours"]).unwrap_or_default();
            assert!(said.contains(&format!(" {what}:")), "{sent:?} {received:?}: {said}");
        }
        assert_eq!(explained("{\"a\":1}", "{\"a\":2}", &["ours"]), None);
    }

    #[test]
    fn an_explanation_never_repeats_a_secret() {
        let said = explained("{}", "{}", &["new"]).unwrap();
        assert!(!said.contains("new"));
    }
}
