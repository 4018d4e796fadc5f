//! Google Docs and Drive: a push without a body, known by the channel that set-up opened and by its token.
//!
//! A push says only that something changed. What did is read from the Drive API (`changes`): each comment that names
//! the agent becomes an event of its own (`comment`). The channel is opened and renewed by `watch`.

mod agent;
mod changes;
mod comment;
mod watch;

use serde_json::Value;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Mapped, Starts, Subject};
use wakepost_domain::ports::Entropy;
use wakepost_domain::work::Priority;

use crate::exchange::Exchange;
use crate::expansion::{Announces, Expanding, Expansion};
use crate::mapping::{self, MapError};
use crate::provider::{Answer, Facts, Provider, SecretNeed, SignedHeader};
use crate::registration::{Registered, Registering};
use crate::reply::Replies;
use crate::reply::google_docs::GoogleDocsReplies;
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{self, ConfigError, Setting, Settings};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload, signature};

/// Where its API is.
const API_URL: &str = "https://www.googleapis.com";

/// What a token must allow: to read what changed, and the comments on it.
const SCOPE: &str = "https://www.googleapis.com/auth/drive.readonly";

const CHANNEL: &str = "X-Goog-Channel-ID";
const TOKEN: &str = "X-Goog-Channel-Token";
const NUMBER: &str = "X-Goog-Message-Number";
const STATE: &str = "X-Goog-Resource-State";
const RESOURCE: &str = "X-Goog-Resource-ID";

/// The first message of a channel, which says only that it is open.
const SYNC: &str = "sync";

/// What happens to the documents that a service account may read.
pub(crate) struct GoogleDocs;

impl Provider for GoogleDocs {
    fn name(&self) -> &'static str {
        "google-docs"
    }

    fn facts(&self) -> Facts {
        Facts {
            signs_body: false,
            id_is_signed: false,
            priority: Priority::Interactive,
            secret: SecretNeed::Generated,
            ..Facts::usual("Google Docs")
        }
    }

    /// Google has no form for it.
    fn steps(&self, webhook_url: &str) -> Vec<String> {
        vec![
            "Share the documents with the address of the service account.".to_owned(),
            format!(
                "Let Wakepost set the source up: it opens a channel to {webhook_url} and renews it in time."
            ),
        ]
    }

    fn registering<'a>(
        &'a self,
        at: Registering<'a>,
    ) -> Option<Box<dyn Exchange<Registered> + 'a>> {
        settings::text(at.at.settings, "service_account").ok()??;
        Some(Box::new(watch::Opening::new(at)))
    }

    fn keeps_registration(&self) -> bool {
        true
    }

    fn registered_settings(&self, registration: &Value) -> Settings {
        watch::settings(registration)
    }

    fn announces(&self, mapped: &Mapped) -> Option<Announces> {
        mapped.message.is_none().then_some(Announces::Others)
    }

    fn expand<'a>(
        &'a self,
        what: Expanding<'a>,
    ) -> Result<Option<Box<dyn Exchange<Expansion> + 'a>>, ConfigError> {
        Ok(Some(Box::new(changes::Reading::new(&what)?)))
    }

    fn data(&self, request: &Request<'_>, _part: usize) -> Value {
        match request.fetched {
            Some(found) => serde_json::from_slice(found).unwrap_or_default(),
            None => payload::data(request),
        }
    }

    fn settings(&self) -> &'static [Setting] {
        SETTINGS
    }

    fn signed_handshake(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        let state = header::one(request.headers, STATE).ok()?;
        (state == SYNC).then(|| Answer::ok("text/plain", ""))
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SignedHeader::exact("x-goog-channel-token"), SignedHeader::exact("x-goog-channel-id")]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let token = header::one(request.headers, TOKEN)?;
        let channel = header::one(request.headers, CHANNEL)?;
        let open = channels(check.settings).map_err(Refusal::Unready)?;
        // No short cut: which of the two it is must not show in the time it takes.
        let is_open = open.iter().fold(false, |found, open| {
            found | signature::equal(channel.as_bytes(), open.as_bytes())
        });
        if !is_open {
            return Err(Why::malformed(CHANNEL, "a channel that this source has open").into());
        }
        let secret_index = check
            .secret_that(|secret| Ok(signature::equal(token.as_bytes(), secret.as_bytes())))?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, settings: &Settings) -> Result<Vec<Mapped>, MapError> {
        if let Some(found) = request.fetched {
            return mapping::one(comment::map(found, settings)?);
        }
        let state = header::one(request.headers, STATE)?;
        let channel = header::one(request.headers, CHANNEL)?;
        let number = header::one(request.headers, NUMBER)?;
        let resource = header::optional(request.headers, RESOURCE).ok().flatten();
        mapping::one(Mapped {
            // Each channel counts from 1, so a number alone would come again with the next channel.
            dedup_key: Some(format!("{channel}:{number}")),
            event_type: state.to_owned(),
            starts: if state == SYNC { Starts::Nothing } else { Starts::Job },
            subject: resource.map(|id| Subject {
                kind: "resource".to_owned(),
                id: id.to_owned(),
                // The push names an address of the API only, which is nothing for a person.
                url: None,
            }),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
    }

    fn generate_secret(&self, _: &Settings, entropy: &dyn Entropy) -> Option<String> {
        Some(hex::encode(signature::random_key(entropy)))
    }

    fn replies(&self) -> Option<&'static dyn Replies> {
        Some(&GoogleDocsReplies)
    }

    fn samples(&self) -> &'static [Sample] {
        SAMPLES
    }

    fn sign(
        &self,
        request: &mut SignedRequest,
        secret: &str,
        settings: &Settings,
        id: &str,
        _: Timestamp,
    ) -> Result<(), ConfigError> {
        let channel = channels(settings)?[0];
        request.set(CHANNEL, channel)?;
        request.set(TOKEN, secret)?;
        request.set(NUMBER, id)?;
        if !request.headers.contains_key(STATE) {
            request.set(STATE, "change")?;
        }
        Ok(())
    }
}

