//! The guard against the whole corpus: when a URL is given, and when its name has been resolved.

use std::collections::BTreeSet;

use wakepost_providers::{MailTls, OutgoingMail};

use super::corpus::{Corpus, host};
use super::guard::client_for;
use super::receiver::*;
use crate::outbound::*;

fn read(url: &str, policy: &AddressPolicy) -> Result<Target, String> {
    Target::parse(url, policy).map_err(|refusal| refusal.to_string())
}

#[test]
fn every_hostile_url_is_refused_with_its_sentence() {
    let strict = AddressPolicy::default();
    let corpus = Corpus::read();
    let judged = corpus.urls.iter().map(|hostile| (hostile, read(&hostile.url, &strict)));
    let wrong: Vec<_> = judged
        .filter(|(hostile, read)| read.as_ref().err() != Some(&hostile.refusal))
        .map(|(hostile, read)| format!("{:?}: {read:?}", hostile.url))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_a_policy_allows_is_refused_again_by_a_stricter_one() {
    let (strict, trusted) = (AddressPolicy::default(), AddressPolicy::trusted());
    for hostile in Corpus::read().urls {
        match read(&hostile.url, &trusted) {
            Ok(target) => {
                assert!(!hostile.always, "{:?} was read as {target:?}", hostile.url);
                let refusal = target.check(&strict).unwrap_err().to_string();
                assert_eq!(refusal, hostile.refusal, "{:?}", hostile.url);
            }
            Err(refusal) if hostile.always => {
                assert_eq!(refusal, hostile.refusal, "{:?}", hostile.url);
            }
            Err(_) => assert_eq!(hostile.refusal, "url must use HTTPS", "{:?}", hostile.url),
        }
    }
}

#[test]
fn every_hostile_address_is_refused_with_its_word() {
    for hostile in Corpus::read().addresses {
        assert_eq!(address::refusal(hostile.ip), Some(hostile.refusal.as_str()), "{}", hostile.ip);
    }
}

#[test]
fn what_is_harmless_passes() {
    let strict = AddressPolicy::default();
    let harmless = Corpus::read().harmless;
    for ip in harmless.addresses {
        assert_eq!(address::refusal(ip), None, "{ip}");
        let url = format!("https://{}/hook", host(ip));
        assert!(read(&url, &strict).is_ok(), "{url}");
    }
    for url in harmless.urls {
        assert_eq!(read(&url, &strict).err(), None, "{url}");
    }
}

#[test]
fn the_corpus_holds_each_thing_once_and_enough_of_it() {
    let corpus = Corpus::read();
    let addresses: BTreeSet<_> = corpus.addresses.iter().map(|hostile| hostile.ip).collect();
    assert_eq!(addresses.len(), corpus.addresses.len());
    let names: BTreeSet<_> = corpus.names.iter().map(|hostile| &hostile.name).collect();
    assert_eq!(names.len(), corpus.names.len());
    assert!(addresses.len() >= 200 && corpus.urls.len() >= 2_000 && names.len() >= 40);
    assert!(corpus.harmless.addresses.len() >= 50 && corpus.harmless.urls.len() >= 40);
}

/// Alone, and before, after and between addresses that are allowed.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn every_hostile_address_refuses_the_name_that_has_it() {
    let good = super::guard::receiver_at(8).await;
    let allowed = good.address.ip().to_string();
    for hostile in Corpus::read().addresses {
        let ip = hostile.ip.to_string();
        let answers: [&[&str]; 4] =
            [&[&ip], &[&ip, &allowed], &[&allowed, &ip], &[&allowed, &ip, &allowed]];
        let client = client_for(&[good.address.ip()], StubResolver::new(&answers));
        for answer in answers {
            let error = failure(&client, request("http://hooks.example.com:8443/")).await;
            assert_eq!(error.class, SendErrorClass::Refused, "{answer:?}");
            assert_eq!(error.text, "the address is not allowed");
            let why = format!("hooks.example.com resolves to {ip}, which is {}", hostile.refusal);
            assert_eq!(error.operator_text, Some(why));
        }
    }
    assert_eq!(good.connections(), 0);
}

#[tokio::test]
async fn every_hostile_name_passes_as_a_name_and_is_refused_by_its_address() {
    for hostile in Corpus::read().names {
        let url = format!("https://{}/hook", hostile.name);
        assert_eq!(read(&url, &AddressPolicy::default()).err(), None, "{url}");
        let resolver = StubResolver::new(&[&[&hostile.ip.to_string()]]);
        let client = client_with(resolver.clone(), ClientSettings::default());
        let error = failure(&client, request(&url)).await;
        assert_eq!(error.class, SendErrorClass::Refused, "{url}");
        assert_eq!(resolver.asked(), [format!("{}:443", hostile.name)]);
    }
}

fn mail_to(host: &str) -> OutgoingMail {
    OutgoingMail {
        host: host.to_owned(),
        port: 587,
        tls: MailTls::None,
        login: None,
        from: "agent@example.com".to_owned(),
        to: vec!["person@example.com".to_owned()],
        message: Vec::new(),
        message_id: "<1@example.com>".to_owned(),
    }
}

#[tokio::test]
async fn no_mail_goes_to_a_hostile_address() {
    let allowed = "127.77.0.1";
    let policy = AddressPolicy {
        allow: Allow::Cidrs(vec![format!("{allowed}/32").parse().unwrap()]),
        ..Default::default()
    };
    let settings = ClientSettings { policy, ..Default::default() };
    for hostile in Corpus::read().addresses {
        let ip = hostile.ip.to_string();
        let mailer = Mailer::new(StubResolver::new(&[&[allowed, &ip]]), &settings).unwrap();
        for host in [&ip, "smtp.example.com"] {
            let refused = mailer.send(&mail_to(host), Trust::Guarded).await;
            let why = MailFault::Unfit("the address of smtp_host is not allowed".to_owned());
            assert_eq!(refused, Err(why), "{host}, {ip}");
        }
    }
}

#[tokio::test]
async fn a_mail_server_whose_name_means_something_only_inside_is_not_looked_up() {
    let resolver = StubResolver::new(&[&["127.0.0.1"]]);
    let mailer = Mailer::new(resolver.clone(), &ClientSettings::default()).unwrap();
    for host in
        ["mailhub", "mailhub.", "localhost", "LOCALHOST", "smtp.Internal", "a.local.", "2130706433"]
    {
        let refused = mailer.send(&mail_to(host), Trust::Guarded).await;
        let why = MailFault::Unfit("smtp_host must name a public host".to_owned());
        assert_eq!(refused, Err(why), "{host}");
    }
    assert_eq!(resolver.asked(), [""; 0]);
}
