//! Addresses in the headers of a mail.

use mail_parser::HeaderValue;
use mail_parser::parsers::MessageStream;

/// Somebody's address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Their name, if there is one.
    pub(crate) name: Option<String>,
    /// The address itself, in lower case.
    pub(crate) address: String,
}

impl Address {
    fn read(name: Option<&str>, address: &str) -> Option<Address> {
        let address = address.to_lowercase();
        let (local, domain) = address.split_once('@')?;
        let is_plain =
            |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '<' | '>' | '"');
        let fits = !local.is_empty() && address.len() <= 254 && address.chars().all(is_plain);
        let name = name.map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned);
        (fits && is_domain(domain)).then(|| Address { name, address: address.clone() })
    }

    pub(crate) fn domain(&self) -> &str {
        self.address.split_once('@').map_or("", |(_, domain)| domain)
    }

    /// Whether it is one of these, all in lower case; what stands after a + is a note of the mailbox's owner.
    pub(crate) fn is_one_of(&self, known: &[String]) -> bool {
        let (local, domain) = self.address.split_once('@').unwrap_or_default();
        let bare = local.split('+').next().unwrap_or_default();
        known.iter().any(|known| *known == self.address || *known == format!("{bare}@{domain}"))
    }
}

/// The addresses in a header; what is not one is passed over.
pub(crate) fn list(text: &str) -> Vec<Address> {
    // The parser stops at the first line's end.
    let line = format!("{}\n", text.replace(['\r', '\n'], " "));
    let HeaderValue::Address(found) = MessageStream::new(line.as_bytes()).parse_address() else {
        return Vec::new();
    };
    let found = found.iter().filter_map(|one| Address::read(one.name(), one.address()?));
    found.collect()
}

/// Whether the text is a domain of at least one dot, in lower case.
pub(crate) fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
        !label.is_empty() && label.chars().all(is_plain)
    };
    text.contains('.') && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Vec<(Option<String>, String)> {
        list(text).into_iter().map(|one| (one.name, one.address)).collect()
    }

    #[test]
    fn addresses_are_read_with_and_without_names() {
        let one = |name: &str, address: &str| {
            (Some(name.to_owned()).filter(|name| !name.is_empty()), address.to_owned())
        };
        assert_eq!(read("Ada@Acme.example"), [one("", "ada@acme.example")]);
        assert_eq!(read("Ada L <ada@acme.example>"), [one("Ada L", "ada@acme.example")]);
        assert_eq!(read("\"L, Ada\" <ada@acme.example>"), [one("L, Ada", "ada@acme.example")]);
        assert_eq!(
            read("=?utf-8?q?Ad=C3=A1?= <ada@acme.example>"),
            [one("Adá", "ada@acme.example")]
        );
        assert_eq!(
            read("a@b.example,\r\n C <c@d.example>"),
            [one("", "a@b.example"), one("C", "c@d.example")]
        );
        assert_eq!(
            read("Team: a@b.example, c@d.example;"),
            [one("", "a@b.example"), one("", "c@d.example")]
        );
    }

    #[test]
    fn a_name_that_looks_like_an_address_is_only_a_name() {
        let addresses = |text| list(text).into_iter().map(|one| one.address).collect::<Vec<_>>();
        assert_eq!(addresses("ada@acme.example <eve@evil.example>"), ["eve@evil.example"]);
        assert_eq!(addresses("\"ada@acme.example\" <eve@evil.example>"), ["eve@evil.example"]);
        assert_eq!(addresses("\"<ada@acme.example>\" <eve@evil.example>"), ["eve@evil.example"]);
    }

    #[test]
    fn what_is_no_address_is_passed_over() {
        for bad in [
            "",
            "ada",
            "@acme.example",
            "ada@",
            "ada@localhost",
            "a@b@c.example",
            "a@.example",
            "<>",
        ] {
            assert_eq!(list(bad), [], "{bad}");
        }
        let long = format!("{}@acme.example", "a".repeat(300));
        assert_eq!(list(&long), []);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[\\PC\\r\\n]*") {
            for address in list(&text) {
                prop_assert!(is_domain(address.domain()));
            }
        }

        #[test]
        fn no_punctuation_makes_it_panic(text in "[a@.<>\"(),:;\\\\= ?\\r\\n-]{0,60}") {
            let _ = list(&text);
        }
    }
}
