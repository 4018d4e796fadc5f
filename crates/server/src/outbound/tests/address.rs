//! Hostile addresses at random; one by one they are in the corpus (`hostile.rs`).

use proptest::prelude::*;

use super::*;

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
