//! What stands in requests and answers beside the body: signatures, times to wait, addresses, cursors, ids.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderMap;
use wakepost_client::Verifier;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, SourceId, Timestamp, Ulid, WorkId, limits};
use wakepost_server::api::PageQuery;
use wakepost_server::chains;
use wakepost_server::edge::peer;
use wakepost_server::outbound::{AddressPolicy, Allow, Target, TargetHost, address, retry_after};

use crate::input::{Input, lines};

const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

/// What our SDK verifies for receivers: a secret, headers up to an empty line, and a body.
pub fn signatures(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let Some(secret) = input.text() else { return };
    let headers = input.headers();
    let Ok(verifier) = Verifier::new([secret]) else { return };
    let body = input.rest();
    if verifier.verify_at(&headers, body, 1_700_000_000).is_ok() {
        let longer = [body, b" "].concat();
        assert!(verifier.verify_at(&headers, &longer, 1_700_000_000).is_err(), "another body");
        assert!(verifier.verify_at(&headers, body, 1_700_001_000).is_err(), "another time");
    }
}

pub fn signature_seeds() -> Vec<Vec<u8>> {
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let signature = "webhook-signature:v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let public = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    vec![
        lines([secret, "webhook-id:msg_1", "webhook-timestamp:1700000000", signature, "", "{}"]),
        lines([
            public,
            "svix-id:msg_1",
            "svix-timestamp:1700000000",
            "svix-signature:v1a,AA==",
            "",
            "",
        ]),
    ]
}

/// What a receiver asks us to wait.
pub fn retry_after(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(wait) = retry_after::parse(text, NOW) else { return };
    let day = Duration::from_secs(86_400);
    assert!((Duration::from_secs(1)..=day).contains(&wait), "{wait:?}");
    let seconds = text.trim_matches([' ', '\t']);
    if !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit()) {
        let wanted = seconds.parse().unwrap_or(u64::MAX).clamp(1, 86_400);
        assert_eq!(wait, Duration::from_secs(wanted));
    }
}

pub fn retry_after_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "120",
        " 0\t",
        "99999999999999999999999",
        "Tue, 14 Nov 2023 22:15:20 GMT",
        "Tuesday, 14-Nov-23 22:15:20 GMT",
        "Tue Nov 14 22:15:20 2023",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// Where requests are to go, and which networks an operator allows.
