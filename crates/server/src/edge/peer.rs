//! Who is really calling: the connection's peer, or the one a trusted proxy names.

use std::net::IpAddr;

use http::HeaderMap;

/// The sender's address. `X-Forwarded-For` is believed only as far as trusted proxies wrote it: the
/// rightmost address that is not a trusted proxy is the sender.
pub fn address(peer: IpAddr, headers: &HeaderMap, trusted: &[ipnet::IpNet]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let peer = peer.to_canonical();
    if trusted.is_empty() || !is_trusted(peer) {
        return peer;
    }
    let mut sender = peer;
    let values = headers.get_all("x-forwarded-for").into_iter().collect::<Vec<_>>();
    let hops = values
        .iter()
        .rev()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.rsplit(','));
    for hop in hops {
        let Ok(address) = hop.trim().parse::<IpAddr>() else {
            return sender;
        };
        sender = address.to_canonical();
        if !is_trusted(sender) {
            return sender;
        }
    }
    sender
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-forwarded-for", http::HeaderValue::from_static(value));
        }
        headers
    }

    fn sender(peer: &str, values: &[&'static str]) -> String {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        address(peer.parse().unwrap(), &headers(values), &trusted).to_string()
    }

    #[test]
    fn only_a_trusted_proxys_word_counts() {
        assert_eq!(sender("192.0.2.1", &["1.1.1.1"]), "192.0.2.1");
        assert_eq!(sender("10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
        assert_eq!(sender("10.0.0.1", &["6.6.6.6, 1.1.1.1, 10.0.0.2"]), "1.1.1.1");
        assert_eq!(sender("10.0.0.1", &["6.6.6.6", "1.1.1.1"]), "1.1.1.1");
        assert_eq!(sender("10.0.0.1", &["6.6.6.6, rubbish"]), "10.0.0.1");
        assert_eq!(sender("10.0.0.1", &[]), "10.0.0.1");
    }
}
