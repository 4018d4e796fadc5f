//! What a mail says, as plain text.

/// What is longer is cut off.
const CHARS_MAX: usize = 15_000;

/// What was said: the plain part, or else the HTML part without its markup.
pub(super) fn said(text: Option<&str>, html: Option<&str>) -> String {
    let plain = text.filter(|text| !text.trim().is_empty());
    let whole = match (plain, html) {
        (Some(plain), _) => plain.replace("\r\n", "\n").trim().to_owned(),
        (None, Some(html)) => strip(html),
        (None, None) => String::new(),
    };
    match whole.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => whole[..end].to_owned(),
        None => whole,
    }
}

/// HTML as plain text: words and line breaks stay; markup, styles, scripts and comments go. It is for reading
/// only, so what is odd is read in some way rather than refused.
fn strip(html: &str) -> String {
    let mut out = Lines::default();
    let mut rest = html;
    while let Some((words, after)) = rest.split_once('<') {
        out.push(words);
        rest = skip_markup(after, &mut out);
    }
    out.push(rest);
    out.text.trim_end().to_owned()
}

/// Goes over a tag, of which the `<` was read, and over all that belongs to it if it holds no words.
fn skip_markup<'h>(after: &'h str, out: &mut Lines) -> &'h str {
    if let Some(comment) = after.strip_prefix("!--") {
        return comment.split_once("-->").map_or("", |(_, rest)| rest);
    }
    if !after.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?')) {
        out.push("<");
        return after;
    }
    let name_end =
        after[1..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(after.len(), |at| at + 1);
    let name = after[..name_end].to_ascii_lowercase();
    let rest = skip_tag(after);
    match name.trim_start_matches('/') {
        "br" | "hr" | "p" | "div" | "tr" | "li" | "ul" | "ol" | "table" | "blockquote" | "pre"
        | "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => out.break_line(),
        "td" | "th" => out.pending_space = true,
        _ => {}
    }
    match name.as_str() {
        "style" | "script" | "head" | "title" | "template" => skip_element(rest, &name),
        _ => rest,
    }
}

/// What follows the tag's `>`, which may also stand in a quoted value.
fn skip_tag(after: &str) -> &str {
    let mut quote = None;
    for (at, byte) in after.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return &after[at + 1..],
            (None, b'"' | b'\'') if at > 0 && after.as_bytes()[at - 1] == b'=' => {
                quote = Some(byte)
            }
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    ""
}

/// What follows the end of an element; nothing if it never ends.
fn skip_element<'h>(rest: &'h str, name: &str) -> &'h str {
    let mut from = rest;
    while let Some((_, after)) = from.split_once("</") {
        if after.get(..name.len()).is_some_and(|found| found.eq_ignore_ascii_case(name)) {
            return skip_tag(after);
        }
        from = after;
    }
    ""
}

/// Text that grows by words, with at most one empty line in a row.
#[derive(Default)]
struct Lines {
    text: String,
    pending_space: bool,
}

impl Lines {
    fn push(&mut self, words: &str) {
        self.pending_space |= words.starts_with(char::is_whitespace);
        for word in words.split_whitespace() {
            if self.pending_space && !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push(' ');
            }
            decode_into(&mut self.text, word);
            self.pending_space = true;
        }
        self.pending_space = words.ends_with(char::is_whitespace)
            || self.pending_space && words.split_whitespace().next().is_none();
    }

    fn break_line(&mut self) {
        self.pending_space = false;
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }
}

/// Adds a word with its character references written out.
fn decode_into(out: &mut String, word: &str) {
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        rest = match after.split_once(';').and_then(|(name, rest)| Some((reference(name)?, rest))) {
            Some((character, rest)) => {
                out.push(character);
                rest
            }
            None => {
                out.push('&');
                after
            }
        };
    }
    out.push_str(rest);
}

fn reference(name: &str) -> Option<char> {
    let number = match name.strip_prefix('#') {
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        },
        None => None,
    };
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        "ndash" => '–',
        "mdash" => '—',
        "hellip" => '…',
        "lsquo" => '‘',
        "rsquo" => '’',
        "ldquo" => '“',
        "rdquo" => '”',
        "euro" => '€',
        _ => return number.and_then(char::from_u32).filter(|c| !c.is_control()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_plain_part_is_preferred_unless_it_is_blank() {
        assert_eq!(said(Some(" a\r\nb \r\n"), Some("<p>c</p>")), "a\nb");
        assert_eq!(said(Some(" \r\n"), Some("<p>c</p>")), "c");
        assert_eq!(said(None, None), "");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "é".repeat(CHARS_MAX + 1);
        assert_eq!(said(Some(&long), None), "é".repeat(CHARS_MAX));
        assert_eq!(said(Some(&long[2..]), None), "é".repeat(CHARS_MAX));
        assert_eq!(said(None, Some(&long)).chars().count(), CHARS_MAX);
    }

    #[test]
    fn html_keeps_its_words_and_lines() {
        for (html, text) in [
            ("<p>Hello <b>big</b> world</p><p>Bye</p>", "Hello big world\n\nBye"),
            ("a<br>b<br/>c<BR />d", "a\nb\nc\nd"),
            ("<div>a</div><div>b</div>", "a\n\nb"),
            ("<ul><li>a</li>\n<li>b</li></ul>", "a\n\nb"),
            ("<table><tr><td>a</td><td>b</td></tr></table>", "a b"),
            ("un<b>broken</b>", "unbroken"),
            ("<a href=\"x>y\">link</a>", "link"),
            ("&lt;b&gt; &amp;amp; &#233;&#xE9; &nbsp;&unknown; &", "<b> &amp; éé  &unknown; &"),
            ("<head><title>t</title><style>p{}</style></head>x", "x"),
            ("<script>if (a<b) alert('</p>')</script>x", "x"),
            ("a<!-- <p>b</p> -->c", "ac"),
            ("1 < 2 and a <3", "1 < 2 and a <3"),
            ("<style>never ends", ""),
            ("a <b", "a"),
            ("<", "<"),
        ] {
            assert_eq!(strip(html), text, "{html}");
        }
    }

    #[test]
    fn hostile_html_is_read_in_good_time() {
        for part in ["<", "<p", "<!--", "<script></", "&", "<a href=\"", "</script"] {
            let start = Instant::now();
            let _ = strip(&part.repeat(100_000));
            assert!(start.elapsed() < Duration::from_secs(2), "{part}");
        }
    }

    proptest! {
        #[test]
        fn no_html_makes_it_panic(html in "\\PC*") {
            let _ = strip(&html);
        }

        #[test]
        fn no_markup_makes_it_panic(html in "[<>/!a-cé&;#x\"'= -]{0,60}") {
            let _ = strip(&html);
        }
    }
}
