//! Intercom: `X-Hub-Signature` with HMAC-SHA1 over the body; everything else is in the body.

use std::time::Duration;

use http::Method;
use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Actor, Mapped, Starts, Subject};

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::payload::Found;
use crate::provider::{Answer, Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified};
use crate::{header, payload};

// SHA-1 is all that Intercom offers. As an HMAC it is not broken by what broke it as a hash.
const SIGNATURE: HmacHeader = HmacHeader::sha1_hex("X-Hub-Signature");

/// The workspaces that have installed an app.
pub(crate) struct Intercom;

impl Provider for Intercom {
    fn name(&self) -> &'static str {
        "intercom"
    }

    fn facts(&self) -> Facts {
        Facts { patience: Duration::from_secs(5), ..Facts::usual("Intercom") }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Developer Hub → your app → Configure → Webhooks")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    /// It looks whether somebody is there before it takes an address.
    fn handshake(&self, request: &Request<'_>, _: &Settings) -> Option<Answer> {
        (request.method == Method::HEAD).then(|| Answer::ok("text/plain", ""))
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let secret_index = SIGNATURE.verify_body(request, check)?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let said = Said::read(request.body)?;
        let topic = said.topic.as_deref().ok_or(MapError::Missing("/topic"))?;
        let is_ping = topic == "ping";
        let id = said.id.as_deref().map(str::to_owned);
        // A ping has no id; its body's hash will do, since it makes no job.
        if id.is_none() && !is_ping {
            return Err(MapError::Missing("/id"));
        }
        mapping::one(Mapped {
            dedup_key: id,
            event_type: topic.to_owned(),
            starts: if is_ping { Starts::Nothing } else { Starts::Job },
            occurred_at: said.created_at.as_deref().and_then(|text| Unit::Seconds.read(text)),
            actor: said.actor(topic),
            subject: said.subject(),
            provider_request_id: header::request_id(request.headers),
            ..Mapped::default()
        })
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
        _: Timestamp,
    ) -> Result<(), ConfigError> {
        SIGNATURE.sign_body(request, secret)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json(
        "conversation.user.created",
        include_str!("../fixtures/intercom/conversation.user.created.json"),
    ),
    Sample::json(
        "conversation.admin.replied",
        include_str!("../fixtures/intercom/conversation.admin.replied.json"),
    ),
    Sample::json("ping", include_str!("../fixtures/intercom/ping.json")),
];

/// The few fields of a payload that the envelope needs.
struct Said<'a> {
    id: Found<'a>,
    topic: Found<'a>,
    created_at: Found<'a>,
    item_type: Found<'a>,
    item_id: Found<'a>,
    /// Who wrote the newest part of a conversation: type, id, name and e-mail.
    part_author: [Found<'a>; 4],
    /// Who began it.
    first_author: [Found<'a>; 4],
}

impl<'a> Said<'a> {
    fn read(body: &'a [u8]) -> Result<Said<'a>, MapError> {
        let fields = payload::pick(
            body,
            [
                "/id",
                "/topic",
                "/created_at",
                "/data/item/type",
                "/data/item/id",
                "/data/item/conversation_parts/conversation_parts/0/author/type",
                "/data/item/conversation_parts/conversation_parts/0/author/id",
                "/data/item/conversation_parts/conversation_parts/0/author/name",
                "/data/item/conversation_parts/conversation_parts/0/author/email",
                "/data/item/source/author/type",
                "/data/item/source/author/id",
                "/data/item/source/author/name",
                "/data/item/source/author/email",
            ],
        )?;
        let [id, topic, created_at, item_type, item_id, rest @ ..] = fields;
        let [part_type, part_id, part_name, part_email, first @ ..] = rest;
        let part_author = [part_type, part_id, part_name, part_email];
        Ok(Said { id, topic, created_at, item_type, item_id, part_author, first_author: first })
    }

    /// Intercom vouches for a workspace's own people only: anybody may write in under any address.
    fn actor(&self, topic: &str) -> Option<Actor> {
        let author = match &self.part_author {
            [_, Some(_), ..] => &self.part_author,
            // Who began a conversation did nothing later on.
            _ if topic.ends_with(".created") => &self.first_author,
            _ => return None,
        };
        let [kind, id, name, email] = author.each_ref().map(|field| field.as_deref());
        let id = Some(id?.to_owned());
        let (name, email) = (name.map(str::to_owned), email.map(str::to_owned));
        Some(Actor { id, name, email, verified: kind == Some("admin") })
    }

    fn subject(&self) -> Option<Subject> {
        let (kind, id) = self.item_type.as_deref().zip(self.item_id.as_deref())?;
        Some(Subject { kind: kind.to_owned(), id: id.to_owned(), url: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify};

    fn notification(body: &str) -> SignedRequest {
        SignedRequest::post("https://hooks.example/in/src_1", body)
    }

    fn sample(index: usize) -> SignedRequest {
        Intercom.samples()[index].request("https://hooks.example/", "7001", NOW)
    }

    #[test]
    fn a_look_whether_somebody_is_there_is_answered() {
        let mut request = SignedRequest::post("https://hooks.example/", "");
        request.method = Method::HEAD;
        let answer = Intercom.handshake(&request.as_request(), &Settings::new());
        assert_eq!(answer.map(|answer| answer.status), Some(200));
        request.method = Method::GET;
        assert_eq!(Intercom.handshake(&request.as_request(), &Settings::new()), None);
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '{"topic":"ping"}' | openssl dgst -sha1 -hmac client-secret
        let mut request = notification(r#"{"topic":"ping"}"#);
        let good = "83f283f5997678fbf9b02534c0762a8eacaf2d8d";
        request.set("X-Hub-Signature", &format!("sha1={good}")).unwrap();
        assert!(verify(&Intercom, &request, &["client-secret"]).is_ok());
        for bad in [good, "sha1=", &format!("sha256={good}"), &format!("sha1={good}00")] {
            request.set("X-Hub-Signature", bad).unwrap();
            let refused = verify(&Intercom, &request, &["client-secret"]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn a_new_conversation_is_by_who_began_it_and_unverified() {
        let mapped = map(&Intercom, &sample(0)).unwrap();
        assert_eq!(mapped.dedup_key.as_deref(), Some("notif_7001"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.starts, Starts::Job);
        assert_eq!(mapped.subject.unwrap().text("intercom"), "intercom:conversation:215468");
        let actor = mapped.actor.unwrap();
        assert_eq!(actor.email.as_deref(), Some("jenny@example.com"));
        assert!(!actor.verified);
    }

    #[test]
    fn a_reply_is_by_who_wrote_it_and_not_by_who_began() {
        let actor = map(&Intercom, &sample(1)).unwrap().actor.unwrap();
        assert_eq!((actor.id.as_deref(), actor.verified), (Some("991267"), true));
        let body = r#"{"id":"n","topic":"conversation.admin.closed",
            "data":{"item":{"type":"conversation","id":"1","source":{"author":{"id":"u"}}}}}"#;
        assert_eq!(map(&Intercom, &notification(body)).unwrap().actor, None);
    }

    #[test]
    fn a_ping_is_ignored_and_needs_no_id() {
        let mapped = map(&Intercom, &sample(2)).unwrap();
        assert_eq!((mapped.starts, mapped.dedup_key), (Starts::Nothing, None));
        let body = r#"{"id":null,"topic":"contact.created"}"#;
        assert_eq!(map(&Intercom, &notification(body)), Err(MapError::Missing("/id")));
        let body = r#"{"id":"notif_1"}"#;
        assert_eq!(map(&Intercom, &notification(body)), Err(MapError::Missing("/topic")));
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let body = r#"{"id":"n","topic":"a.created","created_at":"now",
            "data":{"item":{"type":1,"id":[],"source":{"author":[]},"conversation_parts":[1]}}}"#;
        let mapped = map(&Intercom, &notification(body)).unwrap();
        assert_eq!((mapped.actor, mapped.subject, mapped.occurred_at), (None, None, None));
    }
}
