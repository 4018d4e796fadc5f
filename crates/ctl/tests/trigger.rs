//! `webhookctl trigger`: what is sent, and how it is signed.

mod program;
mod signing;
#[path = "../../client/tests/stand_in/mod.rs"]
mod stand_in;

use std::sync::{Arc, Mutex};

use program::{Ran, bare, webhookctl};
use serde_json::{Value, json};
use signing::{PUBLIC_URL, keys, provider, settings, verdict};
use stand_in::{Seen, StandIn, json_answer};
use wakepost_providers::{Provider, Refusal, Why, registry};

const SECRET: &str = "whsec_ours";

fn source(provider: &dyn Provider) -> Value {
    json!({"id": "src_1", "provider": provider.name(), "ingest_url": PUBLIC_URL,
        "tolerance_s": 300, "settings": settings(provider)})
}

/// A server with one source, which takes everything.
fn server(name: &str) -> StandIn {
    let source = source(provider(name));
    StandIn::start(move |seen| match seen.line.as_str() {
        "GET /api/v1/sources?limit=500" => {
            json_answer(200, json!({"data": [source], "next_cursor": null}))
        }
        "GET /api/v1/sources/src_1" => json_answer(200, source.clone()),
        "POST /in/src_1" => json_answer(202, json!({"said": "\u{9b}2J"})),
        "POST /api/v1/sources/src_1/test" => json_answer(
            200,
            json!({"event_type": "x", "status_code": 401, "body": {"code": "bad\u{9b}"}}),
        ),
        other => panic!("{other}"),
    })
}

/// Sends the first sample, signed here with `secret`.
fn signed_here<const N: usize>(server: &StandIn, name: &str, secret: &str, more: [&str; N]) -> Ran {
    let event = provider(name).samples()[0].event_type;
    let secret = format!("--secret={secret}");
    webhookctl(&server.url).args(["trigger", name, event, &secret]).args(more).run()
}

/// What reached the source.
fn delivered(server: &StandIn) -> Vec<Seen> {
    server.seen().into_iter().filter(|seen| seen.line == "POST /in/src_1").collect()
}

#[test]
fn without_an_event_the_samples_are_listed_and_no_key_is_needed() {
    let ran = bare().args(["trigger", "github"]).run();
    ran.ends_with(0);
    let samples = provider("github").samples().iter().map(|sample| sample.event_type);
    assert_eq!(ran.stdout.lines().collect::<Vec<_>>(), samples.collect::<Vec<_>>());
    assert_eq!(ran.stderr, "say which: webhookctl trigger github EVENT\n");
    bare().args(["trigger", "githubb"]).run().ends_with(2);
}

#[test]
fn what_there_is_no_sample_of_is_refused_with_what_there_is() {
    let server = server("github");
    let ran = webhookctl(&server.url).args(["trigger", "githubb", "push"]).run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("no provider \"githubb\"; there are github, gitlab"));
    let ran = webhookctl(&server.url).args(["trigger", "github", "pushh"]).run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("github has no sample \"pushh\"; there are "), "{}", ran.stderr);
    assert!(ran.stderr.contains(provider("github").samples()[0].event_type));
    assert!(server.lines().is_empty());
}

#[test]
fn with_a_secret_every_providers_request_is_signed_here_as_it_would() {
    for provider in registry::all() {
        let name = provider.name();
        let (server, keys) = (server(name), keys(*provider));
        let ran = signed_here(&server, name, &keys.signs, ["--source", "src_1"]);
        ran.ends_with(0);
        assert_eq!(ran.stdout, "202 {\"said\":\"\\u{9b}2J\"}\n", "{name}");
        assert_eq!(server.lines(), ["GET /api/v1/sources/src_1", "POST /in/src_1"]);
        let seen = &delivered(&server)[0];
        let verdict = verdict(*provider, &keys.verifies, &seen.headers, &seen.bytes);
        assert!(verdict.is_ok(), "{name}: {verdict:?}");
        assert!(!seen.authorization.starts_with("Bearer k"), "{name} got the API key");
    }
}

