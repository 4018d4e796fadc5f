//! Hostile addresses, one by one and at random.

use proptest::prelude::*;

use super::*;

/// Each network by its first, some inner and its last address.
const HOSTILE: &[(&str, &str)] = &[
    ("0.0.0.0", "unspecified"),
    ("0.0.0.1", "reserved"),
    ("0.1.2.3", "reserved"),
    ("0.255.255.255", "reserved"),
    ("10.0.0.0", "private"),
    ("10.0.0.1", "private"),
    ("10.96.0.1", "private"),
    ("10.255.255.255", "private"),
    ("100.64.0.0", "carrier-grade NAT"),
    ("100.64.0.1", "carrier-grade NAT"),
    ("100.100.100.199", "carrier-grade NAT"),
    ("100.100.100.200", "cloud metadata"),
    ("100.127.255.255", "carrier-grade NAT"),
    ("127.0.0.0", "loopback"),
    ("127.0.0.1", "loopback"),
    ("127.0.0.53", "loopback"),
    ("127.1.2.3", "loopback"),
    ("127.255.255.255", "loopback"),
    ("168.63.129.16", "cloud metadata"),
    ("169.254.0.0", "link-local"),
    ("169.254.0.23", "cloud metadata"),
    ("169.254.42.42", "cloud metadata"),
    ("169.254.169.253", "link-local"),
    ("169.254.169.254", "cloud metadata"),
    ("169.254.170.2", "cloud metadata"),
    ("169.254.170.23", "cloud metadata"),
    ("169.254.255.255", "link-local"),
    ("172.16.0.0", "private"),
    ("172.17.0.1", "private"),
    ("172.31.255.255", "private"),
    ("192.0.0.0", "reserved"),
    ("192.0.0.8", "reserved"),
    ("192.0.0.170", "reserved"),
    ("192.0.0.192", "cloud metadata"),
    ("192.0.0.255", "reserved"),
    ("192.0.2.0", "documentation"),
    ("192.0.2.255", "documentation"),
    ("192.88.99.0", "6to4 relay"),
    ("192.88.99.1", "6to4 relay"),
    ("192.88.99.255", "6to4 relay"),
    ("192.168.0.0", "private"),
    ("192.168.1.1", "private"),
    ("192.168.255.255", "private"),
    ("198.18.0.0", "benchmarking"),
    ("198.19.255.255", "benchmarking"),
    ("198.51.100.0", "documentation"),
    ("198.51.100.255", "documentation"),
    ("203.0.113.0", "documentation"),
    ("203.0.113.255", "documentation"),
    ("224.0.0.0", "multicast"),
    ("224.0.0.1", "multicast"),
    ("239.255.255.250", "multicast"),
    ("239.255.255.255", "multicast"),
    ("240.0.0.0", "reserved"),
    ("250.1.2.3", "reserved"),
    ("255.255.255.254", "reserved"),
    ("255.255.255.255", "broadcast"),
    ("::", "unspecified"),
    ("::1", "loopback"),
    ("::2", "IPv4-compatible"),
    ("::7f00:1", "IPv4-compatible"),
    ("::127.0.0.1", "IPv4-compatible"),
    ("::10.0.0.1", "IPv4-compatible"),
    ("::169.254.169.254", "IPv4-compatible"),
    ("::8.8.8.8", "IPv4-compatible"),
    ("::255.255.255.255", "IPv4-compatible"),
    ("::ffff:0.0.0.0", "IPv4-mapped"),
    ("::ffff:127.0.0.1", "IPv4-mapped"),
    ("::ffff:7f00:1", "IPv4-mapped"),
    ("::ffff:10.0.0.1", "IPv4-mapped"),
    ("::ffff:169.254.169.254", "IPv4-mapped"),
    ("::ffff:192.168.0.1", "IPv4-mapped"),
    ("::ffff:8.8.8.8", "IPv4-mapped"),
    ("::ffff:0:127.0.0.1", "SIIT"),
    ("::ffff:0:a00:1", "SIIT"),
    ("::ffff:0:8.8.8.8", "SIIT"),
    ("64:ff9b::", "NAT64"),
    ("64:ff9b::127.0.0.1", "NAT64"),
    ("64:ff9b::a9fe:a9fe", "NAT64"),
    ("64:ff9b::8.8.8.8", "NAT64"),
    ("64:ff9b:1::", "NAT64"),
    ("64:ff9b:1::a00:1", "NAT64"),
    ("64:ff9b:1:ffff:ffff:ffff:ffff:ffff", "NAT64"),
    ("64:ff9b:2::1", "reserved"),
    ("100::", "discard"),
    ("100::1", "discard"),
    ("100::ffff:ffff:ffff:ffff", "discard"),
    ("100:0:0:1::1", "reserved"),
    ("200::1", "reserved"),
    ("400::1", "reserved"),
    ("1000::1", "reserved"),
    ("1fff:ffff::1", "reserved"),
    ("2001::", "Teredo"),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", "Teredo"),
    ("2001:0:ffff:ffff:ffff:ffff:ffff:ffff", "Teredo"),
    ("2001:1::1", "reserved"),
    ("2001:2::1", "reserved"),
    ("2001:3::1", "reserved"),
    ("2001:4:112::1", "reserved"),
    ("2001:10::", "ORCHID"),
    ("2001:1f:ffff::1", "ORCHID"),
    ("2001:20::1", "ORCHID"),
    ("2001:2f:ffff::1", "ORCHID"),
    ("2001:30::1", "reserved"),
    ("2001:1ff:ffff::1", "reserved"),
    ("2001:db8::", "documentation"),
    ("2001:db8:ffff::1", "documentation"),
    ("2002::", "6to4"),
    ("2002:7f00:1::", "6to4"),
    ("2002:7f00:1::1", "6to4"),
    ("2002:a00:1::", "6to4"),
    ("2002:a9fe:a9fe::", "6to4"),
    ("2002:808:808::1", "6to4"),
    ("2606:4700::5efe:7f00:1", "ISATAP"),
    ("2606:4700::5efe:127.0.0.1", "ISATAP"),
    ("2606:4700::200:5efe:a00:1", "ISATAP"),
    ("2a00:1450:4001::5efe:8.8.8.8", "ISATAP"),
    ("3fff::", "documentation"),
    ("3fff:fff::1", "documentation"),
    ("4000::1", "reserved"),
    ("5f00::", "SRv6"),
    ("5f00:ffff::1", "SRv6"),
    ("8000::1", "reserved"),
    ("c000::1", "reserved"),
    ("e000::1", "reserved"),
    ("f000::1", "reserved"),
    ("fb00::1", "reserved"),
    ("fc00::", "unique-local"),
    ("fc00::1", "unique-local"),
    ("fd00::1", "unique-local"),
    ("fd00:42::42", "cloud metadata"),
    ("fd00:ec2::23", "cloud metadata"),
    ("fd00:ec2::253", "unique-local"),
    ("fd00:ec2::254", "cloud metadata"),
    ("fd20:ce::254", "cloud metadata"),
    ("fdff:ffff::1", "unique-local"),
    ("fe00::1", "reserved"),
    ("fe80::", "link-local"),
    ("fe80::1", "link-local"),
    ("fe80::5efe:10.0.0.1", "link-local"),
    ("fe80::a9fe:a9fe", "cloud metadata"),
    ("febf::1", "link-local"),
    ("fec0::1", "site-local"),
    ("feff::1", "site-local"),
    ("ff00::", "multicast"),
    ("ff02::1", "multicast"),
    ("ff0e::1", "multicast"),
    ("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "multicast"),
];

/// The neighbours of the refused networks, and some that receivers really have.
const PUBLIC: &[&str] = &[
    "1.0.0.0",
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "198.51.99.255",
    "198.51.101.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2001:200::1",
    "2001:4860:4860::8888",
    "2001:db7::1",
    "2001:db9::1",
    "2003::1",
    "2606:4700::1111",
    "2606:4700::100:5efe:1",
    "2a00:1450:4001:81b::200e",
    "3ffe::1",
    "3fff:1000::1",
];

#[test]
fn hostile_addresses_are_refused_with_their_reason() {
    assert!(HOSTILE.len() >= 100);
    for (text, why) in HOSTILE {
        assert_eq!(refusal(text.parse().unwrap()), Some(*why), "{text}");
    }
}

#[test]
fn public_addresses_are_not_refused() {
    for text in PUBLIC {
        assert_eq!(refusal(text.parse().unwrap()), None, "{text}");
    }
}

proptest! {
    #[test]
    fn an_ipv4_address_that_std_calls_special_is_refused(bits: u32) {
        let ip = Ipv4Addr::from(bits);
        let special = ip.is_private() || ip.is_loopback() || ip.is_link_local()
            || ip.is_multicast() || ip.is_unspecified() || ip.is_broadcast()
            || ip.is_documentation() || ip.octets()[0] == 0 || ip.octets()[0] >= 240;
        prop_assert!(!special || refusal(ip.into()).is_some());
    }

    #[test]
    fn no_ipv6_form_of_an_ipv4_address_is_allowed(bits: u32, prefix in 0x2600u16..0x2fff, subnet: u16) {
        let v4 = Ipv4Addr::from(bits);
        let (high, low) = ((bits >> 16) as u16, bits as u16);
        for ip in [
            v4.to_ipv6_mapped(),
            v4.to_ipv6_compatible(),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 1, subnet, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, subnet, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, high, low, 0, 0, !high, !low),
            Ipv6Addr::new(prefix, subnet, 0, 0, 0, 0x5efe, high, low),
            Ipv6Addr::new(prefix, subnet, 0, 0, 0x200, 0x5efe, high, low),
        ] {
            prop_assert!(refusal(ip.into()).is_some(), "{}", ip);
        }
    }

    #[test]
    fn nothing_outside_the_global_unicast_block_is_allowed(bits: u128) {
        let ip = Ipv6Addr::from(bits);
        prop_assert!(ip.segments()[0] >> 13 == 1 || refusal(ip.into()).is_some());
    }
}
