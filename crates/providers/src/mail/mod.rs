//! A mail, whoever brought it: what the four mail providers share.
//!
//! Each of them reads its own format into a [`Mail`], which then says who wrote, to which conversation it belongs
//! and whether it starts a job. Nothing here trusts a header that the writer of the mail may have put there.

mod address;
mod dkim;
mod headers;
mod raw;
mod text;

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{
    Actor, ConversationType, File, Mapped, Message, Starts, Subject, Trigger,
};

pub(crate) use self::address::{Address, list as addresses};
pub(crate) use self::dkim::Dkim;
pub(crate) use self::headers::Headers;
pub(crate) use self::raw::Raw;

use crate::form::Form;
use crate::mapping::MapError;
use crate::settings::{self, Setting, Settings};

/// The setting that says who the agent is.
pub(crate) const ADDRESS: Setting = Setting::optional(
    "address",
    "Addresses",
    "The agent's own addresses, with commas between. Other mail starts no job; all mail does if left out.",
)
.example("agent@acme.example");

/// What a mail is called in an event, where the provider has no name for it.
pub(crate) const RECEIVED: &str = "email.received";

/// A mail, as a provider hands it over.
#[derive(Default)]
pub(crate) struct Mail<'m> {
    /// Its headers in their order, as far as the provider tells them.
    pub(crate) headers: Headers,
    /// The From header.
    pub(crate) from: &'m str,
    /// The To and Cc headers, each a list of addresses.
    pub(crate) to: Vec<&'m str>,
    /// Whom the provider received it for.
    pub(crate) received_for: Vec<&'m str>,
    /// Where it goes back to if it cannot be delivered; empty for those that must not be answered.
    pub(crate) return_path: Option<&'m str>,
    /// The provider's own id for it.
    pub(crate) provider_id: Option<&'m str>,
    /// Its plain part.
    pub(crate) text: Option<&'m str>,
    /// Its HTML part.
    pub(crate) html: Option<&'m str>,
    /// Whose signatures the provider found good.
    pub(crate) dkim: Dkim,
    /// What is attached.
    pub(crate) files: Vec<File>,
    /// When the provider received it. The Date header is only what its writer claims.
    pub(crate) received_at: Option<Timestamp>,
}

impl Mail<'_> {
    /// The event that it is. Its key is the Message-ID, so that one mail that came in twice is one event.
    pub(crate) fn map(self, event_type: &str, settings: &Settings) -> Result<Mapped, MapError> {
        let own = own_addresses(settings)?;
        let senders = address::list(self.from);
        let sender = senders.first().ok_or(MapError::Missing("the sender's address"))?;
        let message_id = self.headers.message_id();
        let id = message_id.or(self.provider_id);
        let starts = match self.unwanted(sender, &own) {
            None => Starts::Job,
            Some(_) => Starts::Nothing,
        };
        let root = self.headers.thread_root().or(id).ok_or(MapError::Missing("Message-ID"))?;
        Ok(Mapped {
            dedup_key: id.map(str::to_owned),
            event_type: event_type.to_owned(),
            starts,
            occurred_at: self.received_at,
            actor: Some(Actor {
                id: Some(sender.address.clone()),
                name: sender.name.clone(),
                email: Some(sender.address.clone()),
                verified: self.vouches_for(&senders),
            }),
            subject: id.map(|id| Subject {
                kind: "email".to_owned(),
                id: id.to_owned(),
                url: None,
            }),
            message: Some(Message {
                // By sender, so that nobody joins another's conversation by naming its first mail.
                thread_id: format!("{}::{root}", sender.address),
                text: text::said(self.text, self.html),
                conversation_type: ConversationType::Email,
                trigger: Trigger::Email,
                files: self.files,
            }),
            ..Mapped::default()
        })
    }

    /// Why it starts no job, if it does not.
    pub(crate) fn ignored(&self, settings: &Settings) -> Option<&'static str> {
        let own = own_addresses(settings).ok()?;
        self.unwanted(address::list(self.from).first()?, &own)
    }

    fn unwanted(&self, sender: &Address, own: &[String]) -> Option<&'static str> {
        if !self.is_for(own) {
            Some("the mail is to none of the agent's addresses")
        } else if self.is_automatic() {
            Some("a machine or a list sent the mail")
        } else if self.is_from(sender, own) {
            Some("the agent itself sent the mail")
        } else {
            None
        }
    }

    fn is_for(&self, own: &[String]) -> bool {
        let named = self.to.iter().chain(&self.received_for);
        own.is_empty() || named.flat_map(|list| address::list(list)).any(|to| to.is_one_of(own))
    }

    /// Whether a machine sent it, or a list: an answer could start an endless exchange.
    fn is_automatic(&self) -> bool {
        let bounces_nowhere = |path: &str| matches!(path.trim(), "" | "<>");
        self.return_path.is_some_and(bounces_nowhere)
            || self.headers.all("Return-Path").any(bounces_nowhere)
            || self.headers.say_automatic()
    }

    /// Whether the agent wrote it itself: a mail from the very address it was received for went in a circle.
    fn is_from(&self, sender: &Address, own: &[String]) -> bool {
        let received_for = self.received_for.iter().flat_map(|list| address::list(list));
        sender.is_one_of(own) || received_for.into_iter().any(|to| to.address == sender.address)
    }

    /// Whether the sender's domain signed it. With two senders, nobody can say whom it vouches for.
    fn vouches_for(&self, senders: &[Address]) -> bool {
        let [sender] = senders else { return false };
        self.headers.all("From").count() <= 1 && self.dkim.vouches_for(sender.domain())
    }
}

