//! `webhookctl verify`: what it says of a saved request, without a server.

mod program;
mod signing;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use program::{Ran, bare, webhookctl};
use serde_json::{Value, json};
use signing::{PUBLIC_URL, keys, provider, settings};
use stand_in::{StandIn, json_answer};
use wakepost_domain::Timestamp;
use wakepost_providers::{Settings, SignedRequest, registry};

/// 2026-11-15T09:00:00Z
const SIGNED_AT: Timestamp = Timestamp::from_secs(1_794_733_200);
const ISSUE: &str = r#"{"action":"opened","issue":{"number":7}}"#;

/// A request as it went over the wire, signed with `ours`; `received` is its body afterwards.
fn saved(name: &str, sent: &str, received: &str) -> String {
    let mut request = SignedRequest::post(PUBLIC_URL, sent);
    if name == "github" {
        request.set("x-github-event", "issues").expect("a header");
        request.set("x-github-delivery", "d-1").expect("a header");
    }
    provider(name)
        .sign(&mut request, "ours", &Settings::new(), "d-1", SIGNED_AT)
        .expect("it can be signed");
    let mut text = format!("POST {PUBLIC_URL} HTTP/1.1\r\n");
    for (name, value) in &request.headers {
        text.push_str(&format!("{name}: {}\r\n", value.to_str().expect("text")));
    }
    text + "\r\n" + received
}

fn verify<const N: usize>(name: &str, request: &str, flags: [&str; N]) -> Ran {
    bare().args(["verify", name, "-"]).args(flags).stdin(request).run()
}

