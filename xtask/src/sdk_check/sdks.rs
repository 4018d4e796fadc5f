//! The list of SDKs, and in which corners each differs from us on purpose; and that of what subscribers verify with.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// One SDK, and the provider of ours that it speaks for.
pub struct Sdk {
    /// Its name in its package registry.
    pub package: &'static str,
    /// What it is written in.
    pub language: Language,
    /// The provider's name in our registry.
    pub provider: &'static str,
    /// Whether it can also sign.
    pub signs: bool,
    /// Which times it refuses.
    pub refuses: Refuses,
    /// Whether it takes an empty body for one that can be signed. Where it does not, it is stricter than the
    /// vendor's description, and the case is left out.
    pub takes_empty: bool,
    /// How two signatures stand in one header, where that is possible: of an old secret and of a new one.
    pub joins: Option<Join>,
    /// The characters of a signature, given its value, in which it overlooks a change. We do not.
    pub overlooks: fn(&str) -> Vec<usize>,
    /// Pairs of addresses that it takes for one: the one signed, and the one where the request was seen.
    pub one_address: &'static [(&'static str, &'static str)],
    /// Secrets to try besides the one that the provider makes up.
    pub secrets: &'static [&'static str],
}

/// Joins the values of two signature headers.
pub type Join = fn(&str, &str) -> String;

/// What an SDK is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Node,
    Python,
}

/// Which times an SDK refuses. We refuse old ones and those ahead of our clock wherever a time is signed; where an
/// SDK is laxer, the case is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refuses {
    /// It does not look at the time.
    None,
    /// Old ones.
    Old,
    /// Old ones and those ahead of its clock.
    OldAndAhead,
}

impl Sdk {
    const fn node(package: &'static str, provider: &'static str) -> Sdk {
        Sdk {
            package,
            language: Language::Node,
            provider,
            signs: false,
            refuses: Refuses::None,
            takes_empty: true,
            joins: None,
            overlooks: |_| Vec::new(),
            one_address: &[],
            secrets: &[],
        }
    }

    const fn python(package: &'static str, provider: &'static str) -> Sdk {
        Sdk { language: Language::Python, ..Sdk::node(package, provider) }
    }

    const fn signs(self) -> Sdk {
        Sdk { signs: true, ..self }
    }

    const fn refuses(self, refuses: Refuses) -> Sdk {
        Sdk { refuses, ..self }
    }

    const fn wants_a_body(self) -> Sdk {
        Sdk { takes_empty: false, ..self }
    }

    const fn joins(self, join: Join) -> Sdk {
        Sdk { joins: Some(join), ..self }
    }

    const fn overlooks(self, overlooks: fn(&str) -> Vec<usize>) -> Sdk {
        Sdk { overlooks, ..self }
    }

    const fn one_address(self, pairs: &'static [(&'static str, &'static str)]) -> Sdk {
        Sdk { one_address: pairs, ..self }
    }

    const fn secrets(self, secrets: &'static [&'static str]) -> Sdk {
        Sdk { secrets, ..self }
    }
}

impl fmt::Display for Sdk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let registry = match self.language {
            Language::Node => "npm",
            Language::Python => "PyPI",
        };
        write!(formatter, "{registry} {}", self.package)
    }
}

/// Stripe's secrets look like those of Standard Webhooks and are used as they are written.
const STRIPE_SECRETS: &[&str] = &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
/// With the prefix and without.
const STANDARD_SECRETS: &[&str] =
    &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"];
/// Chosen by people.
const CHOSEN_SECRETS: &[&str] = &["It's a Secret to Everybody", "pässwörd 🔑"];

/// With a port and without: Twilio signs now one, now the other. Its SDK also tries the address with other escapes;
/// its documentation wants the address exactly as it was requested, so we do not.
const PORTS: &[(&str, &str)] = &[
    ("https://hooks.example.com:443/in/src_1", "https://hooks.example.com/in/src_1"),
    ("https://hooks.example.com/in/src_1?a=b", "https://hooks.example.com:443/in/src_1?a=b"),
    ("https://hooks.example.com/in/src_1", "https://hooks.example.com:8443/in/src_1"),
    ("http://hooks.example.com:80/in/src_1", "http://hooks.example.com/in/src_1"),
];

