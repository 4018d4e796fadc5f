//! A comment that names the agent, or a reply to one: found by us, and an event like any other from then on.

use serde_json::{Value, json};
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, ConversationType, Mapped, Message, Subject, Trigger};

use super::agent::Agent;
use crate::freshness::Unit;
use crate::mapping::MapError;
use crate::payload::{list_at, text_at};
use crate::settings::Settings;

const CREATED: &str = "comment.created";
const REPLIED: &str = "comment.replied";

/// Something said to the agent.
pub(super) struct Found {
    /// What tells it from all others of its source.
    pub(super) key: String,
    /// What is stored of it.
    pub(super) content: Vec<u8>,
}

/// What is said to the agent in a comment of a file and the replies to it since then: nothing once it is resolved.
pub(super) fn said_to(
    agent: &Agent,
    file: &Value,
    comment: &Value,
    since: Timestamp,
) -> Vec<Found> {
    let is = |value: &Value, name: &str| value.get(name).and_then(Value::as_bool) == Some(true);
    let wanted =
        |said: &Value| !is(said, "deleted") && !agent.wrote(said) && agent.is_named_in(said);
    if is(comment, "resolved") || is(comment, "deleted") {
        return Vec::new();
    }
    let replies = list_at(comment, "/replies");
    let is_new = |said: &Value, field| time(said, field).is_some_and(|at| at >= since);
    // A reply changes the comment's own time too. Only without one was it the comment itself that changed.
    let is_edited = is_new(comment, "/modifiedTime")
        && !replies.iter().any(|reply| is_new(reply, "/modifiedTime"));
    let mut found = Vec::new();
    if (is_new(comment, "/createdTime") || is_edited) && wanted(comment) {
        found.extend(found_in(file, comment, None));
    }
    let new = replies.iter().filter(|reply| is_new(reply, "/modifiedTime") && wanted(reply));
    found.extend(new.filter_map(|reply| found_in(file, comment, Some(reply))));
    found
}

fn time(said: &Value, pointer: &str) -> Option<Timestamp> {
    Unit::Rfc3339.read(text_at(said, pointer)?)
}

fn found_in(file: &Value, comment: &Value, reply: Option<&Value>) -> Option<Found> {
    let mut comment = comment.clone();
    comment.as_object_mut()?.remove("replies");
    let content = json!({"file": file, "comment": comment, "reply": reply});
    Some(Found { key: key(&content)?, content: content.to_string().into_bytes() })
}

fn key(found: &Value) -> Option<String> {
    let thread = thread(found)?;
    match text_at(found, "/reply/id") {
        Some(reply) => Some(format!("{thread}:{reply}")),
        None => Some(thread),
    }
}

fn thread(found: &Value) -> Option<String> {
    Some(format!("{}:{}", text_at(found, "/file/id")?, text_at(found, "/comment/id")?))
}

