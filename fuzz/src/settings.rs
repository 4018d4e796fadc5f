//! What people set: templates, patterns, rules of redaction, schedules, the settings' file.

use http::{HeaderMap, Method};
use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::event_type::{doubts, fits, is_name, is_pattern};
use wakepost_domain::redaction::{REDACTED, Redaction};
use wakepost_domain::schedule::Recurrence;
use wakepost_providers::{Request, Template, registry};
use wakepost_server::config;

use crate::input::{Input, lines};

/// A template, headers up to an empty line, and a body.
pub fn templates(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Some(text) = input.text() else { return };
    let headers: HeaderMap = input.headers();
    let body = input.rest();
    let request = Request {
        method: &Method::POST,
        url: "https://h.example/",
        headers: &headers,
        body,
        fetched: None,
    };
    let provider = registry::find("generic").expect("the generic provider");
    for template in [Template::read("key", text), Template::pointer("key", text)] {
        let Ok(template) = template else { continue };
        assert!(template.pointers().all(|pointer| pointer.is_empty() || pointer.starts_with('/')));
        if let Some(filled) = template.fill(provider, &request, 0) {
            assert!(!filled.is_empty() && !filled.chars().any(char::is_control), "{filled:?}");
        }
    }
}

pub fn template_seeds() -> Vec<Vec<u8>> {
    let body = r#"{"ticket":{"id":7,"a/b":[true]},"name":"x"}"#;
    vec![
        lines(["{/ticket/id}-{header:x-id}", "x-id:9", "", body]),
        lines(["/ticket/a~1b/0", "", body]),
        lines(["{{/name}}", "", body]),
    ]
}

/// A pattern and a type of event; a schema.
pub fn patterns(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (Some(pattern), Some(name)) = (input.text(), input.text()) else { return };
    if is_name(name) {
        assert!(is_pattern(name) && fits(name, name), "{name}");
    }
    if is_pattern(pattern) && is_name(name) && fits(pattern, name) {
        let stem = pattern.trim_end_matches('*').trim_end_matches('.');
        let rest = name.strip_prefix(stem).expect("a type that fits begins like the pattern");
        assert!(stem.is_empty() || rest.is_empty() || rest.starts_with('.'), "{pattern} {name}");
    }
    if let Ok(schema) = serde_json::from_slice::<Value>(input.rest()) {
        assert!(doubts(&schema).len() <= 64);
    }
}

pub fn pattern_seeds() -> Vec<Vec<u8>> {
    let schema =
        r#"{"properties":{"amount":{"type":"number"},"a":{"items":{"properties":{"email":{}}}}}}"#;
    vec![
        lines(["invoice.*", "invoice.paid", schema]),
        lines(["*", "alert.fired", "{}"]),
        lines(["invoice.paid", "invoice.paid", "[]"]),
    ]
}

/// Rules up to an empty line, and a payload.
pub fn redaction(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let rules: Option<Vec<String>> =
        input.lines().into_iter().map(|line| String::from_utf8(line.to_vec()).ok()).collect();
    let Some(rules) = rules else { return };
    let Ok(redaction) = Redaction::read(&rules) else { return };
    let Ok(mut payload) = serde_json::from_slice::<Value>(input.rest()) else { return };
    let hidden = redaction.apply(&mut payload);
    for rule in rules.iter().filter(|rule| !rule.contains('*')) {
        let shown = payload.pointer(rule);
        assert!(shown.is_none_or(|value| *value == REDACTED), "{rule} shows {shown:?}");
        assert!(redaction.covers(rule), "{rule}");
    }
    let mut text = payload.to_string();
    hidden.hide(&mut text);
}

pub fn redaction_seeds() -> Vec<Vec<u8>> {
    let payload = r#"{"customer":{"email":"ada@example.com"},"items":[{"price":12},{"price":13}],"":{"/":1}}"#;
    vec![
        lines(["/customer/email", "/items/*/price", "", payload]),
        lines(["/~1", "/items/0", "//~1", "", payload]),
        lines(["/customer", "", "\"plain text\""]),
    ]
}

/// An expression, a zone and a moment.
pub fn cron(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (Some(cron), Some(zone), Some(at)) = (input.text(), input.text(), input.text()) else {
        return;
    };
    let Ok(recurrence) = Recurrence::parse(cron, zone) else { return };
    // The years that a server may live in.
    let at = Timestamp::from_secs(at.parse().unwrap_or(0i64).rem_euclid(253_370_000_000));
    let Some(next) = recurrence.next_after(at) else { return };
    assert!(next > at, "{next} is not after {at}");
    let later = recurrence.next_after(next);
    assert!(later.is_none_or(|later| later > next), "{later:?} is not after {next}");
    let latest = recurrence.latest(next, next);
    assert_eq!(latest, next);
}

pub fn cron_seeds() -> Vec<Vec<u8>> {
    vec![
        lines(["30 9 * * mon-fri", "Europe/Berlin", "1711846800"]),
        lines(["*/15 0-6/2 1,15 * *", "America/New_York", "1730610000"]),
        lines(["0 0 2 29 2 *", "Australia/Lord_Howe", "1700000000"]),
        lines(["@daily", "UTC", "0"]),
    ]
}

/// The settings' file.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = config::load_text(text) {
        assert!(!error.to_string().is_empty());
    }
}

pub fn config_seeds() -> Vec<Vec<u8>> {
    vec![
        lines([
            "listen = \"127.0.0.1:8787\"",
            "allow_private = [\"10.0.0.0/8\"]",
            "[retention]",
            "bodies_days = 3",
            "[alerts]",
            "success_warning = 99.5",
            "[exec.triage]",
            "command = [\"python3\", \"agent.py\"]",
        ]),
        lines(["lisen = 1"]),
        lines(["retention = 1"]),
    ]
}
