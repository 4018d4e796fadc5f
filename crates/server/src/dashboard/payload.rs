//! Payloads: always text, never markup. Characters that show nothing, or turn text around, are written out.

use askama::Template;
use askama::filters::HtmlSafe;
use serde_json::Value;

/// How long a value may be before its rest is folded away.
const LINE_CHARS_MAX: usize = 400;
/// How much of a payload is shown; the rest is for the raw body to show.
const TEXT_BYTES_MAX: usize = 256 * 1024;

/// Text with its long lines folded.
#[derive(Template)]
#[template(
    source = r#"<pre>{% for line in lines %}{{ line.shown }}{% if !line.folded.is_empty() %}<details><summary>… {{ line.folded.chars().count() }} more characters</summary>{{ line.folded }}</details>{% endif %}
{% endfor %}{% if cut_off %}… the rest is left out here{% endif %}</pre>"#,
    ext = "html"
)]
pub struct Payload {
    lines: Vec<Line>,
    cut_off: bool,
}

struct Line {
    shown: String,
    folded: String,
}

impl HtmlSafe for Payload {}

impl Payload {
    /// A JSON value, indented.
    pub fn json(value: &Value) -> Payload {
        Payload::text(&serde_json::to_string_pretty(value).unwrap_or_default())
    }

    /// Text as it is.
    pub fn text(text: &str) -> Payload {
        let shown = wakepost_domain::limits::truncate(text, TEXT_BYTES_MAX);
        Payload { lines: shown.lines().map(line).collect(), cut_off: shown.len() < text.len() }
    }
}

fn line(text: &str) -> Line {
    let text = visible(text);
    match text.char_indices().nth(LINE_CHARS_MAX) {
        Some((at, _)) => Line { shown: text[..at].to_owned(), folded: text[at..].to_owned() },
        None => Line { shown: text, folded: String::new() },
    }
}

/// Text in which every character can be seen.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' => shown.push(c),
            c if c.is_control() || is_direction(c) => {
                shown.push_str(&format!("\\u{{{:x}}}", c as u32));
            }
            c => shown.push(c),
        }
    }
    shown
}

/// Characters that change the direction of what stands around them.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_payload_is_text_whatever_is_in_it() {
        let page = Payload::json(&json!({"<b>": "</pre><script>alert(1)</script>"})).to_string();
        assert!(!page.contains("<script>") && !page.contains("</pre><"), "{page}");
        assert_eq!(visible("a\u{1b}[31m\u{202e}b\u{0}"), "a\\u{1b}[31m\\u{202e}b\\u{0}");
    }

    #[test]
    fn long_lines_are_folded_and_none_is_lost() {
        let page = Payload::text(&"x".repeat(1000)).to_string();
        assert!(page.contains("600 more characters"), "{page}");
        assert_eq!(page.matches('x').count(), 1000);
    }
}