/// The agent's own addresses.
fn own_addresses(settings: &Settings) -> Result<Vec<String>, MapError> {
    let own = settings::list(settings, ADDRESS.name).map_err(MapError::Settings)?;
    Ok(own.into_iter().flat_map(address::list).map(|own| own.address).collect())
}

/// The files of a form, by the name of their field.
pub(crate) fn attached(form: &Form<'_>) -> Vec<File> {
    let files = form.files().iter().map(|file| File {
        id: Some(file.field.clone()),
        name: file.name.clone(),
        media_type: file.media_type.clone(),
        bytes: Some(file.bytes as u64),
        url: None,
    });
    files.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings;

    fn headers(block: &str) -> Headers {
        Headers::read(block)
    }

    fn mail<'m>() -> Mail<'m> {
        Mail {
            headers: headers("From: ada@acme.example\nMessage-ID: <m1@acme.example>"),
            from: "\"Ada L.\" <Ada@Acme.example>",
            to: vec!["Agent <agent@corp.example>, x@y.example"],
            text: Some("Hello\r\nthere"),
            ..Mail::default()
        }
    }

    fn map(mail: Mail<'_>) -> Mapped {
        mail.map(RECEIVED, &Settings::new()).unwrap()
    }

    #[test]
    fn a_mail_says_who_wrote_what_in_which_conversation() {
        let mapped = map(mail());
        assert_eq!((mapped.event_type.as_str(), mapped.starts), (RECEIVED, Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("m1@acme.example"));
        assert_eq!(mapped.subject.unwrap().text("email"), "email:email:m1@acme.example");
        let actor = mapped.actor.unwrap();
        assert_eq!(actor.email.as_deref(), Some("ada@acme.example"));
        assert_eq!((actor.name.as_deref(), actor.verified), (Some("Ada L."), false));
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "ada@acme.example::m1@acme.example");
        assert_eq!(message.text, "Hello\nthere");
        assert_eq!(message.conversation_type, ConversationType::Email);
        assert_eq!(message.trigger, Trigger::Email);
    }

    #[test]
    fn an_answer_joins_the_conversation_of_the_first_mail_and_nobody_elses() {
        let thread = |from, block: &str| {
            let mail = Mail { headers: headers(block), from, ..mail() };
            map(mail).message.unwrap().thread_id
        };
        let answer = "Message-ID: <m3@x>\nIn-Reply-To: <m2@x>\nReferences: <m1@x>\n <m2@x>";
        assert_eq!(thread("ada@acme.example", answer), "ada@acme.example::m1@x");
        assert_eq!(thread("eve@evil.example", answer), "eve@evil.example::m1@x");
        let short = "Message-ID: <m3@x>\nIn-Reply-To: Yours of Monday <m2@x>";
        assert_eq!(thread("ada@acme.example", short), "ada@acme.example::m2@x");
    }

    #[test]
    fn a_mail_without_a_message_id_goes_by_the_providers_or_not_at_all() {
        let nameless = || Mail { headers: headers("Subject: x"), ..mail() };
        let mapped = map(Mail { provider_id: Some("p1"), ..nameless() });
        assert_eq!(mapped.dedup_key.as_deref(), Some("p1"));
        assert_eq!(mapped.message.unwrap().thread_id, "ada@acme.example::p1");
        let refused = nameless().map(RECEIVED, &Settings::new());
        assert_eq!(refused, Err(MapError::Missing("Message-ID")));
        let faceless = Mail { from: "undisclosed", ..mail() };
        assert!(matches!(faceless.map(RECEIVED, &Settings::new()), Err(MapError::Missing(_))));
    }

    #[test]
    fn only_mail_to_the_agents_addresses_starts_a_job() {
        let starts = |own: &str, mail: Mail<'_>| {
            mail.map(RECEIVED, &settings(&[("address", own)])).unwrap().starts
        };
        assert_eq!(starts("AGENT@corp.example", mail()), Starts::Job);
        assert_eq!(starts("other@corp.example, X@y.example", mail()), Starts::Job);
        assert_eq!(starts("other@corp.example", mail()), Starts::Nothing);
        assert_eq!(starts("gent@corp.example", mail()), Starts::Nothing);
        let tagged = || Mail { to: vec!["agent+ticket-7@corp.example"], ..mail() };
        assert_eq!(starts("agent@corp.example", tagged()), Starts::Job);
        let blind = Mail { to: vec![], received_for: vec!["agent@corp.example"], ..mail() };
        assert_eq!(starts("agent@corp.example", blind), Starts::Job);
    }

    #[test]
    fn the_agents_own_mail_never_starts_a_job() {
        let own = settings(&[("address", "agent@corp.example, ada@acme.example")]);
        assert_eq!(mail().map(RECEIVED, &own).unwrap().starts, Starts::Nothing);
        let circle = Mail { received_for: vec!["ada@acme.example"], ..mail() };
        assert_eq!(map(circle).starts, Starts::Nothing);
        let copy = Mail { to: vec!["agent@corp.example, ada@acme.example"], ..mail() };
        assert_eq!(map(copy).starts, Starts::Job, "people copy their mail to themselves");
    }

    #[test]
    fn automatic_and_bulk_mail_never_starts_a_job() {
        let starts = |line: &str| {
            let block = format!("Message-ID: <m1@x>\n{line}\nSubject: x");
            map(Mail { headers: headers(&block), ..mail() }).starts
        };
        for person in [
            "Auto-Submitted: no",
            "Precedence: first-class",
            "Return-Path: <a@b.example>",
            "X-A: b",
        ] {
            assert_eq!(starts(person), Starts::Job, "{person}");
        }
        for machine in [
            "Auto-Submitted: auto-replied",
            "auto-submitted: AUTO-GENERATED (rejected)",
            "Auto-Submitted: no\nAuto-Submitted: auto-replied",
            "List-Id: <news.acme.example>",
            "list-unsubscribe: <mailto:u@acme.example>",
            "Precedence: bulk",
            "PRECEDENCE:  Junk ",
            "Precedence: list",
            "Return-Path: <>",
        ] {
            assert_eq!(starts(machine), Starts::Nothing, "{machine}");
        }
        for path in ["", "<>"] {
            assert_eq!(map(Mail { return_path: Some(path), ..mail() }).starts, Starts::Nothing);
        }
        assert_eq!(map(Mail { return_path: Some("a@b.example"), ..mail() }).starts, Starts::Job);
    }

    #[test]
    fn only_one_sender_whose_domain_signed_is_verified() {
        let verified = |from, block: &str| {
            let dkim = Dkim::Each(vec!["acme.example".to_owned()]);
            let headers = headers(&format!("Message-ID: <m1@x>\n{block}"));
            map(Mail { from, headers, dkim, ..mail() }).actor.unwrap().verified
        };
        assert!(verified("Ada <ada@ACME.example>", "From: Ada <ada@ACME.example>"));
        assert!(verified("ada@acme.example", ""));
        assert!(!verified("ada@evil.example", ""));
        assert!(!verified("ada@acme.example <eve@evil.example>", ""));
        assert!(!verified("ada@acme.example, eve@evil.example", ""), "two senders");
        assert!(!verified("ada@acme.example", "From: ada@acme.example\nFrom: eve@acme.example"));
    }
}
