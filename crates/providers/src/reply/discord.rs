//! Discord: the promised answer is filled in, and more follow, by the interaction's token while it lives.
//!
//! Afterwards the bot writes into the channel, if the source has its token.

use std::time::Duration;

use aws_lc_rs::digest;
use http::Method;
use serde_json::{Value, json};
use wakepost_domain::Timestamp;

use super::answer::{self, without};
use super::{
    Once, Outgoing, Replies, ReplyError, ReplyExchange, ReplyFailure, ReplyStep, authorize, base,
    segment, split,
};
use crate::discord::made_at;
use crate::payload::{self, id_at, text_at};
use crate::registration::{Answered, ApiCall};
use crate::settings;

const NAME: &str = "Discord";
const API_URL: &str = "https://discord.com/api/v10";
const CHARS_MAX: usize = 2_000;

/// How long the token of an interaction is good for, less the time that a call may take.
const TOKEN_LIVES: Duration = Duration::from_secs(15 * 60 - 10);

/// The message is not there, in the numbers of Discord.
const UNKNOWN_MESSAGE: u64 = 10_008;

/// The interaction's token is not known, in the numbers of Discord.
const UNKNOWN_WEBHOOK: u64 = 10_015;

/// A quick agent may answer before Discord has heard that an answer will come.
const PROMISE_ARRIVES: Duration = Duration::from_secs(30);

/// Replies as the application's answers to an interaction.
pub(crate) struct DiscordReplies;

impl Replies for DiscordReplies {
    fn parts(&self, text: &str) -> Vec<String> {
        // Discord reads Markdown.
        split::split(text, CHARS_MAX, str::to_owned)
    }

    fn post<'a>(
        &self,
        part: &Outgoing<'a>,
    ) -> Result<Box<dyn ReplyExchange + Send + 'a>, ReplyError> {
        let interaction = Interaction::read(part)?;
        let api = base(part.settings, "api_url", API_URL)?;
        let mut body = json!({"content": part.text, "allowed_mentions": {"parse": []}});
        let call = if interaction.is_open(part.now) {
            let (app, token) = (segment(&interaction.app)?, segment(&interaction.token)?);
            let place = format!("{api}/webhooks/{app}/{token}");
            match part.replaces {
                Some(id) => patch(format!("{place}/messages/{}", segment(id)?), &body),
                None if part.is_first => patch(format!("{place}/messages/@original"), &body),
                None => ApiCall::json(format!("{place}?wait=true"), &body),
            }
        } else {
            let place = format!("{api}/channels/{}/messages", segment(&interaction.channel()?)?);
            let mut call = match part.replaces {
                Some(id) => patch(format!("{place}/{}", segment(id)?), &body),
                None => {
                    body["nonce"] = nonce(part.key).into();
                    body["enforce_nonce"] = true.into();
                    ApiCall::json(place, &body)
                }
            };
            authorize(&mut call, "Bot", bot_token(part)?, "bot_token")?;
            call
        };
        let (replaces, now) = (part.replaces.is_some(), part.now);
        Ok(Box::new(Once::new(call, move |answered| read(answered, &interaction, replaces, now))))
    }

    /// The promised answer is filled in as often as one likes; what follows it is new each time.
    fn is_repeatable(&self, part: &Outgoing<'_>) -> bool {
        let is_open = || Interaction::read(part).is_ok_and(|one| one.is_open(part.now));
        part.replaces.is_some() || part.is_first && is_open()
    }

    fn can_update(&self) -> bool {
        true
    }
}

fn patch(url: String, body: &Value) -> ApiCall {
    ApiCall { method: Method::PATCH, ..ApiCall::json(url, body) }
}

/// Discord drops a message with a nonce that it saw some minutes ago; it may have 25 characters.
fn nonce(key: &str) -> String {
    let hash = digest::digest(&digest::SHA256, key.as_bytes());
    hex::encode(&hash.as_ref()[..12])
}

fn bot_token<'a>(part: &Outgoing<'a>) -> Result<&'a str, ReplyError> {
    settings::text(part.settings, "bot_token")?.ok_or_else(|| {
        ReplyError::unanswerable(
            "it is older than 15 minutes, after which Discord takes answers only with bot_token, which is not set",
        )
    })
}

struct Interaction {
    app: String,
    token: String,
    channel: Option<String>,
    made_at: Timestamp,
}

impl Interaction {
    fn read(part: &Outgoing<'_>) -> Result<Interaction, ReplyError> {
        const PING: u64 = 1;
        const AUTOCOMPLETE: u64 = 4;
        let unanswerable = || ReplyError::unanswerable("it is no interaction of Discord's");
        let whole = payload::whole(part.event()?.0.body).map_err(|_| unanswerable())?;
        if matches!(whole["type"].as_u64(), None | Some(PING | AUTOCOMPLETE)) {
            return Err(unanswerable());
        }
        let made = id_at(&whole, "/id").and_then(|id| made_at(&id));
        Ok(Interaction {
            app: id_at(&whole, "/application_id").ok_or_else(unanswerable)?,
            token: text_at(&whole, "/token").ok_or_else(unanswerable)?.to_owned(),
            channel: id_at(&whole, "/channel_id"),
            made_at: made.ok_or_else(unanswerable)?,
        })
    }

    fn is_open(&self, now: Timestamp) -> bool {
        now.since(self.made_at) < TOKEN_LIVES
    }

    fn channel(&self) -> Result<String, ReplyError> {
        let channel = self.channel.clone();
        channel.ok_or_else(|| {
            ReplyError::unanswerable("it is older than 15 minutes and in no channel")
        })
    }
}

fn read(
    answered: &Answered<'_>,
    interaction: &Interaction,
    replaces: bool,
    now: Timestamp,
) -> ReplyStep {
    let said = answer::json(answered);
    if let Some(id) = id_at(&said, "/id").filter(|_| answered.status.is_success()) {
        return ReplyStep::Posted(Some(id));
    }
    let told = text_at(&said, "/message").map(|text| without(text, &interaction.token));
    let failure = answer::failure(answered, true, NAME, told.as_deref());
    let wait = said.get("retry_after").and_then(Value::as_f64);
    let code = said.get("code").and_then(Value::as_u64);
    if code == Some(UNKNOWN_WEBHOOK) && now.since(interaction.made_at) < PROMISE_ARRIVES {
        let retry_after = Some(Duration::from_secs(2));
        return ReplyStep::Failed(ReplyFailure { retryable: true, retry_after, ..failure });
    }
    ReplyStep::Failed(ReplyFailure {
        retry_after: wait.and_then(answer::seconds).or(failure.retry_after),
        replaced_is_gone: replaces && code == Some(UNKNOWN_MESSAGE),
        ..failure
    })
}
