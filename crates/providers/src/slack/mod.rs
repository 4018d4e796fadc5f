//! Slack: `v0` signatures over time and body, the same for JSON events and for the forms of commands and buttons.
//!
//! [`event`] maps what is said and done in a workspace, [`form`] what people type after a slash or press; this file
//! checks, signs and holds what both share. Nothing here calls Slack.

mod event;
mod form;

use std::time::Duration;

use aws_lc_rs::hmac::HMAC_SHA256;
use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::Mapped;
use wakepost_domain::work::Priority;

use crate::form::says_form;
use crate::freshness::Unit;
use crate::mapping::MapError;
use crate::provider::{Answer, Facts, Provider, SignedHeader};
use crate::reply::Replies;
use crate::reply::slack::SlackReplies;
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::signature::{self, Encoding};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const SIGNATURE: &str = "X-Slack-Signature";
pub(crate) const REQUEST_TIME: &str = "X-Slack-Request-Timestamp";

/// A Slack app.
pub(crate) struct Slack;

impl Provider for Slack {
    fn name(&self) -> &'static str {
        "slack"
    }

    fn facts(&self) -> Facts {
        Facts {
            patience: Duration::from_secs(3),
            priority: Priority::Interactive,
            retry_header: Some("X-Slack-Retry-Num"),
            ..Facts::usual("Slack")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("api.slack.com/apps → your app → Event Subscriptions → Request URL")
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn check_settings(&self, settings: &Settings) -> Result<(), ConfigError> {
        match settings::text(settings, ALERTS_CHANNEL)? {
            Some(id) if !is_channel_id(id) => {
                let message = "must be a channel's id, such as C0123ABCD, not its name";
                Err(ConfigError::new(ALERTS_CHANNEL, message))
            }
            _ => Ok(()),
        }
    }

    fn signed_handshake(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        if says_form(request.headers) {
            return None;
        }
        let [kind, challenge] = payload::pick(request.body, ["/type", "/challenge"]).ok()?;
        let challenge = challenge.filter(|_| kind.as_deref() == Some("url_verification"))?;
        Some(Answer::ok("text/plain", challenge))
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![
            SignedHeader::hex("x-slack-signature"),
            SignedHeader::exact("x-slack-request-timestamp"),
        ]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let given = header::one(request.headers, SIGNATURE)?
            .strip_prefix("v0=")
            .and_then(|text| Encoding::Hex.decode(text))
            .ok_or_else(|| Why::malformed(SIGNATURE, "v0= and hex digits"))?;
        let time_text = header::one(request.headers, REQUEST_TIME)?;
        let time = Unit::Seconds
            .read(time_text)
            .ok_or_else(|| Why::malformed(REQUEST_TIME, Unit::Seconds.expected()))?;
        let parts = [b"v0:", time_text.as_bytes(), b":", request.body];
        let given = [given];
        let secret_index = check.secret_that(|secret| {
            Ok(signature::hmac_fits(HMAC_SHA256, secret.as_bytes(), &parts, &given))
        })?;
        check.fresh(time)?;
        Ok(Verified { secret_index, signed_at: Some(time) })
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        match says_form(request.headers) {
            true => form::map(request, settings),
            false => event::map(request, settings),
        }
    }

    fn data(&self, request: &Request<'_>, _: usize) -> Value {
        form::interaction(request).unwrap_or_else(|| payload::data(request))
    }

    /// Slack shows the answer to a command or a button to the person who gave it, and wants a 200.
    fn prescribed(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        says_form(request.headers).then(|| Answer::ok("text/plain", ""))
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&SlackReplies)
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
        let time = Unit::Seconds.write(now);
        let parts = [b"v0:", time.as_bytes(), b":", &request.body];
        let tag = hex::encode(signature::hmac(HMAC_SHA256, secret.as_bytes(), &parts));
        request.set(REQUEST_TIME, &time)?;
        request.set(SIGNATURE, &format!("v0={tag}"))
    }
}

pub(crate) const ALERTS_CHANNEL: &str = "alerts_channel";

const SETTINGS: &[Setting] = &[
    Setting::for_replies(
        "bot_token",
        "Bot token",
        "The Bot User OAuth Token of the app, from its OAuth & Permissions page. Replies are sent with it.",
    )
    .secret()
    .example("xoxb-…"),
    Setting::optional(
        "allowed_teams",
        "Allowed workspaces",
        "The ids of the workspaces whose people may start a job, with commas between; everybody if left out.",
    )
    .example("T0123ABCD"),
    Setting::optional(
        "bot_user_id",
        "Bot user id",
        "The user id of the app's bot, if Slack does not name it in its events. Its own messages never start a job.",
    )
    .example("U0456EFGH"),
    Setting::optional(
        ALERTS_CHANNEL,
        "Channel for alerts",
        "The id of the channel where the bot tells what is wrong with this tenant, and when that is over. It needs the bot token, and the bot must be in the channel.",
    )
    .example("C0123ABCD"),
    Setting::optional(
        "api_url",
        "API address",
        "Where Slack's API is, if not at https://slack.com/api.",
    )
.destination(),
];

const FORM: &str = "application/x-www-form-urlencoded";

