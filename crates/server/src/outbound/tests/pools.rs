//! Connections are kept for the next request, but never across trust.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::receiver::*;
use crate::outbound::*;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn a_connection_is_used_again_and_its_timings_say_so() {
    let receiver = Receiver::answering(OK).await;
    let client = open_client(StubResolver::new(&[]));
    let first = client.send(receiver.request()).await.unwrap();
    // The pool takes the connection back in a task of its own.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let second = client.send(receiver.request()).await.unwrap();
    assert_eq!(receiver.connections(), 1);
    assert!(first.timings.connect.is_some());
    assert_eq!(second.timings.connect, None);
    assert_eq!(second.body, "ok");
}

#[tokio::test]
async fn an_idle_connection_is_given_up() {
    let receiver = Receiver::answering(OK).await;
    let settings = ClientSettings {
        policy: AddressPolicy::trusted(),
        idle_timeout: Duration::from_millis(50),
        ..Default::default()
    };
    let client = client_with(StubResolver::new(&[]), settings);
    client.send(receiver.request()).await.unwrap();
    assert!(receiver.one_ended().await);
    client.send(receiver.request()).await.unwrap();
    assert_eq!(receiver.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_the_receiver_closed_meanwhile_is_replaced() {
    let receiver = Receiver::start(|mut stream| async move {
        use tokio::io::AsyncWriteExt;
        let _ = read_request(&mut stream).await;
        let _ = stream.write_all(OK.as_bytes()).await;
    })
    .await;
    let client = open_client(StubResolver::new(&[]));
    for _ in 0..3 {
        client.send(receiver.request()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(receiver.connections(), 3);
}

#[tokio::test]
async fn a_request_lost_with_its_kept_connection_is_not_sent_twice() {
    use tokio::io::AsyncWriteExt;
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let receiver = Receiver::start(move |mut stream| {
        let count = count.clone();
        async move {
            read_request(&mut stream).await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(OK.as_bytes()).await;
            read_request(&mut stream).await.unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let client = open_client(StubResolver::new(&[]));
    client.send(receiver.request()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let error = failure(&client, receiver.request()).await;
    assert_eq!(error.class, SendErrorClass::Protocol, "{error:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
    assert_eq!(receiver.connections(), 1);
}

#[tokio::test]
async fn trusted_and_guarded_requests_share_no_connection() {
    let receiver = Receiver::answering(OK).await;
    let client = open_client(StubResolver::new(&[]));
    let trusted = OutboundRequest { trust: Trust::Trusted, ..receiver.request() };
    for request in [trusted.clone(), receiver.request(), trusted, receiver.request()] {
        client.send(request).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(receiver.connections(), 2);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_guarded_request_never_rides_a_trusted_connection_to_a_private_address() {
    use std::net::SocketAddr;
    let [.., high, low] = std::process::id().to_be_bytes();
    let at = |n| SocketAddr::from(([127, 1 + high % 250, low, n], 8443));
    let public = Receiver::start_at(at(20), |stream| answer_all(stream, OK)).await;
    let private = Receiver::start_at(at(21), |stream| answer_all(stream, OK)).await;
    let ips = [&private, &public].map(|receiver| receiver.address.ip().to_string());
    // The operator's request finds the private address; a tenant's, of the same name, the other.
    let resolver = StubResolver::new(&[&[&ips[0]], &[&ips[1]]]);
    let client = super::guard::client_for(&[public.address.ip()], resolver);
    let url = "http://agent.example.com:8443/";
    let trusted = OutboundRequest { trust: Trust::Trusted, ..request(url) };
    assert_eq!(client.send(trusted).await.unwrap().remote, Some(private.address));
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(client.send(request(url)).await.unwrap().remote, Some(public.address));
    assert_eq!((private.connections(), public.connections()), (1, 1));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_kept_connection_is_no_way_around_the_check() {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = std::net::SocketAddr::from(([127, 1 + high % 250, low, 22], 8443));
    let receiver = Receiver::start_at(address, |stream| answer_all(stream, OK)).await;
    let resolver = StubResolver::new(&[&[&address.ip().to_string()], &["10.0.0.1"]]);
    let client = super::guard::client_for(&[address.ip()], resolver);
    let url = "http://agent.example.com:8443/";
    client.send(request(url)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(failure(&client, request(url)).await.class, SendErrorClass::Refused);
    assert_eq!(receiver.connections(), 1);
}