pub fn addresses(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(ip) = text.parse::<IpAddr>() {
        let mapped = matches!(ip, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
        let inside = ip.is_loopback() || ip.is_unspecified() || ip.is_multicast() || mapped;
        assert!(!inside || address::refusal(ip).is_some(), "{ip} is allowed");
    }
    let _: Result<Allow, _> = text.parse();
    let strict = AddressPolicy::default();
    let Ok(target) = Target::parse(text, &strict) else { return };
    assert!(target.is_https() && matches!(target.port(), 443 | 8443), "{target:?}");
    match target.host() {
        TargetHost::Ip(ip) => assert_eq!(address::refusal(*ip), None, "{ip} is allowed"),
        TargetHost::Name(name) => {
            assert!(name.contains('.') && name.is_ascii(), "{name}");
            assert!(name.parse::<IpAddr>().is_err(), "{name} is an address");
        }
    }
    // What is sent means the same to whoever reads it next.
    let again = Target::parse(&target.uri().to_string(), &strict);
    assert_eq!(again.as_ref(), Ok(&target));
}

pub fn address_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "https://example.com/hook?a=b",
        "https://example.com:8443/",
        "https://xn--bcher-kva.example/",
        "https://93.184.216.34/",
        "https://[2606:2800:220:1:248:1893:25c8:1946]/",
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://user:word@example.com/",
        "::ffff:10.0.0.1",
        "169.254.169.254",
        "10.0.0.0/8,fd00::/8",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// Who a proxy says is calling: the connection's peer, the networks of our proxies, and headers.
pub fn peers(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (Some(peer), Some(networks)) = (input.text(), input.text()) else { return };
    let Ok(peer) = peer.parse::<IpAddr>() else { return };
    let trusted: Vec<_> = networks.split(',').filter_map(|part| part.parse().ok()).collect();
    let headers = input.headers();
    let sender = peer::address(peer, &headers, &trusted);
    let is_ours = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let peer = peer.to_canonical();
    if sender == peer {
        return;
    }
    assert!(is_ours(peer), "{sender} is believed to a stranger");
    let values = headers.get_all("x-forwarded-for").into_iter();
    let values: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    // From the right: whatever comes after the sender was written by proxies of ours.
    let hops = values.join(",");
    let hops = hops.rsplit(',').map(|hop| hop.trim().parse::<IpAddr>().map(|ip| ip.to_canonical()));
    let mut known =
        hops.take_while(|hop| hop.as_ref().is_ok_and(|hop| is_ours(*hop) || *hop == sender));
    assert!(known.any(|hop| hop == Ok(sender)), "{sender} is nobody's word");
}

pub fn peer_seeds() -> Vec<Vec<u8>> {
    let ours = "10.0.0.0/8,fd00::/8";
    vec![
        lines(["10.0.0.1", ours, "x-forwarded-for:6.6.6.6, 1.1.1.1, 10.0.0.2"]),
        lines(["10.0.0.1", ours, "x-forwarded-for:1.1.1.1", "x-forwarded-for:::ffff:10.0.0.3"]),
        lines(["fd00::1", ours, "x-forwarded-for:rubbish,2001:db8::7"]),
        lines(["192.0.2.1", ours, "x-forwarded-for:1.1.1.1"]),
    ]
}

/// The query of a list.
pub fn cursors(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(query) = serde_urlencoded::from_str::<PageQuery>(text) else { return };
    if let Ok(page) = query.page() {
        assert!((1..=limits::PAGE_MAX).contains(&page.limit), "{}", page.limit);
    }
    if let Ok((limit, Some(name))) = query.page_by_name() {
        assert!((1..=limits::PAGE_MAX as usize).contains(&limit) && !name.is_empty());
    }
}

pub fn cursor_seeds() -> Vec<Vec<u8>> {
    let texts = ["limit=20&cursor=AYvP5lQAAAAAAAAAAAAAAA", "cursor=YWNtZQ", "limit=0", "limit=%31"];
    texts.map(|text| text.as_bytes().to_vec()).into()
}

/// Ids, times and traces.
pub fn names(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(id) = text.parse::<EventId>() {
        assert_eq!(id.to_string().parse::<EventId>(), Ok(id));
        assert_eq!(Ulid::from_bytes(id.to_bytes()), id.0);
    }
    if let Ok(id) = text.parse::<SourceId>() {
        assert_eq!(id.to_string().parse::<SourceId>(), Ok(id));
    }
    if let Ok(id) = WorkId::parse(text, WorkKind::Job) {
        assert_eq!(WorkId::parse(&id.text(WorkKind::Job), WorkKind::Job), Ok(id));
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        assert_eq!(time.to_string().parse::<Timestamp>().ok(), Some(time), "{text}");
    }
    if let Ok(value) = text.parse() {
        let headers =
            HeaderMap::from_iter([(http::HeaderName::from_static(chains::TRACEPARENT), value)]);
        if let Some((trace, span)) = chains::given(&headers) {
            assert!(trace != [0; 16] && span != [0; 8], "{text}");
        }
    }
}

pub fn name_seeds() -> Vec<Vec<u8>> {
    let texts = [
        "evt_01JX9M9M7S7A0B1C2D3E4F5G6H",
        "src_01JX9M9M7S7A0B1C2D3E4F5G6H",
        "job_7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "2026-11-15T09:14:22.123Z",
        "2026-11-15T09:14:22+02:00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ];
    texts.map(|text| text.as_bytes().to_vec()).into()
}
