//! `Idempotency-Key`: a repeat of a creating call gets the first answer again.
//!
//! The key is stored in the transaction that creates, with the answer, so that a crash can leave neither
//! without the other, and two at once are decided by the database.

use std::time::Duration;

use aws_lc_rs::digest;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wakepost_domain::{TenantId, limits};
use wakepost_store::moves::{Idempotency, Once, Replayed};
use wakepost_store::vault::Slot;

use super::call::Call;
use super::error::ApiError;

const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

#[derive(Serialize, Deserialize)]
struct Answer {
    status: u16,
    body: Box<RawValue>,
}

impl Call {
    /// Whether the caller sent a key.
    pub fn is_idempotent(&self) -> bool {
        self.headers.contains_key("idempotency-key")
    }

    /// The key that the caller sent.
    pub fn idempotency_key(&self) -> Result<Option<&str>, ApiError> {
        let Some(value) = self.headers.get("idempotency-key") else { return Ok(None) };
        let text =
            value.to_str().ok().filter(|text| (1..=limits::KEY_CHARS_MAX).contains(&text.len()));
        let refused = || {
            let most = limits::KEY_CHARS_MAX;
            ApiError::field("Idempotency-Key", format!("must be 1 to {most} visible characters"))
        };
        text.map(Some).ok_or_else(refused)
    }

    /// The first answer, if this call repeats one: for calls that do something before they store it.
    pub async fn answered(&self, tenant: TenantId) -> Result<Option<Response>, ApiError> {
        let Some(text) = self.idempotency_key()? else { return Ok(None) };
        match self.context.store.remembered(self.key_hash(tenant, text)).await? {
            Some(before) => self.answer_again(tenant, before).await.map(Some),
            None => Ok(None),
        }
    }

    /// What to store with the thing being created, if the caller sent a key. `body` is the answer without
    /// secrets: they are shown once.
    pub async fn once(
        &self,
        tenant: TenantId,
        status: StatusCode,
        body: &impl Serialize,
    ) -> Result<Option<Idempotency>, ApiError> {
        let Some(text) = self.idempotency_key()? else { return Ok(None) };
        let key = self.key_hash(tenant, text);
        let answer = Answer {
            status: status.as_u16(),
            body: serde_json::value::to_raw_value(body).expect("an answer is plain data"),
        };
        let plain = serde_json::to_vec(&answer).expect("an answer is plain data");
        let sealed = self.context.vault.key(tenant).await?.seal(Slot::Answer(&key), &plain);
        Ok(Some(Idempotency {
            key,
            body_hash: sha256(self.bytes()),
            answer: sealed,
            until: self.context.now().after(REMEMBERED),
        }))
    }

    /// The answer: the new one, or the first one again.
    pub async fn answer_once<T>(
        &self,
        tenant: TenantId,
        outcome: Once<T>,
        now: impl FnOnce(T) -> Response,
    ) -> Result<Response, ApiError> {
        match outcome {
            Once::Now(made) => Ok(now(made)),
            Once::Before(before) => self.answer_again(tenant, before).await,
        }
    }

    async fn answer_again(&self, tenant: TenantId, before: Replayed) -> Result<Response, ApiError> {
        if before.body_hash != sha256(self.bytes()) {
            return Err(ApiError::new(
                StatusCode::CONFLICT,
                "idempotency_mismatch",
                "this Idempotency-Key was used with another body",
            ));
        }
        let text = self.headers.get("idempotency-key").and_then(|value| value.to_str().ok());
        let key = self.key_hash(tenant, text.unwrap_or_default());
        let plain =
            self.context.vault.key(tenant).await?.open(Slot::Answer(&key), &before.answer)?;
        let answer: Answer = serde_json::from_slice(&plain)
            .map_err(|_| wakepost_store::StoreError::Corrupt("a remembered answer".to_owned()))?;
        let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK);
        Ok(replayed(json(status, &answer.body)))
    }

    fn key_hash(&self, tenant: TenantId, text: &str) -> [u8; 16] {
        let mut context = digest::Context::new(&digest::SHA256);
        for part in [&tenant.0.to_be_bytes()[..], self.caller.name.as_bytes(), self.path.as_bytes()]
        {
            context.update(&(part.len() as u32).to_be_bytes());
            context.update(part);
        }
        context.update(text.as_bytes());
        context.finish().as_ref()[..16].try_into().expect("SHA-256 has 32 bytes")
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest::digest(&digest::SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Says of an answer that it is the first one's.
pub fn replayed(mut response: Response) -> Response {
    response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
    response
}

/// A JSON answer.
pub fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let text = serde_json::to_string(body).expect("an answer is plain data");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
