//! Listening: TLS of the server's own, and addresses for the API and the counters.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Method, Request, Version};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wakepost_tests::{Database, Gateway, Http, Setup, raw_exchange, until};

/// An authority that signs certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("an authority"))
    }

    fn certify(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        (params.signed_by(&key, &self.0).expect("a certificate"), key)
    }

    /// Writes a certificate for this machine, and its key.
    fn write(&self, directory: &Path) {
        let (cert, key) = self.certify("127.0.0.1");
        std::fs::write(directory.join("cert.pem"), cert.pem()).expect("a file");
        std::fs::write(directory.join("key.pem"), key.serialize_pem()).expect("a file");
    }
}

/// A directory with the server's certificate, and settings that name it.
struct Certified {
    directory: tempfile::TempDir,
    authority: Authority,
}

impl Certified {
    fn new() -> Certified {
        let certified = Certified {
            directory: tempfile::tempdir().expect("a directory"),
            authority: Authority::new(),
        };
        certified.authority.write(certified.directory.path());
        certified
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().expect("a path").to_owned()
    }

    fn setup(&self) -> Setup {
        Gateway::setup(Database::Sqlite)
            .setting("WAKEPOST_TLS_CERT_FILE", &self.path("cert.pem"))
            .setting("WAKEPOST_TLS_KEY_FILE", &self.path("key.pem"))
    }

    /// A client that trusts the authority, and shows a certificate of its own if it is given one.
    async fn connect(
        &self,
        url: &str,
        own: Option<&Authority>,
    ) -> Result<TlsStream<TcpStream>, String> {
        self.connect_with(url, own, &[b"http/1.1"]).await
    }

    /// The same, by these versions of HTTP.
    async fn connect_with(
        &self,
        url: &str,
        own: Option<&Authority>,
        versions: &[&[u8]],
    ) -> Result<TlsStream<TcpStream>, String> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.0.der().clone()).expect("an authority");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match own {
            None => config.with_no_client_auth(),
            Some(own) => {
                let (cert, key) = own.certify("client.example");
                let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
                config.with_client_auth_cert(vec![cert.der().clone()], key).expect("a certificate")
            }
        };
        config.alpn_protocols = versions.iter().map(|version| version.to_vec()).collect();
        let host = url.strip_prefix("https://").unwrap_or_else(|| panic!("{url} is not TLS"));
        let stream = TcpStream::connect(host).await.expect("a connection");
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(|error| error.to_string())
    }

    /// What a new connection gets for a path: the head and the body.
    async fn get(&self, url: &str, path: &str, own: Option<&Authority>) -> Result<String, String> {
        let mut stream = self.connect(url, own).await?;
        ask(&mut stream, path, "close").await?;
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer).await {
            Err(error) if answer.is_empty() => Err(error.to_string()),
            _ => Ok(String::from_utf8_lossy(&answer).into_owned()),
        }
    }
}

async fn ask(
    stream: &mut TlsStream<TcpStream>,
    path: &str,
    connection: &str,
) -> Result<(), String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: {connection}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|error| error.to_string())
}

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let certificates = stream.get_ref().1.peer_certificates().expect("certificates");
    certificates[0].clone().into_owned()
}

#[tokio::test]
async fn the_server_speaks_tls_and_nothing_else_there() {
    let certified = Certified::new();
    let gateway = certified.setup().start().await;
    let answer = certified.get(gateway.url(), "/healthz", None).await.expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("{\"status\":\"ok\"}"),
        "{answer}"
    );
    let stream = certified.connect(gateway.url(), None).await.expect("a connection");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    let plain = gateway.url().replace("https://", "http://");
    let refused = raw_exchange(&plain, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(!refused.contains("HTTP/1.1 200"), "{refused:?}");
    let answer = certified.get(gateway.url(), "/healthz", None).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"));
}

/// A body of pieces, which ends, or of which no more comes.
type Piecemeal = BoxBody<Bytes, Infallible>;

fn pieces(first: impl Into<Bytes>, ends: bool) -> Piecemeal {
    let first = futures_util::stream::iter([Ok(Frame::data(first.into()))]);
    match ends {
        true => BoxBody::new(StreamBody::new(first)),
        false => BoxBody::new(StreamBody::new(first.chain(futures_util::stream::pending()))),
    }
}

