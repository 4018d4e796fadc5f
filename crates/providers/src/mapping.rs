//! What every mapping must satisfy before it leaves this crate: short, printable, never empty.

use wakepost_domain::envelope::{Actor, Mapped, Message, Subject};
use wakepost_domain::limits::{EVENTS_PER_BODY_MAX, KEY_CHARS_MAX, NAME_CHARS_MAX};

use crate::settings::ConfigError;
use crate::verdict::Why;

/// The request is genuine but cannot be understood; it is stored all the same, as unmapped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The body is not sound JSON.
    #[error("the body is not sound JSON: {0}")]
    NotJson(String),
    /// The body is not a sound form.
    #[error("the body is not a sound form: {0}")]
    NotAForm(String),
    /// The body should be a list of events, and is not, or has none or too many.
    #[error("the body is not a list of 1 to {EVENTS_PER_BODY_MAX} events")]
    NotAList,
    /// A header that says what the event is cannot be read.
    #[error("{0}")]
    Header(Why),
    /// A field that says what the event is is absent, or neither text nor a whole number.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// The source's settings no longer say where to look.
    #[error("{0}")]
    Settings(ConfigError),
    /// A name or key is empty, too long or unprintable.
    #[error("the {what} is {fault}")]
    Unfit {
        /// Which one.
        what: &'static str,
        /// What is wrong with it.
        fault: &'static str,
    },
}

impl From<Why> for MapError {
    fn from(why: Why) -> MapError {
        MapError::Header(why)
    }
}

/// The mapping of a request that tells of one event.
pub(crate) fn one(mapped: Mapped) -> Result<Vec<Mapped>, MapError> {
    Ok(vec![bounded(mapped)?])
}

/// The mapping of a request that tells of many.
pub(crate) fn many(
    events: impl IntoIterator<Item = Result<Mapped, MapError>>,
) -> Result<Vec<Mapped>, MapError> {
    let mut all = Vec::new();
    for event in events.into_iter().take(EVENTS_PER_BODY_MAX + 1) {
        all.push(bounded(event?)?);
    }
    match (1..=EVENTS_PER_BODY_MAX).contains(&all.len()) {
        true => Ok(all),
        false => Err(MapError::NotAList),
    }
}

/// The mapping, with everything in it fit to be stored, indexed and shown. What names the event is refused
/// if unfit, since a shortened key could make two events one; what only describes it is left out.
fn bounded(mapped: Mapped) -> Result<Mapped, MapError> {
    must_fit("event type", &mapped.event_type, NAME_CHARS_MAX)?;
    for key in [&mapped.dedup_key, &mapped.second_key].into_iter().flatten() {
        must_fit("event id", key, KEY_CHARS_MAX)?;
    }
    if let Some(message) = &mapped.message {
        must_fit("thread id", &message.thread_id, KEY_CHARS_MAX)?;
    }
    Ok(Mapped {
        actor: mapped.actor.map(bounded_actor),
        subject: mapped.subject.and_then(bounded_subject),
        message: mapped.message.map(bounded_message),
        provider_request_id: mapped.provider_request_id.filter(|text| is_short(text)),
        ..mapped
    })
}

fn bounded_actor(actor: Actor) -> Actor {
    Actor {
        id: actor.id.filter(|text| is_short(text)),
        name: actor.name.filter(|text| is_short(text)),
        email: actor.email.filter(|text| is_short(text)),
        verified: actor.verified,
    }
}

/// More files than this with one message are left out.
const FILES_MAX: usize = 100;

fn bounded_message(mut message: Message) -> Message {
    message.files.truncate(FILES_MAX);
    message
}

fn bounded_subject(subject: Subject) -> Option<Subject> {
    let fits = is_short(&subject.kind) && is_short(&subject.id);
    let url = subject.url.filter(|url| fault(url, 2 * KEY_CHARS_MAX).is_none());
    fits.then_some(Subject { url, ..subject })
}

fn is_short(text: &str) -> bool {
    fault(text, NAME_CHARS_MAX).is_none()
}

fn must_fit(what: &'static str, text: &str, chars_max: usize) -> Result<(), MapError> {
    fault(text, chars_max).map_or(Ok(()), |fault| Err(MapError::Unfit { what, fault }))
}

/// Control characters are refused because Postgres cannot store NUL in text, and logs should not hold others.
fn fault(text: &str, chars_max: usize) -> Option<&'static str> {
    if text.is_empty() {
        Some("empty")
    } else if text.chars().nth(chars_max).is_some() {
        Some("too long")
    } else if text.chars().any(char::is_control) {
        Some("unprintable")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event_type: &str, key: &str) -> Mapped {
        let (event_type, dedup_key) = (event_type.to_owned(), Some(key.to_owned()));
        Mapped { event_type, dedup_key, ..Mapped::default() }
    }

    #[test]
    fn a_name_or_key_that_cannot_be_stored_is_refused() {
        assert!(bounded(event(&"é".repeat(200), &"é".repeat(500))).is_ok());
        for (event_type, key) in [
            ("", "k"),
            ("t", ""),
            ("a\0b", "k"),
            ("t", "a\0b"),
            (&"t".repeat(201), "k"),
            ("t", &"k".repeat(501)),
        ] {
            assert!(matches!(bounded(event(event_type, key)), Err(MapError::Unfit { .. })));
        }
    }

    #[test]
    fn a_description_that_cannot_be_stored_is_left_out() {
        let subject = Subject { kind: "issue".into(), id: "1\0".into(), url: None };
        let actor = Actor { name: Some("x".repeat(201)), verified: true, ..Actor::default() };
        let mapped = bounded(Mapped {
            subject: Some(subject),
            actor: Some(actor),
            provider_request_id: Some("\n".into()),
            ..event("t", "k")
        })
        .unwrap();
        assert_eq!((mapped.subject, mapped.provider_request_id), (None, None));
        assert_eq!(mapped.actor, Some(Actor { verified: true, ..Actor::default() }));
    }
}
