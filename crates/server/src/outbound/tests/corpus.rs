//! What is hostile and what is harmless, as lists: URLs, names, and addresses with the notations that each is tried in.
//! The tests beside this file hold the guard against them, and so does `examples/address_guard`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::Deserialize;
use serde::de::DeserializeOwned;

/// All of it.
pub struct Corpus {
    /// URLs that are refused when they are given.
    pub urls: Vec<HostileUrl>,
    /// Addresses that no guarded request may reach.
    pub addresses: Vec<HostileAddress>,
    /// Names that lead to such addresses.
    pub names: Vec<HostileName>,
    /// What must pass.
    pub harmless: Harmless,
}

/// A URL, and what its giver reads.
pub struct HostileUrl {
    pub url: String,
    pub refusal: String,
    /// Whether no policy allows it.
    pub always: bool,
}

/// An address, and the word for it that the operator reads.
pub struct HostileAddress {
    pub ip: IpAddr,
    pub refusal: String,
}

/// A name, and the address that name servers give for it.
pub struct HostileName {
    pub name: String,
    pub ip: IpAddr,
}

/// URLs and addresses that must pass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Harmless {
    pub urls: Vec<String>,
    pub addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
struct Groups<G> {
    group: Vec<G>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UrlGroup {
    refusal: String,
    #[serde(default)]
    always: bool,
    #[serde(rename = "why")]
    _why: String,
    urls: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AddressGroup {
    refusal: String,
    #[serde(rename = "why")]
    _why: String,
    addresses: Vec<IpAddr>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NameGroup {
    address: IpAddr,
    #[serde(rename = "why")]
    _why: String,
    names: Vec<String>,
}

const NUMBER_FORM: &str = "url must write an IP address in its usual form";
const TOO_LONG: &str = "url must be at most 2048 bytes long";
const MALFORMED: &str = "url must be a complete URL, such as https://example.com/hook";

impl Corpus {
    /// Reads the lists, and writes every address in its notations.
    pub fn read() -> Corpus {
        let addresses: Vec<_> = groups(include_str!("corpus/hostile_addresses.toml"))
            .flat_map(|AddressGroup { refusal, addresses, .. }| {
                let hostile = move |ip| HostileAddress { ip, refusal: refusal.clone() };
                addresses.into_iter().map(hostile)
            })
            .collect();
        let listed = groups(include_str!("corpus/hostile_urls.toml")).flat_map(
            |UrlGroup { refusal, always, urls, .. }| {
                let hostile = move |url| HostileUrl { url, refusal: refusal.clone(), always };
                urls.into_iter().map(hostile)
            },
        );
        let written = addresses.iter().flat_map(written);
        let urls = listed.chain(too_long()).chain(written).collect();
        let names = groups(include_str!("corpus/hostile_names.toml"))
            .flat_map(|NameGroup { address: ip, names, .. }| {
                names.into_iter().map(move |name| HostileName { name, ip })
            })
            .collect();
        let harmless = from_toml(include_str!("corpus/harmless.toml"));
        Corpus { urls, addresses, names, harmless }
    }
}

fn groups<G: DeserializeOwned>(text: &str) -> impl Iterator<Item = G> {
    from_toml::<Groups<G>>(text).group.into_iter()
}

fn from_toml<T: DeserializeOwned>(text: &str) -> T {
    toml::from_str(text).expect("the lists are well written")
}

/// The host of an address in a URL, as it should be written.
pub fn host(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// URLs of the address in every notation.
fn written(address: &HostileAddress) -> Vec<HostileUrl> {
    let (usual, odd) = match address.ip {
        IpAddr::V4(ip) => (vec![ip.to_string()], odd_v4(ip)),
        IpAddr::V6(ip) => (usual_v6(ip), Vec::new()),
    };
    let usual = usual.into_iter().map(|host| HostileUrl {
        url: format!("https://{host}/hook"),
        refusal: format!("url must not point at a {} address", address.refusal),
        always: false,
    });
    let odd = odd.into_iter().map(|host| HostileUrl {
        url: format!("https://{host}/hook"),
        refusal: NUMBER_FORM.to_owned(),
        always: true,
    });
    usual.chain(odd).collect()
}

/// What `inet_aton` and readers of names take for this address.
fn odd_v4(ip: Ipv4Addr) -> Vec<String> {
    let whole = ip.to_bits();
    let [a, b, c, d] = ip.octets();
    let (last_24, last_16) = (whole & 0xff_ffff, whole & 0xffff);
    let usual = ip.to_string();
    let full_width = |c: char| match c.to_digit(10) {
        Some(digit) => char::from_u32(0xff10 + digit).expect("ten digits follow each other"),
        None => c,
    };
    let mut odd = vec![
        format!("{whole}"),
        format!("{whole}."),
        format!("0x{whole:x}"),
        format!("0X{whole:08X}"),
        format!("0{whole:o}"),
        format!("{a}.{last_24}"),
        format!("{a}.{b}.{last_16}"),
        format!("0x{a:x}.0x{b:x}.0x{c:x}.0x{d:x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("{a:04}.{b:04}.{c:04}.{d:04}"),
        format!("{a}.0x{b:x}.0{c:o}.{d}"),
        format!("0x{a:x}.{last_24}"),
        format!("0{a:o}.0x{b:x}.{last_16}"),
        format!("{usual}."),
        usual.replace('.', "。"),
        usual.replace('.', "．"),
        usual.chars().map(full_width).collect(),
    ];
    odd.retain(|host| *host != usual);
    odd
}

/// All of these are the usual form to one reader or another, so they are read, and judged by their address.
fn usual_v6(ip: Ipv6Addr) -> Vec<String> {
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let [.., w, x, y, z] = ip.octets();
    vec![
        format!("[{ip}]"),
        format!("[{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}:{g:x}:{h:x}]"),
        format!("[{a:04X}:{b:04X}:{c:04X}:{d:04X}:{e:04X}:{f:04X}:{g:04X}:{h:04X}]"),
        format!("[{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}:{w}.{x}.{y}.{z}]"),
    ]
}

fn too_long() -> Vec<HostileUrl> {
    let label = "a".repeat(63);
    let name = [label.as_str(); 4].join(".");
    [
        (format!("https://example.com/{}", "a".repeat(2048)), TOO_LONG),
        (format!("https://{}127.0.0.1/", "0".repeat(2048)), TOO_LONG),
        (format!("https://127.0.0.1/?{}", "%20".repeat(700)), TOO_LONG),
        (format!("https://{label}a.example.com/"), MALFORMED),
        (format!("https://{name}.com/"), MALFORMED),
    ]
    .map(|(url, refusal)| HostileUrl { url, refusal: refusal.to_owned(), always: true })
    .into()
}