/// HTTP/2 over TLS, as a client negotiates it.
async fn version_2(certified: &Certified, url: &str) -> SendRequest<Piecemeal> {
    let stream = certified.connect_with(url, None, &[b"h2", b"http/1.1"]).await;
    let stream = stream.expect("a connection");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

#[tokio::test]
async fn http_2_over_tls_has_the_same_limits() {
    let certified = Certified::new();
    let gateway = certified.setup().start().await;
    let base = gateway.url();
    let client = version_2(&certified, base).await;
    let ask = |request: http::request::Builder, body: Piecemeal| {
        let asked = client.clone().send_request(request.body(body).expect("a request"));
        async move {
            let answer = tokio::time::timeout(Duration::from_secs(50), asked).await;
            let answer = answer.expect("in time").map_err(|error| error.to_string())?;
            let (head, body) = answer.into_parts();
            assert_eq!(head.version, Version::HTTP_2);
            let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
            Ok::<_, String>((head.status.as_u16(), String::from_utf8_lossy(&body).into_owned()))
        }
    };
    let get = |path: &str| Request::builder().uri(format!("{base}{path}"));
    let nothing = || pieces("", true);
    let healthy = ask(get("/healthz"), nothing()).await.expect("an answer");
    assert_eq!(healthy, (200, "{\"status\":\"ok\"}".to_owned()));
    let long = format!("/healthz?{}", "x".repeat(17 * 1024));
    assert_eq!(ask(get(&long), nothing()).await.expect("an answer").0, 414);
    let many = (0..101).fold(get("/healthz"), |asked, n| asked.header(format!("x-{n}"), "1"));
    assert_eq!(ask(many, nothing()).await.expect("an answer").0, 431);
    let large = (0..5)
        .fold(get("/healthz"), |asked, n| asked.header(format!("x-{n}"), "x".repeat(14 * 1024)));
    // Whether HTTP/2 itself or the server refuses it, it does not come through.
    assert!(!matches!(ask(large, nothing()).await, Ok((200..300, _))));
    // A body that is too large, whether its length is said or not.
    let post = || get("/api/v1/jobs").method(Method::POST);
    let post = || post().header("authorization", format!("Bearer {}", gateway.admin_key()));
    let large = "x".repeat(8 * 1024 * 1024 + 1);
    let said = post().header("content-length", large.len());
    for asked in [said, post()] {
        let answer = ask(asked, pieces(large.clone(), true)).await;
        assert!(matches!(&answer, Ok((413, said)) if said.contains("too_large")), "{answer:?}");
    }
    // A body that stops half-way is given up, and nobody else on the connection waits for it.
    let began = Instant::now();
    let stuck = ask(post(), pieces("{", false));
    let other = ask(get("/healthz"), nothing());
    let (stuck, other) = tokio::join!(stuck, async { (other.await, began.elapsed()) });
    assert!(other.0.is_ok() && other.1 < Duration::from_secs(5), "{other:?}");
    assert!(matches!(&stuck, Ok((408, said)) if said.contains("too_slow")), "{stuck:?}");
    assert!(began.elapsed() > Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test]
async fn who_asks_for_nothing_over_http_2_and_tls_is_let_go() {
    let certified = Certified::new();
    let gateway = certified.setup().start().await;
    let silent = certified.connect_with(gateway.url(), None, &[b"h2"]).await;
    let mut half = certified.connect_with(gateway.url(), None, &[b"h2"]).await.expect("connected");
    // The preface, empty settings, and a head that does not end.
    half.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("sent");
    half.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.expect("sent");
    half.write_all(&[0, 0, 3, 1, 0, 0, 0, 0, 1, 0x82, 0x84, 0x87]).await.expect("sent");
    for mut stream in [silent.expect("connected"), half] {
        let ended = tokio::time::timeout(Duration::from_secs(25), async {
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
        });
        ended.await.expect("the connection is ended");
    }
}

#[tokio::test]
async fn clients_must_show_a_certificate_where_that_is_wanted() {
    let certified = Certified::new();
    let (clients, foreign) = (Authority::new(), Authority::new());
    std::fs::write(certified.directory.path().join("ca.pem"), clients.0.pem()).expect("a file");
    let wanting =
        || certified.setup().setting("WAKEPOST_TLS_CLIENT_CA_FILE", &certified.path("ca.pem"));
    let gateway = wanting().start().await;
    let get = async |url: &str, own: Option<&Authority>| certified.get(url, "/healthz", own).await;
    assert!(
        get(gateway.url(), Some(&clients)).await.expect("an answer").starts_with("HTTP/1.1 200")
    );
    for own in [None, Some(&foreign)] {
        assert!(get(gateway.url(), own).await.is_err());
    }
    // With an address of its own for the API, only that one asks: providers have no certificate.
    let gateway = wanting().setting("WAKEPOST_API_LISTEN", "127.0.0.1:0").start().await;
    let api = printed(&gateway, "API on ");
    assert!(get(gateway.url(), None).await.expect("an answer").starts_with("HTTP/1.1 200"));
    assert!(get(&api, None).await.is_err());
    assert!(get(&api, Some(&clients)).await.expect("an answer").starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn new_certificates_are_used_without_a_restart() {
    let certified = Certified::new();
    let gateway = certified.setup().start().await;
    let mut open = certified.connect(gateway.url(), None).await.expect("a connection");
    let first = shown(&open);
    let pid = Pid::from_raw(i32::try_from(gateway.pid()).expect("an id")).expect("an id");
    std::fs::write(certified.directory.path().join("cert.pem"), "rubbish").expect("a file");
    kill_process(pid, Signal::HUP).expect("our own child takes signals");
    until("it says so", || async {
        gateway.logged().contains("cannot be used; the old ones stay").then_some(())
    })
    .await;
    certified.authority.write(certified.directory.path());
    kill_process(pid, Signal::HUP).expect("our own child takes signals");
    until("the new one is shown", || async {
        let stream = certified.connect(gateway.url(), None).await.expect("a connection");
        (shown(&stream) != first).then_some(())
    })
    .await;
    ask(&mut open, "/healthz", "close").await.expect("an open connection goes on");
    let mut answer = String::new();
    let _ = open.read_to_string(&mut answer).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test]
async fn a_slow_handshake_does_not_keep_its_place() {
    let certified = Certified::new();
    let gateway = certified.setup().setting("WAKEPOST_CONNECTIONS_MAX", "1").start().await;
    let host = gateway.url().strip_prefix("https://").expect("TLS").to_owned();
    let silent = TcpStream::connect(&host).await.expect("a connection");
    let began = Instant::now();
    let answer = certified.get(gateway.url(), "/healthz", None).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"));
    let took = began.elapsed();
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(25), "{took:?}");
    drop(silent);
}

#[tokio::test]
async fn files_that_are_no_good_stop_the_start() {
    let certified = Certified::new();
    std::fs::write(certified.directory.path().join("key.pem"), "rubbish").expect("a file");
    let ran = certified.setup().prepare().await.run(&["serve", "--listen", "127.0.0.1:0"]).await;
    assert_ne!(ran.code, Some(0));
    assert!(ran.stderr.contains("tls_key_file"), "{}", ran.stderr);
}

fn printed(gateway: &Gateway, before: &str) -> String {
    let line = gateway.printed().lines().find_map(|line| line.strip_prefix(before));
    line.unwrap_or_else(|| panic!("no {before:?} in {}", gateway.printed())).to_owned()
}

#[tokio::test]
async fn the_api_and_the_counters_can_have_addresses_of_their_own() {
    let gateway = Gateway::setup(Database::Sqlite)
        .setting("WAKEPOST_API_LISTEN", "127.0.0.1:0")
        .setting("WAKEPOST_METRICS_LISTEN", "127.0.0.1:0")
        .start()
        .await;
    let (api, metrics) = (printed(&gateway, "API on "), printed(&gateway, "metrics on "));
    let http = Http::default();
    let mut key = HeaderMap::new();
    let bearer = format!("Bearer {}", gateway.admin_key());
    key.insert("authorization", bearer.parse().expect("a value"));
    let get = async |base: &str, path: &str, headers: HeaderMap| {
        http.send(Method::GET, &format!("{base}{path}"), headers, "").await
    };
    // The API is there and nowhere else, whatever key is shown.
    get(&api, "/api/v1/inbox", key.clone()).await.is(200);
    get(&api, "/openapi.json", HeaderMap::new()).await.is(200);
    for path in ["/api/v1/inbox", "/openapi.json", "/metrics", "/integrations/status"] {
        get(gateway.url(), path, key.clone()).await.refuses(404, "not_found");
        get(&metrics, &path.replace("/metrics", "/"), key.clone()).await.refuses(404, "not_found");
    }
    // Providers are heard where they were told to call.
    let sources = format!("{api}/api/v1/sources");
    let fields = json!({"provider": "generic", "unsigned": true}).to_string();
    let made = http.send(Method::POST, &sources, key.clone(), fields).await.is(201);
    let ingest = made.text("ingest_url");
    assert!(ingest.starts_with(gateway.url()), "{ingest}");
    let body = json!({"id": "1", "type": "a.b"}).to_string();
    http.send(Method::POST, &ingest, HeaderMap::new(), body.clone()).await.is(202);
    let elsewhere = ingest.replace(gateway.url(), &api);
    http.send(Method::POST, &elsewhere, HeaderMap::new(), body).await.refuses(404, "not_found");
    for base in [gateway.url(), &api] {
        get(base, "/healthz", HeaderMap::new()).await.is(200);
        get(base, "/readyz", HeaderMap::new()).await.is(200);
    }
    // The counters: without a key on their own address, with one elsewhere.
    let counted = get(&metrics, "/metrics", HeaderMap::new()).await.is(200);
    assert!(String::from_utf8_lossy(&counted.body).contains("wakepost_"));
    get(&api, "/metrics", HeaderMap::new()).await.refuses(401, "unauthorized");
    get(&api, "/metrics", key).await.is(200);
}

#[tokio::test]
async fn no_address_beyond_this_machine_without_a_key_that_exists() {
    for setting in ["WAKEPOST_API_LISTEN", "WAKEPOST_METRICS_LISTEN"] {
        let setup = Gateway::setup(Database::Sqlite).setting("WAKEPOST_ADMIN_KEY", "");
        let prepared = setup.setting(setting, "0.0.0.0:0").prepare().await;
        let ran = prepared.run(&["serve", "--listen", "127.0.0.1:0"]).await;
        assert_ne!(ran.code, Some(0));
        assert!(ran.stderr.contains("refusing to listen on 0.0.0.0:0"), "{}", ran.stderr);
    }
}
