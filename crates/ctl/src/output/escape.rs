//! Text from outside, made harmless for a terminal.

use std::borrow::Cow;

/// Shows control and invisible characters as escapes (`\n`, `\u{1b}`).
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Characters that move the cursor, change colours, reorder text or cannot be seen.
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_sent() {
        assert_eq!(escape("a\u{1b}[31mb"), "a\\u{1b}[31mb");
        assert_eq!(escape("a\r\n\tb"), "a\\r\\n\\tb");
        assert_eq!(escape("\u{9b}2J\u{7f}\0"), "\\u{9b}2J\\u{7f}\\u{0}");
        assert_eq!(escape("\u{202e}cod.exe"), "\\u{202e}cod.exe");
    }

    #[test]
    fn ordinary_text_stays_as_it_is() {
        for text in ["issues.opened", "Grüße, 世界 🎉", "C:\\path \"quoted\""] {
            assert_eq!(escape(text), text);
        }
    }
}
