//! What may happen to a signed request on its way. Each of these must be refused.

use wakepost_providers::{SignedHeader, SignedRequest};

/// How many places of a body are tried.
const BODY_PLACES: usize = 25;

/// What of a request is signed.
pub struct Signed<'a> {
    /// The headers, the signature itself first.
    pub headers: &'a [SignedHeader],
    /// Whether the address is.
    pub url: bool,
    /// Which characters of the signature are left alone, by its value.
    pub left_alone: fn(&str) -> Vec<usize>,
}

/// The request with one thing changed, in every way there is, and what was changed.
pub fn every_way(good: &SignedRequest, signed: &Signed<'_>) -> Vec<(String, SignedRequest)> {
    let mut spoiled = bodies(good);
    if let [signature, others @ ..] = signed.headers {
        spoiled.extend(header_values(good, &signature.name, signed.left_alone));
        spoiled
            .extend(others.iter().flat_map(|header| header_values(good, &header.name, |_| vec![])));
    }
    if signed.url {
        spoiled.extend(addresses(good));
    }
    spoiled
}

/// The same with its body changed, and nothing else.
pub fn bodies(good: &SignedRequest) -> Vec<(String, SignedRequest)> {
    let with = |body: Vec<u8>| SignedRequest { body, ..good.clone() };
    let places = plain_places(&good.body);
    let step = places.len().div_ceil(BODY_PLACES).max(1);
    let mut spoiled: Vec<_> = places
        .into_iter()
        .step_by(step)
        .map(|place| {
            (format!("byte {place} of the body changed"), with(changed(&good.body, place)))
        })
        .collect();
    let longer = [&good.body[..], b"x"].concat();
    spoiled.push(("a body with a byte more".to_owned(), with(longer)));
    let doubled = good.body.repeat(2);
    spoiled.push(("a body there twice".to_owned(), with(doubled)));
    spoiled.push(("a body cut in half".to_owned(), with(half(&good.body))));
    spoiled.push(("no body".to_owned(), with(Vec::new())));
    spoiled
}

/// The first half, up to a plain byte, so that it stays text.
fn half(body: &[u8]) -> Vec<u8> {
    let places = plain_places(body);
    body[..places.get(places.len() / 2).copied().unwrap_or(0)].to_vec()
}

fn header_values(
    good: &SignedRequest,
    name: &str,
    left_alone: fn(&str) -> Vec<usize>,
) -> Vec<(String, SignedRequest)> {
    let Some(value) = good.headers.get(name).and_then(|value| value.to_str().ok()) else {
        return Vec::new();
    };
    let with = |value: &str| {
        let mut request = good.clone();
        request.set(name, value).expect("a changed header is still plain");
        request
    };
    let left_alone = left_alone(value);
    let mut spoiled: Vec<_> = plain_places(value.as_bytes())
        .into_iter()
        .filter(|place| !left_alone.contains(place))
        .map(|place| {
            let value = String::from_utf8(changed(value.as_bytes(), place));
            let value = value.expect("a plain byte was put in place of another");
            (format!("character {place} of {name} changed"), with(&value))
        })
        .collect();
    let mut missing = good.clone();
    missing.headers.remove(name);
    spoiled.push((format!("no {name}"), missing));
    spoiled.push((format!("{name} cut in half"), with(&value[..value.len() / 2])));
    spoiled
}

fn addresses(good: &SignedRequest) -> Vec<(String, SignedRequest)> {
    let url = &good.url;
    let more = if url.contains('?') { format!("{url}&x=1") } else { format!("{url}?x=1") };
    [url.replacen("src_1", "src_2", 1), url.replacen("hooks", "other", 1), more]
        .map(|url| (format!("sent to {url}"), SignedRequest { url, ..good.clone() }))
        .into()
}

/// Where letters and digits are, and what else base64 has.
fn plain_places(bytes: &[u8]) -> Vec<usize> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    (0..bytes.len()).filter(|place| is_plain(bytes[*place])).collect()
}

/// The same with another letter or digit there.
fn changed(bytes: &[u8], place: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[place] = other(bytes[place]);
    bytes
}

/// Another of the same kind, and so far from it that base64 cannot hide the change in the bits that its last character
/// does not use: lax decoders take those for the same signature. We do not; nor is a letter's case changed, which we
/// overlook in hex and most SDKs do not.
fn other(byte: u8) -> u8 {
    let turn = |first: u8, by: u8, count: u8| first + (byte - first + by) % count;
    match byte {
        b'0'..=b'9' => turn(b'0', 5, 10),
        b'a'..=b'z' => turn(b'a', 16, 26),
        b'A'..=b'Z' => turn(b'A', 16, 26),
        _ => b'A',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", "{\"é\":\"abc\"}");
        request.set("x-signature", "v1=09azAZ+=").unwrap();
        request
    }

    #[test]
    fn every_spoiled_request_differs_from_the_good_one() {
        let headers = [SignedHeader::exact("x-signature"), SignedHeader::exact("x-absent")];
        let good = good();
        let signed = Signed { headers: &headers, url: true, left_alone: |_| vec![0] };
        let all = every_way(&good, &signed);
        for (what, spoiled) in &all {
            let same = spoiled.url == good.url
                && spoiled.body == good.body
                && spoiled.headers == good.headers;
            assert!(!same, "{what}");
            assert!(std::str::from_utf8(&spoiled.body).is_ok(), "{what}");
        }
        let of_header = all.iter().filter(|(what, _)| what.starts_with("character")).count();
        assert_eq!(of_header, "109azAZ+".len());
    }

    #[test]
    fn a_changed_character_changes_the_bits_that_base64_keeps() {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let value = |byte| alphabet.iter().position(|known| *known == byte).unwrap();
        // The last character before `==` uses two bits of its six, before `=` four; the others are zero.
        for unused in [4, 2, 0] {
            for last in alphabet.iter().filter(|last| value(**last) % (1 << unused) == 0) {
                let kept = |byte| value(byte) >> unused;
                assert_ne!(kept(*last), kept(other(*last)), "{} {unused}", *last as char);
            }
        }
    }
}
