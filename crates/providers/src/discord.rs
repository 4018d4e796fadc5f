//! Discord interactions: Ed25519 over the time and the body; a command becomes the text that its user would read.

use std::time::Duration;

use aws_lc_rs::signature::KeyPair;
use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{
    Actor, ConversationType, File, Mapped, Message, Starts, Subject, Trigger,
};
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::freshness::Unit;
use crate::mapping::{self, MapError};
use crate::payload::{self, id_at, list_at, text_at};
use crate::provider::{Answer, Facts, Keys, Provider, SignedHeader};
use crate::reply::Replies;
use crate::reply::discord::DiscordReplies;
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Setting, Settings};
use crate::signature::{self, Encoding};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, standard};

const SIGNATURE: &str = "X-Signature-Ed25519";
const TIME: &str = "X-Signature-Timestamp";

/// A Discord application whose interactions come by webhook.
pub(crate) struct Discord;

impl Provider for Discord {
    fn name(&self) -> &'static str {
        "discord"
    }

    fn facts(&self) -> Facts {
        Facts {
            patience: Duration::from_secs(3),
            accepted_status: 200,
            priority: Priority::Interactive,
            // It shows "thinking…" under each command until that is answered.
            answers_each: true,
            ..Facts::usual("Discord")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some(
            "the developer portal → your application → General Information → Interactions Endpoint URL",
        )
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_secret(&self, secret: &str, _: &Settings) -> Result<(), ConfigError> {
        public_key(secret).map(|_| ())
    }

    fn signed_handshake(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        let [kind] = payload::pick(request.body, ["/type"]).ok()?;
        (kind.as_deref() == Some("1")).then(|| json(r#"{"type":1}"#))
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SignedHeader::hex("x-signature-ed25519"), SignedHeader::exact("x-signature-timestamp")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given = Encoding::Hex
            .decode(header::one(request.headers, SIGNATURE)?)
            .ok_or_else(|| Why::malformed(SIGNATURE, "hex digits"))?;
        let time_text = header::one(request.headers, TIME)?;
        let time = Unit::Seconds
            .read(time_text)
            .ok_or_else(|| Why::malformed(TIME, Unit::Seconds.expected()))?;
        let (parts, given) = ([time_text.as_bytes(), request.body], [given]);
        let secret_index = check.secret_that(|secret| {
            Ok(signature::ed25519_fits(&public_key(secret)?, &parts, &given))
        })?;
        check.fresh(time)?;
        Ok(Verified { secret_index, signed_at: Some(time) })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let interaction = payload::whole(request.body)?;
        let id = id_at(&interaction, "/id").ok_or(MapError::Missing("/id"))?;
        let number = interaction.get("type").and_then(Value::as_u64);
        let kind = Kind::of(number.ok_or(MapError::Missing("/type"))?);
        mapping::one(Mapped {
            event_type: format!("interaction.{}", kind.name()),
            starts: kind.starts(),
            occurred_at: made_at(&id),
            actor: actor(&interaction),
            subject: subject(&interaction),
            message: (kind == Kind::Command).then(|| message(&interaction)).flatten(),
            dedup_key: Some(id),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    /// Everything but the token, with which anybody could answer in the bot's name.
    fn data(&self, request: &Request<'_>, _: usize) -> Value {
        let mut data = payload::data(request);
        if let Some(interaction) = data.as_object_mut() {
            interaction.remove("token");
        }
        data
    }

    fn prescribed(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        let kind = payload::pick(request.body, ["/type"]).ok().and_then(|[kind]| kind);
        Some(match kind.as_deref() {
            // Suggestions are needed at once or not at all; Discord takes no promise of later ones.
            Some("4") => json(r#"{"type":8,"data":{"choices":[]}}"#),
            _ => json(r#"{"type":5}"#),
        })
    }

    fn is_public(&self, _: &str, _: &Settings) -> bool {
        true
    }

    fn sample_keys(&self, _: &Settings, entropy: &dyn Entropy) -> Keys {
        let signs = standard::generate_private_key(entropy);
        let pair = signature::ed25519_pair(&signs).expect("a private key just made is sound");
        Keys { signs, verifies: hex::encode(pair.public_key()) }
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&DiscordReplies)
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        _: &Settings,
        _: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        let pair = signature::ed25519_pair(secret)
            .ok_or_else(|| ConfigError::new("secret", "must be a private key, whsk_…, to sign"))?;
        let time = Unit::Seconds.write(now);
        let tag = pair.sign(&[time.as_bytes(), &request.body].concat());
        request.set(TIME, &time)?;
        request.set(SIGNATURE, &hex::encode(tag))
    }
}

const SETTINGS: &[Setting] = &[
    Setting::optional(
        "application_id",
        "Application id",
        "The number under General Information in the developer portal. Every interaction brings it too.",
    )
    .example("845027738276462632"),
    Setting::optional(
        "bot_token",
        "Bot token",
        "Under Bot in the developer portal. Only an answer later than 15 minutes after the command needs it; the \
         bot must then be allowed to write in the channel.",
    )
    .secret(),
    Setting::optional(
        "api_url",
        "API address",
        "Leave it empty for https://discord.com/api/v10; set it to go through a proxy.",
    )
.destination(),
];

static SAMPLES: &[Sample] = &[
    Sample::json("interaction.command", include_str!("../fixtures/discord/command.json")),
    Sample::json("interaction.component", include_str!("../fixtures/discord/component.json")),
    Sample::json("interaction.modal", include_str!("../fixtures/discord/modal.json")),
];

fn json(body: &str) -> Answer {
    Answer::ok("application/json", body)
}

fn public_key(secret: &str) -> Result<[u8; 32], ConfigError> {
    let key = Encoding::Hex.decode(secret).and_then(|bytes| bytes.try_into().ok());
    key.ok_or_else(|| {
        ConfigError::new("secret", "must be the application's public key: 64 hex digits")
    })
}

/// What its user did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ping,
    Command,
    Component,
    Autocomplete,
    Modal,
    Unknown,
}

impl Kind {
    fn of(number: u64) -> Kind {
        match number {
            1 => Kind::Ping,
            2 => Kind::Command,
            3 => Kind::Component,
            4 => Kind::Autocomplete,
            5 => Kind::Modal,
            _ => Kind::Unknown,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Ping => "ping",
            Kind::Command => "command",
            Kind::Component => "component",
            Kind::Autocomplete => "autocomplete",
            Kind::Modal => "modal",
            Kind::Unknown => "unknown",
        }
    }

    /// A pressed button or a sent form is told "thinking…", so somebody must think; autocomplete comes with
    /// every keystroke.
    fn starts(self) -> Starts {
        match self {
            Kind::Command | Kind::Component | Kind::Modal => Starts::Job,
            Kind::Ping | Kind::Autocomplete | Kind::Unknown => Starts::Nothing,
        }
    }
}

/// The upper bits of Discord's ids are the milliseconds since its own year one, 2015.
pub(crate) fn made_at(id: &str) -> Option<Timestamp> {
    const EPOCH_MS: i64 = 1_420_070_400_000;
    let ms = i64::try_from(id.parse::<u64>().ok()? >> 22).ok()?;
    Some(Timestamp::from_millis(ms + EPOCH_MS))
}

/// Discord signs who is logged in, so it vouches for them.
fn actor(interaction: &Value) -> Option<Actor> {
    let user = user(interaction)?;
    let name = text_at(user, "/global_name").or_else(|| text_at(user, "/username"));
    let id = Some(id_at(user, "/id")?);
    Some(Actor { id, name: name.map(str::to_owned), email: None, verified: true })
}

/// In a server the user is a member of it; elsewhere only a user.
fn user(interaction: &Value) -> Option<&Value> {
    interaction.pointer("/member/user").or_else(|| interaction.get("user"))
}

/// The message that a button or form belongs to, else the channel.
fn subject(interaction: &Value) -> Option<Subject> {
    let channel = id_at(interaction, "/channel_id")?;
    let place = id_at(interaction, "/guild_id").unwrap_or_else(|| "@me".to_owned());
    let url = format!("https://discord.com/channels/{place}/{channel}");
    Some(match id_at(interaction, "/message/id") {
        Some(id) => {
            let url = Some(format!("{url}/{id}"));
            Subject { kind: "message".to_owned(), id: format!("{channel}:{id}"), url }
        }
        None => Subject { kind: "channel".to_owned(), id: channel, url: Some(url) },
    })
}

fn message(interaction: &Value) -> Option<Message> {
    let data = interaction.get("data")?;
    Some(Message {
        thread_id: thread_id(interaction)?,
        text: command_text(data)?,
        conversation_type: conversation_type(interaction),
        trigger: Trigger::Command,
        files: files(data),
    })
}

/// The application and where it was called: all of a channel talks in one thread, and each user has their own
/// elsewhere, since a group of friends is no server whose members see each other's commands.
fn thread_id(interaction: &Value) -> Option<String> {
    let app = id_at(interaction, "/application_id")?;
    let channel = id_at(interaction, "/channel_id")?;
    if let Some(guild) = id_at(interaction, "/guild_id") {
        return Some(format!("{app}:{guild}:{channel}"));
    }
    let user = id_at(user(interaction)?, "/id")?;
    Some(format!("{app}:dm:{channel}:{user}"))
}

fn conversation_type(interaction: &Value) -> ConversationType {
    const GROUP_OF_FRIENDS: u64 = 2;
    if interaction.get("guild_id").is_some_and(|guild| !guild.is_null()) {
        return ConversationType::Channel;
    }
    match interaction.get("context").and_then(Value::as_u64) {
        Some(GROUP_OF_FRIENDS) => ConversationType::Group,
        _ => ConversationType::Direct,
    }
}

/// The command as its user sees it: `/ask question: Why?`, or the name of a menu entry and what it was used on.
fn command_text(data: &Value) -> Option<String> {
    const SLASH: u64 = 1;
    let name = text_at(data, "/name")?;
    if data.get("type").and_then(Value::as_u64).unwrap_or(SLASH) == SLASH {
        let mut text = format!("/{name}");
        add_options(&mut text, data, list_at(data, "/options"));
        return Some(text);
    }
    let target = id_at(data, "/target_id").and_then(|id| {
        let message = resolved(data, "messages", &id, "content");
        message.or_else(|| resolved(data, "users", &id, "username"))
    });
    Some(target.map_or_else(|| name.to_owned(), |target| format!("{name}: {target}")))
}

/// Subcommands are options that have options.
fn add_options(text: &mut String, data: &Value, options: &[Value]) {
    for option in options {
        let Some(name) = text_at(option, "/name") else { continue };
        text.push(' ');
        text.push_str(name);
        if let Some(value) = option.get("value") {
            text.push_str(": ");
            text.push_str(&readable(data, option, value));
        }
        add_options(text, data, list_at(option, "/options"));
    }
}

/// A value as a person reads it: Discord sends people, channels, roles and files as ids, and their names besides.
fn readable(data: &Value, option: &Value, value: &Value) -> String {
    let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let marked = |mark: &str, kind, field| {
        resolved(data, kind, &plain, field).map(|name| format!("{mark}{name}"))
    };
    let named = match option.get("type").and_then(Value::as_u64) {
        Some(6) => marked("@", "users", "username"),
        Some(7) => marked("#", "channels", "name"),
        Some(8) => marked("@", "roles", "name"),
        Some(9) => marked("@", "users", "username").or_else(|| marked("@", "roles", "name")),
        Some(11) => marked("", "attachments", "filename"),
        _ => None,
    };
    named.unwrap_or(plain)
}

fn resolved<'d>(data: &'d Value, kind: &str, id: &str, field: &str) -> Option<&'d str> {
    data.get("resolved")?.get(kind)?.get(id)?.get(field)?.as_str()
}

fn files(data: &Value) -> Vec<File> {
    let attached = data.pointer("/resolved/attachments").and_then(Value::as_object);
    let file = |(id, file): (&String, &Value)| File {
        id: Some(id.clone()),
        name: text_at(file, "/filename").map(str::to_owned),
        media_type: text_at(file, "/content_type").map(str::to_owned),
        bytes: file.get("size").and_then(Value::as_u64),
        url: text_at(file, "/url").map(str::to_owned),
    };
    attached.into_iter().flatten().map(file).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{Counting, NOW, map, verify};

    // openssl pkeyutl -sign -rawin, over 1700000000{"id":"1","type":1}
    const PUBLIC: &str = "168274a98701e534dbb914fddbbfbd344fe8c603b5396ecbebcaf32b8ab79b85";
    const GOOD: &str = "4036dcfeab261353b1a67a8326415a4229533d40d7ba8a304b182247aa8a50aa\
        63ab1b29c7e7e668173eb564b39cb9d5e0be9d79e1a7b43c75d2e56c4ed5f700";

    fn vector() -> SignedRequest {
        let mut request = interaction(r#"{"id":"1","type":1}"#);
        request.set(SIGNATURE, GOOD).unwrap();
        request.set(TIME, "1700000000").unwrap();
        request
    }

    fn interaction(body: &str) -> SignedRequest {
        SignedRequest::post("https://hooks.example/in/src_1", body)
    }

    fn mapped(body: Value) -> Mapped {
        map(&Discord, &interaction(&body.to_string())).unwrap()
    }

    /// A command with these data, in a server.
    fn command(data: Value) -> Value {
        json!({
            "id": "175928847299117063", "type": 2, "application_id": "10", "guild_id": "20",
            "channel_id": "30", "token": "tok_secret", "data": data,
            "member": {"user": {"id": "40", "username": "mason", "global_name": "Mason"}},
        })
    }

    fn text(data: Value) -> String {
        mapped(command(data)).message.unwrap().text
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        let expected = Verified { secret_index: 0, signed_at: Some(NOW) };
        assert_eq!(verify(&Discord, &vector(), &[PUBLIC]), Ok(expected));
        let mut upper = vector();
        upper.set(SIGNATURE, &GOOD.to_uppercase()).unwrap();
        assert!(verify(&Discord, &upper, &[PUBLIC]).is_ok(), "hex goes by value");
    }

    #[test]
    fn a_malformed_header_is_a_bad_signature_and_never_a_stale_one() {
        for (name, bad) in [
            (SIGNATURE, &GOOD[2..]),
            (SIGNATURE, &format!("{GOOD}00")),
            (SIGNATURE, "zz"),
            (SIGNATURE, &"00".repeat(64)),
            (TIME, "1700000000x"),
            (TIME, "-1700000000"),
            (TIME, "1700000000000"),
        ] {
            let mut request = vector();
            request.set(name, bad).unwrap();
            let refused = verify(&Discord, &request, &[PUBLIC]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn the_secret_is_64_hex_digits_and_nothing_else() {
        let settings = Settings::new();
        assert!(Discord.check_secret(PUBLIC, &settings).is_ok());
        let private = Discord.sample_keys(&settings, &Counting::default()).signs;
        for bad in [&PUBLIC[2..], &format!("{PUBLIC}00"), "not hex", &private] {
            assert!(Discord.check_secret(bad, &settings).is_err(), "{bad}");
            let refused = verify(&Discord, &vector(), &[bad]);
            assert!(matches!(refused, Err(Refusal::Unready(_))), "{refused:?}");
        }
    }

    #[test]
    fn a_ping_is_a_handshake_and_nothing_else_is() {
        let answer = |body: &str| {
            let request = interaction(body);
            Discord.signed_handshake(&request.as_request(), &Settings::new())
        };
        assert_eq!(answer(r#"{"id":"1","type":1}"#).unwrap().body, r#"{"type":1}"#);
        for other in [r#"{"type":2}"#, r#"{"data":{"type":1}}"#, "{}", "", "[1]"] {
            assert_eq!(answer(other), None, "{other}");
        }
    }

    #[test]
    fn a_command_is_told_to_wait_and_autocomplete_gets_no_suggestions() {
        let answer =
            |body| Discord.prescribed(&interaction(body).as_request(), &Settings::new()).unwrap();
        for body in [r#"{"type":2}"#, r#"{"type":3}"#, r#"{"type":5}"#, "not json"] {
            let answer = answer(body);
            assert_eq!((answer.status, answer.body.as_str()), (200, r#"{"type":5}"#));
        }
        assert_eq!(answer(r#"{"type":4}"#).body, r#"{"type":8,"data":{"choices":[]}}"#);
    }

    #[test]
    fn a_command_says_who_where_and_what() {
        let data = json!({"name": "ask", "type": 1, "options": [
            {"name": "question", "type": 3, "value": "Why?"},
            {"name": "private", "type": 5, "value": true},
            {"name": "days", "type": 4, "value": 30},
        ]});
        let mapped = mapped(command(data));
        assert_eq!(mapped.event_type, "interaction.command");
        assert_eq!(mapped.dedup_key.as_deref(), Some("175928847299117063"));
        assert_eq!(mapped.starts, Starts::Job);
        assert_eq!(mapped.occurred_at, "2016-04-30T11:18:25.796Z".parse().ok());
        let actor = mapped.actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.name.as_deref()), (Some("40"), Some("Mason")));
        assert!(actor.verified);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("discord"), "discord:channel:30");
        assert_eq!(subject.url.as_deref(), Some("https://discord.com/channels/20/30"));
        let message = mapped.message.unwrap();
        assert_eq!(message.text, "/ask question: Why? private: true days: 30");
        assert_eq!((message.thread_id.as_str(), message.trigger), ("10:20:30", Trigger::Command));
        assert_eq!(message.conversation_type, ConversationType::Channel);
    }

    #[test]
    fn subcommands_and_names_read_as_their_user_saw_them() {
        let data = json!({"name": "admin", "type": 1,
            "options": [{"name": "user", "type": 2, "options": [{"name": "add", "type": 1, "options": [
                {"name": "who", "type": 6, "value": "41"},
                {"name": "where", "type": 7, "value": "31"},
                {"name": "as", "type": 8, "value": "51"},
                {"name": "any", "type": 9, "value": "51"},
                {"name": "file", "type": 11, "value": "61"},
                {"name": "lost", "type": 6, "value": "49"},
            ]}]}],
            "resolved": {
                "users": {"41": {"username": "ida"}}, "channels": {"31": {"name": "ops"}},
                "roles": {"51": {"name": "Editors"}},
                "attachments": {"61": {"filename": "a.csv", "content_type": "text/csv", "size": 9,
                    "url": "https://cdn.example/a.csv"}},
            },
        });
        let message = mapped(command(data)).message.unwrap();
        let expected =
            "/admin user add who: @ida where: #ops as: @Editors any: @Editors file: a.csv lost: 49";
        assert_eq!(message.text, expected);
        assert_eq!(message.files.len(), 1);
        assert_eq!(message.files[0].url.as_deref(), Some("https://cdn.example/a.csv"));
    }

    #[test]
    fn a_menu_entry_says_what_it_was_used_on() {
        let on_message = json!({"name": "Summarize", "type": 3, "target_id": "9",
            "resolved": {"messages": {"9": {"content": "A long story"}}}});
        assert_eq!(text(on_message), "Summarize: A long story");
        let on_user = json!({"name": "Greet", "type": 2, "target_id": "9",
            "resolved": {"users": {"9": {"username": "ida"}}}});
        assert_eq!(text(on_user), "Greet: ida");
        assert_eq!(text(json!({"name": "Greet", "type": 2})), "Greet");
    }

    #[test]
    fn outside_a_server_every_user_has_a_thread_of_their_own() {
        let mut body = command(json!({"name": "ask", "type": 1}));
        body["guild_id"] = Value::Null;
        body["user"] = json!({"id": "40", "username": "mason"});
        body.as_object_mut().unwrap().remove("member");
        let message = mapped(body.clone()).message.unwrap();
        assert_eq!(message.thread_id, "10:dm:30:40");
        assert_eq!(message.conversation_type, ConversationType::Direct);
        body["context"] = 2.into();
        let message = mapped(body.clone()).message.unwrap();
        assert_eq!(message.conversation_type, ConversationType::Group);
        let url = mapped(body).subject.unwrap().url;
        assert_eq!(url.as_deref(), Some("https://discord.com/channels/@me/30"));
    }

    #[test]
    fn the_token_is_nowhere_in_what_is_handed_on() {
        let body = command(json!({"name": "ask", "type": 1})).to_string();
        let request = interaction(&body);
        let data = Discord.data(&request.as_request(), 0);
        assert_eq!(data["data"]["name"], "ask");
        assert!(!data.to_string().contains("tok_secret"));
        assert!(!format!("{:?}", map(&Discord, &request)).contains("tok_secret"));
    }

    #[test]
    fn each_kind_has_its_name_and_autocomplete_starts_nothing() {
        for (number, name, starts) in [
            (1, "interaction.ping", Starts::Nothing),
            (3, "interaction.component", Starts::Job),
            (4, "interaction.autocomplete", Starts::Nothing),
            (5, "interaction.modal", Starts::Job),
            (99, "interaction.unknown", Starts::Nothing),
        ] {
            let mut body = command(json!({"name": "ask"}));
            body["type"] = number.into();
            let mapped = mapped(body);
            assert_eq!((mapped.event_type.as_str(), mapped.starts), (name, starts));
            assert_eq!(mapped.message, None);
        }
    }

    #[test]
    fn a_button_is_about_the_message_it_stands_under() {
        let mut body = command(json!({"custom_id": "yes"}));
        body["type"] = 3.into();
        body["message"] = json!({"id": "77"});
        let subject = mapped(body).subject.unwrap();
        assert_eq!((subject.kind.as_str(), subject.id.as_str()), ("message", "30:77"));
        assert_eq!(subject.url.as_deref(), Some("https://discord.com/channels/20/30/77"));
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        for body in [
            json!({"id": "x", "type": 2}),
            json!({"id": "x", "type": 2, "data": [], "member": "m", "channel_id": {}, "user": 7}),
            json!({"id": "x", "type": 2, "data": {"name": {}, "options": {}}, "channel_id": 1.5}),
        ] {
            let mapped = mapped(body);
            assert_eq!(mapped.event_type, "interaction.command");
            assert_eq!((mapped.actor, mapped.subject, mapped.message), (None, None, None));
            assert_eq!(mapped.occurred_at, None);
        }
        assert_eq!(text(json!({"name": "ask", "options": [7, {"name": 1}, {"value": 2}]})), "/ask");
    }

    #[test]
    fn an_interaction_without_id_or_type_is_unmapped() {
        let error = |body: &str| map(&Discord, &interaction(body)).unwrap_err();
        assert_eq!(error(r#"{"type":2}"#), MapError::Missing("/id"));
        assert_eq!(error(r#"{"id":"1","type":"2"}"#), MapError::Missing("/type"));
        for body in ["", "x", r#"{"id":"1","id":"2","type":2}"#] {
            assert!(matches!(error(body), MapError::NotJson(_)), "{body}");
        }
        assert_eq!(
            error(&format!("{}1{}", "[".repeat(100), "]".repeat(100))),
            MapError::Missing("/id")
        );
    }
}
