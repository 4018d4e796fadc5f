//! Telegram's MarkdownV2, read as strictly as Telegram reads it.

/// What must be escaped wherever it means nothing.
const RESERVED: &[u8] = b"_*[]()~`>#+-=|{}.!";

/// What a stretch of text is marked as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    Bold,
    Italic,
    Underline,
    Strikethrough,
    Spoiler,
    Code,
    Pre,
    PreCode,
    TextUrl,
    CustomEmoji,
}

/// A mark that is open, and the byte it began at.
struct Open {
    mark: Mark,
    at: usize,
}

/// The text without its marks, or what Telegram says of it.
pub(super) fn plain(source: &str) -> Result<String, String> {
    let mut reader = Reader { bytes: source.as_bytes(), at: 0, open: Vec::new(), out: Vec::new() };
    while reader.at < reader.bytes.len() {
        reader.step()?;
    }
    match reader.open.last() {
        Some(Open { mark, at }) => {
            Err(format!("Can't find end of {mark:?} entity at byte offset {at}"))
        }
        None => Ok(String::from_utf8(reader.out).expect("only whole characters are left out")),
    }
}

struct Reader<'s> {
    bytes: &'s [u8],
    at: usize,
    open: Vec<Open>,
    out: Vec<u8>,
}

impl Reader<'_> {
    fn step(&mut self) -> Result<(), String> {
        let byte = self.bytes[self.at];
        if byte == b'\\' && matches!(self.peek(1), 1..=126) {
            self.out.push(self.peek(1));
            self.at += 2;
            return Ok(());
        }
        let inner = self.open.last().map(|open| open.mark);
        let reserved = match inner {
            Some(Mark::Code | Mark::Pre | Mark::PreCode) => b"`".as_slice(),
            _ => RESERVED,
        };
        if !reserved.contains(&byte) {
            self.out.push(byte);
            self.at += 1;
            return Ok(());
        }
        match inner.filter(|mark| self.ends(*mark)) {
            Some(mark) => self.close(mark),
            None => self.begin(byte),
        }
    }

    /// The byte so far ahead; past the end there is none.
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or_default()
    }

    fn is_at(&self, text: &str) -> bool {
        self.bytes[self.at..].starts_with(text.as_bytes())
    }

    fn ends(&self, mark: Mark) -> bool {
        match mark {
            Mark::Bold => self.is_at("*"),
            Mark::Italic => self.is_at("_") && !self.is_at("__"),
            Mark::Underline => self.is_at("__"),
            Mark::Strikethrough => self.is_at("~"),
            Mark::Spoiler => self.is_at("||"),
            Mark::Code => self.is_at("`"),
            Mark::Pre | Mark::PreCode => self.is_at("```"),
            Mark::TextUrl | Mark::CustomEmoji => self.is_at("]"),
        }
    }

    fn begin(&mut self, byte: u8) -> Result<(), String> {
        let at = self.at;
        let (mark, width) = match byte {
            b'_' if self.is_at("__") => (Mark::Underline, 2),
            b'_' => (Mark::Italic, 1),
            b'*' => (Mark::Bold, 1),
            b'~' => (Mark::Strikethrough, 1),
            b'|' if self.is_at("||") => (Mark::Spoiler, 2),
            b'[' => (Mark::TextUrl, 1),
            b'!' if self.is_at("![") => (Mark::CustomEmoji, 2),
            b'`' if self.is_at("```") => self.fence(),
            b'`' => (Mark::Code, 1),
            // A quotation: the mark is for the whole line, and nothing closes it.
            b'>' if self.open.is_empty() && self.begins_line() => {
                self.at += 1;
                return Ok(());
            }
            _ => {
                let character = char::from(byte);
                return Err(format!(
                    "Character '{character}' is reserved and must be escaped with the preceding '\\'"
                ));
            }
        };
        self.open.push(Open { mark, at });
        self.at += width;
        Ok(())
    }

    fn begins_line(&self) -> bool {
        self.at == 0 || self.bytes[self.at - 1] == b'\n'
    }

    /// A block of code may name its language.
    fn fence(&self) -> (Mark, usize) {
        let rest = &self.bytes[self.at + 3..];
        let end = rest.iter().position(|byte| byte.is_ascii_whitespace() || *byte == b'`');
        let (mark, width) = match end {
            Some(end) if end > 0 && rest[end] != b'`' => (Mark::PreCode, 3 + end),
            _ => (Mark::Pre, 3),
        };
        // The line's end after the fence is not part of the code.
        let ends_line = self.peek(width) == b'\n';
        (mark, width + usize::from(ends_line))
    }

    fn close(&mut self, mark: Mark) -> Result<(), String> {
        self.open.pop();
        match mark {
            Mark::Underline | Mark::Spoiler => self.at += 2,
            Mark::Pre | Mark::PreCode => self.at += 3,
            Mark::TextUrl | Mark::CustomEmoji => {
                self.at += 1;
                if self.is_at("(") {
                    self.at += 1;
                    return self.address();
                }
                if mark == Mark::CustomEmoji {
                    return Err("Custom emoji entity must contain a tg://emoji URL".to_owned());
                }
            }
            _ => self.at += 1,
        }
        Ok(())
    }

    fn address(&mut self) -> Result<(), String> {
        let start = self.at;
        while self.at < self.bytes.len() {
            match self.bytes[self.at] {
                b')' => {
                    self.at += 1;
                    return Ok(());
                }
                b'\\' if matches!(self.peek(1), 1..=126) => self.at += 2,
                _ => self.at += 1,
            }
        }
        Err(format!("Can't find end of a URL at byte offset {start}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_plain(source: &str, text: &str) {
        assert_eq!(plain(source).as_deref(), Ok(text), "{source}");
    }

    fn is_refused(source: &str, why: &str) {
        assert_eq!(plain(source), Err(why.to_owned()), "{source}");
    }

    #[test]
    fn every_reserved_character_must_be_escaped_and_no_other() {
        for byte in 1..=126u8 {
            let text = char::from(byte).to_string();
            if b"_*[~`>\\".contains(&byte) {
                continue;
            }
            match RESERVED.contains(&byte) {
                false => is_plain(&text, &text),
                true => is_refused(
                    &text,
                    &format!(
                        "Character '{text}' is reserved and must be escaped with the preceding '\\'"
                    ),
                ),
            }
            is_plain(&format!("\\{text}"), &text);
        }
    }

    #[test]
    fn marks_are_taken_away() {
        is_plain("*b* _i_ __u__ ~s~ ||h|| `c\\`.` é", "b i u s h c`. é");
        is_plain("*bold _both_* and", "bold both and");
        is_plain("[a link\\.](https://a.example/x_(y\\))", "a link.");
        is_plain("```rust\nlet a = b[0]; // _x_.\n```\\.", "let a = b[0]; // _x_.\n.");
        is_plain("```\nplain - code\n```", "plain - code\n");
        is_plain(">a quotation\n>of two lines\nand not", "a quotation\nof two lines\nand not");
    }

    #[test]
    fn what_is_not_closed_is_refused() {
        is_refused("a _b", "Can't find end of Italic entity at byte offset 2");
        is_refused("é *b _c_", "Can't find end of Bold entity at byte offset 3");
        is_refused("`a", "Can't find end of Code entity at byte offset 0");
        is_refused("```a", "Can't find end of Pre entity at byte offset 0");
        is_refused("```a ", "Can't find end of PreCode entity at byte offset 0");
        is_refused("[a](b", "Can't find end of a URL at byte offset 4");
        is_refused(
            "a > b",
            "Character '>' is reserved and must be escaped with the preceding '\\'",
        );
    }
}
