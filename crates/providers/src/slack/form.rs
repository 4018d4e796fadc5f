//! What people type after a slash, and which buttons they press: form bodies.

use serde_json::Value;
use wakepost_domain::envelope::{
    Actor, ConversationType, Mapped, Message, Starts, Subject, Trigger,
};

use super::{allows, thread_id};
use crate::form::{Form, says_form};
use crate::mapping::{self, MapError};
use crate::request::Request;
use crate::settings::Settings;
use crate::{header, payload};

/// The one event of a form.
pub(super) fn map(request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
    let form = Form::read(request)?;
    let mapped = match form.get("payload") {
        Some(json) => map_interaction(json, settings)?,
        None => map_command(&form, settings)?,
    };
    mapping::one(Mapped { provider_request_id: header::request_id(request.headers), ..mapped })
}

/// The JSON that an interaction's form holds.
pub(super) fn interaction(request: &Request<'_>) -> Option<Value> {
    let form = says_form(request.headers).then(|| Form::read(request).ok()).flatten()?;
    serde_json::from_str(form.get("payload")?).ok()
}

/// The id of a trigger is new each time, and Slack never repeats a command.
fn map_command(form: &Form<'_>, settings: &Settings) -> Result<Mapped, MapError> {
    let field = |name| form.get(name).filter(|value| !value.is_empty());
    let command = field("command").ok_or(MapError::Missing("command"))?;
    let trigger = field("trigger_id").ok_or(MapError::Missing("trigger_id"))?;
    let team = field("team_id").ok_or(MapError::Missing("team_id"))?;
    let channel = field("channel_id").ok_or(MapError::Missing("channel_id"))?;
    let actor = field("user_id").map(|user| Actor {
        id: Some(user.to_owned()),
        name: field("user_name").map(str::to_owned),
        email: None,
        // Only members of a workspace that has the app can give its commands.
        verified: true,
    });
    Ok(Mapped {
        dedup_key: Some(trigger.to_owned()),
        event_type: "slash_command".to_owned(),
        starts: starts(allows(settings, &[Some(team)])?),
        actor,
        subject: Some(Subject { kind: "command".to_owned(), id: command.to_owned(), url: None }),
        message: Some(Message {
            // A command is not a message and has no time stamp: each one is a conversation of its own.
            thread_id: thread_id(field("api_app_id"), team, channel, trigger),
            text: field("text").unwrap_or_default().trim().to_owned(),
            conversation_type: conversation_type(channel),
            trigger: Trigger::Command,
            files: Vec::new(),
        }),
        ..Mapped::default()
    })
}

fn map_interaction(json: &str, settings: &Settings) -> Result<Mapped, MapError> {
    let [kind, trigger, app, team, user, user_team, username, name] = payload::pick(
        json.as_bytes(),
        [
            "/type",
            "/trigger_id",
            "/api_app_id",
            "/team/id",
            "/user/id",
            "/user/team_id",
            "/user/username",
            "/user/name",
        ],
    )?;
    let kind = kind.ok_or(MapError::Missing("/type"))?;
    let actor = user.map(|user| Actor {
        id: Some(user.into_owned()),
        name: username.or(name).map(|name| name.into_owned()),
        email: None,
        verified: team.is_some() && team == user_team,
    });
    let team = team.as_deref();
    let allowed = allows(settings, &[team, user_team.as_deref()])?;
    // Whoever asks for the options of a menu wants them in the answer, which no job can give.
    let is_question = kind == "block_suggestion";
    let pressed = Pressed::read(json)?;
    Ok(Mapped {
        dedup_key: trigger.as_deref().map(str::to_owned),
        event_type: format!("interaction.{kind}"),
        starts: starts(allowed && !is_question),
        actor,
        subject: pressed.what.map(|id| Subject { kind: "action".to_owned(), id, url: None }),
        message: team.or(user_team.as_deref()).zip(pressed.channel).and_then(|(team, channel)| {
            let start = pressed.start.as_deref().or(trigger.as_deref())?;
            Some(Message {
                thread_id: thread_id(app.as_deref(), team, &channel, start),
                text: pressed.value.unwrap_or_default(),
                conversation_type: conversation_type(&channel),
                trigger: Trigger::Command,
                files: Vec::new(),
            })
        }),
        ..Mapped::default()
    })
}

/// Which button, and where. A dialog is in no channel.
struct Pressed {
    channel: Option<String>,
    /// The message that starts the thread of the one with the button.
    start: Option<String>,
    what: Option<String>,
    value: Option<String>,
}

impl Pressed {
    fn read(json: &str) -> Result<Pressed, MapError> {
        let fields = payload::pick(
            json.as_bytes(),
            [
                "/channel/id",
                "/message/thread_ts",
                "/container/thread_ts",
                "/message/ts",
                "/container/message_ts",
                "/actions/0/action_id",
                "/callback_id",
                "/view/callback_id",
                "/actions/0/value",
                "/actions/0/selected_option/value",
            ],
        )?;
        let fields = fields.map(|field| field.map(|text| text.into_owned()));
        let [channel, t1, t2, t3, t4, action, callback, view, value, option] = fields;
        Ok(Pressed {
            channel,
            start: t1.or(t2).or(t3).or(t4),
            what: action.or(callback).or(view),
            value: value.or(option),
        })
    }
}

fn starts(may: bool) -> Starts {
    if may { Starts::Job } else { Starts::Nothing }
}

