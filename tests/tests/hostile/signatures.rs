//! Times and signatures that are almost right. All are signed with the real secret.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use wakepost_providers::SignedRequest;
use wakepost_tests::{Database, Event, Gateway, Source, now, on_both};

on_both!(
    a_signed_time_that_is_not_one_is_refused,
    of_several_signatures_one_good_one_is_enough_and_anything_else_is_refused,
);

const PROVIDERS: [&str; 3] = ["stripe", "standard-webhooks", "generic"];

fn tag(key: &[u8], parts: &[&str], body: &[u8]) -> Vec<u8> {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, key));
    parts.iter().for_each(|part| context.update(part.as_bytes()));
    context.update(body);
    context.sign().as_ref().to_vec()
}

/// The name of a sender's signature header, and a good signature at a time as it is written here.
fn signature(provider: &str, source: &Source, event: &Event, time: &str) -> (&'static str, String) {
    let secret = source.secret();
    match provider {
        "stripe" => {
            let tag = tag(secret.as_bytes(), &[time, "."], &event.body);
            ("stripe-signature", format!("v1={}", hex::encode(tag)))
        }
        "standard-webhooks" => {
            let secret = secret.strip_prefix("whsec_").unwrap_or(secret);
            let key = STANDARD.decode(secret).expect("a secret");
            let tag = tag(&key, &[&event.id, ".", time, "."], &event.body);
            ("webhook-signature", format!("v1,{}", STANDARD.encode(tag)))
        }
        _ => {
            let tag = tag(secret.as_bytes(), &[time, "."], &event.body);
            ("x-signature", format!("sha256={}", hex::encode(tag)))
        }
    }
}

/// A request with these times, signed as if the first was the time.
fn timed(provider: &str, source: &Source, event: &Event, times: &[&str]) -> SignedRequest {
    let (name, signature) = signature(provider, source, event, times[0]);
    let mut request = source.sign(event);
    if provider == "stripe" {
        let times: String = times.iter().map(|time| format!("t={time},")).collect();
        request.set(name, &format!("{times}{signature}")).expect("a header");
        return request;
    }
    request.set(name, &signature).expect("a header");
    let name = if provider == "generic" { "x-timestamp" } else { "webhook-timestamp" };
    request.headers.remove(name);
    for time in times {
        request.headers.append(name, time.parse().expect("a header"));
    }
    request
}

async fn a_signed_time_that_is_not_one_is_refused(database: Database) {
    let gateway = Gateway::start(database).await;
    for provider in PROVIDERS {
        let source = gateway.with_source(provider).await;
        let event = source.event("e-1");
        let time = now().as_secs().to_string();
        let wrong = [
            vec![format!("{time}abc")],
            vec![format!("-{time}")],
            vec![format!("{time}000")],
            vec![format!("{time}000000")],
            vec![format!("{time}.5")],
            vec![format!("+{time}")],
            vec![String::new()],
            vec![time.clone(), time.clone()],
        ];
        for times in wrong {
            let times: Vec<&str> = times.iter().map(String::as_str).collect();
            let request = timed(provider, &source, &event, &times);
            let answer = gateway.send_request(&request).await;
            assert_eq!(answer.status, 401, "{provider}: {times:?}");
        }
        // It was the time alone: the same with a good one is believed.
        let good = timed(provider, &source, &event, &[&time]);
        gateway.send_request(&good).await.is(202);
    }
    assert_eq!(gateway.admin().list("/inbox").await.len(), PROVIDERS.len());
}

async fn of_several_signatures_one_good_one_is_enough_and_anything_else_is_refused(
    database: Database,
) {
    let gateway = Gateway::start(database).await;
    for (provider, between) in [("stripe", ","), ("standard-webhooks", " ")] {
        let source = gateway.with_source(provider).await;
        let event = source.event("e-1");
        let time = now().as_secs().to_string();
        let (name, good) = signature(provider, &source, &event, &time);
        let (_, other) =
            signature(provider, &source.with_secret("c29tZWJvZHkgZWxzZQ=="), &event, &time);
        let version = &good[..3];
        let (short, long) = (good[..good.len() - 8].to_owned(), format!("{good}00000000"));
        let signed = |signatures: &[&str]| {
            let mut request = timed(provider, &source, &event, &[&time]);
            let front = if provider == "stripe" { format!("t={time},") } else { String::new() };
            let text = format!("{front}{}", signatures.join(between));
            request.set(name, &text).expect("a header");
            request
        };
        let wrong: [&[&str]; 7] = [
            &[version],
            &[&short],
            &[&long],
            &[&other],
            &[version, &other],
            &[&good[3..]],
            &["v9,AAAA", "v9=AAAA"],
        ];
        for signatures in wrong {
            let answer = gateway.send_request(&signed(signatures)).await;
            assert_eq!(answer.status, 401, "{provider}: {signatures:?}");
        }
        let mut doubled = signed(&[&good]);
        doubled.headers.append(name, doubled.headers[name].clone());
        gateway.send_request(&doubled).await.is(401);
        gateway.send_request(&signed(&[&other, version, &good])).await.is(202);
        gateway.send_request(&signed(&[&good])).await.is(200);
    }
}
