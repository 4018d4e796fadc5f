//! URLs that users give, good and bad.

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
fn odd_number_forms_are_refused_under_every_policy() {
    for host in [
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.01",
        "127.0.0.1.",
        "127.0.0.0x1",
        "0",
        "0x0",
        "3232235777",
        "8.8.2056",
        "010.8.8.8",
        "256.1.1.1",
        "1.2.3.4.5",
        "4294967296",
        "１２７.0.0.1",
        "127。0。0。1",
        "①②⑦.0.0.1",
        "foo.0x1",
    ] {
        let text = format!("https://{host}/");
        for policy in [strict(), AddressPolicy::trusted()] {
            assert_eq!(refused(&text, &policy), TargetRefusal::NumberForm, "{text}");
        }
    }
}

#[test]
fn text_that_needs_repair_is_refused_under_every_policy() {
    for text in [
        " https://example.com/",
        "https://example.com/ ",
        "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com/\t",
        "ht\ttps://example.com/",
        "https://exam\nple.com/",
        "https://example.com/\r\nHost: x",
        "https://example.com/\0",
        "https://example.com/\u{7f}",
        "https://example.com/\u{85}",
        "https://example.com/\u{a0}",
        "https://example.com/\u{2028}",
        "https:\\\\example.com\\",
        "https://example.com\\@evil.com/",
        "https:/example.com/",
        "https:example.com/",
        "https:///example.com/",
        "https:////example.com/",
        "https://ex%61mple.com/",
        "https://127.0.0.1%2f.example.com/",
        "https://example%2ecom/",
        "https://example.com:/",
        "https://example.com:0443/",
        "https://example.com:0/",
        "https://example.com/%zz",
        "https://example.com/%",
        "https://example.com/<a>",
        "https://example.com/?q={a}",
        "https://example.com/^",
        "https://ｅｘａｍｐｌｅ.com/",
        "https://exam\u{ad}ple.com/",
        "https://exam\u{200b}ple.com/",
        "https://example。com/",
        "https://example．com/",
        "https://local\u{2060}host/",
        "https://ⓔxample.com/",
        "https://\u{212a}elvin.com/",
    ] {
        for policy in [strict(), AddressPolicy::trusted()] {
            let refusal = refused(text, &policy);
            assert!(
                matches!(refusal, TargetRefusal::NeedsRepair | TargetRefusal::Malformed),
                "{text:?}: {refusal:?}"
            );
        }
    }
}

#[test]
fn what_is_no_url_is_refused() {
    let long = format!("https://{}.com/", "a".repeat(64));
    for text in [
        "",
        "example.com",
        "//example.com/",
        "/hook",
        "https://",
        "https://?a",
        "https://:443/",
        "https://.com/",
        "https://a..com/",
        "https://example.com../",
        "https://exa!mple.com/",
        "https://exa*mple.com/",
        "https://[::1/",
        "https://[fe80::1%25eth0]/",
        "https://[::1]x/",
        "https://[1.2.3.4]/",
        "https://example.com:port/",
        "https://example.com:+443/",
        "https://example.com:65536/",
        "https://a:b:443/",
        "https://xn--a/",
        &long,
    ] {
        let refusal = refused(text, &AddressPolicy::trusted());
        let fits = [TargetRefusal::Malformed, TargetRefusal::NeedsRepair];
        assert!(fits.contains(&refusal), "{text:?}: {refusal:?}");
    }
    let path = "a".repeat(URL_BYTES_MAX);
    assert_eq!(refused(&format!("https://a.com/{path}"), &strict()), TargetRefusal::TooLong);
}

#[test]
fn userinfo_and_fragments_are_refused() {
    for text in [
        "https://user@example.com/",
        "https://user:pass@example.com/",
        "https://@example.com/",
        "https://example.com@evil.com/",
        "https://example.com:443@evil.com/",
    ] {
        assert_eq!(refused(text, &AddressPolicy::trusted()), TargetRefusal::Userinfo, "{text}");
    }
    for text in ["https://example.com/#a", "https://example.com/#", "https://example.com#@evil.com"]
    {
        assert_eq!(refused(text, &AddressPolicy::trusted()), TargetRefusal::Fragment, "{text}");
    }
}

#[test]
fn names_that_mean_something_only_inside_are_refused() {
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "app.localhost",
        "postgres",
        "postgres.",
        "printer.local",
        "metadata.google.internal",
        "metadata.google.internal.",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
        "router.home.arpa",
        "home.arpa",
    ] {
        let text = format!("https://{host}/");
        assert_eq!(refused(&text, &strict()), TargetRefusal::PrivateName, "{text}");
        assert!(Target::parse(&text, &AddressPolicy::trusted()).is_ok(), "{text}");
    }
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
fn a_written_address_is_checked_at_once() {
    for (host, why) in [
        ("127.0.0.1", "loopback"),
        ("169.254.169.254", "cloud metadata"),
        ("168.63.129.16", "cloud metadata"),
        ("[::1]", "loopback"),
        ("[::ffff:127.0.0.1]", "IPv4-mapped"),
        ("[::ffff:7f00:1]", "IPv4-mapped"),
        ("[64:ff9b::7f00:1]", "NAT64"),
        ("[0:0:0:0:0:0:0:1]", "loopback"),
    ] {
        let text = format!("https://{host}/");
        assert_eq!(refused(&text, &strict()), TargetRefusal::Address(why), "{text}");
        let target = Target::parse(&text, &AddressPolicy::trusted()).unwrap();
        assert_eq!(target.check(&strict()), Err(TargetRefusal::Address(why)));
    }
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
