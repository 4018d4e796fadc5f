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
use wakepost_store::moves::{Idempotency, Once};
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

    /// What to store with the thing being created, if the caller sent a key. `body` is the answer without
    /// secrets: they are shown once.
    pub async fn once(
        &self,
        tenant: TenantId,
        status: StatusCode,
        body: &impl Serialize,
    ) -> Result<Option<Idempotency>, ApiError> {
        let Some(value) = self.headers.get("idempotency-key") else {
            return Ok(None);
        };
        let text =
            value.to_str().ok().filter(|text| (1..=limits::KEY_CHARS_MAX).contains(&text.len()));
        let text = text.ok_or_else(|| {
            ApiError::field(
                "Idempotency-Key",
                format!("must be 1 to {} visible characters", limits::KEY_CHARS_MAX),
            )
        })?;
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
        let before = match outcome {
            Once::Now(made) => return Ok(now(made)),
            Once::Before(before) => before,
        };
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
        let mut response =
            json(StatusCode::from_u16(answer.status).unwrap_or(StatusCode::OK), &answer.body);
        response.headers_mut().insert("idempotency-replayed", HeaderValue::from_static("true"));
        Ok(response)
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

/// A JSON answer.
pub fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let text = serde_json::to_string(body).expect("an answer is plain data");
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
