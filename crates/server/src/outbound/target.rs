//! Where a request goes: a URL given by a user, read strictly.
//!
//! Two URL readers that repair bad text differently are how a guard and a client come to talk
//! about different hosts. So text that would need repair is refused instead.

use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::Uri;
use url::{Host, Url};

use super::policy::AddressPolicy;

/// A URL that was read without repair.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    uri: Uri,
    host: TargetHost,
    port: u16,
    https: bool,
}

/// The host of a [`Target`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetHost {
    /// A name, in ASCII and lower case.
    Name(String),
    /// An address, written in its usual form.
    Ip(IpAddr),
}

/// Why a URL is refused, as a sentence for the one who gave it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetRefusal {
    /// Too long.
    #[error("url must be at most {URL_BYTES_MAX} bytes long")]
    TooLong,
    /// Not a whole URL.
    #[error("url must be a complete URL, such as https://example.com/hook")]
    Malformed,
    /// A parser would have to guess what was meant.
    #[error("url must be written exactly, without spaces, backslashes or other odd characters")]
    NeedsRepair,
    /// Plain HTTP, or something else.
    #[error("url must use HTTPS")]
    NotHttps,
    /// Neither HTTP nor HTTPS, where both are allowed.
    #[error("url must use HTTP or HTTPS")]
    NotHttp,
    /// Has `user:password@`.
    #[error("url must not hold a user name or a password")]
    Userinfo,
    /// Has `#…`.
    #[error("url must not have a fragment")]
    Fragment,
    /// Octal, hexadecimal, decimal or shortened.
    #[error("url must write an IP address in its usual form")]
    NumberForm,
    /// A name that only means something inside a network.
    #[error("url must name a public host")]
    PrivateName,
    /// A port that webhooks do not use.
    #[error("url must use port {0}")]
    Port(&'static str),
    /// An address that must not be reached.
    #[error("url must not point at a {0} address")]
    Address(&'static str),
}

const URL_BYTES_MAX: usize = 2048;

/// What resolvers answer for themselves, or from inside the network.
const PRIVATE_SUFFIXES: [&str; 5] = ["localhost", "local", "internal", "svc", "home.arpa"];

impl Target {
    /// Reads a URL and checks it against the policy.
    pub fn parse(text: &str, policy: &AddressPolicy) -> Result<Target, TargetRefusal> {
        let target = read(text, policy.allow_http)?;
        target.check(policy)?;
        Ok(target)
    }

    /// Checks again, for a target that was read under another policy.
    pub fn check(&self, policy: &AddressPolicy) -> Result<(), TargetRefusal> {
        if !self.https && !policy.allow_http {
            return Err(TargetRefusal::NotHttps);
        }
        match &self.host {
            TargetHost::Ip(ip) => {
                if let Some(why) = policy.refusal(*ip) {
                    return Err(TargetRefusal::Address(why));
                }
            }
            TargetHost::Name(name) if !policy.allows_private() && is_private(name) => {
                return Err(TargetRefusal::PrivateName);
            }
            TargetHost::Name(_) => {}
        }
        match (self.port, policy.allow_http) {
            _ if policy.allows_private() => Ok(()),
            (443 | 8443, _) | (80, true) => Ok(()),
            (_, true) => Err(TargetRefusal::Port("80, 443 or 8443")),
            (_, false) => Err(TargetRefusal::Port("443 or 8443")),
        }
    }

    /// The URL in the form in which it is sent.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The host.
    pub fn host(&self) -> &TargetHost {
        &self.host
    }

    /// The port, also where the URL leaves it out.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the request goes over TLS.
    pub fn is_https(&self) -> bool {
        self.https
    }
}

/// Without path and query, which often hold a secret.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "Target({scheme}://{}:{})", self.host, self.port)
    }
}

impl fmt::Display for TargetHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetHost::Name(name) => f.write_str(name),
            TargetHost::Ip(IpAddr::V4(ip)) => ip.fmt(f),
            TargetHost::Ip(IpAddr::V6(ip)) => write!(f, "[{ip}]"),
        }
    }
}

/// Whether a name means something only inside a network: it has no dot, or a suffix of its own there.
pub(super) fn is_private(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    !name.contains('.')
        || PRIVATE_SUFFIXES.iter().any(|suffix| {
            name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        })
}

