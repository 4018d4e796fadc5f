//! What a hostile name server may do, case by case, and what must become of each try.

use std::net::IpAddr;

use wakepost_server::outbound::SendErrorClass;

use crate::name_server::{Record, Reply, SERVFAIL};
use crate::namespace::SEARCH_DOMAIN;

/// A case: what is known of which names, and what becomes of one try after the other.
pub struct Case {
    pub what: &'static str,
    /// The name that is sent to.
    pub name: &'static str,
    pub known: Vec<(String, Vec<Reply>)>,
    pub tries: Vec<Becomes>,
    /// Whether the name server is asked at all.
    pub asks: bool,
}

/// What must become of a try.
#[derive(Debug)]
pub enum Becomes {
    /// The guard says no.
    Refused,
    /// One of these is dialled, and nothing else.
    Dials(Vec<IpAddr>),
    /// Nothing is dialled, since there is no address.
    Fails(SendErrorClass),
}

use Becomes::{Dials, Fails, Refused};

const PUBLIC: &str = "93.184.216.34";
const PUBLIC_V6: &str = "2606:2800:21f::1";
const PRIVATE: &str = "10.0.0.1";
const METADATA: &str = "169.254.169.254";

/// More than are tried, and more than a datagram holds.
const MANY: usize = 40;

impl Case {
    fn new(what: &'static str, name: &'static str, replies: Vec<Reply>) -> Case {
        let known = vec![(name.to_owned(), replies)];
        Case { what, name, known, tries: vec![Refused], asks: true }
    }

    /// One reply with these addresses.
    fn addresses(what: &'static str, name: &'static str, ips: &[&str]) -> Case {
        Case::new(what, name, vec![Reply::Records(addresses(name, ips))])
    }

