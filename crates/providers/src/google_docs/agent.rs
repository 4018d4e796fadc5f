//! Who the agent is in a document: by what it is called, and which words are its own.

use serde_json::Value;

use crate::payload::{list_at, text_at};
use crate::settings::{self, Settings};

/// More of what was said is left out, as it is of a mail.
const CHARS_MAX: usize = 15_000;

/// The agent, as the settings name it.
pub(super) struct Agent {
    /// What a comment calls it.
    mention: Option<String>,
    /// The service account's address.
    address: Option<String>,
}

impl Agent {
    pub(super) fn of(settings: &Settings) -> Agent {
        let text = |name| settings::text(settings, name).ok().flatten();
        let account: Value = text("service_account")
            .and_then(|key| serde_json::from_str(key).ok())
            .unwrap_or_default();
        let address = text_at(&account, "/client_email").map(str::to_lowercase);
        let mention = text("mention").map(|mention| mention.trim().to_lowercase());
        Agent { mention: mention.filter(|mention| !mention.is_empty()), address }
    }

    /// Whether it wrote this comment or reply itself.
    pub(super) fn wrote(&self, said: &Value) -> bool {
        let author = text_at(said, "/author/emailAddress").map(str::to_lowercase);
        said.pointer("/author/me").and_then(Value::as_bool) == Some(true)
            || author.is_some() && author == self.address
    }

    /// Whether a comment or reply names it.
    pub(super) fn is_named_in(&self, said: &Value) -> bool {
        let mut named = list_at(said, "/mentionedEmailAddresses").iter().filter_map(Value::as_str);
        let by_address = named.any(|named| Some(named.to_lowercase()) == self.address);
        let content = text_at(said, "/content").unwrap_or_default();
        by_address || self.names().any(|name| find(content, name, 0).is_some())
    }

    /// What is said, without the names of the agent.
    pub(super) fn without_names(&self, content: &str) -> String {
        let mut text: String = content.chars().take(CHARS_MAX).collect();
        for name in self.names() {
            text = without(&text, name);
        }
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.join("\n").trim().to_owned()
    }

    /// What it is called: as the settings say, and always by its address.
    fn names(&self) -> impl Iterator<Item = &str> {
        [&self.mention, &self.address].into_iter().flatten().map(String::as_str)
    }
}

/// A text without a name in it, wherever that stands.
fn without(text: &str, name: &str) -> String {
    let (mut kept, mut at) = (String::with_capacity(text.len()), 0);
    while let Some((start, end)) = find(text, name, at) {
        // Google writes a person's address behind a sign.
        kept.push_str(text[at..start].trim_end_matches(['@', '+']));
        at = end;
        if kept.ends_with(' ') && text[at..].starts_with(' ') {
            at += 1;
        }
    }
    kept + &text[at..]
}

/// Where a name (in lower case) next stands in a text as a word of its own.
fn find(text: &str, name: &str, from: usize) -> Option<(usize, usize)> {
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let starts = text[from..].char_indices().map(|(at, _)| from + at);
    starts.filter_map(|start| Some((start, end_of(text, start, name)?))).find(|(start, end)| {
        let is_apart = |c: Option<char>| !c.is_some_and(goes_on);
        let before = text[..*start].chars().next_back();
        // Whatever begins with a sign, such as @agent, needs nothing before it to be a word of its own.
        let begins = !name.starts_with(goes_on) || is_apart(before);
        let mut after = text[*end..].chars();
        let next = after.next();
        let goes_on_after_dot = next == Some('.') && after.next().is_some_and(goes_on);
        begins && is_apart(next) && !goes_on_after_dot
    })
}

/// Where a name ends that begins here, whatever the case of its letters.
fn end_of(text: &str, start: usize, name: &str) -> Option<usize> {
    let mut wanted = name.chars();
    let mut next = wanted.next();
    for (offset, c) in text[start..].char_indices() {
        for lower in c.to_lowercase() {
            match next {
                None => return Some(start + offset),
                Some(want) if want == lower => next = wanted.next(),
                Some(_) => return None,
            }
        }
    }
    next.is_none().then_some(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::testing::settings;

    const ACCOUNT: &str = r#"{"client_email":"Agent@acme.iam.gserviceaccount.com"}"#;

    fn agent(mention: &str) -> Agent {
        Agent::of(&settings(&[("service_account", ACCOUNT), ("mention", mention)]))
    }

    #[test]
    fn a_name_counts_as_a_word_of_its_own_in_any_case() {
        let agent = agent("@Helper");
        let named = |content: &str| agent.is_named_in(&json!({"content": content}));
        for content in ["@helper what is this?", "Hello @HELPER.", "(@Helper)", "x@helper"] {
            assert!(named(content), "{content}");
        }
        for content in ["", "helper", "@helpers", "@helper-two", "@helper_x", "@helper.io"] {
            assert!(!named(content), "{content}");
        }
        assert!(named("+agent@acme.iam.gserviceaccount.com look"));
        assert!(!named("other.agent@acme.iam.gserviceaccount.community"));
        let by_address = json!({"content": "look",
            "mentionedEmailAddresses": ["AGENT@acme.iam.gserviceaccount.com"]});
        assert!(agent.is_named_in(&by_address));
    }

    #[test]
    fn the_text_is_read_without_the_name() {
        let agent = agent("@Helper");
        assert_eq!(agent.without_names("@helper  please fix\nthis @HELPER"), "please fix\nthis");
        let by_address = "@agent@acme.iam.gserviceaccount.com go on";
        assert_eq!(agent.without_names(by_address), "go on");
        assert_eq!(agent.without_names("@helper"), "");
    }

    #[test]
    fn its_own_words_are_known_by_google_and_by_the_address() {
        let agent = agent("");
        assert!(agent.wrote(&json!({"author": {"me": true}})));
        let address = "agent@acme.iam.gserviceaccount.com";
        assert!(agent.wrote(&json!({"author": {"emailAddress": address}})));
        for other in
            [json!({}), json!({"author": {"me": false, "emailAddress": "ada@acme.example"}})]
        {
            assert!(!agent.wrote(&other), "{other}");
        }
        assert!(!Agent::of(&Settings::new()).wrote(&json!({"author": {"displayName": "Ada"}})));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*", name in "\\PC{1,4}") {
            let agent = agent(&name);
            let said = json!({"content": text});
            let _ = (agent.is_named_in(&said), agent.without_names(&text));
        }
    }
}
