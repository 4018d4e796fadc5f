//! Reading headers that nobody may bend: present once, not empty, plain ASCII.

use http::HeaderMap;

use crate::verdict::Why;

/// A header that must be there once.
pub(crate) fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<&'h str, Why> {
    optional(headers, name)?.ok_or_else(|| Why::Missing(name.to_owned()))
}

/// A header that may be absent, but not doubled, empty or unreadable.
pub(crate) fn optional<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Why> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    if values.next().is_some() {
        return Err(Why::Doubled(name.to_owned()));
    }
    match value.to_str() {
        Ok("") => Err(Why::Empty(name.to_owned())),
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(Why::malformed(name, "plain ASCII text")),
    }
}

/// The sender's own id for this request, if a proxy or the sender gave one.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    ["x-request-id", "request-id", "x-correlation-id"]
        .into_iter()
        .find_map(|name| optional(headers, name).ok().flatten())
        .map(str::to_owned)
}

/// The media type, in lower case and without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = optional(headers, "content-type").ok().flatten()?;
    Some(value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase())
}

/// Whether the content type says JSON.
pub(crate) fn says_json(headers: &HeaderMap) -> bool {
    media_type(headers)
        .is_some_and(|media_type| media_type == "application/json" || media_type.ends_with("+json"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_header_is_read_only_if_it_is_there_once_and_readable() {
        let mut headers = HeaderMap::new();
        assert_eq!(one(&headers, "X-Name"), Err(Why::Missing("X-Name".into())));
        assert_eq!(optional(&headers, "X-Name"), Ok(None));
        headers.insert("x-name", HeaderValue::from_static(""));
        assert_eq!(one(&headers, "X-Name"), Err(Why::Empty("X-Name".into())));
        headers.insert("x-name", HeaderValue::from_bytes(b"caf\xe9").unwrap());
        assert!(matches!(one(&headers, "X-Name"), Err(Why::Malformed { .. })));
        headers.insert("x-name", HeaderValue::from_static("v"));
        assert_eq!(one(&headers, "X-Name"), Ok("v"));
        headers.append("x-name", HeaderValue::from_static("v"));
        assert_eq!(one(&headers, "X-Name"), Err(Why::Doubled("X-Name".into())));
    }

    #[test]
    fn a_name_no_header_can_have_is_simply_missing() {
        let headers = HeaderMap::new();
        assert!(matches!(one(&headers, "not a header\n"), Err(Why::Missing(_))));
    }

    #[test]
    fn json_is_known_by_its_media_type() {
        for (value, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/cloudevents+json", true),
            ("application/x-www-form-urlencoded", false),
            ("text/json-ish", false),
        ] {
            let value = HeaderValue::from_static(value);
            let headers = HeaderMap::from_iter([(http::header::CONTENT_TYPE, value)]);
            assert_eq!(says_json(&headers), expected);
        }
    }
}
