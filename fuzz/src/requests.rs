//! What providers send: signatures and mappers of all of them.
//!
//! A provider's name, headers up to an empty line, and a body; after a mark, what was fetched because of it. `generic` is
//! all settings: they stand before its headers, as JSON on a line.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use http::{HeaderMap, Method};
use wakepost_domain::Timestamp;
use wakepost_domain::ports::Entropy;
use wakepost_providers::{
    Check, Keys, Provider, Request, Settings, SignedRequest, examples, explain, registry,
};

use crate::input::Input;

const URL: &str = "https://hooks.example.com/in/src_1";
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
const TOLERANCE: Duration = Duration::from_secs(300);
const ID: &str = "01HF7YAT00";
/// What stands between the body and what was fetched.
const FETCHED: &[u8] = b"\n\x1e\n";

/// A provider as a source has it.
#[derive(Clone)]
struct Known {
    provider: &'static dyn Provider,
    settings: Settings,
    keys: Keys,
}

static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let known = registry::all().iter().map(|provider| {
        let settings = examples(provider.settings());
        let keys = provider.sample_keys(&settings, &Counted);
        Known { provider: *provider, settings, keys }
    });
    known.collect()
});

/// The same keys in every run.
struct Counted;

impl Entropy for Counted {
    fn fill(&self, buffer: &mut [u8]) {
        for (byte, count) in buffer.iter_mut().zip(7u8..) {
            *byte = count.wrapping_mul(151);
        }
    }
}

pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let name = input.text().unwrap_or_default();
    let Some(known) = KNOWN.iter().find(|known| known.provider.name() == name) else { return };
    let known = match name {
        "generic" => set(known, input.line()).map(Cow::Owned),
        _ => Some(Cow::Borrowed(known)),
    };
    let Some(known) = known else { return };
    let headers = input.headers();
    let rest = input.rest();
    let mark = rest.windows(FETCHED.len()).position(|part| part == FETCHED);
    let (body, fetched) = match mark {
        Some(at) => (&rest[..at], Some(&rest[at + FETCHED.len()..])),
        None => (rest, None),
    };
    foreign(&known, &headers, body);
    signed(&known, headers, body, fetched);
}

/// The same provider with these settings, if a source may have them.
fn set(known: &Known, settings: &[u8]) -> Option<Known> {
    let settings: Settings = serde_json::from_slice(settings).ok()?;
    let keys = known.provider.sample_keys(&settings, &Counted);
    let checked = known.provider.check_config(Some(&keys.verifies), &settings);
    let missing = checked.ok()?;
    missing.is_empty().then_some(Known { provider: known.provider, settings, keys })
}

/// As anybody could send it. The seeds are signed, so what is believed is one of them, changed where nothing is signed.
fn foreign(known: &Known, headers: &HeaderMap, body: &[u8]) {
    let Known { provider, settings, keys } = known;
    for method in [&Method::GET, &Method::POST] {
        let request = Request { method, url: URL, headers, body, fetched: None };
        provider.handshake(&request, settings);
        provider.sent_secret(&request);
        provider.proof(&request, settings);
        let secrets = [keys.verifies.as_str()];
        let check = Check { secrets: &secrets, settings, now: NOW, tolerance: TOLERANCE };
        match provider.verify(&request, &check) {
            Ok(_) => other_bytes_are_refused(known, &request, &check),
            Err(refusal) => {
                assert!(
                    !refusal.to_string().contains(&keys.verifies),
                    "a refusal tells the secret"
                );
                explain(*provider, &request, &check, &refusal, &[]);
            }
        }
    }
}

/// The signature is good for these bytes and no others.
fn other_bytes_are_refused(known: &Known, request: &Request<'_>, check: &Check<'_>) {
    let body = [request.body, b"x"].concat();
    let other = Request { body: &body, ..*request };
    let provider = known.provider;
    if provider.facts_for(check.settings).signs_body && !provider.says_the_same(request, &other) {
        assert!(provider.verify(&other, check).is_err(), "believed without a signature");
    }
}

