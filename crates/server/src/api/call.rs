//! One API request: who calls, about which tenant, with what.

use std::collections::HashMap;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{AuditId, TenantId, limits};
use wakepost_store::moves::AuditEntry;

use super::auth::Caller;
use super::error::ApiError;
use crate::context::Context;
use crate::edge::BODY_TIMEOUT;

/// A request whose caller is known. Everything else is read when the handler asks for it.
pub struct Call {
    /// The server.
    pub context: Arc<Context>,
    /// Who calls.
    pub caller: Caller,
    /// The headers.
    pub headers: HeaderMap,
    /// The path, for the idempotency key.
    pub path: String,
    query: String,
    body: Bytes,
}

impl FromRequest<Arc<Context>> for Call {
    type Rejection = ApiError;

    async fn from_request(request: Request, context: &Arc<Context>) -> Result<Call, ApiError> {
        let (parts, body) = request.into_parts();
        let caller = Caller::find(context, &parts.headers).await?;
        if let Some(key) = caller.key {
            context.key_used(key);
        }
        Ok(Call {
            context: context.clone(),
            caller,
            path: parts.uri.path().to_owned(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: read(body, &parts.headers).await?,
            headers: parts.headers,
        })
    }
}

async fn read(body: Body, headers: &HeaderMap) -> Result<Bytes, ApiError> {
    let too_large = || {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!(
                "a request may have at most {} bytes",
                limits::API_BODY_BYTES_MAX
            ),
        )
    };
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > limits::API_BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let whole = Limited::new(body, limits::API_BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => Err(ApiError::new(
            StatusCode::BAD_REQUEST,
            "malformed",
            "the body was cut off",
        )),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "too_slow",
            "the body did not arrive in time",
        )),
    }
}

impl Call {
    /// Refuses a caller without the right.
    pub fn need(&self, right: Right) -> Result<(), ApiError> {
        self.caller.need(right)
    }

    /// The tenant the call is about: the key's own, or for a key of all tenants the one in `?tenant=`.
    pub async fn tenant(&self) -> Result<Arc<Tenant>, ApiError> {
        let asked = self.parameter("tenant");
        let directory = &self.context.directory;
        let tenant = match (&asked, self.caller.reach) {
            (Some(slug), _) => directory.tenant_by_slug(slug).await?,
            (None, Reach::Tenant(own)) => directory.tenant(own).await?,
            (None, Reach::All) => directory.tenant(TenantId::DEFAULT).await?,
        };
        tenant
            .filter(|tenant| self.caller.reaches(tenant.id))
            .ok_or_else(ApiError::not_found)
    }

    /// Whether `?tenant=` was given.
    pub fn names_tenant(&self) -> bool {
        self.parameter("tenant").is_some()
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(&self.query).ok()?;
        pairs
            .into_iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value)
    }

    /// The query, without `tenant`. An unknown parameter is refused.
    pub fn query<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let malformed = |_| ApiError::field("query", "is not a list of name=value pairs");
        let pairs: Vec<(String, String)> =
            serde_urlencoded::from_str(&self.query).map_err(malformed)?;
        let mut values = HashMap::new();
        for (name, value) in pairs.into_iter().filter(|(name, _)| name != "tenant") {
            if values.insert(name.clone(), value).is_some() {
                return Err(ApiError::field(name, "is given twice"));
            }
        }
        let values = serde::de::value::MapDeserializer::<_, serde::de::value::Error>::new(
            values.into_iter(),
        );
        T::deserialize(values).map_err(|error| unreadable("query".to_owned(), &error.to_string()))
    }

    /// The body as JSON. An unknown field is refused by name.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        let body: &[u8] = if self.body.is_empty() {
            b"{}"
        } else {
            &self.body
        };
        let mut reader = serde_json::Deserializer::from_slice(body);
        let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            // `[3].input` in the reader's words is `3.input` in ours.
            let path = error.path().to_string().replace('[', ".").replace(']', "");
            let path = path
                .strip_prefix('.')
                .filter(|rest| !rest.is_empty())
                .unwrap_or(&path)
                .to_owned();
            let cause = error.into_inner();
            if cause.is_data() {
                unreadable(path, &cause.to_string())
            } else {
                ApiError::new(
                    StatusCode::BAD_REQUEST,
                    "malformed_json",
                    format!("the body is not JSON: {cause}"),
                )
            }
        })?;
        reader.end().map_err(|_| {
            ApiError::new(
                StatusCode::BAD_REQUEST,
                "malformed_json",
                "text after the JSON",
            )
        })?;
        Ok(value)
    }

    /// The body's bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// An entry for the audit trail.
    pub fn audit(
        &self,
        tenant: Option<TenantId>,
        action: &str,
        target: String,
        note: Option<String>,
    ) -> AuditEntry {
        AuditEntry {
            id: AuditId(self.context.new_id()),
            tenant,
            actor: self.caller.name.clone(),
            action: action.to_owned(),
            target,
            note,
        }
    }
}

/// Turns a reader's complaint into the field it is about.
fn unreadable(path: String, message: &str) -> ApiError {
    let quoted = message.split('`').nth(1).unwrap_or_default();
    let inside = |path: &str, name: &str| match path {
        "." | "" | "query" | "?" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    // serde says where it stood: "at line 1 column 9" helps nobody who sent one line.
    let message = message.split(" at line ").next().unwrap_or(message);
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let is_field = message.starts_with("unknown field");
        let field = if is_field && !path.ends_with(quoted) {
            inside(&path, quoted)
        } else {
            path
        };
        let known = message.split("expected").nth(1).unwrap_or_default().trim();
        let text = if is_field {
            "is not a field of this request"
        } else {
            "is not one of the known words"
        };
        return ApiError::field(field, format!("{text}; expected {known}"));
    }
    if message.starts_with("missing field") {
        return ApiError::field(inside(&path, quoted), "is required");
    }
    ApiError::field(if path == "." { "body".to_owned() } else { path }, message)
}
