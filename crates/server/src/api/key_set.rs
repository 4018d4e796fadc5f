//! The public keys of webhooks that sign with Ed25519, for whoever verifies what they get.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{StatusCode, header};
use serde::Serialize;
use tokio::sync::Mutex;
use utoipa::ToSchema;
use wakepost_domain::Timestamp;
use wakepost_domain::webhook::{RETIRED_MAX, Webhook};
use wakepost_providers::standard;

use super::describe::Unkeyed;
use super::error::ApiError;
use crate::context::Context;

/// How old an answer may be. Anybody may ask, so the store is not asked more often.
const FRESH: Duration = Duration::from_secs(5);
/// How long others may keep it.
const CACHED: &str = "public, max-age=300";
/// How many webhooks are read at a time, …
const STEP: u32 = 500;
/// … and how many times.
const STEPS_MAX: u32 = 40;

/// The latest answer, or why there is none. Whoever makes it anew holds the lock, so that it is made once.
#[derive(Default)]
pub struct Kept(Mutex<Option<(Instant, Result<Bytes, ApiError>)>>);

/// A JSON Web Key Set: RFC 7517.
#[derive(Serialize, ToSchema)]
struct KeySet {
    /// The keys.
    keys: Vec<Jwk>,
}

/// The public half of a webhook's key: RFC 8037.
#[derive(Serialize, ToSchema)]
struct Jwk {
    /// Always `OKP`.
    kty: &'static str,
    /// Always `Ed25519`.
    crv: &'static str,
    /// The webhook's id; with `.previous` after it the key that also signs for a while after a rotation.
    kid: String,
    /// The key: 32 bytes in base64url.
    x: String,
    /// Always `sig`.
    r#use: &'static str,
    /// Always `EdDSA`.
    alg: &'static str,
}

/// Shows the public keys of all webhooks that sign with Ed25519 (`v1a`), as a JSON Web Key Set.
///
/// A webhook's key has the webhook's id as its `kid`. After a rotation the key before it is there too, as
/// `<id>.previous`, for as long as it still signs. The answer may be a few seconds old.
#[utoipa::path(
    get, path = "/.well-known/wakepost-keys", operation_id = "get_key_set", tag = "webhooks", security(()),
    responses((status = 200, description = "The keys.", body = KeySet), Unkeyed)
)]
pub async fn show(State(context): State<Arc<Context>>) -> Result<Response, ApiError> {
    let mut kept = context.key_set.0.lock().await;
    let fresh = kept.as_ref().filter(|(at, _)| at.elapsed() < FRESH);
    let text = match fresh {
        Some((_, text)) => text.clone(),
        None => {
            let text = read(&context).await;
            *kept = Some((Instant::now(), text.clone()));
            text
        }
    }?;
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, CACHED)];
    Ok((StatusCode::OK, headers, text).into_response())
}

async fn read(context: &Context) -> Result<Bytes, ApiError> {
    let mut keys = Vec::new();
    let mut after = None;
    for step in 1..=STEPS_MAX {
        let records = context.store.signing_webhooks(after, STEP).await?;
        let is_last = records.len() < STEP as usize;
        after = records.last().map(|record| record.id);
        for record in records {
            let webhook = context.directory.open_webhook(record).await?;
            keys.extend(of_webhook(&webhook, context.now()));
        }
        if is_last {
            break;
        }
        if step == STEPS_MAX {
            tracing::warn!(
                webhooks = STEP * STEPS_MAX,
                "more webhooks sign than the key set has room for"
            );
        }
    }
    let text = serde_json::to_vec(&KeySet { keys }).expect("keys are plain data");
    Ok(text.into())
}

/// What verifies a webhook's deliveries now. A secret of another kind, from before it signed with keys, has no public
/// half.
fn of_webhook(webhook: &Webhook, now: Timestamp) -> Vec<Jwk> {
    let id = webhook.id;
    let before = (1..=RETIRED_MAX).map(|nth| match nth {
        1 => format!("{id}.previous"),
        nth => format!("{id}.previous-{nth}"),
    });
    let kids = std::iter::once(id.to_string()).chain(before);
    let live = webhook.secrets.live(now).zip(kids);
    live.filter_map(|(secret, kid)| {
        let public = standard::public_key(secret).ok()?;
        let bytes = STANDARD.decode(public.strip_prefix("whpk_")?).ok()?;
        let x = URL_SAFE_NO_PAD.encode(bytes);
        Some(Jwk { kty: "OKP", crv: "Ed25519", kid, x, r#use: "sig", alg: "EdDSA" })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use wakepost_domain::circuit::Circuit;
    use wakepost_domain::lane::LaneId;
    use wakepost_domain::webhook::{Retired, WebhookConfig, WebhookSecrets};
    use wakepost_domain::{TenantId, Ulid, WebhookId};

    use super::*;

    // RFC 8037, A.1 and A.2.
    const SEED: &str = "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A";
    const PUBLIC: &str = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo";

    fn private() -> String {
        format!("whsk_{}", STANDARD.encode(URL_SAFE_NO_PAD.decode(SEED).unwrap()))
    }

    fn webhook(secrets: WebhookSecrets) -> Webhook {
        Webhook {
            id: WebhookId(Ulid::MIN),
            tenant: TenantId::DEFAULT,
            lane: LaneId(1),
            config: WebhookConfig::default(),
            secrets,
            circuit: Circuit::default(),
            notices: Vec::new(),
            version: 0,
        }
    }

    #[test]
    fn the_key_before_is_shown_while_it_signs() {
        let until = Timestamp::from_secs(100);
        let secrets = WebhookSecrets {
            current: private(),
            previous: vec![Retired { secret: private(), until }],
            ..WebhookSecrets::default()
        };
        let webhook = webhook(secrets);
        let keys = of_webhook(&webhook, Timestamp::from_secs(99));
        let kids: Vec<_> = keys.iter().map(|key| key.kid.clone()).collect();
        assert_eq!(kids, [webhook.id.to_string(), format!("{}.previous", webhook.id)]);
        assert_eq!(of_webhook(&webhook, until).len(), 1);
        let text = serde_json::to_value(&keys[0]).unwrap();
        let expected = serde_json::json!({"kty": "OKP", "crv": "Ed25519", "kid": webhook.id.to_string(),
            "x": PUBLIC, "use": "sig", "alg": "EdDSA"});
        assert_eq!(text, expected);
    }

    #[test]
    fn a_shared_secret_is_never_in_the_set() {
        let secrets = WebhookSecrets {
            current: private(),
            previous: vec![Retired {
                secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned(),
                until: Timestamp::from_secs(100),
            }],
            ..WebhookSecrets::default()
        };
        assert_eq!(of_webhook(&webhook(secrets), Timestamp::from_secs(1)).len(), 1);
    }
}
