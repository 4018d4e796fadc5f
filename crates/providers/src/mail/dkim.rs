//! Who signed a mail, by the provider's word, and whether that vouches for its sender.

use super::address::is_domain;
use super::headers::Headers;

/// Whose signatures the provider found good.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Dkim {
    /// None, or it does not say.
    #[default]
    Nobody,
    /// Those of each of these domains.
    Each(Vec<String>),
    /// That of one of these domains, and it does not say which.
    OneOf(Vec<String>),
}

impl Dkim {
    /// One of the signatures in the headers is good, as far as the provider tells.
    pub(crate) fn one_of(headers: &Headers) -> Dkim {
        signers(headers).map_or(Dkim::Nobody, Dkim::OneOf)
    }

    /// What SendGrid writes, such as `{@acme.example : pass}`. A domain counts only if its every signature is
    /// good and is really among the headers: the text holds parts that the signer chose.
    pub(crate) fn reported(text: &str, headers: &Headers) -> Dkim {
        let Some(results) = results(text) else { return Dkim::Nobody };
        let signers = signers(headers).unwrap_or_default();
        let is_good = |domain: &str| {
            let all_pass =
                results.iter().all(|(other, result)| *other != domain || *result == "pass");
            all_pass && signers.iter().any(|signer| is_within(domain, signer))
        };
        let good = results.iter().map(|(domain, _)| *domain).filter(|domain| is_good(domain));
        Dkim::Each(good.map(str::to_lowercase).collect())
    }

    /// Whether a good signature is aligned with the domain of a sender.
    pub(super) fn vouches_for(&self, sender: &str) -> bool {
        let aligned = |signer: &String| is_aligned(signer, sender);
        match self {
            Dkim::Nobody => false,
            Dkim::Each(signers) => signers.iter().any(aligned),
            Dkim::OneOf(signers) => !signers.is_empty() && signers.iter().all(aligned),
        }
    }
}

/// Whether a signer answers for a sender: the same domain or one above it, but never one above which anybody can
/// have a domain, such as `co.uk`.
fn is_aligned(signer: &str, sender: &str) -> bool {
    let is_registered = || psl::domain_str(signer).is_some();
    is_domain(signer) && (signer == sender || is_within(sender, signer) && is_registered())
}

fn is_within(domain: &str, above: &str) -> bool {
    let rest = domain.strip_suffix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The signing domain of each signature in the headers; `None` where one is unclear, or covers only a part of
/// the text, so that anybody could have added to it.
fn signers(headers: &Headers) -> Option<Vec<String>> {
    headers.all("DKIM-Signature").map(signer).collect()
}

fn signer(signature: &str) -> Option<String> {
    let tags = || signature.split(';').filter_map(|tag| tag.split_once('='));
    let mut domains = tags().filter(|(name, _)| name.trim() == "d").map(|(_, value)| value.trim());
    let covers_all = tags().all(|(name, _)| name.trim() != "l");
    match (domains.next(), domains.next()) {
        (Some(domain), None) if covers_all => Some(domain.to_lowercase()),
        _ => None,
    }
}

/// Pairs of a domain and its result; `None` for anything that is not a list of such pairs.
fn results(text: &str) -> Option<Vec<(&str, &str)>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let pairs = inner.split(',').map(|item| {
        let (identity, result) = item.split_once(':')?;
        let domain = identity.trim().strip_prefix('@')?;
        let result = result.trim();
        let is_word = !result.is_empty() && result.bytes().all(|b| b.is_ascii_lowercase());
        (is_domain(domain) && is_word).then_some((domain, result))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed_by(domains: &[&str]) -> Headers {
        let lines =
            domains.iter().map(|domain| format!("DKIM-Signature: v=1; a=x; d={domain}; b=y\n"));
        Headers::read(&lines.collect::<String>())
    }

    #[test]
    fn a_signer_answers_for_its_domain_and_those_below_it() {
        assert!(is_aligned("acme.com", "acme.com"));
        assert!(is_aligned("acme.com", "mail.acme.com"));
        assert!(is_aligned("acme.co.uk", "eu.acme.co.uk"));
        for (signer, sender) in [
            ("mail.acme.com", "acme.com"),
            ("acme.com", "evilacme.com"),
            ("acme.com", "acme.com.evil.com"),
            ("com", "acme.com"),
            ("co.uk", "acme.co.uk"),
            ("github.io", "acme.github.io"),
            ("", "acme.com"),
            (".com", "acme.com"),
            ("acme.com.", "acme.com"),
        ] {
            assert!(!is_aligned(signer, sender), "{signer} for {sender}");
        }
    }

    #[test]
    fn where_nobody_says_which_signature_is_good_all_must_be_the_senders() {
        assert!(Dkim::one_of(&signed_by(&["acme.com"])).vouches_for("acme.com"));
        assert!(Dkim::one_of(&signed_by(&["acme.com", "ACME.com"])).vouches_for("mail.acme.com"));
        assert!(!Dkim::one_of(&signed_by(&["acme.com", "evil.com"])).vouches_for("acme.com"));
        assert!(!Dkim::one_of(&signed_by(&["evil.com"])).vouches_for("acme.com"));
        assert!(!Dkim::one_of(&signed_by(&[])).vouches_for("acme.com"));
    }

    #[test]
    fn an_unclear_signature_is_nobodys() {
        for tags in ["v=1; b=x", "d=acme.com; d=evil.com", "d=acme.com; l=10", "d", ""] {
            let headers = Headers::read(&format!("DKIM-Signature: {tags}\n"));
            assert!(!Dkim::one_of(&headers).vouches_for("acme.com"), "{tags}");
        }
        let folded = Headers::read("DKIM-Signature: v=1;\r\n\td = acme.com ;\r\n b=x\r\n");
        assert!(Dkim::one_of(&folded).vouches_for("acme.com"));
    }

    #[test]
    fn a_reported_pass_counts_for_its_own_domain_only() {
        let headers = signed_by(&["acme.com", "sendgrid.net"]);
        let vouches = |text: &str| Dkim::reported(text, &headers).vouches_for("acme.com");
        assert!(vouches("{@acme.com : pass}"));
        assert!(vouches("{@sendgrid.net : pass, @acme.com : pass}"));
        assert!(vouches("{@sendgrid.net : fail, @acme.com : pass}"));
        for bad in [
            "",
            "none",
            "{}",
            "pass",
            "{@acme.com : fail}",
            "{@sendgrid.net : pass}",
            "{@acme.com : pass, @acme.com : fail}",
            "{@acme.com : pass, junk}",
            "{@acme.com : pass}{@evil.com : pass}",
            "@acme.com : pass",
            "{@acme.com : pass : fail}",
            "{ada@acme.com : pass}",
            "{@acme.com pass}",
        ] {
            assert!(!vouches(bad), "{bad}");
        }
    }

    #[test]
    fn a_reported_pass_without_such_a_signature_is_not_believed() {
        // An identity may hold anything before the signer's own domain.
        let headers = signed_by(&["evil.com"]);
        let forged = Dkim::reported("{@acme.com : pass, @x.evil.com : pass}", &headers);
        assert!(!forged.vouches_for("acme.com"));
        assert!(forged.vouches_for("x.evil.com"));
        let headers = signed_by(&["evil.com", "acme.com"]);
        let caught = "{@acme.com : pass, @x.evil.com : pass, @acme.com : fail}";
        assert!(!Dkim::reported(caught, &headers).vouches_for("acme.com"));
    }
}
