//! No connection is made to a refused address, ever.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;

use super::receiver::*;
use crate::outbound::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// A receiver at a port that guarded requests may use, on a loopback address of its own. `n`
/// tells the tests apart, the process id the test runs.
#[cfg(target_os = "linux")]
pub(super) async fn receiver_at(n: u8) -> Receiver {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = SocketAddr::from(([127, 1 + high % 250, low, n], 8443));
    Receiver::start_at(address, |stream| answer_all(stream, OK)).await
}

/// A client that may reach these addresses and no other loopback ones.
pub(super) fn client_for(allowed: &[IpAddr], resolver: Arc<StubResolver>) -> GuardedClient {
    let allow = Allow::Cidrs(allowed.iter().map(|ip| (*ip).into()).collect());
    let policy = AddressPolicy { allow_http: true, allow };
    client_with(resolver, ClientSettings { policy, ..Default::default() })
}

const URL: &str = "http://hooks.example.com:8443/";

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_allowed_address_is_reached_by_its_name() {
    let receiver = receiver_at(1).await;
    let resolver = StubResolver::new(&[&[&receiver.address.ip().to_string()]]);
    let client = client_for(&[receiver.address.ip()], resolver.clone());
    let answer = client.send(request(URL)).await.unwrap();
    assert_eq!(answer.remote, Some(receiver.address));
    assert!(answer.timings.dns.is_some());
    assert_eq!(resolver.asked(), ["hooks.example.com:8443"]);
    assert_eq!(receiver.connections(), 1);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn one_refused_address_among_many_refuses_the_name() {
    let (good, bad) = (receiver_at(2).await, receiver_at(3).await);
    let (good_ip, bad_ip) = (good.address.ip().to_string(), bad.address.ip().to_string());
    for answer in [
        vec![bad_ip.as_str()],
        vec![&good_ip, &bad_ip],
        vec![&bad_ip, &good_ip],
        vec![
            &good_ip, &good_ip, &good_ip, &good_ip, &good_ip, &good_ip, &good_ip, &good_ip, &bad_ip,
        ],
        vec![&good_ip, "10.0.0.1"],
        vec![&good_ip, "::1"],
        vec![&good_ip, "::ffff:127.0.0.1"],
        vec![&good_ip, "169.254.169.254"],
    ] {
        let client = client_for(&[good.address.ip()], StubResolver::new(&[&answer]));
        let error = failure(&client, request(URL)).await;
        assert_eq!(error.class, SendErrorClass::Refused, "{answer:?}");
        assert_eq!(error.text, "the address is not allowed");
        let refused = answer.iter().find(|ip| **ip != good_ip).unwrap();
        let why = error.operator_text.unwrap();
        assert!(why.starts_with(&format!("hooks.example.com resolves to {refused}, ")), "{why}");
    }
    assert_eq!((good.connections(), bad.connections()), (0, 0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_name_that_rebinds_between_attempts_is_refused_on_the_next() {
    let (good, bad) = (receiver_at(4).await, receiver_at(5).await);
    let (good_ip, bad_ip) = (good.address.ip().to_string(), bad.address.ip().to_string());
    let resolver = StubResolver::new(&[&[&good_ip], &[&bad_ip], &[&good_ip], &[&bad_ip]]);
    let client = client_for(&[good.address.ip()], resolver.clone());
    for round in 1..=2 {
        assert!(client.send(request(URL)).await.is_ok());
        let error = failure(&client, request(URL)).await;
        assert_eq!(error.class, SendErrorClass::Refused);
        // Asked once for each attempt: there is no second answer that goes unchecked.
        assert_eq!(resolver.asked().len(), 2 * round);
    }
    assert_eq!((good.connections(), bad.connections()), (2, 0));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_dead_address_is_followed_by_the_next_checked_one() {
    let receiver = receiver_at(6).await;
    let [.., high, low] = std::process::id().to_be_bytes();
    let dead = IpAddr::from([127, 1 + high % 250, low, 7]);
    let live = receiver.address.ip();
    let resolver = StubResolver::new(&[&[&dead.to_string(), &live.to_string()]]);
    let client = client_for(&[dead, live], resolver);
    assert_eq!(client.send(request(URL)).await.unwrap().remote, Some(receiver.address));
}

#[tokio::test]
async fn a_guarded_request_is_refused_by_what_its_url_says_however_it_was_read() {
    let receiver = Receiver::answering(OK).await;
    let resolver = StubResolver::new(&[&["127.0.0.1"]]);
    let client = client_with(resolver.clone(), ClientSettings::default());
    let port = receiver.address.port();
    for url in [
        format!("http://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
        format!("https://[::1]:{port}/"),
        format!("https://localhost:{port}/"),
        format!("https://example.com:{port}/"),
        "https://agent.internal/".to_owned(),
        "http://example.com/".to_owned(),
    ] {
        let error = failure(&client, request(&url)).await;
        assert_eq!(error.class, SendErrorClass::Refused, "{url}");
        assert!(error.text.starts_with("url must "), "{}", error.text);
    }
    assert_eq!(receiver.connections(), 0);
    assert_eq!(resolver.asked(), [""; 0], "a refused URL is not even looked up");

    // The same client goes there for the operator.
    let url = format!("http://localhost:{port}/");
    let trusted = OutboundRequest { trust: Trust::Trusted, ..request(&url) };
    assert!(client.send(trusted).await.is_ok());
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn a_name_without_addresses_is_a_resolve_error() {
    for resolver in [StubResolver::new(&[]), StubResolver::new(&[&[]])] {
        let client = client_with(resolver, ClientSettings::default());
        let error = failure(&client, request("https://example.com/")).await;
        assert_eq!(error.class, SendErrorClass::Resolve, "{error:?}");
    }
}

struct SilentResolver;

#[async_trait]
impl Resolver for SilentResolver {
    async fn resolve(&self, _: &str, _: u16) -> io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn a_name_server_that_never_answers_is_within_the_deadline() {
    let client = GuardedClient::new(Arc::new(SilentResolver), ClientSettings::default()).unwrap();
    let error = failure(&client, request("https://example.com/")).await;
    assert_eq!(error.class, SendErrorClass::Timeout);
    assert_eq!(error.text, "timed out while resolving the name");
}
