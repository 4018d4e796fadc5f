//! The headers of a mail, in their order.

/// A Message-ID longer than this is taken for none: it must fit a key, with the sender's address before it.
const ID_BYTES_MAX: usize = 240;

/// Names and values, from the top down: each server on the way adds its own above the others.
#[derive(Debug, Default)]
pub(crate) struct Headers(Vec<(String, String)>);

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Headers {
        Headers(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

impl Headers {
    /// Reads them as they stand in a mail, up to the first empty line.
    pub(crate) fn read(block: &str) -> Headers {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for line in block.lines().take_while(|line| !line.is_empty()) {
            match (line.starts_with([' ', '\t']), pairs.last_mut()) {
                (true, Some((_, value))) => {
                    value.push(' ');
                    value.push_str(line.trim());
                }
                _ => {
                    if let Some((name, value)) = line.split_once(':') {
                        pairs.push((name.trim().to_owned(), value.trim().to_owned()));
                    }
                }
            }
        }
        Headers(pairs)
    }

    /// All of this name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.0.iter().filter(move |(known, _)| known.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// What the receiving server itself noted under this name. A sender can write any header, but only below the
    /// line in which the server says whom it took the mail from; and what is there twice is not to be trusted.
    pub(crate) fn noted_on_receipt(&self, name: &str) -> Option<&str> {
        let receipt = self.0.iter().position(|(name, value)| {
            let from =
                value.trim_start().get(..5).is_some_and(|word| word.eq_ignore_ascii_case("from "));
            name.eq_ignore_ascii_case("Received") && from
        })?;
        let at = self.0.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))?;
        let is_alone = self.all(name).count() == 1;
        (is_alone && at < receipt).then(|| self.0[at].1.as_str())
    }

    /// The ids in a header: what stands in the brackets that hold one, or the first word without any.
    pub(crate) fn ids(value: &str) -> impl Iterator<Item = &str> {
        let fits = |id: &&str| {
            let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
            (1..=ID_BYTES_MAX).contains(&id.len()) && id.chars().all(is_plain)
        };
        let bracketed =
            value.split('<').skip(1).filter_map(|rest| Some(rest.split_once('>')?.0.trim()));
        let bare = value.split_whitespace().next().filter(|_| !value.contains('<'));
        bracketed.chain(bare).filter(fits)
    }

    /// The Message-ID, without its brackets.
    pub(crate) fn message_id(&self) -> Option<&str> {
        self.all("Message-ID").find_map(first_id)
    }

    /// The first mail of the conversation, as far as this one tells.
    pub(super) fn thread_root(&self) -> Option<&str> {
        let root = self.all("References").find_map(first_id);
        root.or_else(|| self.all("In-Reply-To").find_map(first_id)).or_else(|| self.message_id())
    }

    /// Whether they say that a machine or a list sent it (RFC 3834, RFC 2919).
    pub(super) fn say_automatic(&self) -> bool {
        let first_word = |value: &str| {
            let word = value.split([';', ' ', '\t', '(']).find(|word| !word.is_empty());
            word.unwrap_or_default().to_ascii_lowercase()
        };
        let of_a_list =
            |name: &str| name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("list-"));
        self.all("Auto-Submitted").any(|value| first_word(value) != "no")
            || self
                .all("Precedence")
                .any(|value| matches!(first_word(value).as_str(), "bulk" | "junk" | "list"))
            || self.0.iter().any(|(name, _)| of_a_list(name))
    }
}

/// The first id in a header.
fn first_id(value: &str) -> Option<&str> {
    Headers::ids(value).next()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_are_read_with_their_folded_lines_up_to_the_text() {
        let headers =
            Headers::read("A: 1\r\nsubject:  long\r\n\tone \r\nA:2\r\njunk\r\n\r\nB: 3\r\n");
        assert_eq!(headers.all("a").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(headers.all("Subject").collect::<Vec<_>>(), ["long one"]);
        assert_eq!(headers.all("B").count(), 0);
    }

    #[test]
    fn an_id_is_read_without_its_brackets_and_never_too_long() {
        assert_eq!(first_id("<a@b>"), Some("a@b"));
        assert_eq!(first_id(" a@b "), Some("a@b"));
        assert_eq!(first_id("Your mail <a@b> of <c@d>"), Some("a@b"));
        assert_eq!(first_id("<> <a b> <c@d>"), Some("c@d"));
        let long = "x".repeat(ID_BYTES_MAX + 1);
        assert_eq!(first_id(&format!("<{long}> <c@d>")), Some("c@d"));
        for none in ["", "<", "<>", "<a b>", long.as_str(), "<a"] {
            assert_eq!(first_id(none), None, "{none}");
        }
    }

    #[test]
    fn only_what_stands_above_the_receipt_is_the_servers_own_note() {
        let noted =
            |block: &str| Headers::read(block).noted_on_receipt("X-Check").map(str::to_owned);
        assert_eq!(noted("X-Check: Pass\nReceived: from a by b").as_deref(), Some("Pass"));
        let picked_up = "Received: by b (from userid 1)\nX-Check: Pass\nReceived: from a by b";
        assert_eq!(noted(picked_up).as_deref(), Some("Pass"));
        for forged in [
            "Received: from a by b\nX-Check: Pass",
            "X-Check: Pass\nReceived: from a by b\nX-Check: Pass",
            "X-Check: Pass",
            "X-Check: Pass\nReceived: by b",
            "RECEIVED: FROM a by b\nX-Check: Pass\nReceived: from c by d",
        ] {
            assert_eq!(noted(forged), None, "{forged}");
        }
    }

    proptest! {
        #[test]
        fn no_headers_make_it_panic(block in "[\\PC\\r\\n\\t]*") {
            let headers = Headers::read(&block);
            let _ = (headers.thread_root(), headers.say_automatic(), headers.noted_on_receipt("a"));
        }
    }
}
