//! Which IP addresses a guarded request may never reach, and why.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// Why a guarded request may not connect to this address; `None` if it may.
///
/// IPv6 forms that carry an IPv4 address are refused whole, whatever they carry: no public
/// receiver needs them, and each is a second spelling that a check of the first would miss.
pub fn refusal(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => refusal_v4(ip),
        IpAddr::V6(ip) => refusal_v6(ip),
    }
}

/// The networks that [`refusal`] goes by, for whoever tries it at their edges.
pub fn networks() -> impl Iterator<Item = IpNet> {
    let metadata_v4 = METADATA_V4.iter().map(|ip| IpNet::from(IpAddr::V4(*ip)));
    let metadata_v6 = METADATA_V6.iter().map(|ip| IpNet::from(IpAddr::V6(*ip)));
    let refused_v4 = REFUSED_V4.iter().map(|(net, _)| IpNet::V4(*net));
    let refused_v6 = REFUSED_V6.iter().map(|(net, _)| IpNet::V6(*net));
    let all = metadata_v4.chain(metadata_v6).chain(refused_v4).chain(refused_v6);
    all.chain([IpNet::V6(GLOBAL_V6)])
}

fn refusal_v4(ip: Ipv4Addr) -> Option<&'static str> {
    if METADATA_V4.contains(&ip) {
        return Some("cloud metadata");
    }
    REFUSED_V4.iter().find(|(net, _)| net.contains(&ip)).map(|(_, why)| *why)
}

fn refusal_v6(ip: Ipv6Addr) -> Option<&'static str> {
    if METADATA_V6.contains(&ip) {
        return Some("cloud metadata");
    }
    if let Some((_, why)) = REFUSED_V6.iter().find(|(net, _)| net.contains(&ip)) {
        return Some(why);
    }
    // IANA has given out unicast space under 2000::/3 only; the rest may be routed anywhere.
    if !GLOBAL_V6.contains(&ip) {
        return Some("reserved");
    }
    is_isatap(ip).then_some("ISATAP")
}

/// ISATAP hides an IPv4 address in the interface id, under any prefix.
fn is_isatap(ip: Ipv6Addr) -> bool {
    let [.., high, low, _, _] = ip.segments();
    low == 0x5efe && (high == 0x0000 || high == 0x0200)
}

/// Named one by one because some are publicly routable, and so that the operator reads
/// "metadata" and not "link-local".
const METADATA_V4: &[Ipv4Addr] = &[
    Ipv4Addr::new(169, 254, 169, 254), // AWS, Google, Azure, DigitalOcean, OpenStack and others
    Ipv4Addr::new(169, 254, 170, 2),   // AWS container credentials
    Ipv4Addr::new(169, 254, 170, 23),  // AWS EKS pod identity
    Ipv4Addr::new(169, 254, 0, 23),    // Tencent
    Ipv4Addr::new(169, 254, 42, 42),   // Scaleway
    Ipv4Addr::new(168, 63, 129, 16),   // Azure, in public space
    Ipv4Addr::new(100, 100, 100, 200), // Alibaba
    Ipv4Addr::new(192, 0, 0, 192),     // Oracle
];

const METADATA_V6: &[Ipv6Addr] = &[
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), // AWS
    Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23),  // AWS EKS pod identity
    Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254),  // Google
    Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42),   // Scaleway
    Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe), // OpenStack
];

/// The first match names the reason, so the narrow networks stand before the wide ones.
const REFUSED_V4: &[(Ipv4Net, &str)] = &[
    (v4(0, 0, 0, 0, 32), "unspecified"),
    (v4(255, 255, 255, 255, 32), "broadcast"),
    (v4(127, 0, 0, 0, 8), "loopback"),
    (v4(10, 0, 0, 0, 8), "private"),
    (v4(172, 16, 0, 0, 12), "private"),
    (v4(192, 168, 0, 0, 16), "private"),
    (v4(169, 254, 0, 0, 16), "link-local"),
    (v4(100, 64, 0, 0, 10), "carrier-grade NAT"),
    (v4(224, 0, 0, 0, 4), "multicast"),
    (v4(192, 0, 2, 0, 24), "documentation"),
    (v4(198, 51, 100, 0, 24), "documentation"),
    (v4(203, 0, 113, 0, 24), "documentation"),
    (v4(198, 18, 0, 0, 15), "benchmarking"),
    (v4(192, 88, 99, 0, 24), "6to4 relay"),
    (v4(192, 0, 0, 0, 24), "reserved"),
    (v4(0, 0, 0, 0, 8), "reserved"),
    (v4(240, 0, 0, 0, 4), "reserved"),
];

const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const REFUSED_V6: &[(Ipv6Net, &str)] = &[
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    (v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96), "IPv4-mapped"),
    (v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96), "SIIT"),
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "IPv4-compatible"),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), "NAT64"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "NAT64"),
    (v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), "discard"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 32), "Teredo"),
    (v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28), "ORCHID"),
    (v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28), "ORCHID"),
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "reserved"), // protocol assignments, benchmarking
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "documentation"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "6to4"),
    (v6([0x5f00, 0, 0, 0, 0, 0, 0, 0], 16), "SRv6"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "unique-local"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
];

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(s: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7]), prefix)
}

#[cfg(test)]
#[path = "tests/address.rs"]
mod tests;