/// The same, signed as the provider would: what it tells of is read, and read the same again.
fn signed(known: &Known, headers: HeaderMap, body: &[u8], fetched: Option<&[u8]>) {
    let Known { provider, settings, keys } = known;
    let mut request =
        SignedRequest { method: Method::POST, url: URL.to_owned(), headers, body: body.to_vec() };
    if provider.sign(&mut request, &keys.signs, settings, ID, NOW).is_err() {
        return;
    }
    let request = Request { fetched, ..request.as_request() };
    let mapped = provider.map(&request, settings);
    assert_eq!(mapped, provider.map(&request, settings), "read twice, read the same");
    provider.signed_handshake(&request, settings);
    provider.prescribed(&request, settings);
    let Ok(events) = mapped else { return };
    assert!(!events.is_empty(), "a request tells of something");
    for (part, event) in events.iter().enumerate().take(8) {
        assert!(!event.event_type.is_empty(), "an event has a type");
        let keys = [&event.dedup_key, &event.second_key];
        assert!(keys.iter().all(|key| key.as_deref() != Some("")), "an empty key fits too much");
        provider.data(&request, part);
        provider.announces(event);
    }
}

/// The providers' samples, signed; each also with something fetched, where its provider fetches.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for known in KNOWN.iter().filter(|known| known.provider.name() != "generic") {
        seeds.extend(samples(known, ""));
    }
    let generic = KNOWN.iter().find(|known| known.provider.name() == "generic");
    for settings in GENERIC {
        let known = generic.and_then(|generic| set(generic, settings.as_bytes()));
        seeds.extend(samples(&known.expect("settings that fit"), &format!("{settings}\n")));
    }
    seeds
}

/// Settings of all kinds.
const GENERIC: [&str; 6] = [
    r#"{"header":"X-Signature"}"#,
    r#"{"header":"X-Sig","algorithm":"hmac-sha512","encoding":"base64","prefix":"v1=","separator":",","content":"{method}.{url}.{id}.{timestamp}.{body}","timestamp_header":"X-Time","timestamp_unit":"ms","id_header":"X-Id","type_header":"X-Type"}"#,
    r#"{"header":"X-Sig","algorithm":"hmac-sha1","content":"{timestamp}:{body}","timestamp_pointer":"/sent_at","timestamp_unit":"rfc3339","id_pointer":"/id","type_pointer":"/type"}"#,
    r#"{"header":"X-Sig","algorithm":"ed25519","encoding":"base64url"}"#,
    r#"{"header":"X-Token","algorithm":"token","prefix":"Bearer "}"#,
    r#"{"algorithm":"basic"}"#,
];

fn samples(known: &Known, settings: &str) -> Vec<Vec<u8>> {
    let Known { provider, keys, .. } = known;
    let mut seeds = Vec::new();
    for sample in provider.samples() {
        let mut request = sample.request(URL, ID, NOW);
        if provider.sign(&mut request, &keys.signs, &known.settings, ID, NOW).is_err() {
            continue;
        }
        let mut seed = format!("{}\n{settings}", provider.name()).into_bytes();
        for (name, value) in &request.headers {
            seed.extend([name.as_str().as_bytes(), b":", value.as_bytes(), b"\n"].concat());
        }
        seed.push(b'\n');
        seed.extend(&request.body);
        let mapped = provider.map(&request.as_request(), &known.settings).unwrap_or_default();
        if mapped.iter().any(|event| provider.announces(event).is_some()) {
            let fetched = r#"{"id":"7","text":"words","html":"<p>words</p>","comment":{"id":"c"}}"#;
            seeds.push([&seed, FETCHED, fetched.as_bytes()].concat());
        }
        seeds.push(seed);
    }
    seeds
}
