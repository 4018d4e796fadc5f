//! TLS of our own: certificates from files, read again when these change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, ensure};
use parking_lot::{Mutex, RwLock};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::signal::unix::{SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// How often it is looked whether the files changed.
const LOOK: Duration = Duration::from_secs(60);
/// A file of certificates larger than this is none.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Where certificates are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate and what leads to its authority, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// Authorities of clients, as PEM: who comes without a certificate of theirs is refused.
    pub client_ca: Option<PathBuf>,
}

/// When a file was written, and how long it is.
type Stamp = Option<(SystemTime, u64)>;

/// TLS as a listener speaks it now.
pub struct Tls {
    files: TlsFiles,
    now: RwLock<Arc<ServerConfig>>,
    seen: Mutex<Vec<Stamp>>,
}

impl Tls {
    /// Reads the files.
    pub fn read(files: TlsFiles) -> anyhow::Result<Arc<Tls>> {
        let seen = Mutex::new(stamps(&files));
        let now = RwLock::new(Arc::new(configuration(&files)?));
        Ok(Arc::new(Tls { files, now, seen }))
    }

    /// What the next connection is accepted with.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.now.read().clone())
    }

    /// Reads the files again, if they changed. Connections that are open stay as they are, and files that are no good
    /// change nothing.
    fn look(&self) {
        let stamps = stamps(&self.files);
        let mut seen = self.seen.lock();
        if *seen == stamps {
            return;
        }
        match configuration(&self.files) {
            Ok(new) => {
                *self.now.write() = Arc::new(new);
                tracing::info!(cert = %self.files.cert.display(), "new TLS certificates are in use");
            }
            Err(error) => {
                tracing::error!(error = %format!("{error:#}"), "new TLS certificates cannot be used; the old ones stay");
            }
        }
        *seen = stamps;
    }
}

/// Looks after certificates until `stop`: every minute, and at once on SIGHUP.
pub async fn keep(all: Vec<Arc<Tls>>, stop: CancellationToken) {
    let mut asked = signal(SignalKind::hangup()).ok();
    loop {
        let hangup = async {
            match &mut asked {
                Some(asked) => asked.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK) => {}
            _ = hangup => {}
        }
        let all = all.clone();
        let looked = tokio::task::spawn_blocking(move || all.iter().for_each(|tls| tls.look()));
        let _ = looked.await;
    }
}

fn stamps(files: &TlsFiles) -> Vec<Stamp> {
    let stamp = |path: &PathBuf| {
        let about = std::fs::metadata(path).ok()?;
        Some((about.modified().ok()?, about.len()))
    };
    [&files.cert, &files.key].into_iter().chain(&files.client_ca).map(stamp).collect()
}

fn read(setting: &str, path: &PathBuf) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let about =
        std::fs::metadata(path).with_context(|| format!("{setting}: cannot read {shown}"))?;
    ensure!(about.len() <= FILE_BYTES_MAX, "{setting}: {shown} is too large");
    std::fs::read(path).with_context(|| format!("{setting}: cannot read {shown}"))
}

fn certificates(setting: &str, path: &PathBuf) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let text = read(setting, path)?;
    let found = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let found = found.ok().filter(|found| !found.is_empty());
    found.with_context(|| format!("{setting}: {} must have certificates in PEM", path.display()))
}

fn configuration(files: &TlsFiles) -> anyhow::Result<ServerConfig> {
    let certs = certificates("tls_cert_file", &files.cert)?;
    let key = PrivateKeyDer::from_pem_slice(&read("tls_key_file", &files.key)?).map_err(|_| {
        anyhow::anyhow!("tls_key_file: {} must have a private key in PEM", files.key.display())
    })?;
    // Named, because the process-wide default depends on which crates are linked in.
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = || format!("tls_client_ca_file: {} has no authority", path.display());
            let mut roots = RootCertStore::empty();
            for one in certificates("tls_client_ca_file", path)? {
                roots.add(one).with_context(wrong)?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().with_context(wrong)?)
        }
    };
    let mut config = builder
        .with_single_cert(certs, key)
        .context("tls_cert_file and tls_key_file do not fit together")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made {
        directory: tempfile::TempDir,
        files: TlsFiles,
    }

    impl Made {
        fn new() -> Made {
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            let files = TlsFiles { cert: at("cert"), key: at("key"), client_ca: None };
            let made = Made { directory, files };
            made.renew();
            made
        }

        fn renew(&self) {
            let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
            std::fs::write(&self.files.cert, made.cert.pem()).unwrap();
            std::fs::write(&self.files.key, made.signing_key.serialize_pem()).unwrap();
        }
    }

    #[test]
    fn files_that_are_no_good_are_a_clear_error() {
        let made = Made::new();
        let says = |files: TlsFiles, what: &str| {
            let error =
                Tls::read(files).err().map(|error| format!("{error:#}")).unwrap_or_default();
            assert!(error.contains(what), "{error}");
        };
        let other = Made::new();
        let path = |text: &str| {
            let path = made.directory.path().join("other");
            std::fs::write(&path, text).unwrap();
            path
        };
        assert!(Tls::read(made.files.clone()).is_ok());
        says(
            TlsFiles { cert: "/nowhere".into(), ..made.files.clone() },
            "tls_cert_file: cannot read",
        );
        says(TlsFiles { cert: path("no"), ..made.files.clone() }, "must have certificates in PEM");
        says(TlsFiles { key: path("no"), ..made.files.clone() }, "must have a private key in PEM");
        says(
            TlsFiles { key: other.files.key.clone(), ..made.files.clone() },
            "do not fit together",
        );
        let client_ca = Some(path("no"));
        says(TlsFiles { client_ca, ..made.files.clone() }, "tls_client_ca_file");
    }

    #[test]
    fn new_files_are_used_and_bad_ones_are_not() {
        let made = Made::new();
        let tls = Tls::read(made.files.clone()).unwrap();
        let first = tls.now.read().clone();
        tls.look();
        assert!(Arc::ptr_eq(&first, &tls.now.read()), "nothing changed");
        std::fs::write(&made.files.cert, "not a certificate").unwrap();
        tls.look();
        assert!(Arc::ptr_eq(&first, &tls.now.read()), "the old ones stay");
        made.renew();
        tls.look();
        assert!(!Arc::ptr_eq(&first, &tls.now.read()));
    }
}
