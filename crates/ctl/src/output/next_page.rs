//! The command that shows the next page: the same as this one, from another place.

use super::escape;

/// Flags whose old value must not be repeated: the cursor is replaced, a key is not for display.
const DROPPED: [&str; 2] = ["--cursor", "--key"];

/// This command line with another cursor, ready to paste.
pub fn command(args: impl Iterator<Item = String>, cursor: &str) -> String {
    let mut words = vec!["webhookctl".to_owned()];
    let mut args = args.skip(1);
    while let Some(arg) = args.next() {
        if DROPPED.contains(&arg.as_str()) {
            args.next();
        } else if !DROPPED.iter().any(|flag| has_value(&arg, flag)) {
            words.push(quoted(&arg));
        }
    }
    words.push("--cursor".to_owned());
    words.push(quoted(cursor));
    words.join(" ")
}

fn has_value(arg: &str, flag: &str) -> bool {
    arg.strip_prefix(flag).is_some_and(|rest| rest.starts_with('='))
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+%".contains(c);
    let word = escape(word);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(args: &[&str]) -> String {
        command(args.iter().map(|arg| (*arg).to_owned()), "c2")
    }

    #[test]
    fn filters_stay_and_the_cursor_is_replaced() {
        assert_eq!(
            next(&["/bin/webhookctl", "inbox", "list", "--type", "issues.*", "--cursor", "c1"]),
            "webhookctl inbox list --type 'issues.*' --cursor c2"
        );
        assert_eq!(
            next(&["x", "jobs", "list", "--cursor=c1", "--subject=it's"]),
            r"webhookctl jobs list '--subject=it'\''s' --cursor c2"
        );
    }

    #[test]
    fn the_key_is_not_repeated() {
        assert_eq!(
            next(&["x", "--key", "secret", "inbox", "list", "--key=secret"]),
            "webhookctl inbox list --cursor c2"
        );
    }
}