const SETTINGS: &[Setting] = &[
    Setting::required(
        "service_account",
        "Service account",
        "The JSON key of a Google service account. Share the documents with its address, or it hears nothing.",
    )
    .secret()
    .example(r#"{"type":"service_account","client_email":"agent@acme.iam.gserviceaccount.com"}"#),
    Setting::required(
        "channel_id",
        "Watch channel",
        "Which of Google's channels may send here. Set-up opens one, and then it counts in place of this.",
    )
    .example("6a1f0c52-9b1e-4f0e-a3f5-0d6f8a2b7c11"),
    Setting::optional(
        "previous_channel_id",
        "Watch channel before",
        "Further channels that may send here, with commas between. Set-up knows them; you need not.",
    ),
    Setting::optional(
        "folder_id",
        "Folder",
        "Only documents in this folder, by the id in its address; all that are shared if left out.",
    ),
    Setting::optional(
        "mention",
        "Mention",
        "What names the agent in a comment, such as @agent; the service account's own address if left out.",
    ),
    Setting::optional(
        "api_url",
        "API address",
        "Where Google's API is, if not at https://www.googleapis.com.",
    )
.destination(),
];

static SAMPLES: &[Sample] = &[
    Sample::json("change", "").with_headers(&[
        ("x-goog-resource-state", "change"),
        ("x-goog-resource-id", "o3hgv1538sdjfh"),
        (
            "x-goog-resource-uri",
            "https://www.googleapis.com/drive/v3/changes?alt=json&pageToken=4711",
        ),
    ]),
    Sample::json("update", "").with_headers(&[
        ("x-goog-resource-state", "update"),
        ("x-goog-changed", "content,properties"),
        ("x-goog-resource-id", "ret08u3rv24htgh289g"),
        (
            "x-goog-resource-uri",
            "https://www.googleapis.com/drive/v3/files/1AcmeLaunchPlan?alt=json",
        ),
    ]),
];

/// The channels that may send: the current one first, and those before and after it.
fn channels(settings: &Settings) -> Result<Vec<&str>, ConfigError> {
    let current = settings::text(settings, "channel_id")?.ok_or_else(|| {
        ConfigError::new("channel_id", "is not set: set-up has not opened a channel")
    })?;
    let others = settings::list(settings, "previous_channel_id")?;
    Ok(std::iter::once(current).chain(others).collect())
}

/// An address of the Drive API.
fn api_url(settings: &Settings, path: &str, query: &[(&str, &str)]) -> Result<String, ConfigError> {
    let base = settings::text(settings, "api_url")?.unwrap_or(API_URL).trim_end_matches('/');
    let mut pairs = form_urlencoded::Serializer::new(String::new());
    pairs.extend_pairs(query);
    let query = pairs.finish();
    let mark = if query.is_empty() { "" } else { "?" };
    Ok(format!("{base}/drive/v3/{path}{mark}{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, settings, verify_with};

    const SECRET: &str = "398348u3tu83ut8uu38";

    fn push(channel: &str, state: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", "");
        request.set(STATE, state).unwrap();
        let settings = settings(&[("channel_id", channel)]);
        GoogleDocs.sign(&mut request, SECRET, &settings, "10", NOW).unwrap();
        request
    }

    fn verdict(request: &SignedRequest, pairs: &[(&str, &str)]) -> Result<Verified, Refusal> {
        verify_with(&GoogleDocs, request, &[SECRET], &settings(pairs), NOW)
    }

    #[test]
    fn the_channel_before_the_renewal_is_still_heard_and_no_other() {
        let both = [("channel_id", "new"), ("previous_channel_id", "old")];
        for channel in ["new", "old"] {
            assert!(verdict(&push(channel, "change"), &both).is_ok(), "{channel}");
        }
        for channel in ["other", "ne", "new1", "NEW"] {
            let refused = verdict(&push(channel, "change"), &both);
            assert!(matches!(refused, Err(Refusal::Signature(Why::Malformed { .. }))), "{channel}");
        }
        let refused = verdict(&push("old", "change"), &[("channel_id", "new")]);
        assert!(matches!(refused, Err(Refusal::Signature(_))));
    }

    #[test]
    fn a_source_without_a_channel_is_not_ready() {
        for pairs in [&[][..], &[("previous_channel_id", "old")], &[("channel_id", "")]] {
            let refused = verdict(&push("old", "change"), pairs);
            assert!(matches!(&refused, Err(Refusal::Unready(e)) if e.field == "channel_id"));
        }
    }

    #[test]
    fn the_first_message_of_a_channel_is_answered_and_starts_nothing() {
        let sync = push("new", "sync");
        let answer = GoogleDocs.signed_handshake(&sync.as_request(), &Settings::new());
        assert_eq!(answer, Some(Answer::ok("text/plain", "")));
        assert_eq!(map(&GoogleDocs, &sync).unwrap().starts, Starts::Nothing);
        let change = push("new", "change");
        assert_eq!(GoogleDocs.signed_handshake(&change.as_request(), &Settings::new()), None);
    }

    #[test]
    fn a_push_is_known_by_its_number_in_its_channel() {
        let mut request = push("new", "change");
        request.set(RESOURCE, "res1").unwrap();
        let mapped = map(&GoogleDocs, &request).unwrap();
        assert_eq!((mapped.event_type.as_str(), mapped.starts), ("change", Starts::Job));
        assert_eq!(mapped.dedup_key.as_deref(), Some("new:10"));
        assert_eq!(mapped.subject.unwrap().text("google-docs"), "google-docs:resource:res1");
        let other = map(&GoogleDocs, &push("newer", "change")).unwrap();
        assert_eq!(other.dedup_key.as_deref(), Some("newer:10"));
        assert!(GoogleDocs.data(&request.as_request(), 0).is_null());
    }

    #[test]
    fn a_push_without_what_names_it_is_unmapped_and_without_the_rest_is_not() {
        for name in [STATE, CHANNEL, NUMBER] {
            let mut request = push("new", "change");
            request.headers.remove(name);
            assert!(matches!(map(&GoogleDocs, &request), Err(MapError::Header(_))), "{name}");
        }
        let mut request = push("new", "change");
        request.headers.append(RESOURCE, "a".parse().unwrap());
        request.headers.append(RESOURCE, "b".parse().unwrap());
        assert_eq!(map(&GoogleDocs, &request).unwrap().subject, None);
    }
}
