//! The server's JSON with line breaks: same order, same numbers, same strings.

use serde::Serialize;
use serde::de::IgnoredAny;
use wakepost_client::Error;

use super::escape::is_unsafe;

/// Lays JSON out over lines. Parsing and writing it again would reorder fields and round numbers.
pub fn pretty(text: &str) -> Result<String, Error> {
    if text.trim().is_empty() {
        return Ok(String::new());
    }
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| Error::Protocol(error.to_string()))?;
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut just_opened = false;
    for c in text.chars() {
        if in_string {
            push_in_string(&mut out, c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        if c.is_ascii_whitespace() {
            continue;
        }
        let closes = matches!(c, '}' | ']');
        if closes {
            depth = depth.saturating_sub(1);
        }
        if just_opened != closes {
            new_line(&mut out, depth);
        }
        just_opened = matches!(c, '{' | '[');
        out.push(c);
        match c {
            '{' | '[' => depth += 1,
            ',' => new_line(&mut out, depth),
            ':' => out.push(' '),
            '"' => in_string = true,
            _ => {}
        }
    }
    out.push('\n');
    Ok(out)
}

/// The server's JSON on one line: same order, same numbers, same strings.
pub fn compact(text: &str) -> Result<String, Error> {
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| Error::Protocol(error.to_string()))?;
    let mut out = String::with_capacity(text.len());
    let (mut in_string, mut escaped) = (false, false);
    for c in text.chars() {
        if in_string {
            push_in_string(&mut out, c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
        } else if !c.is_ascii_whitespace() {
            out.push(c);
            in_string = c == '"';
        }
    }
    Ok(out)
}

/// One value on a line of its own.
pub fn line(value: &impl Serialize) -> Result<String, Error> {
    let text = serde_json::to_string(value).map_err(|error| Error::Protocol(error.to_string()))?;
    let mut out = String::with_capacity(text.len() + 1);
    // Outside of strings there is nothing to escape.
    text.chars().for_each(|c| push_in_string(&mut out, c));
    Ok(out)
}

/// JSON may hold characters that steer a terminal; `\u` means the same and does not.
fn push_in_string(out: &mut String, c: char) {
    if is_unsafe(c) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    } else {
        out.push(c);
    }
}

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn order_numbers_and_strings_stay() {
        let text = r#"{"z":1.10,"a":[],"m":{"k": "a\"{b\\","e":{ }},"l":[1,[2]]}"#;
        assert_eq!(
            pretty(text).expect("JSON"),
            "{\n  \"z\": 1.10,\n  \"a\": [],\n  \"m\": {\n    \"k\": \"a\\\"{b\\\\\",\n    \"e\": {}\n  },\n  \
             \"l\": [\n    1,\n    [\n      2\n    ]\n  ]\n}\n"
        );
    }

    #[test]
    fn a_line_has_no_line_breaks_and_means_the_same() {
        let text = "{\"z\": 1.10,\n \"a\": [ \"b \\\" }\u{9b}\" ] }";
        assert_eq!(compact(text).expect("JSON"), "{\"z\":1.10,\"a\":[\"b \\\" }\\u009b\"]}");
        assert!(compact("{").is_err());
    }

    #[test]
    fn steering_characters_are_written_as_escapes_of_the_same_value() {
        let text = "{\"a\":\"x\u{9b}y\u{202e}\u{e0001}\"}";
        let shown = pretty(text).expect("JSON");
        assert!(shown.contains("x\\u009by\\u202e\\udb40\\udc01"));
        let (before, after): (Value, Value) = (
            serde_json::from_str(text).expect("JSON"),
            serde_json::from_str(&shown).expect("JSON"),
        );
        assert_eq!(before, after);
    }

    #[test]
    fn what_is_not_json_is_refused_and_nothing_stays_nothing() {
        assert!(pretty("<html>").is_err());
        assert_eq!(pretty("").expect("nothing"), "");
        assert_eq!(pretty(" 7 ").expect("a number"), "7\n");
    }
}
