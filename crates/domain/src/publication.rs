//! What subscribers read: one envelope for every type of published event.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::id::{EventId, SourceId, Ulid};
use crate::time::Timestamp;

/// Where published events come from: no source.
pub const NO_SOURCE: SourceId = SourceId(Ulid::MIN);

/// How many events one call may publish.
pub const EVENTS_PER_CALL_MAX: usize = 1000;
/// The largest event, as its envelope.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;
/// How far ahead an event may be published.
pub const DELIVER_AT_MAX_S: u64 = 90 * 24 * 3600;

/// How the subject begins of what a job's agent published.
const BY_JOB: &str = "wakepost:job:";

/// What an event is about that a job's agent published: that job. It is the event's thread too, by which those of one job
/// are found.
pub fn about_job(job: &str) -> String {
    format!("{BY_JOB}{job}")
}

/// The job whose agent published what is about this.
pub fn publisher_of(subject: &str) -> Option<&str> {
    subject.strip_prefix(BY_JOB)
}

/// The part of an envelope that says which event it is.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Head<'a> {
    /// Its id, which stays over retries and replays.
    pub id: EventId,
    /// What happened.
    #[serde(rename = "type")]
    pub event_type: &'a str,
    /// The version it was made with, for ever.
    pub api_version: Option<&'a str>,
    /// When it was published.
    pub created_at: Timestamp,
    /// Whether it is about the real thing.
    pub livemode: bool,
}

#[derive(Serialize)]
struct Envelope<'a, D> {
    #[serde(flatten)]
    head: Head<'a>,
    data: D,
}

#[derive(Serialize)]
struct Whole<'a> {
    object: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_attributes: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Linked<'a> {
    truncated: bool,
    url: &'a str,
}

/// The event as subscribers read it: its subject is in `data.object`, as the publisher wrote it.
pub fn envelope(head: Head<'_>, object: &RawValue, previous: Option<&RawValue>) -> String {
    let data = Whole { object, previous_attributes: previous };
    serde_json::to_string(&Envelope { head, data }).expect("an envelope is plain data")
}

/// The same of an event that is too large to be sent: only where it is.
pub fn linked(head: Head<'_>, url: &str) -> String {
    let data = Linked { truncated: true, url };
    serde_json::to_string(&Envelope { head, data }).expect("an envelope is plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_subject_stays_as_it_was_written() {
        let head = Head {
            id: "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap(),
            event_type: "order.created",
            api_version: Some("2026-11-15"),
            created_at: "2026-11-15T10:00:00Z".parse().unwrap(),
            livemode: true,
        };
        let object =
            RawValue::from_string(r#"{"z":1.0,"a":12345678901234567890}"#.to_owned()).unwrap();
        assert_eq!(
            envelope(head, &object, None),
            r#"{"id":"evt_01ARZ3NDEKTSV4RRFFQ69G5FAV","type":"order.created","api_version":"2026-11-15","#
                .to_owned()
                + r#""created_at":"2026-11-15T10:00:00.000Z","livemode":true,"#
                + r#""data":{"object":{"z":1.0,"a":12345678901234567890}}}"#
        );
        let text = linked(head, "https://hooks.example/e/x");
        assert!(
            text.ends_with(r#""data":{"truncated":true,"url":"https://hooks.example/e/x"}}"#),
            "{text}"
        );
        assert!(envelope(head, &object, Some(&object)).contains(r#""previous_attributes":{"z""#));
    }
}
