//! Connections: what the URL says, TLS, and the pools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Result, StoreError};

/// For the queue's statements: they look rows up by key, batch by batch. A plan that was made while a
/// table was still small, and reads the whole of it, must not be kept when it has grown. They are planned once:
/// planned for each batch, which PostgreSQL prefers by its own reckoning, a claim costs a quarter more.
pub const HOT: &str = "-c statement_timeout=10s -c lock_timeout=4s -c jit=off \
     -c plan_cache_mode=force_generic_plan \
     -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_material=off \
     -c enable_bitmapscan=off \
     -c idle_in_transaction_session_timeout=10s";
/// For everything else.
pub const COOL: &str = "-c statement_timeout=30s -c lock_timeout=4s -c jit=off \
     -c idle_in_transaction_session_timeout=30s";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WAIT_TIMEOUT: Duration = Duration::from_secs(2);
const SERVER_MIN: i32 = 150_000;

/// From when on connections are good.
///
/// A connection keeps what its server was when it was made: read-only by a setting, as hosts set it on a full
/// disk, or a primary that is one no more. It never fails as a connection, so the pools would keep it for
/// ever; it is left behind once another finds the database read-only, or writable again.
#[derive(Debug, Clone, Default)]
pub struct Fresh {
    state: Arc<Mutex<FreshState>>,
}

#[derive(Debug, Default)]
struct FreshState {
    since: Option<Instant>,
    read_only: bool,
}

impl Fresh {
    /// A connection found the database so.
    pub fn found(&self, read_only: bool) {
        let mut state = self.state.lock();
        // At the first look after the end as well: some were made since the look before.
        if read_only || state.read_only {
            state.since = Some(Instant::now());
        }
        state.read_only = read_only;
    }

    fn covers(&self, made: Instant) -> bool {
        self.state.lock().since.is_none_or(|since| made >= since)
    }
}

/// How to reach the database.
#[derive(Clone)]
pub struct Dial {
    config: Config,
    tls: Option<MakeRustlsConnect>,
    /// Whether the server takes settings at connection time; an old pooler does not.
    takes_options: bool,
}

impl Dial {
    /// Reads a URL. No error says more of it than that it cannot be read: it may hold a password.
    pub fn parse(url: &str) -> Result<Dial> {
        let unreadable = || StoreError::Unavailable("the database URL cannot be read".to_owned());
        let (url, root_file) = split_root_file(url);
        // What we ask of `require` is what libpq asks of `verify-full`.
        let url = url.replace("sslmode=verify-full", "sslmode=require");
        let url = url.replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = url.parse().map_err(|_| unreadable())?;
        let tls = match config.get_ssl_mode() {
            SslMode::Require => Some(connector(root_file.as_deref())?),
            _ => None,
        };
        if tls.is_none() {
            config.ssl_mode(SslMode::Disable);
        }
        if config.get_application_name().is_none() {
            config.application_name("wakepost");
        }
        config.connect_timeout(CONNECT_TIMEOUT);
        config.keepalives_idle(Duration::from_secs(30));
        config.tcp_user_timeout(Duration::from_secs(15));
        Ok(Dial { config, tls, takes_options: true })
    }

    /// Connects once: checks the version, and whether settings can be given at connection time.
    pub async fn probe(mut self) -> Result<Dial> {
        let client = match self.dial(COOL, |_| ()).await {
            Ok((client, _)) => client,
            Err(error) if is_refused_option(&error) => {
                tracing::warn!(
                    "the pooler takes no settings: statement and lock timeouts are the server's"
                );
                self.takes_options = false;
                self.dial(COOL, |_| ()).await?.0
            }
            Err(error) => return Err(error.into()),
        };
        let row =
            client.query_one("SELECT current_setting('server_version_num')::int", &[]).await?;
        let version: i32 = row.try_get(0)?;
        if version < SERVER_MIN {
            return Err(StoreError::Unavailable(format!(
                "PostgreSQL 15 or newer is needed; this is {}",
                version / 10_000
            )));
        }
        Ok(self)
    }

