//! The channel that Google pushes through: opened by set-up, and again before it ends.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wakepost_domain::Timestamp;

use super::changes::{Position, sound};
use super::{SCOPE, api_url};
use crate::exchange::{Exchange, Failure, Step};
use crate::freshness::Unit;
use crate::google::token::{token_call, token_of};
use crate::payload::text_at;
use crate::registration::{Answered, ApiCall, Registered, Registering};
use crate::settings::{ConfigError, Settings};

/// How long a channel is asked for.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// What is kept of the channels of a source.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Channels {
    /// The one that sends.
    channel: Option<Channel>,
    /// The one before it, whose last pushes may still be on their way.
    previous: Option<Channel>,
    /// One that is about to be opened: Google greets before it answers.
    opening: Option<String>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Channel {
    id: String,
    resource_id: String,
    expires_at: Timestamp,
}

impl Channels {
    fn read(kept: Option<&Value>) -> Channels {
        kept.and_then(|kept| serde_json::from_value(kept.clone()).ok()).unwrap_or_default()
    }

    fn value(&self) -> Value {
        serde_json::to_value(self).expect("channels are plain data")
    }
}

/// The channels that may send, as settings.
pub(super) fn settings(registration: &Value) -> Settings {
    let Channels { channel, previous, opening } = Channels::read(Some(registration));
    let known = [channel, previous].into_iter().flatten().map(|channel| channel.id);
    let mut ids = known.chain(opening);
    let mut settings = Settings::new();
    if let Some(current) = ids.next() {
        settings.insert("channel_id".to_owned(), current.into());
        let others: Vec<String> = ids.collect();
        settings.insert("previous_channel_id".to_owned(), others.join(",").into());
    }
    settings
}

/// Opening a channel.
pub(super) struct Opening<'a> {
    at: Registering<'a>,
    stage: Stage,
    before: Channels,
    token: String,
    page_token: Option<String>,
}

/// What the next answer is to.
enum Stage {
    Start,
    Token,
    PageToken,
    Kept,
    Watch,
}

impl<'a> Opening<'a> {
    pub(super) fn new(at: Registering<'a>) -> Opening<'a> {
        let page_token = at.position.and_then(Position::read).map(|position| position.page_token);
        let before = Channels::read(at.before);
        Opening { at, stage: Stage::Start, before, token: String::new(), page_token }
    }

    fn step(&mut self, answered: Option<&Answered<'_>>) -> Result<Step<Registered>, Failure> {
        let answer = || answered.ok_or_else(|| Failure::passing("the call was not answered"));
        match self.stage {
            Stage::Start => {
                self.stage = Stage::Token;
                Ok(Step::Call(token_call(self.at.at.settings, SCOPE, self.at.now)?))
            }
            Stage::Token => {
                let answered = answer()?;
                self.token = token_of(answered)
                    .map_err(|error| Failure { error, ..Failure::of("Google", answered) })?;
                match self.page_token {
                    Some(_) => Ok(self.keep()),
                    None => {
                        self.stage = Stage::PageToken;
                        Ok(Step::Call(self.start_page_token()?))
                    }
                }
            }
            Stage::PageToken => {
                let told = sound(answer()?)?;
                let token = text_at(&told, "/startPageToken");
                let token = token.ok_or_else(|| Failure::passing("Google told no page token"))?;
                self.page_token = Some(token.to_owned());
                Ok(self.keep())
            }
            Stage::Kept => {
                self.stage = Stage::Watch;
                Ok(Step::Call(self.watch()?))
            }
            Stage::Watch => Ok(Step::Done(self.opened(&sound(answer()?)?)?)),
        }
    }

    fn start_page_token(&self) -> Result<ApiCall, ConfigError> {
        let query = [("supportsAllDrives", "true")];
        let url = api_url(self.at.at.settings, "changes/startPageToken", &query)?;
        ApiCall::get(url, &self.token)
    }

    fn keep(&mut self) -> Step<Registered> {
        self.stage = Stage::Kept;
        let opening = Some(self.at.fresh_id.clone());
        Step::Keep(Channels { opening, ..self.before.clone() }.value())
    }

    fn watch(&self) -> Result<ApiCall, ConfigError> {
        let query = [
            ("pageToken", self.page_token.as_deref().unwrap_or_default()),
            ("includeItemsFromAllDrives", "true"),
            ("supportsAllDrives", "true"),
        ];
        let body = json!({
            "id": self.at.fresh_id,
            "type": "web_hook",
            "address": self.at.at.webhook_url,
            "token": self.at.at.secret,
            "expiration": self.at.now.after(LIFETIME).as_millis().to_string(),
        });
        let url = api_url(self.at.at.settings, "changes/watch", &query)?;
        ApiCall::json(url, &body).with_token(&self.token)
    }

    fn opened(&self, told: &Value) -> Result<Registered, Failure> {
        let odd = |what: &str| Failure::passing(format!("Google opened a channel without {what}"));
        let expires_at = text_at(told, "/expiration").and_then(|text| Unit::Millis.read(text));
        let expires_at = expires_at.ok_or_else(|| odd("saying when it ends"))?;
        let resource_id = text_at(told, "/resourceId").ok_or_else(|| odd("a resource"))?;
        let (id, resource_id) = (self.at.fresh_id.clone(), resource_id.to_owned());
        let position = match (self.at.position, &self.page_token) {
            (None, Some(token)) => Some(Position::start(token, self.at.now)),
            _ => None,
        };
        let ends = self.before.channel.as_ref().filter(|channel| channel.expires_at > self.at.now);
        let channels = Channels {
            channel: Some(Channel { id, resource_id, expires_at }),
            previous: self.before.channel.clone(),
            opening: None,
        };
        Ok(Registered {
            registration: Some(channels.value()),
            expires_at: Some(expires_at),
            position,
            after: ends.map(|channel| self.stop(channel)).transpose()?,
        })
    }

    /// Ends a channel, so that no change is told twice.
    fn stop(&self, channel: &Channel) -> Result<ApiCall, ConfigError> {
        let body = json!({"id": channel.id, "resourceId": channel.resource_id});
        let url = api_url(self.at.at.settings, "channels/stop", &[])?;
        ApiCall::json(url, &body).with_token(&self.token)
    }
}

impl Exchange<Registered> for Opening<'_> {
    fn next(&mut self, answered: Option<&Answered<'_>>) -> Step<Registered> {
        self.step(answered).into()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, StatusCode};

