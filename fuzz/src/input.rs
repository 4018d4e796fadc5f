//! Bytes, taken apart: lines first, then the rest, so that an input can be read by people.

use http::{HeaderMap, HeaderName, HeaderValue};

/// What is left of an input.
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The whole of it.
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    /// The next line, without its end.
    pub fn line(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == b'\n').unwrap_or(self.0.len());
        let (line, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        line
    }

    /// The next line, if it is text.
    pub fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.line()).ok()
    }

    /// The lines up to an empty one.
    pub fn lines(&mut self) -> Vec<&'a [u8]> {
        std::iter::from_fn(|| Some(self.line()).filter(|line| !line.is_empty())).collect()
    }

    /// The lines up to an empty one, as headers; those that can be none are passed over, as the listener would refuse them.
    pub fn headers(&mut self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for line in self.lines() {
            let mut halves = line.splitn(2, |byte| *byte == b':');
            let name = HeaderName::from_bytes(halves.next().unwrap_or_default());
            let value = HeaderValue::from_bytes(halves.next().unwrap_or_default());
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        headers
    }

    /// All that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// An input of lines.
pub fn lines<const N: usize>(lines: [&str; N]) -> Vec<u8> {
    lines.join("\n").into_bytes()
}