#[test]
fn a_good_request_is_accepted_and_mapped() {
    let ran = verify("github", &saved("github", ISSUE, ISSUE), ["--secret", "ours"]);
    ran.ends_with(0);
    assert_eq!(
        ran.stdout,
        "verdict         accepted\n\
         event           issues.opened\n\
         dedup key       d-1\n"
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn a_wrong_secret_is_said_and_ends_with_1() {
    let ran = verify("github", &saved("github", ISSUE, ISSUE), ["--secret", "other"]);
    ran.ends_with(1);
    assert!(ran.stdout.starts_with("verdict         bad_signature\nreason          the signature"));
    assert!(!ran.stdout.contains("hint"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "error: the request would be refused\n");
    assert!(!ran.stdout.contains("other\n"), "the secret is not repeated");
}

#[test]
fn a_stale_request_is_judged_by_the_time_it_was_received() {
    let request = saved("stripe", r#"{"id":"evt_1","type":"x"}"#, r#"{"id":"evt_1","type":"x"}"#);
    let at = |at: &str| verify("stripe", &request, ["--secret", "ours", "--at", at]);
    at("2026-11-15T09:05:00Z").ends_with(0);
    let ran = at("2026-11-15T09:05:01Z");
    ran.ends_with(1);
    assert_eq!(
        ran.stdout,
        "verdict         stale\n\
         reason          the request was signed 301.000 s ago, more than the 300 s allowed\n"
    );
    let ran = at("2026-11-15T08:00:00Z");
    ran.ends_with(1);
    assert!(ran.stdout.contains("ahead of our clock"));
    let flags = ["--secret", "ours", "--at", "2026-11-15T09:10:00Z", "--tolerance-s", "600"];
    let ran = verify("stripe", &request, flags);
    ran.ends_with(0);
    assert!(ran.stdout.contains("signed at       2026-11-15T09:00:00"), "{}", ran.stdout);
}

#[test]
fn a_body_that_was_written_anew_is_recognized() {
    let spaced = "{\n  \"action\": \"opened\",\n  \"issue\": {\n    \"number\": 7\n  }\n}";
    let ran = verify("github", &saved("github", ISSUE, spaced), ["--secret", "ours"]);
    ran.ends_with(1);
    assert!(
        ran.stdout.contains(
            "hint            it fits the body as compact JSON: something on its way re-encoded it\n"
        ),
        "{}",
        ran.stdout
    );
}

#[test]
fn of_several_secrets_the_one_that_fits_is_named() {
    let flags = ["--secret", "old", "--secret", "ours"];
    let ran = verify("github", &saved("github", ISSUE, ISSUE), flags);
    ran.ends_with(0);
    assert!(ran.stdout.contains("secret          2 of 2\n"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("ours"));
}

#[test]
fn json_says_the_same() {
    let ran = verify("github", &saved("github", ISSUE, ISSUE), ["--secret", "ours", "--json"]);
    ran.ends_with(0);
    let said: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(
        said,
        json!({"verdict": "accepted", "events": [{"event": "issues.opened", "dedup_key": "d-1"}]})
    );
    let ran = verify("github", &saved("github", ISSUE, "{}"), ["--json", "--secret", "ours"]);
    ran.ends_with(1);
    let said: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    assert_eq!(said["verdict"], "bad_signature");
    assert!(said["reason"].as_str().is_some_and(|reason| reason.contains("fits none")));
}

#[test]
fn settings_are_given_as_to_a_source() {
    let generic = provider("generic");
    let set = json!({"header": "X-Sig", "prefix": "v="});
    let mut request = SignedRequest::post(PUBLIC_URL, "{}");
    let set = set.as_object().expect("settings");
    generic.sign(&mut request, "ours", set, "1", SIGNED_AT).expect("it can be signed");
    let signature = request.headers["x-sig"].to_str().expect("text").to_owned();
    let text = format!("POST {PUBLIC_URL}\nX-Sig: {signature}\n\n{{}}");
    let flags = ["--secret", "ours", "--setting", "header=X-Sig", "--setting", "prefix=v="];
    verify("generic", &text, flags).ends_with(0);
    verify("generic", &text, ["--secret", "ours", "--set", "header=X-Sig"]).ends_with(2);
}

#[test]
fn what_cannot_be_judged_has_its_own_codes() {
    let good = saved("github", ISSUE, ISSUE);
    let ran = verify("githubb", &good, ["--secret", "ours"]);
    ran.ends_with(2);
    assert!(ran.stderr.contains("there is no provider \"githubb\""));
    verify("github", &good, []).ends_with(2);
    let ran = verify("github", "hello \u{1b}[2J", ["--secret", "ours"]);
    ran.ends_with(2);
    assert!(ran.stderr.contains("not a saved request"));
    let ran = bare().args(["verify", "github", "no/such/file", "--secret", "ours"]).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("cannot read no/such/file"));
}

#[test]
fn nothing_in_a_request_can_steer_the_terminal() {
    let body = r#"{"action":"\u001b[2J\u202e"}"#;
    for flag in ["--secret=ours", "--secret=other", "--json"] {
        let text = saved("github", body, body);
        let ran = verify("github", &text, ["--secret=old", flag]);
        let said = ran.stdout + &ran.stderr;
        assert!(!said.contains(['\u{1b}', '\u{202e}']), "{said:?}");
    }
    let ran = bare().args(["verify", "github", "no\u{1b}[2J", "--secret", "ours"]).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("cannot read no\\u{1b}[2J"), "{}", ran.stderr);
}

#[test]
fn what_trigger_prints_verifies_for_every_provider() {
    for provider in registry::all() {
        let name = provider.name();
        let known = settings(*provider);
        let source = json!({"id": "src_1", "provider": name, "ingest_url": PUBLIC_URL,
            "settings": known});
        let server = StandIn::start(move |_| json_answer(200, source.clone()));
        let keys = keys(*provider);
        let printed = webhookctl(&server.url)
            .args(["trigger", name, provider.samples()[0].event_type, "--source", "src_1"])
            .args([&format!("--secret={}", keys.signs), "--print"])
            .run();
        printed.ends_with(0);
        let mut run = bare().args(["verify", name, "-", &format!("--secret={}", keys.verifies)]);
        for (setting, value) in &settings(*provider) {
            run = run.args(["--setting", &format!("{setting}:={value}")]);
        }
        let ran = run.stdin(&printed.stdout).run();
        ran.ends_with(0);
        assert!(ran.stdout.contains("verdict         accepted\n"), "{name}: {}", ran.stdout);
    }
}