    use super::*;
    use crate::google::token::tests::service_account;
    use crate::registration::Registration;
    use crate::testing::{self, NOW};

    fn account() -> Settings {
        let account = service_account("https://token.example/t");
        testing::settings(&[("service_account", &account), ("api_url", "https://api.example")])
    }

    /// Opens a channel named `id`; also says what was called and kept on the way.
    fn open(
        id: &str,
        before: Option<&Value>,
        position: Option<&Value>,
    ) -> (Registered, Vec<ApiCall>, Vec<Value>) {
        let settings = account();
        let webhook_url = "https://hooks.example/in/src_1";
        let at = Registration { webhook_url, secret: "s3", settings: &settings };
        let fresh_id = id.to_owned();
        let mut opening = Opening::new(Registering { at, before, position, fresh_id, now: NOW });
        let (mut calls, mut kept) = (Vec::new(), Vec::new());
        let mut step = opening.next(None);
        loop {
            step = match step {
                Step::Done(registered) => return (registered, calls, kept),
                Step::Failed(failure) => panic!("{failure:?}"),
                Step::Keep(value) => {
                    kept.push(value);
                    opening.next(None)
                }
                Step::Call(call) => {
                    let ends = NOW.after(Duration::from_secs(3600)).as_millis().to_string();
                    let told = match call.url.split('?').next().unwrap() {
                        "https://token.example/t" => json!({"access_token": "t1"}),
                        "https://api.example/drive/v3/changes/startPageToken" => {
                            json!({"startPageToken": "4711"})
                        }
                        "https://api.example/drive/v3/changes/watch" => {
                            json!({"id": id, "resourceId": format!("of {id}"), "expiration": ends})
                        }
                        other => panic!("{other}"),
                    };
                    calls.push(call);
                    let (headers, body) = (HeaderMap::new(), told.to_string());
                    let status = StatusCode::OK;
                    opening.next(Some(&Answered {
                        status,
                        headers: &headers,
                        body: body.as_bytes(),
                    }))
                }
            };
        }
    }

    fn accepted(registration: &Value) -> Vec<String> {
        let settings = settings(registration);
        super::super::channels(&settings).unwrap().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn set_up_opens_a_channel_that_is_accepted_before_it_is_open() {
        let (registered, calls, kept) = open("new", None, None);
        assert_eq!(calls.len(), 3);
        let body: Value = serde_json::from_slice(&calls[2].body).unwrap();
        let ends = NOW.after(LIFETIME).as_millis().to_string();
        assert_eq!(
            body,
            json!({"id": "new", "type": "web_hook", "address": "https://hooks.example/in/src_1",
                "token": "s3", "expiration": ends})
        );
        assert!(calls[2].url.contains("?pageToken=4711&"));
        assert_eq!(accepted(&kept[0]), ["new"]);
        assert_eq!(accepted(&registered.registration.unwrap()), ["new"]);
        assert_eq!(registered.expires_at, Some(NOW.after(Duration::from_secs(3600))));
        assert_eq!(registered.position, Some(Position::start("4711", NOW)));
        assert!(registered.after.is_none());
    }

    #[test]
    fn a_renewal_reads_on_where_it_was_and_ends_the_channel_before() {
        let first = open("old", None, None).0;
        let (before, position) = (first.registration.as_ref(), first.position.as_ref());
        let (renewed, calls, kept) = open("new", before, position);
        assert_eq!(calls.len(), 2, "the page token is known");
        assert_eq!(accepted(&kept[0]), ["old", "new"]);
        assert_eq!(accepted(renewed.registration.as_ref().unwrap()), ["new", "old"]);
        assert_eq!(renewed.position, None);
        let stop = renewed.after.unwrap();
        assert_eq!(stop.url, "https://api.example/drive/v3/channels/stop");
        let body: Value = serde_json::from_slice(&stop.body).unwrap();
        assert_eq!(body, json!({"id": "old", "resourceId": "of old"}));
        let (third, _, kept) = open("newest", renewed.registration.as_ref(), position);
        assert_eq!(accepted(&kept[0]), ["new", "old", "newest"]);
        assert_eq!(accepted(&third.registration.unwrap()), ["newest", "new"]);
    }

    #[test]
    fn what_is_kept_of_no_registration_sets_nothing() {
        assert!(settings(&json!({})).is_empty() && settings(&json!(7)).is_empty());
    }
}
