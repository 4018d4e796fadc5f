//! What Wakepost itself sends: deliveries, signed as the outbound side signs them, put to what subscribers verify with.

use std::time::Duration;

use serde_json::value::RawValue;
use wakepost_domain::publication::{Head, envelope, linked};
use wakepost_domain::{EventId, Timestamp};
use wakepost_providers::{SignedRequest, standard};

use super::check::{Counting, now};
use super::driver::Driver;
use super::sdks::{Signs, Subscriber};
use super::spoil;
use super::{Sdk, Tally};

/// Beyond the tolerance of all of them.
const TOO_OLD: Duration = Duration::from_secs(10 * 60);

const URL: &str = "https://subscriber.example.com/hooks";

/// Subjects that do not survive being read and written again.
const OBJECTS: [&str; 6] = [
    r#"{"id":"ord_1","amount":1200}"#,
    r#"{"text":"Grüße aus 東京 🚀 e\u0301 é \u2028 ﬁ"}"#,
    r#"{"a":1.0,"b":1e2,"c":12345678901234567890,"d":-0,"a":2}"#,
    r#"{"a":"\/\u003c\u0000","b":"\\\"","c":"<&>'"}"#,
    "[ 1,\r\n\t2 ]",
    "null",
];

/// The secrets of a webhook, as they sign and as its subscriber has them.
struct Secrets {
    current: Pair,
    previous: Pair,
    /// Somebody else's.
    other: Pair,
}

struct Pair {
    signs: String,
    verifies: String,
}

impl Secrets {
    fn new(signs: Signs) -> anyhow::Result<Secrets> {
        let entropy = Counting::default();
        let pair = || -> anyhow::Result<Pair> {
            Ok(match signs {
                Signs::WithSecret => {
                    let secret = standard::generate_secret(&entropy);
                    Pair { signs: secret.clone(), verifies: secret }
                }
                Signs::WithPrivateKey => {
                    let private = standard::generate_private_key(&entropy);
                    Pair { verifies: standard::public_key(&private)?, signs: private }
                }
            })
        };
        Ok(Secrets { current: pair()?, previous: pair()?, other: pair()? })
    }
}

/// Puts deliveries to one library.
pub fn check(
    subscriber: &'static Subscriber,
    driver: &mut Driver,
    tally: &mut Tally,
) -> anyhow::Result<()> {
    let secrets = Secrets::new(subscriber.signs)?;
    let mut sent = Sent { sdk: &subscriber.sdk, driver, tally };
    let Secrets { current, previous, other } = &secrets;
    if !subscriber.can {
        // It must not take what it cannot check.
        let delivery = delivery(&bodies()?[0], &[&current.signs], now())?;
        return sent.expect("what it cannot check", &delivery, &current.verifies, false);
    }
    for body in bodies()? {
        let one = delivery(&body, &[&current.signs], now())?;
        sent.expect("one secret", &one, &current.verifies, true)?;
        sent.expect("one secret, another one's", &one, &other.verifies, false)?;
        // During the grace after a rotation.
        let both = delivery(&body, &[&current.signs, &previous.signs], now())?;
        sent.expect("two secrets, the new one's", &both, &current.verifies, true)?;
        sent.expect("two secrets, the old one's", &both, &previous.verifies, true)?;
        sent.expect("two secrets, another one's", &both, &other.verifies, false)?;
    }
    let both = delivery(&bodies()?[1], &[&current.signs, &previous.signs], now())?;
    for (what, bad) in spoil::bodies(&both) {
        sent.expect(&what, &bad, &current.verifies, false)?;
    }
    for (name, value) in [("webhook-id", "evt_other"), ("webhook-timestamp", "1700000000")] {
        let mut bad = both.clone();
        bad.set(name, value)?;
        sent.expect(&format!("another {name}"), &bad, &current.verifies, false)?;
    }
    let old = delivery(&bodies()?[0], &[&current.signs], now().before(TOO_OLD))?;
    sent.expect("too old", &old, &current.verifies, !subscriber.looks_at_time)
}

/// What is sent of events: whole, and as a link.
fn bodies() -> anyhow::Result<Vec<String>> {
    let id: EventId = "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse()?;
    let head = Head {
        id,
        event_type: "order.created",
        api_version: Some("2026-11-15"),
        created_at: now(),
        livemode: true,
    };
    let mut bodies = Vec::new();
    for object in OBJECTS {
        let object = RawValue::from_string(object.to_owned())?;
        bodies.push(envelope(head, &object, Some(&object)));
    }
    bodies.push(linked(head, "https://hooks.example.com/e/token"));
    Ok(bodies)
}

/// A delivery as it leaves: signed once with each live secret.
fn delivery(body: &str, secrets: &[&str], at: Timestamp) -> anyhow::Result<SignedRequest> {
    let id = "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let mut request = SignedRequest::post(URL, body.to_owned());
    let signatures = secrets.iter().map(|secret| standard::sign(secret, id, at, body.as_bytes()));
    let signatures = signatures.collect::<Result<Vec<_>, _>>()?.join(" ");
    for (name, value) in [
        ("content-type", "application/json"),
        ("webhook-id", id),
        ("webhook-timestamp", &at.as_secs().to_string()),
        ("webhook-signature", &signatures),
    ] {
        request.set(name, value)?;
    }
    Ok(request)
}

struct Sent<'a> {
    sdk: &'static Sdk,
    driver: &'a mut Driver,
    tally: &'a mut Tally,
}

impl Sent<'_> {
    fn expect(
        &mut self,
        case: &str,
        request: &SignedRequest,
        key: &str,
        accepts: bool,
    ) -> anyhow::Result<()> {
        let verdict = self.driver.verify(self.sdk, request, key)?;
        if verdict.accepted == accepts {
            self.tally.agreed += 1;
        } else {
            let must = if accepts { "must be accepted" } else { "must be refused" };
            let (sdk, why) = (self.sdk, verdict.why);
            self.tally.disagreements.push(format!("{sdk}: {case}: {must}, but is not ({why})"));
        }
        Ok(())
    }
}
