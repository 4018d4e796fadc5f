//! What is said and done in a workspace: Slack's Events API.

use std::borrow::Cow;

use serde_json::Value;
use wakepost_domain::envelope::{
    Actor, ConversationType, File, Mapped, Message, Starts, Subject, Trigger,
};

use super::{allows, thread_id};
use crate::freshness::Unit;
use crate::mapping::{self, MapError};
use crate::request::Request;
use crate::settings::{self, Settings};
use crate::{header, payload};

/// What Slackbot is called in every workspace; it has no bot id.
const SLACKBOT: &str = "USLACKBOT";

/// The one event of a request, or the notice that Slack holds events back.
pub(super) fn map(request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
    let said = Said::read(request.body)?;
    let provider_request_id = header::request_id(request.headers);
    let Some(kind) = said.kind.as_deref() else {
        return match said.envelope.as_deref() {
            Some(event_type @ "app_rate_limited") => mapping::one(Mapped {
                event_type: event_type.to_owned(),
                starts: Starts::Nothing,
                provider_request_id,
                ..Mapped::default()
            }),
            _ => Err(MapError::Missing("/event/type")),
        };
    };
    let message = match kind {
        "message" | "app_mention" => Some(Spoken::read(&said, request.body, settings)?),
        _ => None,
    };
    let starts = message.as_ref().map_or(Starts::Nothing, |message| message.starts);
    mapping::one(Mapped {
        dedup_key: Some(said.event_id.as_deref().ok_or(MapError::Missing("/event_id"))?.to_owned()),
        second_key: message.as_ref().and_then(|message| message.second_key.clone()),
        event_type: kind.to_owned(),
        starts,
        occurred_at: said.event_time.as_deref().and_then(|text| Unit::Seconds.read(text)),
        actor: said.actor(),
        subject: said.subject(),
        message: message.map(|message| message.message),
        provider_request_id,
    })
}

type Text<'a> = Option<Cow<'a, str>>;

/// The few fields of an event that the envelope needs.
struct Said<'a> {
    envelope: Text<'a>,
    event_id: Text<'a>,
    event_time: Text<'a>,
    app: Text<'a>,
    team: Text<'a>,
    kind: Text<'a>,
    subtype: Text<'a>,
    user: Text<'a>,
    bot: Text<'a>,
    channel: Text<'a>,
    channel_type: Text<'a>,
    ts: Text<'a>,
    thread_ts: Text<'a>,
    text: Text<'a>,
    /// The author's workspace, by the three names Slack has for it.
    author_teams: [Text<'a>; 3],
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Said<'a>, MapError> {
        let [envelope, event_id, event_time, app, team] =
            payload::pick(body, ["/type", "/event_id", "/event_time", "/api_app_id", "/team_id"])?;
        let fields = [
            "/event/type",
            "/event/subtype",
            "/event/user",
            "/event/bot_id",
            "/event/channel",
            "/event/channel_type",
            "/event/ts",
            "/event/thread_ts",
            "/event/text",
            "/event/team",
            "/event/user_team",
            "/event/source_team",
        ];
        let [kind, subtype, user, bot, channel, channel_type, ts, thread_ts, text, a, b, c] =
            payload::pick(body, fields)?;
        let author_teams = [a, b, c];
        Ok(Said {
            envelope,
            event_id,
            event_time,
            app,
            team,
            kind,
            subtype,
            user,
            bot,
            channel,
            channel_type,
            ts,
            thread_ts,
            text,
            author_teams,
        })
    }

    /// Slack vouches for members of the workspace that the app is installed in. A channel may be shared with
    /// another company, whose people only that company knows.
    fn actor(&self) -> Option<Actor> {
        let id = self.user.as_deref()?.to_owned();
        let mut teams = self.author_teams.iter().flatten().peekable();
        let verified = self.bot.is_none()
            && teams.peek().is_some()
            && teams.all(|team| Some(team) == self.team.as_ref());
        Some(Actor { id: Some(id), verified, ..Actor::default() })
    }

    fn subject(&self) -> Option<Subject> {
        let (channel, ts) = (self.channel.as_deref()?, self.ts.as_deref()?);
        Some(Subject { kind: "message".to_owned(), id: format!("{channel}:{ts}"), url: None })
    }

    /// Whether a person said something new; edits, deletions, joins and the like are housekeeping.
    fn is_new(&self) -> bool {
        let kind = matches!(
            self.subtype.as_deref(),
            None | Some("file_share" | "thread_broadcast" | "me_message")
        );
        kind && self.bot.is_none() && self.user.as_deref().is_some_and(|user| user != SLACKBOT)
    }

    fn is_direct(&self) -> bool {
        self.channel_type.as_deref() == Some("im")
    }

    fn is_reply(&self) -> bool {
        self.thread_ts.is_some() && self.thread_ts != self.ts
    }

    fn trigger(&self, mentions: bool) -> Trigger {
        match (self.is_direct(), mentions, self.is_reply()) {
            (true, ..) => Trigger::Direct,
            (_, false, true) => Trigger::Reply,
            _ => Trigger::Mention,
        }
    }

    /// An `app_mention` does not say; it never comes from a direct conversation.
    fn conversation_type(&self) -> ConversationType {
        match self.channel_type.as_deref() {
            Some("im") => ConversationType::Direct,
            Some("mpim") => ConversationType::Group,
            _ => ConversationType::Channel,
        }
    }
}