    /// One reply: each of these is an alias of the next, and the last has the address.
    fn chain(what: &'static str, names: &[&'static str], ip: &str) -> Case {
        let aliases = names.windows(2).map(|pair| alias(pair[0], pair[1]));
        let last = names.last().copied().unwrap_or_default();
        let records = aliases.chain(addresses(last, &[ip])).collect();
        Case::new(what, names[0], vec![Reply::Records(records)])
    }

    /// Nothing but what the name server knows of others.
    fn unknown(what: &'static str, name: &'static str) -> Case {
        Case { known: Vec::new(), ..Case::new(what, name, Vec::new()) }.becomes([resolve_error()])
    }

    fn knows(mut self, name: String, ip: &str) -> Case {
        let records = addresses(&name, &[ip]);
        self.known.push((name, vec![Reply::Records(records)]));
        self
    }

    fn becomes(self, tries: impl Into<Vec<Becomes>>) -> Case {
        Case { tries: tries.into(), ..self }
    }

    fn asks_nobody(self) -> Case {
        Case { asks: false, ..self }
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn addresses(owner: &str, ips: &[&str]) -> Vec<Record> {
    ips.iter().map(|text| Record::Address { owner: owner.to_owned(), ip: ip(text) }).collect()
}

fn alias(owner: &str, of: &str) -> Record {
    Record::Alias { owner: owner.to_owned(), of: of.to_owned() }
}

fn dials(ips: &[&str]) -> Becomes {
    Dials(ips.iter().map(|text| ip(text)).collect())
}

fn resolve_error() -> Becomes {
    Fails(SendErrorClass::Resolve)
}

/// All of them.
pub fn cases() -> Vec<Case> {
    let mut all = honest();
    all.extend(rebinding());
    all.extend(mixed());
    all.extend(aliases());
    all.extend(searching());
    all.extend(hosts_file());
    all.extend(failing());
    all
}

/// Without these, a client that never connects would pass all others.
fn honest() -> Vec<Case> {
    vec![
        Case::addresses("a public address", "public.example.org", &[PUBLIC])
            .becomes([dials(&[PUBLIC])]),
        Case::addresses("a public IPv6 address", "public6.example.org", &[PUBLIC_V6])
            .becomes([dials(&[PUBLIC_V6])]),
        Case::addresses("both families", "both.example.org", &[PUBLIC, PUBLIC_V6])
            .becomes([dials(&[PUBLIC, PUBLIC_V6])]),
        Case::addresses("a name that was written with its last dot", "dot.example.org.", &[PUBLIC])
            .becomes([dials(&[PUBLIC])]),
        Case::chain("aliases", &["a.example.org", "b.example.org", "c.example.org"], PUBLIC)
            .becomes([dials(&[PUBLIC])]),
        Case::addresses("an answer over TCP", "many.example.org", &[PUBLIC; MANY])
            .becomes([dials(&[PUBLIC])]),
    ]
}

/// The answer changes from one look-up to the next. A client that looked up again to connect would dial the second.
fn rebinding() -> Vec<Case> {
    let turns = |name: &str, ips: [&str; 4]| -> Vec<Reply> {
        ips.iter().map(|ip| Reply::Records(addresses(name, &[ip]))).collect()
    };
    let to_private = "rebinds.example.org";
    let to_mapped = "rebinds6.example.org";
    let by_alias = "rebinds-by-alias.example.org";
    let good = [alias(by_alias, "good.example.org")].into_iter();
    let bad = [alias(by_alias, "bad.example.org")].into_iter();
    vec![
        Case::new("to private", to_private, turns(to_private, [PUBLIC, PRIVATE, PUBLIC, METADATA]))
            .becomes([dials(&[PUBLIC]), Refused, dials(&[PUBLIC]), Refused]),
        Case::new(
            "to another family",
            to_mapped,
            turns(to_mapped, [PUBLIC, "::ffff:127.0.0.1", PUBLIC_V6, "::1"]),
        )
        .becomes([dials(&[PUBLIC]), Refused, dials(&[PUBLIC_V6]), Refused]),
        Case::new(
            "by an alias",
            by_alias,
            vec![
                Reply::Records(good.chain(addresses("good.example.org", &[PUBLIC])).collect()),
                Reply::Records(bad.chain(addresses("bad.example.org", &[PRIVATE])).collect()),
            ],
        )
        .becomes([dials(&[PUBLIC]), Refused]),
    ]
}

/// One bad address among good ones.
fn mixed() -> Vec<Case> {
    let mut many = vec![PUBLIC; MANY];
    many.push(PRIVATE);
    vec![
        Case::addresses("the bad one last", "last.example.org", &[PUBLIC, PRIVATE]),
        Case::addresses("the bad one first", "first.example.org", &[PRIVATE, PUBLIC]),
        Case::addresses("the bad one beyond those tried, over TCP", "beyond.example.org", &many),
        Case::addresses("loopback beside public IPv4", "six.example.org", &[PUBLIC, "::1"]),
        Case::addresses("private beside public IPv6", "four.example.org", &[PUBLIC_V6, PRIVATE]),
        Case::addresses(
            "IPv4-mapped beside public IPv4",
            "mapped-too.example.org",
            &[PUBLIC, "::ffff:169.254.169.254"],
        ),
        Case::addresses("unspecified beside public", "nought.example.org", &[PUBLIC, "0.0.0.0"]),
        Case::new(
            "private, and no word on IPv6",
            "half.example.org",
            vec![Reply::CodeForIpv6(SERVFAIL, addresses("half.example.org", &[PRIVATE]))],
        )
        .becomes([Refused]),
    ]
}

/// Aliases that end inside.
fn aliases() -> Vec<Case> {
    let looping = vec![
        alias("loop.example.org", "pool.example.org"),
        alias("pool.example.org", "loop.example.org"),
    ];
    vec![
        Case::chain("an alias of localhost", &["alias.example.org", "localhost"], "127.0.0.1"),
        Case::chain(
            "an alias of a metadata service",
            &["meta.example.org", "metadata.google.internal"],
            METADATA,
        ),
        Case::chain(
            "a long way to private",
            &["1.example.org", "2.example.net", "3.example.com", "4.example.org", "db.internal"],
            PRIVATE,
        ),
        Case::chain(
            "an alias of a service",
            &["svc.example.org", "redis.default.svc"],
            "10.96.0.10",
        ),
        Case::new("an alias of itself", "loop.example.org", vec![Reply::Records(looping)])
            .becomes([resolve_error()]),
        Case::new(
            "an alias without an address",
            "nowhere.example.org",
            vec![Reply::Records(vec![alias("nowhere.example.org", "localhost")])],
        )
        .becomes([resolve_error()]),
        Case::new(
            "the address of another name",
            "other.example.org",
            vec![Reply::Records(addresses("another.example.org", &[PRIVATE]))],
        )
        .becomes([resolve_error()]),
    ]
}

/// The machine's search domain, where every name exists.
fn searching() -> Vec<Case> {
    let below = |name: &str| format!("{name}.{SEARCH_DOMAIN}");
    let searched = |what, name: &'static str, ip| {
        Case::unknown(what, name).knows(below(name.trim_end_matches('.')), ip)
    };
    vec![
        searched("a name that exists only below the search domain", "api.example.net", PUBLIC),
        searched("the same, with a private address", "api2.example.net", PRIVATE),
        searched("a short one", "example.net", PUBLIC),
        searched("one with its last dot", "api3.example.net.", PUBLIC),
        Case::addresses("one that exists there too", "api4.example.net", &[PUBLIC])
            .knows(below("api4.example.net"), PRIVATE)
            .becomes([dials(&[PUBLIC])]),
        Case::new(
            "one that the server will not tell",
            "api5.example.net",
            vec![Reply::Code(SERVFAIL)],
        )
        .knows(below("api5.example.net"), PUBLIC)
        .becomes([resolve_error()]),
        searched("a name without a dot", "intranet", PUBLIC).becomes([Refused]).asks_nobody(),
        searched("one with the last dot alone", "intranet2.", PUBLIC)
            .becomes([Refused])
            .asks_nobody(),
    ]
}

/// What the operator wrote down is found, and checked as everything is.
fn hosts_file() -> Vec<Case> {
    let written = |what, name, becomes| Case::unknown(what, name).becomes([becomes]).asks_nobody();
    vec![
        written("a private address in the hosts file", "private.hosts.example", Refused),
        written("the same with the last dot", "private.hosts.example.", Refused),
        written("two addresses in the hosts file", "mixed.hosts.example", Refused),
        written("a public one in the hosts file", "public.hosts.example", dials(&["9.9.9.9"])),
        written("the same in capitals", "PUBLIC.hosts.example", dials(&["9.9.9.9"])),
    ]
}

/// No answer is no address.
fn failing() -> Vec<Case> {
    let coded = |what, name, code| {
        Case::new(what, name, vec![Reply::Code(code)]).becomes([resolve_error()])
    };
    vec![
        coded("an empty answer", "empty.example.org", 0),
        coded("a format error", "format.example.org", 1),
        coded("a failing server", "servfail.example.org", SERVFAIL),
        coded("no such name", "nxdomain.example.org", 3),
        coded("not implemented", "notimp.example.org", 4),
        coded("an answer refused", "refused.example.org", 5),
        Case::new("a server that says nothing", "silent.example.org", vec![Reply::Silence])
            .becomes([resolve_error()]),
        Case::new(
            "one that comes back with a private address",
            "flaky.example.org",
            vec![Reply::Code(SERVFAIL), Reply::Records(addresses("flaky.example.org", &[PRIVATE]))],
        )
        .becomes([resolve_error(), Refused]),
    ]
}