fn read(text: &str, allow_http: bool) -> Result<Target, TargetRefusal> {
    if text.len() > URL_BYTES_MAX {
        return Err(TargetRefusal::TooLong);
    }
    if text.contains(|c: char| c == '\\' || c.is_whitespace() || c.is_control()) {
        return Err(TargetRefusal::NeedsRepair);
    }
    let (https, rest) = read_scheme(text, allow_http)?;
    if text.contains('#') {
        return Err(TargetRefusal::Fragment);
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(TargetRefusal::Userinfo);
    }
    let (host_text, port_text) = split_port(authority)?;
    let url = parse_without_repair(text)?;
    let host = read_host(host_text, url.host().ok_or(TargetRefusal::Malformed)?)?;
    let port = match port_text {
        Some(text) => read_port(text)?,
        None if https => 443,
        None => 80,
    };
    let uri = url.as_str().parse().map_err(|_| TargetRefusal::Malformed)?;
    Ok(Target { uri, host, port, https })
}

fn read_scheme(text: &str, allow_http: bool) -> Result<(bool, &str), TargetRefusal> {
    let wrong = if allow_http { TargetRefusal::NotHttp } else { TargetRefusal::NotHttps };
    let (scheme, rest) = text.split_once(':').ok_or(TargetRefusal::Malformed)?;
    let https = if scheme.eq_ignore_ascii_case("https") {
        true
    } else if scheme.eq_ignore_ascii_case("http") {
        false
    } else {
        return Err(wrong);
    };
    let rest = rest.strip_prefix("//").ok_or(TargetRefusal::NeedsRepair)?;
    // A parser skips any number of slashes here.
    match rest.starts_with('/') {
        true => Err(TargetRefusal::NeedsRepair),
        false => Ok((https, rest)),
    }
}

fn split_port(authority: &str) -> Result<(&str, Option<&str>), TargetRefusal> {
    let host_end = match authority.starts_with('[') {
        true => authority.find(']').ok_or(TargetRefusal::Malformed)? + 1,
        false => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(host_end);
    match port {
        "" => Ok((host, None)),
        _ => Ok((host, Some(port.strip_prefix(':').ok_or(TargetRefusal::Malformed)?))),
    }
}

/// A parser would drop an empty port and leading zeros.
fn read_port(text: &str) -> Result<u16, TargetRefusal> {
    let port: u16 = text.parse().map_err(|_| TargetRefusal::Malformed)?;
    match port != 0 && port.to_string() == text {
        true => Ok(port),
        false => Err(TargetRefusal::NeedsRepair),
    }
}

fn parse_without_repair(text: &str) -> Result<Url, TargetRefusal> {
    let repaired = Cell::new(false);
    let note = |_| repaired.set(true);
    let url = Url::options().syntax_violation_callback(Some(&note)).parse(text);
    match url {
        _ if repaired.get() => Err(TargetRefusal::NeedsRepair),
        Ok(url) => Ok(url),
        Err(url::ParseError::InvalidIpv4Address) => Err(TargetRefusal::NumberForm),
        Err(_) => Err(TargetRefusal::Malformed),
    }
}

/// Compares what was written with what the parser made of it.
fn read_host(written: &str, parsed: Host<&str>) -> Result<TargetHost, TargetRefusal> {
    match parsed {
        Host::Ipv4(ip) if written == ip.to_string() => Ok(TargetHost::Ip(ip.into())),
        Host::Ipv4(_) => Err(TargetRefusal::NumberForm),
        Host::Ipv6(ip) => {
            let inner = written.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
            match inner.and_then(|text| text.parse::<Ipv6Addr>().ok()) {
                Some(same) if same == ip => Ok(TargetHost::Ip(ip.into())),
                _ => Err(TargetRefusal::NumberForm),
            }
        }
        Host::Domain(name) => read_name(written, name),
    }
}

fn read_name(written: &str, name: &str) -> Result<TargetHost, TargetRefusal> {
    if !is_dns_name(name) {
        return Err(TargetRefusal::Malformed);
    }
    // Percent signs, full-width letters, other scripts' dots, invisible characters: all of them
    // end up as something that was not written. A true international label becomes `xn--`.
    let mut written = written.split('.');
    let same = name.split('.').all(|label| {
        written.next().is_some_and(|text| match text.is_ascii() {
            true => text.eq_ignore_ascii_case(label),
            false => label.starts_with("xn--") && reads_as(label, text),
        })
    });
    match same && written.next().is_none() {
        true => Ok(TargetHost::Name(name.to_owned())),
        false => Err(TargetRefusal::NeedsRepair),
    }
}

/// Whether this is how the label of an international name is written, but for capitals.
fn reads_as(label: &str, text: &str) -> bool {
    let (read, valid) = idna::domain_to_unicode(label);
    // Letter by letter, as the standard has it: by word, Greek has another small sigma at its end.
    valid.is_ok() && read.chars().eq(text.chars().flat_map(char::to_lowercase))
}

fn is_dns_name(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.len() <= 253
        && name.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
        })
}

#[cfg(test)]
#[path = "tests/target.rs"]
mod tests;
