//! A mail server: it takes mail over a real SMTP session, and keeps it.

use std::sync::{Arc, Mutex, MutexGuard};

use mail_parser::{Message, MessageParser};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use super::fault::{Fault, Script};
use super::smtp_session;
use super::violations::{self, Violations};
use crate::waiting::until;

/// How its connections are protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpTls {
    /// Not at all.
    Off,
    /// After the client asks for it, and it must before it shows a password.
    StartTls,
    /// From the first byte.
    Implicit,
}

/// A mail that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmtpMail {
    /// Whom it is from, in the session.
    pub from: String,
    /// Whom it is to, in the session.
    pub to: Vec<String>,
    /// The message, as it was before its dots were doubled.
    pub message: Vec<u8>,
}

impl SmtpMail {
    /// The message, read.
    pub fn parsed(&self) -> Message<'_> {
        MessageParser::default().parse(&self.message).expect("a message")
    }
}

/// The server. It ends with the test, and fails it if a client did anything wrong.
pub struct Smtp {
    port: u16,
    certificate: CertificateDer<'static>,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

pub(super) struct Shared {
    pub(super) login: Option<(String, String)>,
    pub(super) tls: SmtpTls,
    pub(super) acceptor: TlsAcceptor,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) mails: Vec<SmtpMail>,
    pub(super) refused: Vec<String>,
    pub(super) script: Script,
    pub(super) violations: Violations,
    pub(super) sessions: usize,
}

impl Smtp {
    /// A server that takes mail from whoever knows the login, or from everybody.
    pub async fn start(tls: SmtpTls, login: Option<(&str, &str)>) -> Smtp {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = generate_simple_self_signed(names).expect("a certificate");
        let certificate = made.cert.der().clone();
        let shared = Arc::new(Shared {
            login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
            tls,
            acceptor: acceptor(&made),
            state: Mutex::default(),
        });
        let serving = tokio::spawn(serve(listener, shared.clone()));
        Smtp { port, certificate, shared, serving }
    }

    /// The port on the loopback address.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The certificate to trust.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Lets the next handing over of a message go wrong.
    pub fn next(&self, fault: Fault) {
        self.lock().script.add("", fault);
    }

    /// Whether every fault has happened.
    pub fn script_is_over(&self) -> bool {
        self.lock().script.is_over()
    }

    /// There is nobody with this address.
    pub fn refuses(&self, address: &str) {
        self.lock().refused.push(address.to_owned());
    }

    /// What was taken, in order.
    pub fn mails(&self) -> Vec<SmtpMail> {
        self.lock().mails.clone()
    }

    /// How many sessions there were.
    pub fn sessions(&self) -> usize {
        self.lock().sessions
    }

    /// Waits until as many mails were taken.
    pub async fn wait_for(&self, count: usize) -> Vec<SmtpMail> {
        until("mail comes", || async { Some(self.mails()).filter(|mails| mails.len() >= count) })
            .await
    }

    /// What it found wrong so far.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.listed().to_vec()
    }

    /// Panics unless it found just this wrong, each named by a part of it; then it is forgotten.
    #[track_caller]
    pub fn expect_violations(&self, expected: &[&str]) {
        let found = self.lock().violations.take();
        violations::expect(&found, expected);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no session panics")
    }
}

impl Drop for Smtp {
    fn drop(&mut self) {
        self.serving.abort();
        if !std::thread::panicking() {
            violations::expect(&self.violations(), &[]);
        }
    }
}

fn acceptor(made: &CertifiedKey<rcgen::KeyPair>) -> TlsAcceptor {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a certificate");
    TlsAcceptor::from(Arc::new(config))
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    // They end with this task, even those that hang.
    let mut sessions = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        while sessions.try_join_next().is_some() {}
        shared.lock().sessions += 1;
        let shared = shared.clone();
        // A client that goes away in the middle is its own business.
        sessions.spawn(async move {
            let _ = smtp_session::run(stream, &shared).await;
        });
    }
}
