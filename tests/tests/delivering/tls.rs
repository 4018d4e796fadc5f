//! Receivers behind TLS: those that are who they say, those that are not, and those that want to know who we are.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio_rustls::TlsAcceptor;
use wakepost_tests::{Database, Gateway, Receiver, Reply, on_both};

use crate::subscriber::*;

on_both!(a_certificate_decides_who_gets_a_delivery, a_receiver_may_ask_who_we_are);

/// An authority that signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
struct Certified {
    cert: Certificate,
    key: KeyPair,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    fn certify(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Certified {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        change(&mut params);
        let cert = params.signed_by(&key, &self.0).expect("a certificate");
        Certified { cert, key }
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        Arc::new(roots)
    }

    /// A file with its certificate. It lives as long as what is answered.
    fn file(&self) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), self.0.pem()).expect("a file");
        file
    }
}

/// A receiver with a certificate. `callers`: whose certificates it wants to see, if any.
async fn receiver(certified: &Certified, callers: Option<&Authority>) -> Receiver {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("versions");
    let config = match callers {
        None => config.with_no_client_auth(),
        Some(callers) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(callers.roots(), provider).build();
            config.with_client_cert_verifier(verifier.expect("a verifier"))
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.key.serialize_der()));
    let config =
        config.with_single_cert(vec![certified.cert.der().clone()], key).expect("a certificate");
    Receiver::start_tls(TlsAcceptor::from(Arc::new(config)), |_| Reply::new(200, "")).await
}

/// A gateway that trusts an authority.
async fn trusting(database: Database, authority: &Authority) -> Gateway {
    let file = authority.file();
    let path = file.path().to_str().expect("a path");
    // It is read at the start.
    setup(database).setting("WAKEPOST_CA_FILE", path).start().await
}

fn fields(receiver: &Receiver) -> Value {
    json!({"url": receiver.url("/hook"), "events": ["*"], "retry_s": [0, 0]})
}

async fn a_certificate_decides_who_gets_a_delivery(database: Database) {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let gateway = trusting(database, &ours).await;
    let api = gateway.admin();
    let good = receiver(&ours.certify("localhost", |_| {}), None).await;
    let subscriber = Subscriber::with(&api, fields(&good)).await;
    assert_eq!(subscriber.made.get("warning"), None, "{}", subscriber.made);
    let event = publish(&api, "order.paid", json!({})).await;
    subscriber.delivery(&event, "succeeded").await;
    subscriber.signed(&came(&good, "/hook")[0]);

    let old = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
    };
    let early = |params: &mut CertificateParams| params.not_before = date_time_ymd(2099, 1, 1);
    for (what, certified) in [
        ("somebody else's name", ours.certify("other.example", |_| {})),
        ("one of the past", ours.certify("localhost", old)),
        ("one of the future", ours.certify("localhost", early)),
        ("of an authority that nobody knows", theirs.certify("localhost", |_| {})),
    ] {
        let receiver = receiver(&certified, None).await;
        let subscriber = Subscriber::with(&api, fields(&receiver)).await;
        assert!(subscriber.made["warning"].is_string(), "{what}");
        let event = publish(&api, "order.paid", json!({})).await;
        let delivery = subscriber.delivery(&event, "dead_letter").await;
        assert_eq!(delivery["attempt_count"], 2, "{what}: {delivery}");
        assert_eq!(tries(&delivery)[1]["error_class"], "tls", "{what}: {delivery}");
        assert!(receiver.seen("/hook").is_empty(), "{what}: nothing was said");
    }
}

async fn a_receiver_may_ask_who_we_are(database: Database) {
    let (ours, clients) = (Authority::new(), Authority::new());
    let gateway = trusting(database, &ours).await;
    let api = gateway.admin();
    let receiver = receiver(&ours.certify("localhost", |_| {}), Some(&clients)).await;
    let client = |authority: &Authority| {
        let Certified { cert, key } = authority.certify("wakepost.example", |_| {});
        json!({"type": "mtls", "cert": cert.pem(), "key": key.serialize_pem()})
    };
    let mut known = fields(&receiver);
    known["auth"] = client(&clients);
    known["url"] = json!(receiver.url("/known"));
    let known = Subscriber::with(&api, known).await;
    assert_eq!((&known.made["auth"], known.made.get("warning")), (&json!({"type": "mtls"}), None));
    let mut unknown = fields(&receiver);
    unknown["auth"] = client(&ours);
    unknown["url"] = json!(receiver.url("/unknown"));
    let unknown = Subscriber::with(&api, unknown).await;
    let nobody = Subscriber::with(&api, fields(&receiver)).await;
    let event = publish(&api, "order.paid", json!({})).await;
    known.delivery(&event, "succeeded").await;
    known.signed(&came(&receiver, "/known")[0]);
    // Receivers of the same host keep apart what was opened under another name.
    for other in [&unknown, &nobody] {
        let delivery = other.delivery(&event, "dead_letter").await;
        assert_eq!(delivery["attempt_count"], 2, "{delivery}");
    }
    assert!(receiver.seen("/unknown").is_empty() && receiver.seen("/hook").is_empty());
    assert!(!known.show().await.to_string().contains("PRIVATE KEY"));
}
