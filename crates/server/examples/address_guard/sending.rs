//! The real client and the real mailer, with the real resolver.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::{HeaderMap, Method};
use wakepost_providers::{MailTls, OutgoingMail};
use wakepost_server::outbound::{
    AddressPolicy, ClientSettings, GuardedClient, HttpClient, KeepBody, MailFault, Mailer,
    OutboundRequest, SendError, SendErrorClass, SystemResolver, Target, Trust,
};

/// Longer than the system's resolver waits for a name server that does not answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends as the server does when nothing is set.
pub struct Sender {
    client: GuardedClient,
    mailer: Mailer,
}

impl Sender {
    /// Sets it up.
    pub fn new() -> anyhow::Result<Sender> {
        let resolver = Arc::new(SystemResolver::new());
        let settings = ClientSettings::default();
        let mailer = Mailer::new(resolver.clone(), &settings).context("the mailer")?;
        let client = GuardedClient::new(resolver, settings).context("the client")?;
        Ok(Sender { client, mailer })
    }

    /// Sends to a URL, however it has to be read to be sent at all, and says what went wrong. Something does: nobody
    /// here answers a request.
    pub async fn send(&self, url: &str, trust: Trust) -> anyhow::Result<SendError> {
        let target = Target::parse(url, &AddressPolicy::trusted()).context(url.to_owned())?;
        let request = OutboundRequest {
            target,
            trust,
            identity: None,
            method: Method::POST,
            headers: HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
            timeout: TIMEOUT,
            body_bytes_max: 4096,
            keep: KeepBody::Prefix,
        };
        let sent = self.client.send(request).await;
        sent.err().with_context(|| format!("{url} was answered"))
    }

    /// Whether the guard keeps a tenant's mail from this server.
    pub async fn mail_is_refused(&self, host: &str) -> bool {
        matches!(self.mail(host, Trust::Guarded).await, Err(MailFault::Unfit(_)))
    }

    /// Hands a mail over to this server.
    pub async fn mail(&self, host: &str, trust: Trust) -> Result<(), MailFault> {
        let mail = OutgoingMail {
            host: host.to_owned(),
            port: 587,
            tls: MailTls::None,
            login: None,
            from: "agent@example.com".to_owned(),
            to: vec!["person@example.com".to_owned()],
            message: b"Subject: x\r\n\r\nx\r\n".to_vec(),
            message_id: "<1@example.com>".to_owned(),
        };
        self.mailer.send(&mail, trust).await
    }
}

/// Whether the guard said no.
pub fn is_refusal(error: &SendError) -> bool {
    error.class == SendErrorClass::Refused
}