/// The event that it is.
pub(super) fn map(found: &[u8], settings: &Settings) -> Result<Mapped, MapError> {
    let found: Value =
        serde_json::from_slice(found).map_err(|error| MapError::NotJson(error.to_string()))?;
    let thread_id = thread(&found).ok_or(MapError::Missing("/comment/id"))?;
    let (event_type, said) = match found.get("reply").filter(|reply| !reply.is_null()) {
        Some(reply) => (REPLIED, reply),
        None => (CREATED, &found["comment"]),
    };
    let author = |name: &str| text_at(said, &format!("/author/{name}")).map(str::to_owned);
    let email = author("emailAddress");
    let content = text_at(said, "/content").unwrap_or_default();
    Ok(Mapped {
        dedup_key: key(&found),
        event_type: event_type.to_owned(),
        occurred_at: time(said, "/createdTime"),
        actor: Some(Actor {
            id: author("permissionId"),
            name: author("displayName"),
            // Whoever may read a document by its link alone can comment without an account.
            verified: email.is_some(),
            email,
        }),
        subject: text_at(&found, "/file/id").map(|id| Subject {
            kind: "file".to_owned(),
            id: id.to_owned(),
            url: text_at(&found, "/file/webViewLink").map(str::to_owned),
        }),
        message: Some(Message {
            thread_id,
            text: Agent::of(settings).without_names(content),
            conversation_type: ConversationType::Document,
            trigger: Trigger::Comment,
            files: Vec::new(),
        }),
        ..Mapped::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::settings;

    const SINCE: &str = "2026-11-16T10:00:00Z";
    const BEFORE: &str = "2026-11-16T09:00:00.000Z";
    const AFTER: &str = "2026-11-16T11:00:00.000Z";

    fn pairs() -> Settings {
        settings(&[("mention", "@agent")])
    }

    fn said(id: &str, content: &str, created: &str, modified: &str) -> Value {
        json!({"id": id, "content": content, "createdTime": created, "modifiedTime": modified,
            "author": {"displayName": "Ada", "emailAddress": "ada@acme.example", "me": false}})
    }

    fn found(comment: &Value) -> Vec<String> {
        let file = json!({"id": "F1", "name": "Plan", "webViewLink": "https://docs.example/F1"});
        let since = SINCE.parse().unwrap();
        let found = said_to(&Agent::of(&pairs()), &file, comment, since);
        found.into_iter().map(|found| found.key).collect()
    }

    #[test]
    fn a_new_comment_and_each_new_reply_that_names_the_agent_is_found() {
        let mut comment = said("C1", "@agent check this", AFTER, AFTER);
        assert_eq!(found(&comment), ["F1:C1"]);
        comment["replies"] = json!([
            said("R1", "no name", AFTER, AFTER),
            said("R2", "well, @Agent?", AFTER, AFTER),
            said("R0", "@agent long ago", BEFORE, BEFORE),
        ]);
        assert_eq!(found(&comment), ["F1:C1", "F1:C1:R2"]);
    }

    #[test]
    fn its_own_words_and_resolved_or_deleted_ones_are_not_found() {
        let plain = said("C1", "@agent check this", AFTER, AFTER);
        for (field, value) in [
            ("resolved", json!(true)),
            ("deleted", json!(true)),
            ("author", json!({"me": true})),
            ("content", json!("nothing for it")),
        ] {
            let mut comment = plain.clone();
            comment[field] = value;
            assert!(found(&comment).is_empty(), "{field}");
        }
        let mut answered = said("C1", "@agent check this", BEFORE, AFTER);
        let mut own = said("R1", "@agent is me", AFTER, AFTER);
        own["author"]["me"] = json!(true);
        answered["replies"] = json!([own]);
        assert!(found(&answered).is_empty());
    }

    #[test]
    fn an_old_comment_is_found_when_it_is_edited_and_not_when_it_is_answered() {
        let mut comment = said("C1", "@agent check this", BEFORE, AFTER);
        assert_eq!(found(&comment), ["F1:C1"]);
        comment["replies"] = json!([said("R1", "thanks", AFTER, AFTER)]);
        assert!(found(&comment).is_empty());
        assert!(found(&said("C1", "@agent check this", BEFORE, BEFORE)).is_empty());
    }

    #[test]
    fn what_is_found_is_a_message_in_the_conversation_of_its_comment() {
        let file = json!({"id": "F1", "name": "Plan", "webViewLink": "https://docs.example/F1"});
        let mut comment = said("C1", "@agent check this", AFTER, AFTER);
        comment["replies"] = json!([said("R2", "and @agent that", AFTER, AFTER)]);
        let agent = Agent::of(&pairs());
        let all = said_to(&agent, &file, &comment, SINCE.parse().unwrap());
        let mapped: Vec<Mapped> =
            all.iter().map(|found| map(&found.content, &pairs()).unwrap()).collect();
        let types: Vec<_> = mapped.iter().map(|mapped| mapped.event_type.as_str()).collect();
        assert_eq!(types, [CREATED, REPLIED]);
        for (mapped, found) in mapped.iter().zip(&all) {
            assert_eq!(mapped.dedup_key.as_ref(), Some(&found.key));
            let message = mapped.message.as_ref().unwrap();
            assert_eq!(message.thread_id, "F1:C1");
            assert_eq!(message.conversation_type, ConversationType::Document);
            assert_eq!(message.trigger, Trigger::Comment);
            let actor = mapped.actor.as_ref().unwrap();
            assert_eq!((actor.name.as_deref(), actor.verified), (Some("Ada"), true));
            let subject = mapped.subject.as_ref().unwrap();
            assert_eq!(subject.url.as_deref(), Some("https://docs.example/F1"));
        }
        assert_eq!(mapped[0].message.as_ref().unwrap().text, "check this");
        assert_eq!(mapped[1].message.as_ref().unwrap().text, "and that");
        assert!(map(b"{}", &pairs()).is_err() && map(b"no", &pairs()).is_err());
    }

    #[test]
    fn whoever_comments_without_an_account_is_not_vouched_for() {
        let found = json!({"file": {"id": "F1"}, "comment": {"id": "C1", "content": "@agent x",
            "author": {"displayName": "Anonymous"}}});
        let mapped = map(found.to_string().as_bytes(), &pairs()).unwrap();
        assert!(!mapped.actor.unwrap().verified);
    }
}
