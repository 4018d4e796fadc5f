//! The settings that say how mail is answered, the same for all four mail providers.

use super::super::{MailTls, needed};
use super::message::clean;
use crate::mail::{ADDRESS, Address, addresses};
use crate::settings::{self, ConfigError, Setting, Settings};

pub(crate) const FROM: Setting = Setting::for_replies(
    "from",
    "Sender of replies",
    "The address that replies come from; the first of the agent's own addresses if left out.",
)
.example("Acme Agent <agent@acme.example>");

pub(crate) const REPLY_VIA: Setting = Setting::optional(
    "reply_via",
    "Replies by",
    "How replies are sent: smtp, resend or sendgrid. If left out, by the service that receives the mail where that \
     is Resend or SendGrid, else smtp.",
)
.destination()
.example("smtp");

pub(crate) const REPLY_API_KEY: Setting = Setting::for_replies(
    "reply_api_key",
    "API key for replies",
    "A key of Resend or SendGrid that may send mail, where replies go by one of them.",
)
.secret();

pub(crate) const REPLY_API_URL: Setting = Setting::optional(
    "reply_api_url",
    "API address for replies",
    "Leave it empty for https://api.resend.com or https://api.sendgrid.com; set it to go through a proxy.",
)
.destination();

pub(crate) const SMTP_HOST: Setting = Setting::for_replies(
    "smtp_host",
    "Mail server",
    "Where replies are handed in, where they go by smtp.",
)
.destination()
.example("smtp.acme.example");

pub(crate) const SMTP_PORT: Setting =
    Setting::optional("smtp_port", "Port of the mail server", "587 if left out.")
        .destination()
        .example("587");

pub(crate) const SMTP_USERNAME: Setting = Setting::optional(
    "smtp_username",
    "Name at the mail server",
    "Whom the mail server knows us as, if it asks.",
);

pub(crate) const SMTP_PASSWORD: Setting =
    Setting::optional("smtp_password", "Password at the mail server", "What goes with the name.")
        .secret();

pub(crate) const SMTP_TLS: Setting = Setting::optional(
    "smtp_tls",
    "Encryption to the mail server",
    "implicit, starttls or none; if left out, implicit on port 465 and else starttls. With none, anybody on the way \
     can read the mail and the password.",
)
.destination()
.example("starttls");

/// The service that sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Smtp,
    Resend,
    SendGrid,
}

impl Via {
    pub(super) fn read(settings: &Settings, default: Via) -> Result<Via, ConfigError> {
        match settings::text(settings, REPLY_VIA.name)? {
            None => Ok(default),
            Some("smtp") => Ok(Via::Smtp),
            Some("resend") => Ok(Via::Resend),
            Some("sendgrid") => Ok(Via::SendGrid),
            Some(_) => Err(ConfigError::new(REPLY_VIA.name, "must be smtp, resend or sendgrid")),
        }
    }
}

/// Whom replies are from.
pub(super) fn sender(settings: &Settings) -> Result<Address, ConfigError> {
    let given = settings::text(settings, FROM.name)?;
    let field = if given.is_some() { FROM.name } else { ADDRESS.name };
    let text = match given {
        Some(text) => text,
        None => settings::text(settings, ADDRESS.name)?
            .ok_or_else(|| ConfigError::new(FROM.name, "is not set: replies need it"))?,
    };
    let first = addresses(text).into_iter().next();
    first.ok_or_else(|| ConfigError::new(field, "must be a mail address"))
}

/// Every address of the agent's, in lower case.
pub(super) fn own(settings: &Settings, sender: &Address) -> Result<Vec<String>, ConfigError> {
    let listed = settings::text(settings, ADDRESS.name)?.map(addresses).unwrap_or_default();
    let all = listed.into_iter().map(|own| own.address);
    Ok(all.chain([sender.address.clone()]).collect())
}

/// Where mail is handed in.
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) tls: MailTls,
    pub(super) login: Option<(String, String)>,
}

impl Server {
    const PORT: u16 = 587;
    const PORT_OF_IMPLICIT_TLS: u16 = 465;

    pub(super) fn read(settings: &Settings) -> Result<Server, ConfigError> {
        let host = needed(settings, SMTP_HOST.name)?;
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        if !host.chars().all(is_plain) {
            return Err(ConfigError::new(SMTP_HOST.name, "must be the name of a server alone"));
        }
        let port = match settings::text(settings, SMTP_PORT.name)? {
            None => Server::PORT,
            Some(text) => text.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                ConfigError::new(SMTP_PORT.name, "must be a port: a number up to 65535")
            })?,
        };
        let tls = match settings::text(settings, SMTP_TLS.name)? {
            Some("implicit") => MailTls::Implicit,
            Some("starttls") => MailTls::StartTls,
            Some("none") => MailTls::None,
            None if port == Server::PORT_OF_IMPLICIT_TLS => MailTls::Implicit,
            None => MailTls::StartTls,
            Some(_) => {
                return Err(ConfigError::new(SMTP_TLS.name, "must be implicit, starttls or none"));
            }
        };
        let login = match settings::text(settings, SMTP_USERNAME.name)? {
            None => None,
            Some(name) => Some((clean(name), needed(settings, SMTP_PASSWORD.name)?.to_owned())),
        };
        Ok(Server { host: host.to_owned(), port, tls, login })
    }
}
