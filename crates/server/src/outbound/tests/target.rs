//! URLs that users give: what is sent for the good ones, and what a policy makes of them. The bad ones are in the
//! corpus (`hostile.rs`).

use proptest::prelude::*;

use super::super::policy::Allow;
use super::*;

fn strict() -> AddressPolicy {
    AddressPolicy::default()
}

fn with_http() -> AddressPolicy {
    AddressPolicy { allow_http: true, allow: Allow::None }
}

fn refused(text: &str, policy: &AddressPolicy) -> TargetRefusal {
    match Target::parse(text, policy) {
        Ok(target) => panic!("{text:?} was read as {target:?}"),
        Err(refusal) => refusal,
    }
}

#[test]
fn plain_urls_are_read() {
    for (text, sent, port) in [
        ("https://example.com", "https://example.com/", 443),
        ("https://example.com/", "https://example.com/", 443),
        ("https://example.com?a=b", "https://example.com/?a=b", 443),
        ("https://example.com/hook?a=b&c=%20d", "https://example.com/hook?a=b&c=%20d", 443),
        ("HTTPS://Example.COM/Hook", "https://example.com/Hook", 443),
        ("https://example.com:443/hook", "https://example.com/hook", 443),
        ("https://example.com:8443/hook", "https://example.com:8443/hook", 8443),
        ("https://example.com./hook", "https://example.com./hook", 443),
        ("https://a_b.example.com/@me", "https://a_b.example.com/@me", 443),
        ("https://bücher.example/hook", "https://xn--bcher-kva.example/hook", 443),
        ("https://xn--bcher-kva.example/", "https://xn--bcher-kva.example/", 443),
        ("https://例え.テスト/", "https://xn--r8jz45g.xn--zckzah/", 443),
        ("https://8.8.8.8/hook", "https://8.8.8.8/hook", 443),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/", 443),
        ("https://notlocalhost.com/", "https://notlocalhost.com/", 443),
        ("https://internal.example.com/", "https://internal.example.com/", 443),
        ("https://mysvc.io/", "https://mysvc.io/", 443),
    ] {
        let target = Target::parse(text, &strict()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(target.uri().to_string(), sent);
        assert_eq!(target.port(), port);
        assert!(target.is_https());
    }
}

#[test]
fn only_https_is_allowed_by_default() {
    assert_eq!(refused("http://example.com/", &strict()).to_string(), "url must use HTTPS");
    for text in ["ftp://example.com/", "file:///etc/passwd", "gopher://x.com/", "javascript:1"] {
        assert_eq!(refused(text, &strict()), TargetRefusal::NotHttps, "{text}");
        assert_eq!(refused(text, &with_http()), TargetRefusal::NotHttp, "{text}");
    }
    let plain = Target::parse("http://example.com/", &with_http()).unwrap();
    assert_eq!((plain.port(), plain.is_https()), (80, false));
    assert_eq!(plain.check(&strict()), Err(TargetRefusal::NotHttps));
}

#[test]
fn ports_are_those_of_webhooks() {
    for port in [1, 22, 25, 80, 444, 6379, 8080, 65535] {
        let text = format!("https://example.com:{port}/");
        let refusal = refused(&text, &strict());
        assert_eq!(refusal.to_string(), "url must use port 443 or 8443");
        assert_eq!(Target::parse(&text, &with_http()).is_ok(), port == 80);
        assert!(Target::parse(&text, &AddressPolicy::trusted()).is_ok());
    }
}

#[test]
fn a_written_address_may_be_in_a_listed_network() {
    let listed = AddressPolicy { allow_http: false, allow: "10.0.0.0/8".parse().unwrap() };
    assert!(Target::parse("https://10.0.0.1/", &listed).is_ok());
    assert_eq!(refused("https://192.168.0.1/", &listed), TargetRefusal::Address("private"));
}

#[test]
fn debugging_a_target_shows_no_path() {
    let target = Target::parse("https://example.com/s3cret?t=s3cret", &strict()).unwrap();
    assert_eq!(format!("{target:?}"), "Target(https://example.com:443)");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused_without_panic(text in "\\PC{0,80}") {
        let _ = Target::parse(&text, &AddressPolicy::trusted());
        let _ = Target::parse(&format!("https://{text}"), &AddressPolicy::trusted());
    }

    #[test]
    fn what_is_read_names_the_host_that_the_sender_will_use(host in "[a-zA-Z0-9.:@%\\[\\]xX_-]{1,24}") {
        if let Ok(target) = Target::parse(&format!("https://{host}/p"), &AddressPolicy::trusted()) {
            let name = target.host().to_string();
            prop_assert_eq!(target.uri().host(), Some(name.as_str()));
            prop_assert_eq!(target.uri().port_u16().unwrap_or(443), target.port());
            prop_assert_eq!(target.uri().path(), "/p");
        }
    }
}