/// A message, and what it does.
struct Spoken {
    starts: Starts,
    second_key: Option<String>,
    message: Message,
}

impl Spoken {
    fn read(said: &Said<'_>, body: &[u8], settings: &Settings) -> Result<Spoken, MapError> {
        let team = said.team.as_deref().ok_or(MapError::Missing("/team_id"))?;
        let channel = said.channel.as_deref().ok_or(MapError::Missing("/event/channel"))?;
        let ts = said.ts.as_deref().ok_or(MapError::Missing("/event/ts"))?;
        let start = said.thread_ts.as_deref().unwrap_or(ts);
        // The pass before has read every byte of the body, so this cannot fail.
        let whole: Value = serde_json::from_slice(body).unwrap_or_default();
        let agent = Agent::read(&whole, settings)?;
        let text = said.text.as_deref().unwrap_or_default();
        let mentions = said.kind.as_deref() == Some("app_mention") || agent.is_named_in(text);
        let author = said.author_teams.each_ref().map(Option::as_deref);
        let [a, b, c] = author;
        let may_start = said.is_new()
            && !said.user.as_deref().is_some_and(|user| agent.is(user))
            && allows(settings, &[Some(team), a, b, c])?;
        let (starts, trigger) = match (may_start, said.is_direct(), mentions) {
            (false, ..) => (Starts::Nothing, said.trigger(mentions)),
            (_, true, _) | (.., true) => (Starts::Job, said.trigger(mentions)),
            _ if said.is_reply() => (Starts::InKnownThread, Trigger::Reply),
            _ => (Starts::Nothing, Trigger::Mention),
        };
        let claims = agent.claims(starts, text);
        Ok(Spoken {
            starts,
            second_key: claims.then(|| format!("message:{team}:{channel}:{ts}")),
            message: Message {
                thread_id: thread_id(said.app.as_deref(), team, channel, start),
                text: agent.strip_from(text).to_owned(),
                conversation_type: said.conversation_type(),
                trigger,
                files: files(&whole),
            },
        })
    }
}

/// The user ids of the agent's bot, as far as they are known.
struct Agent<'a> {
    ids: Vec<&'a str>,
}

impl<'a> Agent<'a> {
    fn read(whole: &'a Value, settings: &'a Settings) -> Result<Agent<'a>, MapError> {
        let configured = settings::text(settings, "bot_user_id").map_err(MapError::Settings)?;
        // An app may also listen for people who installed it; they are not the agent.
        let listener = whole
            .pointer("/authorizations/0")
            .filter(|one| one.get("is_bot").and_then(Value::as_bool) != Some(false));
        let listener = listener.and_then(|one| one.get("user_id")).and_then(Value::as_str);
        let ids = configured.into_iter().chain(listener).filter(|id| !id.is_empty()).collect();
        Ok(Agent { ids })
    }

    fn is(&self, user: &str) -> bool {
        self.ids.contains(&user)
    }

    fn is_named_in(&self, text: &str) -> bool {
        let mut mentions = text.split("<@").skip(1);
        mentions.any(|rest| rest.split(['>', '|']).next().is_some_and(|user| self.is(user)))
    }

    /// The text without a mention of the agent at its start.
    fn strip_from<'t>(&self, text: &'t str) -> &'t str {
        let text = text.trim();
        let rest = text.strip_prefix("<@").and_then(|rest| rest.split_once('>'));
        match rest {
            Some((user, rest)) if self.is(user.split('|').next().unwrap_or_default()) => {
                rest.trim_start_matches([' ', '\n', '\t', '\u{a0}', ':', ','])
            }
            _ => text,
        }
    }

    /// Whether an event may stand for its message. Slack tells of one message as `message` and as `app_mention`,
    /// in either order, and the first that claims it keeps the other from making a second job. One that starts
    /// nothing claims nothing; nor does a reply that may mention the agent for all we know: if its thread turned
    /// out to be a stranger's, the `app_mention` after it would be lost as a duplicate.
    fn claims(&self, starts: Starts, text: &str) -> bool {
        match starts {
            Starts::Job => true,
            Starts::Nothing => false,
            Starts::InKnownThread => !self.ids.is_empty() || !text.contains("<@"),
        }
    }
}

