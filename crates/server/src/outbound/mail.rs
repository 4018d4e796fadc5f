//! Handing a mail to a mail server, at a checked address and within one deadline.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use lettre::Address;
use lettre::address::Envelope;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{
    AsyncSmtpConnection, AsyncTokioStream, Certificate, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use wakepost_providers::{MailTls, OutgoingMail};

use super::client::Trust;
use super::connector::{connect_any, tls_config};
use super::guarded::ClientSettings;
use super::policy::AddressPolicy;
use super::resolve::Resolver;
use super::target;

/// The one deadline of a mail, from resolving the name to the server's word on it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How much a mail server may say in all, certificates included.
const SAID_BYTES_MAX: usize = 256 * 1024;
/// The ports that mail is handed over on.
const PORTS: [u16; 4] = [25, 465, 587, 2525];
const MECHANISMS: [Mechanism; 2] = [Mechanism::Plain, Mechanism::Login];

/// A mail that was not taken, or may not have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MailFault {
    /// It cannot be handed over as things are; nothing was connected.
    Unfit(String),
    /// The server answered with this code, and did not take it.
    Refused {
        /// Its code.
        code: u16,
        /// What it said.
        text: String,
    },
    /// There was no answer.
    Lost {
        /// What happened.
        text: String,
        /// Whether the end of the mail may have reached the server.
        handed_over: bool,
    },
}

impl MailFault {
    fn unfit(text: impl Into<String>) -> MailFault {
        MailFault::Unfit(text.into())
    }

    fn lost(text: impl ToString) -> MailFault {
        MailFault::Lost { text: text.to_string(), handed_over: false }
    }
}

/// A server's word, or that none came.
impl From<lettre::transport::smtp::Error> for MailFault {
    fn from(error: lettre::transport::smtp::Error) -> MailFault {
        match error.status() {
            Some(code) => MailFault::Refused { code: code.into(), text: error.to_string() },
            None => MailFault::lost(error),
        }
    }
}

/// Hands mails over.
pub struct Mailer {
    resolver: Arc<dyn Resolver>,
    policy: AddressPolicy,
    tls: TlsConnector,
    extra_roots: Vec<CertificateDer<'static>>,
    connect_timeout: Duration,
}

impl fmt::Debug for Mailer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mailer")
    }
}

impl Mailer {
    /// Fails only where an extra root is no certificate.
    pub fn new(
        resolver: Arc<dyn Resolver>,
        settings: &ClientSettings,
    ) -> Result<Mailer, rustls::Error> {
        let mut tls = tls_config(&settings.extra_roots)?;
        tls.alpn_protocols = Vec::new();
        Ok(Mailer {
            resolver,
            policy: settings.policy.clone(),
            tls: TlsConnector::from(Arc::new(tls)),
            extra_roots: settings.extra_roots.clone(),
            connect_timeout: settings.connect_timeout,
        })
    }

    /// Hands one mail over, once.
    pub async fn send(&self, mail: &OutgoingMail, trust: Trust) -> Result<(), MailFault> {
        let envelope = envelope(mail)?;
        // Until the last line is on its way, a deadline that passes leaves nothing behind.
        let handed = async {
            let mut connection = self.open(mail, trust).await?;
            begin(&mut connection, &envelope, &mail.message).await?;
            Ok::<_, MailFault>(connection)
        };
        let mut connection = match timeout(TIMEOUT, handed).await {
            Ok(connection) => connection?,
            Err(_) => return Err(MailFault::lost("the mail server did not answer in time")),
        };
        let unknown = |text: String| MailFault::Lost { text, handed_over: true };
        match timeout(TIMEOUT, connection.message(&mail.message)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.status().is_some() => return Err(error.into()),
            Ok(Err(error)) => return Err(unknown(error.to_string())),
            Err(_) => return Err(unknown("no word on the mail in time".to_owned())),
        }
        // It has the mail: whether it also hears good-bye does not matter.
        let _ = timeout(Duration::from_secs(1), connection.quit()).await;
        Ok(())
    }

    async fn open(
        &self,
        mail: &OutgoingMail,
        trust: Trust,
    ) -> Result<AsyncSmtpConnection, MailFault> {
        let addresses = self.addresses(mail, trust).await?;
        let tcp = connect_any(&addresses, self.connect_timeout);
        let stream = tcp.await.map_err(MailFault::lost)?;
        let tcp = Bounded { stream, left: SAID_BYTES_MAX };
        let name = ClientId::Domain(domain(&mail.from).to_owned());
        let mut connection = match mail.tls {
            MailTls::Implicit => {
                let host = ServerName::try_from(mail.host.clone());
                let host = host.map_err(|_| MailFault::unfit("smtp_host is not a host"))?;
                let stream = self.tls.connect(host, tcp).await;
                let stream = stream.map_err(MailFault::lost)?;
                let stream = Box::new(Encrypted(stream));
                AsyncSmtpConnection::connect_with_transport(stream, &name).await?
            }
            MailTls::StartTls | MailTls::None => {
                AsyncSmtpConnection::connect_with_transport(Box::new(tcp), &name).await?
            }
        };
        if mail.tls == MailTls::StartTls {
            connection.starttls(self.parameters(&mail.host)?, &name).await?;
        }
        if let Some((user, password)) = &mail.login {
            let credentials = Credentials::new(user.clone(), password.clone());
            connection.auth(&MECHANISMS, &credentials).await?;
        }
        Ok(connection)
    }

