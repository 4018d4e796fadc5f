//! A body, as people and as programs read it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::output::{self, escape};

/// As much of a body as is shown.
const SHOWN_BYTES_MAX: usize = 64 * 1024;
const INDENT: &str = "    ";

/// A body over lines of its own: JSON laid out, text as it is, bytes counted. Nothing in it can steer a terminal.
pub fn shown(body: &[u8]) -> String {
    if body.is_empty() {
        return format!("{INDENT}(empty)\n");
    }
    let Ok(text) = std::str::from_utf8(body) else {
        return format!("{INDENT}({} bytes that are no text)\n", body.len());
    };
    let laid_out = output::json::pretty(text).ok().filter(|laid_out| !laid_out.is_empty());
    let text = laid_out.as_deref().unwrap_or(text);
    let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
    let lines = text[..end].lines().map(|line| format!("{INDENT}{}\n", escape(line)));
    let mut shown: String = lines.collect();
    if end < text.len() {
        shown.push_str(&format!("{INDENT}… {} bytes more\n", text.len() - end));
    }
    shown
}

/// As text, or as Base64 if it is none.
pub fn as_json(body: &[u8]) -> Value {
    match std::str::from_utf8(body) {
        Ok(text) => json!({"body": text}),
        Err(_) => json!({"body_base64": STANDARD.encode(body)}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_laid_out_bounded_and_harmless() {
        assert_eq!(shown(br#"{"a":[1]}"#), "    {\n      \"a\": [\n        1\n      ]\n    }\n");
        assert_eq!(shown(b"a=1&b=\x1b[2J"), "    a=1&b=\\u{1b}[2J\n");
        assert_eq!(shown(b""), "    (empty)\n");
        assert_eq!(shown(&[0xff, 0xfe]), "    (2 bytes that are no text)\n");
        let long = shown("ä".repeat(SHOWN_BYTES_MAX).as_bytes());
        assert!(long.ends_with("bytes more\n") && long.len() < SHOWN_BYTES_MAX + 100);
    }

    #[test]
    fn bytes_that_are_no_text_are_base64() {
        assert_eq!(as_json(b"x"), json!({"body": "x"}));
        assert_eq!(as_json(&[0xff]), json!({"body_base64": "/w=="}));
    }
}
