//! What the operator lets requests reach, beyond public addresses over HTTPS.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::address;

/// The rules for one kind of request. Only the operator sets them; a tenant never can.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressPolicy {
    /// Whether `http://` URLs are allowed beside `https://` ones.
    pub allow_http: bool,
    /// Which refused addresses are allowed after all.
    pub allow: Allow,
}

/// Which of the addresses that [`address::refusal`] names are allowed after all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Allow {
    /// None of them.
    #[default]
    None,
    /// All of them, and with them any port and any name: for development.
    All,
    /// Those in the listed networks. Ports and names stay as strict as with `None`.
    Cidrs(Vec<IpNet>),
}

/// The text was neither `true`, `false` nor a list of networks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be true, false or a list of networks such as 10.0.0.0/8,fd00::/8")]
pub struct InvalidAllow;

impl AddressPolicy {
    /// For URLs that the operator chose: set in `wakepost.toml`, or by an all-tenant admin.
    pub fn trusted() -> AddressPolicy {
        AddressPolicy { allow_http: true, allow: Allow::All }
    }

    /// Why this address may not be reached; `None` if it may.
    pub fn refusal(&self, ip: IpAddr) -> Option<&'static str> {
        let why = address::refusal(ip)?;
        let allowed = match &self.allow {
            Allow::None => false,
            Allow::All => true,
            Allow::Cidrs(networks) => networks.iter().any(|network| network.contains(&ip)),
        };
        (!allowed).then_some(why)
    }

    /// Whether the rules for ports and names are lifted.
    pub fn allows_private(&self) -> bool {
        self.allow == Allow::All
    }
}

impl FromStr for Allow {
    type Err = InvalidAllow;

    /// Reads the form of `WAKEPOST_ALLOW_PRIVATE`.
    fn from_str(text: &str) -> Result<Allow, InvalidAllow> {
        match text.trim() {
            "" | "false" => Ok(Allow::None),
            "true" => Ok(Allow::All),
            list => list
                .split(',')
                .map(|network| network.trim().parse().map_err(|_| InvalidAllow))
                .collect::<Result<_, _>>()
                .map(Allow::Cidrs),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_listed_network_is_allowed_and_its_neighbours_are_not() {
        let policy =
            AddressPolicy { allow_http: false, allow: "10.1.0.0/16, fd00:1::/32".parse().unwrap() };
        assert_eq!(policy.refusal(ip("10.1.2.3")), None);
        assert_eq!(policy.refusal(ip("fd00:1::5")), None);
        assert_eq!(policy.refusal(ip("1.1.1.1")), None);
        assert_eq!(policy.refusal(ip("10.2.0.1")), Some("private"));
        assert_eq!(policy.refusal(ip("fd00:2::5")), Some("unique-local"));
        // Another spelling of a listed address is not the listed address.
        assert_eq!(policy.refusal(ip("::ffff:10.1.2.3")), Some("IPv4-mapped"));
    }

    #[test]
    fn the_setting_is_a_switch_or_a_list() {
        assert_eq!("true".parse(), Ok(Allow::All));
        assert_eq!("false".parse(), Ok(Allow::None));
        assert_eq!("".parse(), Ok(Allow::None));
        assert_eq!("10.0.0.0/8,nonsense".parse::<Allow>(), Err(InvalidAllow));
        assert_eq!("10.0.0.0".parse::<Allow>(), Err(InvalidAllow));
    }

    #[test]
    fn only_allowing_all_lifts_the_rules_for_ports_and_names() {
        assert!(AddressPolicy::trusted().allows_private());
        assert!(!AddressPolicy::default().allows_private());
        let listed = AddressPolicy { allow: "10.0.0.0/8".parse().unwrap(), ..Default::default() };
        assert!(!listed.allows_private());
    }
}