/// All of them.
pub static SDKS: &[Sdk] = &[
    stripe(Sdk::node("stripe", "stripe")),
    stripe(Sdk::python("stripe", "stripe")),
    Sdk::node("@octokit/webhooks", "github").signs().wants_a_body().secrets(CHOSEN_SECRETS),
    Sdk::node("@slack/bolt", "slack").refuses(Refuses::Old),
    Sdk::python("slack_sdk", "slack").signs().refuses(Refuses::OldAndAhead),
    Sdk::node("twilio", "twilio").signs().one_address(PORTS),
    standard(Sdk::node("standardwebhooks", "standard-webhooks")),
    standard(Sdk::python("standardwebhooks", "standard-webhooks")),
    standard(Sdk::node("svix", "standard-webhooks")),
    standard(Sdk::python("svix", "standard-webhooks")),
    standard(Sdk::node("svix", "email-resend")),
    standard(Sdk::python("svix", "email-resend")),
    Sdk::node("discord-interactions", "discord"),
    Sdk::node("square", "square"),
    Sdk::node("@sendgrid/eventwebhook", "sendgrid-events").overlooks(lengths_in_der),
    Sdk::node("@shopify/shopify-api", "shopify").wants_a_body(),
];

/// What a subscriber verifies our deliveries with.
pub struct Subscriber {
    /// The library.
    pub sdk: Sdk,
    /// What the deliveries are signed with.
    pub signs: Signs,
    /// Whether it can verify such signatures at all.
    pub can: bool,
    /// Whether it refuses old ones.
    pub looks_at_time: bool,
}

/// What deliveries are signed with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Signs {
    /// A secret that both have: `v1`.
    WithSecret,
    /// A key whose public half the subscriber has: `v1a`.
    WithPrivateKey,
}

impl Subscriber {
    const fn v1(sdk: Sdk) -> Subscriber {
        Subscriber { sdk, signs: Signs::WithSecret, can: true, looks_at_time: true }
    }

    /// In these versions no library of the scheme knows `v1a`: it must refuse what it cannot check.
    const fn no_v1a(sdk: Sdk) -> Subscriber {
        Subscriber { sdk, signs: Signs::WithPrivateKey, can: false, looks_at_time: true }
    }
}

/// All of them. Node's own cryptography stands in for the libraries that cannot verify Ed25519.
pub static SUBSCRIBERS: &[Subscriber] = &[
    Subscriber::v1(Sdk::node("standardwebhooks", "deliveries, v1")),
    Subscriber::v1(Sdk::python("standardwebhooks", "deliveries, v1")),
    Subscriber::v1(Sdk::node("svix", "deliveries, v1")),
    Subscriber::v1(Sdk::python("svix", "deliveries, v1")),
    Subscriber::no_v1a(Sdk::node("standardwebhooks", "no v1a")),
    Subscriber::no_v1a(Sdk::python("standardwebhooks", "no v1a")),
    Subscriber::no_v1a(Sdk::node("svix", "no v1a")),
    Subscriber::no_v1a(Sdk::python("svix", "no v1a")),
    Subscriber {
        sdk: Sdk::node("node:crypto", "deliveries, v1a"),
        signs: Signs::WithPrivateKey,
        can: true,
        looks_at_time: false,
    },
];

const fn stripe(sdk: Sdk) -> Sdk {
    sdk.signs().refuses(Refuses::Old).joins(one_time).secrets(STRIPE_SECRETS)
}

const fn standard(sdk: Sdk) -> Sdk {
    sdk.signs().refuses(Refuses::OldAndAhead).joins(spaced).secrets(STANDARD_SECRETS)
}

/// `t=…,v1=…` twice, of the same time, which is said once.
fn one_time(first: &str, second: &str) -> String {
    let signature = second.split_once(',').map_or(second, |(_, signature)| signature);
    format!("{first},{signature}")
}

fn spaced(first: &str, second: &str) -> String {
    format!("{first} {second}")
}

/// The characters that hold the length of an ECDSA signature or of its second number. SendGrid's SDK reads up to the
/// end where a length points beyond it, so it accepts more texts of the same signature than there are.
fn lengths_in_der(signature: &str) -> Vec<usize> {
    let bytes = STANDARD.decode(signature).unwrap_or_default();
    // 0x30, length; 0x02, length, the first number; 0x02, length, the second number.
    let second = bytes.get(3).map(|first| 4 + usize::from(*first) + 1);
    let touches = |place: usize, byte: usize| (place * 6 / 8..=(place * 6 + 5) / 8).contains(&byte);
    let holds =
        |place: &usize| [Some(1), second].iter().flatten().any(|byte| touches(*place, *byte));
    (0..signature.len()).filter(holds).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signatures_of_one_time_share_it() {
        assert_eq!(one_time("t=1,v1=aa", "t=1,v1=bb"), "t=1,v1=aa,v1=bb");
    }

    #[test]
    fn the_lengths_in_a_signature_are_found_where_they_are() {
        let bytes = [0x30, 7, 2, 2, 0xaa, 0xbb, 2, 1, 0xcc];
        // Byte 1 is in characters 1 and 2, byte 7 in 9 and 10.
        assert_eq!(lengths_in_der(&STANDARD.encode(bytes)), [1, 2, 9, 10]);
    }
}