    /// A pool of connections with these settings, all made after the moment that `fresh` names.
    pub fn pool(&self, size: usize, settings: &str, fresh: &Fresh) -> Result<Pool> {
        let config = self.with(settings);
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = match &self.tls {
            Some(tls) => Manager::from_config(config, tls.clone(), how),
            None => Manager::from_config(config, NoTls, how),
        };
        let fresh = fresh.clone();
        Pool::builder(manager)
            .pre_recycle(Hook::sync_fn(move |_, metrics| match fresh.covers(metrics.created) {
                true => Ok(()),
                false => Err(HookError::message("it was made while the database was read-only")),
            }))
            .max_size(size)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(WAIT_TIMEOUT))
            .create_timeout(Some(CONNECT_TIMEOUT))
            .recycle_timeout(Some(WAIT_TIMEOUT))
            .build()
            .map_err(|error| StoreError::Unavailable(error.to_string()))
    }

    /// One connection outside the pools; `hear` gets what the server says of its own accord.
    pub async fn dial(
        &self,
        settings: &str,
        hear: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> std::result::Result<(Client, JoinHandle<()>), tokio_postgres::Error> {
        let config = self.with(settings);
        match &self.tls {
            Some(tls) => {
                let (client, connection) = config.connect(tls.clone()).await?;
                Ok((client, tokio::spawn(drive(connection, hear))))
            }
            None => {
                let (client, connection) = config.connect(NoTls).await?;
                Ok((client, tokio::spawn(drive(connection, hear))))
            }
        }
    }

    fn with(&self, settings: &str) -> Config {
        let mut config = self.config.clone();
        if self.takes_options {
            let given = config.get_options().unwrap_or_default();
            // Ours first: what the operator wrote into the URL wins.
            config.options(format!("{settings} {given}"));
        }
        config
    }
}

/// Moves a connection's bytes until it ends.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    mut hear: impl FnMut(AsyncMessage) + Send,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send,
{
    while let Some(Ok(message)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
        hear(message);
    }
}

fn is_refused_option(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|refusal| refusal.message().contains("startup parameter"))
}

/// `sslrootcert` is libpq's word for a file of root certificates; the driver does not know it.
fn split_root_file(url: &str) -> (String, Option<String>) {
    let Some((base, query)) = url.split_once('?') else {
        return (url.to_owned(), None);
    };
    let (root, rest): (Vec<&str>, Vec<&str>) =
        query.split('&').partition(|part| part.starts_with("sslrootcert="));
    let file = root.first().and_then(|part| part.split_once('=')).map(|(_, file)| file.to_owned());
    (format!("{base}?{}", rest.join("&")), file)
}

fn connector(root_file: Option<&str>) -> Result<MakeRustlsConnect> {
    let problem = |what: String| StoreError::Unavailable(format!("TLS to PostgreSQL: {what}"));
    let mut roots = RootCertStore::empty();
    match root_file {
        None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
        Some(file) => {
            let unreadable = |error| problem(format!("cannot read {file}: {error}"));
            for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
                let certificate = certificate.map_err(unreadable)?;
                roots.add(certificate).map_err(|error| problem(error.to_string()))?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| problem(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreadable_url_is_not_repeated_in_the_error() {
        let error = Dial::parse("postgres://u:hunter2@h/d?hunter2=x").err().unwrap();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn connections_from_before_and_during_a_read_only_time_are_left_behind() {
        let fresh = Fresh::default();
        fresh.found(false);
        let before = Instant::now();
        assert!(fresh.covers(before));
        fresh.found(true);
        let during = Instant::now();
        assert!(!fresh.covers(before) && fresh.covers(during));
        fresh.found(false);
        let after = Instant::now();
        assert!(!fresh.covers(during) && fresh.covers(after));
        fresh.found(false);
        assert!(fresh.covers(after));
    }

    #[test]
    fn tls_is_used_only_where_it_is_asked_for() {
        assert!(Dial::parse("postgres://u@h/d").unwrap().tls.is_none());
        assert!(Dial::parse("postgres://u@h/d?sslmode=require").unwrap().tls.is_some());
        assert!(Dial::parse("postgres://u@h/d?sslmode=verify-full").unwrap().tls.is_some());
    }

    #[test]
    fn a_root_file_that_is_not_there_is_an_error() {
        let url = "postgres://u@h/d?sslmode=require&sslrootcert=/nonexistent/roots.pem";
        assert!(Dial::parse(url).is_err());
    }
}