/// Forms do not say what kind of channel it is; ids of direct ones begin with D.
fn conversation_type(channel: &str) -> ConversationType {
    match channel.starts_with('D') {
        true => ConversationType::Direct,
        false => ConversationType::Channel,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::provider::Provider;
    use crate::request::SignedRequest;
    use crate::slack::{FORM, Slack};
    use crate::testing::{self, settings};

    fn posted(body: impl Into<String>) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/", body.into());
        request.set("content-type", FORM).unwrap();
        request
    }

    fn pressed(interaction: &Value) -> SignedRequest {
        let body: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("payload", &interaction.to_string())
            .finish();
        posted(body)
    }

    const COMMAND: &str = "team_id=T_ACME&channel_id=C_OPS&user_id=U_ADA&user_name=ada\
        &command=%2Fdeploy&text=+prod+now&api_app_id=A_1&trigger_id=13345.98.73";

    fn button() -> Value {
        json!({
            "type": "block_actions", "trigger_id": "1.2.x", "api_app_id": "A_1",
            "team": {"id": "T_ACME"}, "user": {"id": "U_ADA", "username": "ada", "team_id": "T_ACME"},
            "channel": {"id": "C_OPS"}, "message": {"ts": "9.1", "thread_ts": "8.1"},
            "actions": [{"action_id": "approve", "value": "yes"}],
        })
    }

    #[test]
    fn a_command_is_a_message_to_the_agent() {
        let mapped = testing::map(&Slack, &posted(COMMAND)).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("slash_command", Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("13345.98.73"));
        assert_eq!(mapped.subject.unwrap().text("slack"), "slack:command:/deploy");
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.name.as_deref()), (Some("U_ADA"), Some("ada")));
        assert!(actor.verified);
        let message = mapped.message.unwrap();
        assert_eq!(message.thread_id, "A_1:T_ACME:C_OPS:13345.98.73");
        assert_eq!((message.text.as_str(), message.trigger), ("prod now", Trigger::Command));
        assert_eq!(message.conversation_type, ConversationType::Channel);
    }

    #[test]
    fn a_command_without_what_names_it_is_unmapped() {
        for name in ["command", "trigger_id", "team_id", "channel_id"] {
            let body = COMMAND.replace(&format!("{name}="), &format!("{name}=&x="));
            assert_eq!(testing::map(&Slack, &posted(body)), Err(MapError::Missing(name)));
        }
        assert!(testing::map(&Slack, &posted("")).is_err());
    }

    #[test]
    fn a_button_goes_on_with_the_thread_of_its_message() {
        let mapped = testing::map(&Slack, &pressed(&button())).unwrap();
        assert_eq!(mapped.event_type, "interaction.block_actions");
        assert_eq!((mapped.starts, mapped.dedup_key.as_deref()), (Starts::Job, Some("1.2.x")));
        assert_eq!(mapped.subject.unwrap().text("slack"), "slack:action:approve");
        assert!(mapped.actor.unwrap().verified);
        let message = mapped.message.unwrap();
        assert_eq!(
            (message.thread_id.as_str(), message.text.as_str()),
            ("A_1:T_ACME:C_OPS:8.1", "yes")
        );
    }

    #[test]
    fn an_interaction_is_read_as_the_json_it_is() {
        let data = Slack.data(&pressed(&button()).as_request(), 0);
        assert_eq!(data, button());
        let data = Slack.data(&posted(COMMAND).as_request(), 0);
        assert_eq!(data["command"], "/deploy");
    }

    #[test]
    fn a_dialog_is_in_no_channel_and_a_menus_question_starts_nothing() {
        let dialog = json!({
            "type": "view_submission", "trigger_id": "1.2.y", "team": {"id": "T_ACME"},
            "user": {"id": "U_ADA"}, "view": {"callback_id": "new_ticket"},
        });
        let mapped = testing::map(&Slack, &pressed(&dialog)).unwrap();
        assert_eq!((mapped.starts, mapped.message), (Starts::Job, None));
        assert_eq!(mapped.subject.unwrap().id, "new_ticket");
        assert!(!mapped.actor.unwrap().verified, "nobody said which workspace the user is of");
        let mut question = button();
        question["type"] = json!("block_suggestion");
        assert_eq!(testing::map(&Slack, &pressed(&question)).unwrap().starts, Starts::Nothing);
    }

    #[test]
    fn people_of_another_workspace_than_allowed_start_nothing() {
        let only = settings(&[("allowed_teams", "T_OTHER")]);
        for request in [posted(COMMAND), pressed(&button())] {
            assert_eq!(testing::map_with(&Slack, &request, &only).unwrap().starts, Starts::Nothing);
        }
        let mut guest = button();
        guest["user"]["team_id"] = json!("T_GUEST");
        let mapped =
            testing::map_with(&Slack, &pressed(&guest), &settings(&[("allowed_teams", "T_ACME")]));
        let mapped = mapped.unwrap();
        assert_eq!((mapped.starts, mapped.actor.unwrap().verified), (Starts::Nothing, false));
    }

    #[test]
    fn hostile_payloads_lose_the_description_and_never_panic() {
        for body in ["payload=", "payload=[]", "payload={", "payload=null", "payload=%FF"] {
            assert!(testing::map(&Slack, &posted(body)).is_err(), "{body}");
        }
        let odd = json!({"type": "shortcut", "user": [], "team": 7, "channel": {"id": {}}, "actions": {}});
        let mapped = testing::map(&Slack, &pressed(&odd)).unwrap();
        assert_eq!((mapped.dedup_key, mapped.actor, mapped.message), (None, None, None));
        let deep = format!("payload={}", "[".repeat(100_000));
        assert!(matches!(testing::map(&Slack, &posted(deep)), Err(MapError::NotJson(_))));
    }
}
