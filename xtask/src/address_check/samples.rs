//! Addresses and URLs to ask for: at the edges of networks, and at random.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// Numbers that follow from a seed (SplitMix64).
pub struct Chance(u64);

impl Chance {
    /// From this seed on.
    pub fn new(seed: u64) -> Chance {
        Chance(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn wide(&mut self) -> u128 {
        (u128::from(self.next()) << 64) | u128::from(self.next())
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count.max(1) as u64) as usize
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}

/// The first and the last address of each network, and those beside them.
pub fn edges(networks: &[IpNet]) -> Vec<IpAddr> {
    let beside = |network: &IpNet| match network {
        IpNet::V4(network) => {
            let (first, last) = (network.network().to_bits(), network.broadcast().to_bits());
            let edges = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
            edges.map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)))
        }
        IpNet::V6(network) => {
            let (first, last) = (network.network().to_bits(), network.broadcast().to_bits());
            let edges = [first.wrapping_sub(1), first, last, last.wrapping_add(1)];
            edges.map(|bits| IpAddr::from(Ipv6Addr::from_bits(bits)))
        }
    };
    networks.iter().flat_map(beside).collect()
}

/// Any address, more often where there is something to get wrong.
pub fn address(chance: &mut Chance, networks: &[IpNet]) -> IpAddr {
    let global = |bits: u128| (bits >> 3) | (1 << 125);
    match chance.below(8) {
        0 | 1 => Ipv4Addr::from_bits(chance.next() as u32).into(),
        2 => Ipv6Addr::from_bits(chance.wide()).into(),
        3 | 4 => Ipv6Addr::from_bits(global(chance.wide())).into(),
        5 => isatap(global(chance.wide())).into(),
        _ => {
            let network = *chance.one_of(networks);
            inside(network, chance.wide())
        }
    }
}

/// With the mark of ISATAP in its middle, or a mark that only looks like it.
fn isatap(bits: u128) -> Ipv6Addr {
    let mark = match bits & 3 {
        0 => 0x0200_5efe,
        1 => 0x0100_5efe,
        _ => 0x0000_5efe,
    };
    Ipv6Addr::from_bits((bits & !(0xffff_ffff << 32)) | (mark << 32))
}

fn inside(network: IpNet, bits: u128) -> IpAddr {
    match network {
        IpNet::V4(network) => {
            let host = bits as u32 & network.hostmask().to_bits();
            Ipv4Addr::from_bits(network.network().to_bits() | host).into()
        }
        IpNet::V6(network) => {
            let host = bits & network.hostmask().to_bits();
            Ipv6Addr::from_bits(network.network().to_bits() | host).into()
        }
    }
}

/// What readers of URLs stumble over.
const STUMBLING: &[char] = &[
    '.', '/', ':', '@', '#', '?', '\\', '%', '[', ']', '0', '1', '7', 'x', 'a', 'F', '-', '_', ' ',
    '\t', '&', ';', ',', '+', '１', '。', 'ｘ', 'ü', 'ß', 'İ', 'ς', '①', '\u{ad}', '\u{200b}',
    '\u{200d}', '\u{308}', '例',
];
const CHANGES_MAX: usize = 3;

/// One of the URLs, with up to three characters of its beginning changed, added or left out.
pub fn spoiled(chance: &mut Chance, urls: &[String]) -> String {
    let mut text: Vec<char> = chance.one_of(urls).chars().collect();
    for _ in 0..=chance.below(CHANGES_MAX) {
        // Mostly in the host, which is what readers differ in.
        let place = ("https://".len() + chance.below(24)).min(text.len());
        let letter = *chance.one_of(STUMBLING);
        match chance.below(3) {
            0 if place < text.len() => text[place] = letter,
            1 if place < text.len() => drop(text.remove(place)),
            _ => text.insert(place, letter),
        }
    }
    text.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_edge_is_tried_on_both_sides() {
        let shown = |network: &str| {
            let edges = edges(&[network.parse().unwrap()]);
            edges.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("10.0.0.0/8"), "9.255.255.255 10.0.0.0 10.255.255.255 11.0.0.0");
        assert_eq!(shown("::1/128"), ":: ::1 ::1 ::2");
        assert_eq!(
            shown("ff00::/8"),
            "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ff00:: \
             ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ::"
        );
    }

    #[test]
    fn an_address_inside_a_network_is_inside_it() {
        let mut chance = Chance::new(1);
        for network in ["192.168.0.0/16", "1.2.3.4/32", "2002::/16", "::/96"] {
            let network: IpNet = network.parse().unwrap();
            for _ in 0..100 {
                assert!(network.contains(&inside(network, chance.wide())));
            }
        }
    }

    #[test]
    fn a_seed_repeats_its_choices() {
        let urls = ["https://example.com/".to_owned(), "https://127.0.0.1/".to_owned()];
        let made = |seed| {
            let mut chance = Chance::new(seed);
            (0..50).map(|_| spoiled(&mut chance, &urls)).collect::<Vec<_>>()
        };
        assert_eq!(made(7), made(7));
        assert_ne!(made(7), made(8));
    }
}