#[test]
fn a_bad_signature_is_bad() {
    let server = server("stripe");
    signed_here(&server, "stripe", SECRET, ["--bad-signature"]).ends_with(0);
    let (stripe, seen) = (provider("stripe"), &delivered(&server)[0]);
    let verdict = verdict(stripe, SECRET, &seen.headers, &seen.bytes);
    assert_eq!(verdict, Err(Refusal::Signature(Why::Mismatch)));
}

#[test]
fn a_stale_request_is_well_signed_and_too_old() {
    let server = server("stripe");
    signed_here(&server, "stripe", SECRET, ["--stale"]).ends_with(0);
    let (stripe, seen) = (provider("stripe"), &delivered(&server)[0]);
    let verdict = verdict(stripe, SECRET, &seen.headers, &seen.bytes);
    assert!(matches!(verdict, Err(Refusal::Stale { ahead: false, .. })), "{verdict:?}");
}

#[test]
fn a_duplicate_is_the_same_request_twice() {
    let server = server("stripe");
    let ran = signed_here(&server, "stripe", SECRET, ["--duplicate"]);
    ran.ends_with(0);
    assert_eq!(ran.stdout.lines().count(), 2);
    let seen = delivered(&server);
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn repeats_are_different_requests() {
    let server = server("stripe");
    let ran = signed_here(&server, "stripe", SECRET, ["--repeat", "3"]);
    ran.ends_with(0);
    assert_eq!(ran.stdout.lines().count(), 3);
    let (stripe, seen) = (provider("stripe"), delivered(&server));
    assert_eq!(seen.len(), 3);
    for (at, one) in seen.iter().enumerate() {
        verdict(stripe, SECRET, &one.headers, &one.bytes).expect("well signed");
        assert!(seen[..at].iter().all(|other| other.bytes != one.bytes));
    }
}

#[test]
fn a_printed_request_is_not_sent() {
    let server = server("github");
    let ran = signed_here(&server, "github", SECRET, ["--print"]);
    ran.ends_with(0);
    assert!(ran.stdout.starts_with(&format!("POST {PUBLIC_URL}\n")), "{}", ran.stdout);
    assert!(ran.stdout.contains("\nx-hub-signature-256: sha256="));
    assert!(ran.stdout.contains("\n\n{"));
    assert_eq!(server.lines(), ["GET /api/v1/sources?limit=500"]);
}

#[test]
fn without_a_secret_the_server_signs() {
    let server = server("github");
    let event = provider("github").samples()[0].event_type;
    for (flag, variant) in
        [("--bad-signature", "bad_signature"), ("--stale", "stale"), ("--duplicate", "duplicate")]
    {
        let ran = webhookctl(&server.url).args(["trigger", "github", event, flag]).run();
        // A spoilt request is meant to be refused, any other is not.
        ran.ends_with(i32::from(flag == "--duplicate"));
        assert_eq!(ran.stdout, "401 {\"code\":\"bad\\u{9b}\"}\n");
        let tried = server.seen().pop().expect("a call");
        assert_eq!(tried.line, "POST /api/v1/sources/src_1/test");
        assert_eq!(tried.body, json!({"event_type": event, "variant": variant}));
    }
    let args = ["trigger", "github", event, "--source", "src_1"];
    let ran = webhookctl(&server.url).args(args).run();
    ran.ends_with(1);
    assert!(ran.stderr.contains("webhookctl sources receipts src_1"), "{}", ran.stderr);
    assert_eq!(server.seen().pop().expect("a call").body, json!({"event_type": event}));
    assert!(delivered(&server).is_empty());
}

#[test]
fn flags_that_contradict_each_other_are_wrong_usage() {
    let server = server("github");
    let event = provider("github").samples()[0].event_type;
    for flags in [
        ["--bad-signature", "--stale"],
        ["--stale", "--duplicate"],
        ["--print", "--source=src_1"],
        ["--repeat", "0"],
    ] {
        webhookctl(&server.url).args(["trigger", "github", event]).args(flags).run().ends_with(2);
    }
    signed_here(&server, "github", SECRET, ["--print", "--repeat", "2"]).ends_with(2);
    assert!(server.lines().is_empty());
}

#[test]
fn the_source_must_be_one() {
    let server = StandIn::start(|_| {
        json_answer(
            200,
            json!({"data": [{"id": "src_1", "provider": "github"}, {"id": "src_2", "provider": "github"}]}),
        )
    });
    let samples = |name| provider(name).samples()[0].event_type;
    let ran = webhookctl(&server.url).args(["trigger", "github", samples("github")]).run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("say which with --source: src_1, src_2"));
    let ran = webhookctl(&server.url).args(["trigger", "stripe", samples("stripe")]).run();
    ran.ends_with(2);
    assert!(ran.stderr.contains("webhookctl sources create stripe"));
}

