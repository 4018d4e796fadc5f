//! Shopify: `X-Shopify-Hmac-Sha256` over the body; the event's id and topic are in headers that nobody signs.

use std::time::Duration;

use wakepost_domain::Timestamp;
use wakepost_domain::envelope::{Mapped, Subject};

use crate::freshness::Unit;
use crate::hmac_header::HmacHeader;
use crate::mapping::{self, MapError};
use crate::provider::{Facts, Provider, SignedHeader};
use crate::request::{Request, SignedRequest};
use crate::sample::Sample;
use crate::settings::{ConfigError, Settings};
use crate::verdict::{Check, Refusal, Verified, Why};
use crate::{header, payload};

const SIGNATURE: HmacHeader = HmacHeader::base64("X-Shopify-Hmac-Sha256");
const EVENT_ID: &str = "X-Shopify-Event-Id";
const WEBHOOK_ID: &str = "X-Shopify-Webhook-Id";
const TOPIC: &str = "X-Shopify-Topic";
const TRIGGERED_AT: &str = "X-Shopify-Triggered-At";

/// The shops that have installed an app.
pub(crate) struct Shopify;

impl Provider for Shopify {
    fn name(&self) -> &'static str {
        "shopify"
    }

    fn facts(&self) -> Facts {
        Facts {
            patience: Duration::from_secs(5),
            id_is_signed: false, // One change at the shop may be told as several topics, with one event id and the very same body.
            one_type_per_body: false,
            ..Facts::usual("Shopify")
        }
    }

    fn place(&self) -> Option<&'static str> {
        Some("Settings → Notifications → Webhooks → Create webhook")
    }

    fn signed_headers(&self, _: &Settings) -> Vec<SignedHeader> {
        vec![SIGNATURE.declared()]
    }

    fn verify(&self, request: &Request<'_>, check: &Check<'_>) -> Result<Verified, Refusal> {
        let secret_index = SIGNATURE.verify_body(request, check)?;
        Ok(Verified { secret_index, signed_at: None })
    }

    fn map(&self, request: &Request<'_>, _: &Settings) -> Result<Vec<Mapped>, MapError> {
        let topic = header::one(request.headers, TOPIC)?;
        let webhook_id = header::optional(request.headers, WEBHOOK_ID)?;
        let id = header::optional(request.headers, EVENT_ID)?
            .or(webhook_id)
            .ok_or_else(|| Why::Missing(EVENT_ID.to_owned()))?;
        let [object_id] = payload::pick(request.body, ["/id"])?;
        let triggered_at = header::optional(request.headers, TRIGGERED_AT).ok().flatten();
        mapping::one(Mapped {
            dedup_key: Some(id.to_owned()),
            event_type: topic.to_owned(),
            occurred_at: triggered_at.and_then(|text| Unit::Rfc3339.read(text)),
            // Shopify says who was served, never who did it, so there is no actor. The shop's domain is in a
            // header that nobody signs: no link is made from it.
            subject: object_id.zip(topic.split_once('/')).map(|(id, (kind, _))| Subject {
                kind: kind.to_owned(),
                id: id.into_owned(),
                url: None,
            }),
            provider_request_id: webhook_id
                .map(str::to_owned)
                .or_else(|| header::request_id(request.headers)),
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
        id: &str,
        now: Timestamp,
    ) -> Result<(), ConfigError> {
        request.set(EVENT_ID, id)?;
        request.set(WEBHOOK_ID, &format!("{id}-1"))?;
        request.set(TRIGGERED_AT, &Unit::Rfc3339.write(now))?;
        if !request.headers.contains_key(TOPIC) {
            request.set(TOPIC, "orders/create")?;
        }
        SIGNATURE.sign_body(request, secret)
    }
}

static SAMPLES: &[Sample] = &[
    Sample::json("orders/create", include_str!("../fixtures/shopify/orders_create.json"))
        .with_headers(&[
            ("x-shopify-topic", "orders/create"),
            ("x-shopify-shop-domain", "acme-store.myshopify.com"),
            ("x-shopify-api-version", "2026-10"),
        ]),
    Sample::json("products/update", include_str!("../fixtures/shopify/products_update.json"))
        .with_headers(&[
            ("x-shopify-topic", "products/update"),
            ("x-shopify-shop-domain", "acme-store.myshopify.com"),
            ("x-shopify-api-version", "2026-10"),
        ]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, map, verify};

    const SECRET: &str = "hush";

    fn delivery(topic: &str, body: &str) -> SignedRequest {
        let mut request = SignedRequest::post("https://hooks.example/in/src_1", body);
        request.set(TOPIC, topic).unwrap();
        Shopify.sign(&mut request, SECRET, &Settings::new(), "ev-1", NOW).unwrap();
        request
    }

    #[test]
    fn a_signature_made_by_another_implementation_is_accepted() {
        // printf '{"id":1}' | openssl dgst -sha256 -hmac hush -binary | base64
        let mut request = SignedRequest::post("https://hooks.example/", r#"{"id":1}"#);
        request
            .set("X-Shopify-Hmac-Sha256", "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY=")
            .unwrap();
        assert!(verify(&Shopify, &request, &[SECRET]).is_ok());
        let good = "VnKUjZsLuN5iZWjn5EntcBVCF9kMN43LglzCE1/GSeY=";
        for bad in [good.trim_end_matches('='), &format!("sha256={good}"), &format!("{good}=")] {
            request.set("X-Shopify-Hmac-Sha256", bad).unwrap();
            let refused = verify(&Shopify, &request, &[SECRET]);
            assert!(matches!(refused, Err(Refusal::Signature(_))), "{bad}: {refused:?}");
        }
    }

    #[test]
    fn an_order_says_what_and_when() {
        let body = r#"{"id":820982911946154508,"admin_graphql_api_id":"gid://shopify/Order/1"}"#;
        let mapped = map(&Shopify, &delivery("orders/create", body)).unwrap();
        assert_eq!(mapped.event_type, "orders/create");
        assert_eq!(mapped.dedup_key.as_deref(), Some("ev-1"));
        assert_eq!(mapped.provider_request_id.as_deref(), Some("ev-1-1"));
        assert_eq!(mapped.occurred_at, Some(NOW));
        assert_eq!(mapped.actor, None);
        let subject = mapped.subject.unwrap();
        assert_eq!(subject.text("shopify"), "shopify:orders:820982911946154508");
    }

    #[test]
    fn without_an_event_id_the_webhook_id_is_the_key() {
        let mut request = delivery("orders/create", "{}");
        request.headers.remove(EVENT_ID);
        let mapped = map(&Shopify, &request).unwrap();
        assert_eq!(mapped.dedup_key.as_deref(), Some("ev-1-1"));
        request.headers.remove(WEBHOOK_ID);
        let missing = Err(MapError::Header(Why::Missing(EVENT_ID.to_owned())));
        assert_eq!(map(&Shopify, &request), missing);
    }

    #[test]
    fn unexpected_shapes_lose_the_description_but_not_the_event() {
        let mut request = delivery("app", r#"{"id":{"id":1}}"#);
        request.set(TRIGGERED_AT, "yesterday").unwrap();
        let mapped = map(&Shopify, &request).unwrap();
        assert_eq!((mapped.subject, mapped.occurred_at), (None, None));
        assert_eq!(mapped.event_type, "app");
    }

    #[test]
    fn an_event_without_topic_or_json_is_unmapped() {
        let mut request = delivery("orders/create", "{}");
        request.headers.remove(TOPIC);
        assert!(matches!(map(&Shopify, &request), Err(MapError::Header(Why::Missing(_)))));
        let empty = delivery("orders/create", "");
        assert!(matches!(map(&Shopify, &empty), Err(MapError::NotJson(_))));
    }
}