static SAMPLES: &[Sample] = &[
    Sample::json("app_mention", include_str!("../../fixtures/slack/app_mention.json")),
    Sample::json("message", include_str!("../../fixtures/slack/message.json")),
    Sample {
        content_type: FORM,
        ..Sample::json("slash_command", include_str!("../../fixtures/slack/slash_command.form"))
    },
    Sample {
        content_type: FORM,
        ..Sample::json(
            "interaction.block_actions",
            include_str!("../../fixtures/slack/interaction.block_actions.form"),
        )
    },
];

/// Whether people of all these workspaces may start a job.
fn allows(settings: &Settings, teams: &[Option<&str>]) -> Result<bool, MapError> {
    let allowed = settings::list(settings, "allowed_teams").map_err(MapError::Settings)?;
    Ok(allowed.is_empty() || teams.iter().flatten().all(|team| allowed.contains(team)))
}

/// Whether it is the id of a channel, public or private. Only by its id can what was posted there be found again.
fn is_channel_id(text: &str) -> bool {
    let is_plain = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit();
    text.starts_with(['C', 'G']) && (9..=20).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The conversation: a message in a channel starts one, and its thread goes on with it.
fn thread_id(app: Option<&str>, team: &str, channel: &str, start: &str) -> String {
    // Slack has not always told the app's id; a source is one app's anyway.
    format!("{}:{team}:{channel}:{start}", app.unwrap_or("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, NOW, verify, verify_at};

    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";

    fn vector() -> SignedRequest {
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow\
            &channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner\
            &command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands\
            %2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN\
            &trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        request.set("content-type", FORM).unwrap();
        request.set(REQUEST_TIME, "1531420618").unwrap();
        let tag = "a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        request.set(SIGNATURE, &format!("v0={tag}")).unwrap();
        request
    }

    const AT: Timestamp = Timestamp::from_secs(1_531_420_618);

    #[test]
    fn the_published_vector_is_accepted() {
        let verified = verify_at(&Slack, &vector(), &[SECRET], AT);
        assert_eq!(verified, Ok(Verified { secret_index: 0, signed_at: Some(AT) }));
        let stale = verify(&Slack, &vector(), &[SECRET]);
        assert!(matches!(stale, Err(Refusal::Stale { .. })));
    }

    #[test]
    fn a_malformed_signature_or_time_is_refused_as_forged_and_never_as_stale() {
        let good = vector().headers[SIGNATURE].to_str().unwrap().to_owned();
        let bare = &good["v0=".len()..];
        for bad in
            [bare, "v0=", "v0", "v1=00", &good.replace("v0", "v1"), &format!("{good},{good}")]
        {
            let mut request = vector();
            request.set(SIGNATURE, bad).unwrap();
            let refused = verify_at(&Slack, &request, &[SECRET], AT);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
        for bad in ["1531420618x", "-1531420618", "1531420618000", "1531420618.0", "1"] {
            let mut request = vector();
            request.set(REQUEST_TIME, bad).unwrap();
            let refused = verify_at(&Slack, &request, &[SECRET], AT);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn the_first_request_is_answered_with_its_own_challenge() {
        let body = r#"{"token":"t","challenge":"3eZbrw1a","type":"url_verification"}"#;
        let mut request = SignedRequest::post("https://hooks.example/", body);
        Slack.sign(&mut request, SECRET, &Settings::new(), "", NOW).unwrap();
        assert!(verify(&Slack, &request, &[SECRET]).is_ok());
        let answer = Slack.signed_handshake(&request.as_request(), &Settings::new());
        assert_eq!(answer, Some(Answer::ok("text/plain", "3eZbrw1a")));
    }

    #[test]
    fn the_channel_for_alerts_is_named_by_its_id() {
        let checked = |id: &str| {
            let settings = testing::settings(&[("alerts_channel", id), ("bot_token", "xoxb-1")]);
            Slack.check_config(Some(SECRET), &settings)
        };
        for good in ["C0123ABCD", "G0123ABCDEF", ""] {
            assert_eq!(checked(good), Ok(Vec::new()), "{good}");
        }
        for bad in ["#alerts", "alerts", "c0123abcd", "U0123ABCD", "C0123-BCD", "C01", " C0123ABCD"]
        {
            assert_eq!(checked(bad).unwrap_err().field, "alerts_channel", "{bad}");
        }
    }

    #[test]
    fn nothing_else_is_a_handshake() {
        for body in [
            r#"{"type":"event_callback","challenge":"c"}"#,
            r#"{"type":"url_verification"}"#,
            r#"{"type":"url_verification","challenge":["c"]}"#,
            r#"{"type":"url_verification","challenge":"a","challenge":"b"}"#,
            "",
        ] {
            let request = SignedRequest::post("https://hooks.example/", body);
            assert_eq!(Slack.signed_handshake(&request.as_request(), &Settings::new()), None);
        }
    }

    #[test]
    fn a_command_is_answered_with_an_empty_200_and_an_event_as_usual() {
        let answer = Slack.prescribed(&vector().as_request(), &Settings::new());
        assert_eq!(answer, Some(Answer::ok("text/plain", "")));
        let event = SignedRequest::post("https://hooks.example/", "{}");
        assert_eq!(Slack.prescribed(&event.as_request(), &Settings::new()), None);
    }
}