    /// The server's addresses, if each of them is allowed.
    async fn addresses(
        &self,
        mail: &OutgoingMail,
        trust: Trust,
    ) -> Result<Vec<SocketAddr>, MailFault> {
        let policy = match trust {
            Trust::Guarded => self.policy.clone(),
            Trust::Trusted => AddressPolicy::trusted(),
        };
        if !PORTS.contains(&mail.port) && !policy.allows_private() {
            return Err(MailFault::unfit("smtp_port must be 25, 465, 587 or 2525"));
        }
        let found =
            match mail.host.parse() {
                Ok(address) => vec![address],
                // Else a search domain of this machine would make another name of it.
                Err(_) if !policy.allows_private() && target::is_private(&mail.host) => {
                    return Err(MailFault::unfit("smtp_host must name a public host"));
                }
                Err(_) => self.resolver.resolve(&mail.host, mail.port).await.map_err(|error| {
                    MailFault::lost(format!("smtp_host did not resolve: {error}"))
                })?,
            };
        // One refused address refuses the name: else it would get in by chance.
        if found.iter().any(|address| policy.refusal(*address).is_some()) {
            return Err(MailFault::unfit("the address of smtp_host is not allowed"));
        }
        Ok(found.into_iter().map(|address| SocketAddr::new(address, mail.port)).collect())
    }

    fn parameters(&self, host: &str) -> Result<TlsParameters, MailFault> {
        let mut parameters = TlsParameters::builder(host.to_owned());
        for root in &self.extra_roots {
            let root = Certificate::from_der(root.to_vec())?;
            parameters = parameters.add_root_certificate(root);
        }
        Ok(parameters.build_rustls()?)
    }
}

/// Says who writes to whom, up to the mail itself.
async fn begin(
    connection: &mut AsyncSmtpConnection,
    envelope: &Envelope,
    message: &[u8],
) -> Result<(), MailFault> {
    let supports = |extension| connection.server_info().supports_feature(extension);
    let mut options = Vec::new();
    let addresses = envelope.to().iter().chain(envelope.from());
    if !addresses.map(AsRef::<str>::as_ref).all(str::is_ascii) {
        if !supports(Extension::SmtpUtfEight) {
            let text = "the mail server takes no address with such letters";
            return Err(MailFault::unfit(text));
        }
        options.push(MailParameter::SmtpUtfEight);
    }
    if !message.is_ascii() && supports(Extension::EightBitMime) {
        options.push(MailParameter::Body(MailBodyParameter::EightBitMime));
    }
    connection.command(Mail::new(envelope.from().cloned(), options)).await?;
    for to in envelope.to() {
        connection.command(Rcpt::new(to.clone(), Vec::new())).await?;
    }
    connection.command(Data).await?;
    Ok(())
}

fn envelope(mail: &OutgoingMail) -> Result<Envelope, MailFault> {
    let address = |text: &String| {
        let address = text.parse::<Address>();
        address.map_err(|_| MailFault::unfit(format!("{text} is not a mail address")))
    };
    let to = mail.to.iter().map(address).collect::<Result<Vec<_>, _>>()?;
    Envelope::new(Some(address(&mail.from)?), to)
        .map_err(|_| MailFault::unfit("the mail has nobody to go to"))
}

fn domain(address: &str) -> &str {
    address.rsplit_once('@').map_or("localhost", |(_, domain)| domain)
}

/// A connection whose peer may say only so much: whoever reads lines from it would else keep an endless one.
#[derive(Debug)]
struct Bounded {
    stream: TcpStream,
    left: usize,
}

impl AsyncTokioStream for Bounded {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let said = buffer.filled().len() - before;
        match self.left.checked_sub(said) {
            Some(left) => self.left = left,
            None => return Poll::Ready(Err(io::Error::other("the mail server says too much"))),
        }
        read
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A TLS connection that was opened here, for a protocol that is spoken elsewhere.
#[derive(Debug)]
struct Encrypted(TlsStream<Bounded>);

impl AsyncTokioStream for Encrypted {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().0.peer_addr()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