#[test]
fn where_only_the_provider_can_sign_a_test_source_is_made_once_and_gets_new_keys() {
    for name in ["discord", "sendgrid-events"] {
        let provider = provider(name);
        let made: Arc<Mutex<Vec<Value>>> = Arc::default();
        let sources = made.clone();
        // The user's own, which nobody can sign for, is there too.
        let own = json!({"id": "src_own", "provider": name, "name": "desk"});
        let test = source(provider);
        let server = StandIn::start(move |seen| match seen.line.as_str() {
            "GET /api/v1/sources?limit=500" => {
                let data = [vec![own.clone()], sources.lock().unwrap().clone()].concat();
                json_answer(200, json!({"data": data, "next_cursor": null}))
            }
            "POST /api/v1/sources" => {
                let mut test = test.clone();
                test["name"] = seen.body["name"].clone();
                sources.lock().unwrap().push(test.clone());
                json_answer(201, test)
            }
            "POST /api/v1/sources/src_1/rotate" => json_answer(200, test.clone()),
            "POST /in/src_1" => json_answer(202, json!({"status": "accepted"})),
            other => panic!("{other}"),
        });
        let event = provider.samples()[0].event_type;
        for keys in ["POST /api/v1/sources", "POST /api/v1/sources/src_1/rotate"] {
            let ran = webhookctl(&server.url).args(["trigger", name, event]).run();
            ran.ends_with(0);
            assert!(ran.stderr.contains("the test source src_1"), "{}", ran.stderr);
            let seen = server.seen();
            let [.., told, sent] = &seen[..] else { panic!("{seen:?}") };
            assert_eq!(told.line, keys);
            let public = told.body["secret"].as_str().expect("a public key");
            verdict(provider, public, &sent.headers, &sent.bytes).expect("well signed");
        }
        assert_eq!(made.lock().unwrap().len(), 1);
    }
}

#[test]
fn new_keys_are_a_pair_that_a_test_source_and_a_trigger_can_use() {
    for name in ["discord", "sendgrid-events", "github"] {
        let ran = bare().args(["trigger", name, "--new-keys", "--json"]).run();
        ran.ends_with(0);
        let made: Value = serde_json::from_str(&ran.stdout).unwrap();
        let (verifies, signs) = (&made["source_secret"], &made["signing_secret"]);
        assert_eq!(verifies == signs, name == "github", "{name}");
        let server = server(name);
        let secret = signs.as_str().unwrap();
        signed_here(&server, name, secret, ["--source", "src_1"]).ends_with(0);
        let provider = provider(name);
        assert!(provider.check_secret(verifies.as_str().unwrap(), &settings(provider)).is_ok());
        let ran = bare().args(["trigger", name, "--new-keys"]).run();
        ran.ends_with(0);
        let first = format!("webhookctl sources create {name} --name test --secret '");
        assert!(ran.stdout.starts_with(&first), "{}", ran.stdout);
        assert_eq!(ran.stdout.lines().count(), 2);
    }
    bare().args(["trigger", "discord", "interaction.command", "--new-keys"]).run().ends_with(2);
}