fn files(whole: &Value) -> Vec<File> {
    let files = whole.pointer("/event/files").and_then(Value::as_array);
    let text = |file: &Value, name: &str| file.get(name).and_then(Value::as_str).map(str::to_owned);
    files
        .into_iter()
        .flatten()
        .filter(|file| file.is_object())
        .map(|file| File {
            id: text(file, "id"),
            name: text(file, "name"),
            media_type: text(file, "mimetype"),
            bytes: file.get("size").and_then(Value::as_u64),
            url: text(file, "url_private"),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wakepost_domain::Timestamp;

    use super::*;
    use crate::request::SignedRequest;
    use crate::slack::Slack;
    use crate::testing::{self, settings};

    /// A request about an event of this shape, with the usual around it.
    fn about(event: Value) -> Value {
        let mut usual = json!({
            "user": "U_ADA", "team": "T_ACME", "channel": "C_OPS", "ts": "1700000000.000100", "text": "hi",
        });
        let (known, given) = (usual.as_object_mut().unwrap(), event.as_object().unwrap());
        known.extend(given.clone());
        known.retain(|_, value| !value.is_null());
        json!({
            "type": "event_callback", "event_id": "Ev_1", "event_time": 1_700_000_000,
            "team_id": "T_ACME", "api_app_id": "A_1", "event": usual,
            "authorizations": [{"team_id": "T_ACME", "user_id": "U_BOT", "is_bot": true}],
        })
    }

    fn map_body(body: &Value, settings: &Settings) -> Result<Mapped, MapError> {
        let request = SignedRequest::post("https://hooks.example/", body.to_string());
        testing::map_with(&Slack, &request, settings)
    }

    fn mapped(event: Value) -> Mapped {
        map_body(&about(event), &Settings::new()).unwrap()
    }

    fn starts(event: Value) -> Starts {
        mapped(event).starts
    }

    #[test]
    fn a_mention_says_who_said_what_where_and_when() {
        let mapped = mapped(json!({"type": "app_mention", "text": "<@U_BOT>: ship it, <@U_BOT>"}));
        assert_eq!(mapped.event_type, "app_mention");
        assert_eq!(mapped.dedup_key.as_deref(), Some("Ev_1"));
        assert_eq!(mapped.second_key.as_deref(), Some("message:T_ACME:C_OPS:1700000000.000100"));
        assert_eq!(mapped.starts, Starts::Job);
        assert_eq!(mapped.occurred_at, Some(Timestamp::from_secs(1_700_000_000)));
        assert_eq!(mapped.subject.unwrap().text("slack"), "slack:message:C_OPS:1700000000.000100");
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.verified), (Some("U_ADA"), true));
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "A_1:T_ACME:C_OPS:1700000000.000100");
        assert_eq!(message.text, "ship it, <@U_BOT>");
        assert_eq!(message.conversation_type, ConversationType::Channel);
        assert_eq!(message.trigger, Trigger::Mention);
    }

    #[test]
    fn a_message_and_the_mention_it_is_are_one_event_whichever_comes_first() {
        for thread_ts in [Value::Null, json!("1699999999.000100")] {
            let as_kind = |kind: &str| {
                let text = "so, <@U_BOT|agent> what now?";
                let channel_type = if kind == "message" { json!("channel") } else { Value::Null };
                mapped(json!({
                    "type": kind, "text": text, "channel_type": channel_type, "thread_ts": thread_ts,
                }))
            };
            let (message, mention) = (as_kind("message"), as_kind("app_mention"));
            assert!(message.second_key.is_some());
            assert_eq!(message.second_key, mention.second_key);
            assert_eq!((message.starts, mention.starts), (Starts::Job, Starts::Job));
            assert_eq!(message.message, mention.message);
        }
    }

    #[test]
    fn a_message_that_starts_nothing_does_not_stand_in_the_way_of_its_mention() {
        let mut body =
            about(json!({"type": "message", "channel_type": "channel", "text": "<@U_BOT> hi"}));
        body["authorizations"] = json!([]);
        let unknown = map_body(&body, &Settings::new()).unwrap();
        assert_eq!((unknown.starts, unknown.second_key), (Starts::Nothing, None));
        body["event"]["thread_ts"] = json!("1.0");
        let reply = map_body(&body, &Settings::new()).unwrap();
        assert_eq!((reply.starts, reply.second_key), (Starts::InKnownThread, None));
        let known = map_body(&body, &settings(&[("bot_user_id", "U_BOT")])).unwrap();
        assert_eq!(known.starts, Starts::Job);
        assert!(known.second_key.is_some());
    }

    #[test]
    fn a_person_who_installed_the_app_is_not_the_agent() {
        let mut body =
            about(json!({"type": "message", "channel_type": "channel", "text": "<@U_EVE> hi"}));
        body["authorizations"] = json!([{"user_id": "U_EVE", "is_bot": false}]);
        assert_eq!(map_body(&body, &Settings::new()).unwrap().starts, Starts::Nothing);
        body["authorizations"][0]["is_bot"] = json!(true);
        assert_eq!(map_body(&body, &Settings::new()).unwrap().starts, Starts::Job);
    }

    #[test]
    fn a_direct_message_starts_a_job_and_each_one_its_own_conversation() {
        let direct = json!({"type": "message", "channel": "D_1", "channel_type": "im"});
        let first = mapped(direct.clone());
        assert_eq!(first.starts, Starts::Job);
        let message = first.message.unwrap();
        assert_eq!(message.trigger, Trigger::Direct);
        assert_eq!(message.conversation_type, ConversationType::Direct);
        assert_eq!(message.thread_id, "A_1:T_ACME:D_1:1700000000.000100");
        let mut reply = direct;
        reply["ts"] = json!("1700000009.000100");
        reply["thread_ts"] = json!("1700000000.000100");
        let reply = mapped(reply);
        assert_eq!(reply.starts, Starts::Job);
        assert_eq!(reply.message.unwrap().thread_id, message.thread_id);
    }

    #[test]
    fn a_reply_counts_where_the_agent_takes_part_and_other_talk_never() {
        let talk = |thread_ts: Value| {
            mapped(json!({"type": "message", "channel_type": "channel", "thread_ts": thread_ts}))
        };
        let reply = talk(json!("1699999999.000100"));
        assert_eq!(reply.starts, Starts::InKnownThread);
        assert!(reply.second_key.is_some());
        let message = reply.message.unwrap();
        assert_eq!(message.trigger, Trigger::Reply);
        assert_eq!(message.thread_id, "A_1:T_ACME:C_OPS:1699999999.000100");
        assert_eq!(talk(Value::Null).starts, Starts::Nothing);
        let root = talk(json!("1700000000.000100"));
        assert_eq!(root.starts, Starts::Nothing, "a thread's own first message is no reply");
    }

    #[test]
    fn bots_slackbot_and_the_agent_itself_never_start_anything() {
        let direct = |mut event: Value| {
            event["type"] = json!("message");
            event["channel_type"] = json!("im");
            event
        };
        assert_eq!(starts(direct(json!({}))), Starts::Job);
        for event in [
            json!({"bot_id": "B_1"}),
            json!({"subtype": "bot_message", "user": null}),
            json!({"user": "U_BOT"}),
            json!({"user": "USLACKBOT"}),
            json!({"user": null}),
        ] {
            assert_eq!(starts(direct(event.clone())), Starts::Nothing, "{event}");
        }
        let own = json!({"type": "app_mention", "user": "U_BOT", "text": "<@U_BOT> again"});
        assert_eq!(starts(own), Starts::Nothing);
        let workflow = json!({"type": "app_mention", "bot_id": "B_1", "text": "<@U_BOT> again"});
        assert_eq!(starts(workflow), Starts::Nothing);
    }

    #[test]
    fn an_edit_or_other_housekeeping_starts_nothing() {
        for subtype in ["message_changed", "message_deleted", "message_replied", "channel_join"] {
            let event = json!({"type": "message", "channel_type": "im", "subtype": subtype});
            let mapped = mapped(event);
            assert_eq!(mapped.event_type, "message");
            assert_eq!((mapped.starts, mapped.second_key), (Starts::Nothing, None));
        }
    }

    #[test]
    fn a_shared_file_is_a_message_with_the_file_by_reference() {
        let mapped = mapped(json!({
            "type": "message", "subtype": "file_share", "channel_type": "im",
            "files": [
                {"id": "F1", "name": "a.pdf", "mimetype": "application/pdf", "size": 9,
                 "url_private": "https://files.slack.com/a.pdf"},
                {"id": 7, "size": "big"}, "junk",
            ],
        }));
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("message", Starts::Job));
        let files = mapped.message.unwrap().files;
        assert_eq!(files.len(), 2);
        assert_eq!(
            files[0],
            File {
                id: Some("F1".into()),
                name: Some("a.pdf".into()),
                media_type: Some("application/pdf".into()),
                bytes: Some(9),
                url: Some("https://files.slack.com/a.pdf".into()),
            }
        );
        assert_eq!(files[1], File::default());
    }

    #[test]
    fn only_people_of_allowed_workspaces_start_a_job() {
        let body = about(json!({"type": "app_mention"}));
        let allowed = |teams: &str, body: &Value| {
            map_body(body, &settings(&[("allowed_teams", teams)])).unwrap().starts
        };
        assert_eq!(allowed("T_ACME", &body), Starts::Job);
        assert_eq!(allowed("T_OTHER, T_ACME", &body), Starts::Job);
        assert_eq!(allowed("T_OTHER", &body), Starts::Nothing);
        let mut guest = body.clone();
        guest["event"]["user_team"] = json!("T_GUEST");
        assert_eq!(allowed("T_ACME", &guest), Starts::Nothing);
        assert_eq!(allowed("T_ACME,T_GUEST", &guest), Starts::Job);
        assert_eq!(map_body(&guest, &Settings::new()).unwrap().starts, Starts::Job);
    }

    #[test]
    fn only_a_member_of_the_installed_workspace_is_verified() {
        let verified = |event: Value| mapped(event).actor.unwrap().verified;
        assert!(verified(json!({"type": "message"})));
        assert!(verified(
            json!({"type": "message", "user_team": "T_ACME", "source_team": "T_ACME"})
        ));
        assert!(!verified(json!({"type": "message", "team": null})));
        assert!(!verified(json!({"type": "message", "team": "T_GUEST"})));
        assert!(!verified(json!({"type": "message", "user_team": "T_GUEST"})));
        assert!(!verified(json!({"type": "message", "source_team": "T_GUEST"})));
        assert!(!verified(json!({"type": "message", "bot_id": "B_1"})));
    }

    #[test]
    fn other_events_are_kept_and_start_nothing() {
        let mapped = mapped(json!({"type": "reaction_added", "reaction": "eyes"}));
        assert_eq!(
            (mapped.event_type.as_str(), mapped.starts),
            ("reaction_added", Starts::Nothing)
        );
        assert_eq!((mapped.message, mapped.second_key), (None, None));
        let limited = json!({"type": "app_rate_limited", "minute_rate_limited": 1_700_000_000});
        let limited = map_body(&limited, &Settings::new()).unwrap();
        assert_eq!(limited.event_type, "app_rate_limited");
        assert_eq!((limited.dedup_key, limited.starts), (None, Starts::Nothing));
    }

    #[test]
    fn what_names_an_event_must_be_there_and_the_rest_may_be_anything() {
        let without = |pointer: &str| {
            let mut body = about(json!({"type": "message"}));
            *body.pointer_mut(pointer).unwrap() = json!({"not": "text"});
            map_body(&body, &Settings::new())
        };
        for pointer in ["/event/type", "/event_id", "/team_id", "/event/channel", "/event/ts"] {
            assert!(matches!(without(pointer), Err(MapError::Missing(p)) if p == pointer));
        }
        for pointer in
            ["/event/text", "/event/user", "/authorizations", "/event_time", "/api_app_id"]
        {
            assert!(without(pointer).is_ok(), "{pointer}");
        }
        for body in ["", "[]", "null", "{", r#"{"event":{"type":"message","type":"x"}}"#] {
            let request = SignedRequest::post("https://hooks.example/", body);
            assert!(testing::map(&Slack, &request).is_err(), "{body}");
        }
    }
}
