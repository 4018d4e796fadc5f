//! Receivers behind TLS: the name is asked for and verified, the checked address is connected to.

use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;

use super::receiver::*;
use crate::outbound::*;

struct TlsReceiver {
    receiver: Receiver,
    root: CertificateDer<'static>,
    /// The server name of each connection, and the request that came over it.
    seen: Seen,
}

type Seen = Arc<Mutex<Vec<(Option<String>, String)>>>;

/// A receiver with a certificate of its own for `name`.
async fn tls_receiver(name: &str) -> TlsReceiver {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let seen = Seen::default();
    let log = seen.clone();
    let receiver = Receiver::start(move |stream| {
        let (acceptor, log) = (acceptor.clone(), log.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else {
                return;
            };
            let name = stream.get_ref().1.server_name().map(str::to_owned);
            let Some(request) = read_request(&mut stream).await else {
                return;
            };
            log.lock().push((name, request));
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    TlsReceiver { receiver, root: cert.der().clone(), seen }
}

fn client_trusting(root: Option<&TlsReceiver>) -> GuardedClient {
    let settings = ClientSettings {
        policy: AddressPolicy::trusted(),
        extra_roots: root.map(|receiver| receiver.root.clone()).into_iter().collect(),
        ..Default::default()
    };
    client_with(StubResolver::new(&[&["127.0.0.1"]]), settings)
}

impl TlsReceiver {
    fn request(&self, host: &str) -> OutboundRequest {
        request(&format!("https://{host}:{}/hook", self.receiver.address.port()))
    }
}

#[tokio::test]
async fn the_name_is_sent_and_the_checked_address_connected() {
    let receiver = tls_receiver("hooks.example.com").await;
    let answer =
        client_trusting(Some(&receiver)).send(receiver.request("Hooks.Example.com")).await.unwrap();
    assert_eq!(answer.body, "ok");
    assert_eq!(answer.remote, Some(receiver.receiver.address));
    assert!(answer.timings.dns.is_some());
    assert!(answer.timings.connect.is_some());
    assert!(answer.timings.tls.is_some());
    let seen = receiver.seen.lock();
    assert_eq!(seen[0].0.as_deref(), Some("hooks.example.com"));
    let port = receiver.receiver.address.port();
    assert!(seen[0].1.contains(&format!("host: hooks.example.com:{port}\r\n")), "{}", seen[0].1);
}

#[tokio::test]
async fn a_name_with_a_last_dot_is_verified_like_the_name() {
    let receiver = tls_receiver("hooks.example.com").await;
    let client = client_trusting(Some(&receiver));
    client.send(receiver.request("hooks.example.com.")).await.unwrap();
    assert_eq!(receiver.seen.lock()[0].0.as_deref(), Some("hooks.example.com"));
}

#[tokio::test]
async fn a_certificate_for_another_name_is_a_tls_error() {
    let receiver = tls_receiver("other.example.com").await;
    let client = client_trusting(Some(&receiver));
    for host in ["hooks.example.com", "127.0.0.1"] {
        let error = failure(&client, receiver.request(host)).await;
        assert_eq!(error.class, SendErrorClass::Tls, "{error:?}");
        assert!(error.timings.connect.is_some() && error.timings.tls.is_none());
    }
    assert!(receiver.seen.lock().is_empty(), "no request reached an unverified receiver");
}

#[tokio::test]
async fn an_unknown_authority_is_a_tls_error() {
    let receiver = tls_receiver("hooks.example.com").await;
    let error = failure(&client_trusting(None), receiver.request("hooks.example.com")).await;
    assert_eq!(error.class, SendErrorClass::Tls, "{error:?}");
    assert!(error.text.contains("UnknownIssuer"), "{}", error.text);
    assert!(receiver.seen.lock().is_empty());
}

#[tokio::test]
async fn a_trusted_request_verifies_certificates_too() {
    let receiver = tls_receiver("hooks.example.com").await;
    let trusted =
        OutboundRequest { trust: Trust::Trusted, ..receiver.request("hooks.example.com") };
    let error = failure(&client_trusting(None), trusted).await;
    assert_eq!(error.class, SendErrorClass::Tls);
}

#[tokio::test]
async fn plain_http_where_tls_is_expected_is_a_tls_error() {
    let receiver = Receiver::start(|mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        until_closed(&mut stream).await;
    })
    .await;
    let error =
        failure(&client_trusting(None), request(&format!("https://{}/", receiver.address))).await;
    assert_eq!(error.class, SendErrorClass::Tls, "{error:?}");
}

#[test]
fn a_root_that_is_no_certificate_is_an_error_at_start() {
    let settings = ClientSettings {
        extra_roots: vec![CertificateDer::from(b"nonsense".to_vec())],
        ..Default::default()
    };
    assert!(GuardedClient::new(StubResolver::new(&[]), settings).is_err());
}
