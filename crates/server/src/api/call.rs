//! One API request: who calls, about which tenant, with what.

use std::collections::HashSet;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;
use url::form_urlencoded;
use utoipa::ToSchema;
use wakepost_domain::access::{Reach, Right, Role};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{AuditId, TenantId, Ulid, limits};
use wakepost_store::moves::{AuditEntry, Page};

use super::auth::Caller;
use super::error::ApiError;
use super::page::PageQuery;
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
    /// Whether it came through the dashboard or `/mcp`.
    within: bool,
    query: String,
    body: Bytes,
}

impl FromRequest<Arc<Context>> for Call {
    type Rejection = ApiError;

    async fn from_request(request: Request, context: &Arc<Context>) -> Result<Call, ApiError> {
        let (parts, body) = request.into_parts();
        let within = parts.extensions.get::<Caller>().is_some();
        let caller = Caller::of(context, &parts).await?;
        if let Some(key) = caller.key {
            context.key_used(key);
        }
        Ok(Call {
            context: context.clone(),
            caller,
            path: parts.uri.path().to_owned(),
            within,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            body: read(body, &parts.headers).await?,
            headers: parts.headers,
        })
    }
}

/// What the path names. Text that cannot be read names nothing, which is told only to callers with a key.
pub struct At<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<Arc<Context>> for At<T> {
    type Rejection = ApiError;

    async fn from_request_parts(
        parts: &mut Parts,
        context: &Arc<Context>,
    ) -> Result<At<T>, ApiError> {
        match Path::<T>::from_request_parts(parts, context).await {
            Ok(Path(named)) => Ok(At(named)),
            Err(_) => {
                Caller::of(context, parts).await?;
                Err(ApiError::not_found())
            }
        }
    }
}

/// A query or body without fields.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// Tells `null` from a field that is left out.
pub fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(deserializer).map(Some)
}

/// The body, bounded in size and time.
pub async fn read(body: Body, headers: &HeaderMap) -> Result<Bytes, ApiError> {
    let too_large = || {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("a request may have at most {} bytes", limits::API_BODY_BYTES_MAX),
        )
    };
    let declared =
        headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if declared.is_some_and(|length: usize| length > limits::API_BODY_BYTES_MAX) {
        return Err(too_large());
    }
    let whole = Limited::new(body, limits::API_BODY_BYTES_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => {
            Err(ApiError::new(StatusCode::BAD_REQUEST, "malformed", "the body was cut off"))
        }
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
        self.caller.need_any(&[right])
    }

    /// Refuses a caller without any of these rights.
    pub fn need_any(&self, rights: &[Right]) -> Result<(), ApiError> {
        self.caller.need_any(rights)
    }

    /// Whether a worker calls, who sees of a job no more than its run.
    pub fn is_worker(&self) -> bool {
        self.caller.role == Role::Worker
    }

    /// Refuses a caller that is bound to a tenant.
    pub fn need_all_tenants(&self) -> Result<(), ApiError> {
        if self.caller.reach == Reach::All { Ok(()) } else { Err(ApiError::forbidden()) }
    }

    /// Whether its URLs may lead to private addresses: only an admin of all tenants runs what is there.
    pub fn is_trusted(&self) -> bool {
        self.caller.reach == Reach::All && self.caller.role == Role::Admin
    }

    /// The tenant the call is about: the key's own, or for a key of all tenants the one in `?tenant=`.
    pub async fn tenant(&self) -> Result<Arc<Tenant>, ApiError> {
        let asked = self.parameter("tenant");
        let directory = &self.context.directory;
        let tenant = match (&asked, self.caller.reach) {
            (Some(slug), Reach::All) => directory.tenant_by_slug(slug).await?,
            (Some(slug), Reach::Tenant(own)) => {
                directory.tenant(own).await?.filter(|tenant| tenant.slug == *slug)
            }
            (None, Reach::Tenant(own)) => directory.tenant(own).await?,
            (None, Reach::All) => directory.tenant(TenantId::DEFAULT).await?,
        };
        tenant.filter(|tenant| self.caller.reaches(tenant.id)).ok_or_else(ApiError::not_found)
    }

    /// Whether `?tenant=` was given.
    pub fn names_tenant(&self) -> bool {
        self.parameter("tenant").is_some()
    }

    fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        let (_, value) = pairs.find(|(key, _)| key == name)?;
        Some(value.into_owned())
    }

    /// The filters of a list, and the page that was asked for. An unknown parameter is refused.
    pub fn list<T: DeserializeOwned>(&self) -> Result<(T, Page<Ulid>), ApiError> {
        let of_page = |name: &str| name == "limit" || name == "cursor";
        let filter = self.query(|name| !of_page(name))?;
        Ok((filter, self.query::<PageQuery>(of_page)?.page()?))
    }

    /// The query in two parts, the second with these names. An unknown parameter is refused.
    pub fn two<T: DeserializeOwned, U: DeserializeOwned>(
        &self,
        of_second: impl Fn(&str) -> bool,
    ) -> Result<(T, U), ApiError> {
        Ok((self.query(|name| !of_second(name))?, self.query(of_second)?))
    }

    /// The query, all of it. An unknown parameter is refused.
    pub fn only_query<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.query(|_| true)
    }

    /// A place for an answer that lasts.
    pub fn stream_place(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.context.streams.clone().try_acquire_owned().map_err(|_| {
            ApiError::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "too_many_streams",
                "as many listen already as this node allows",
            )
        })
    }

    /// Refuses any parameter but `tenant`.
    pub fn no_query(&self) -> Result<(), ApiError> {
        self.query::<Nothing>(|_| true).map(|_| ())
    }

    /// The part of the query with these names; `tenant` belongs to every call.
    fn query<T: DeserializeOwned>(&self, wanted: impl Fn(&str) -> bool) -> Result<T, ApiError> {
        let mut seen = HashSet::new();
        let mut part = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(self.query.as_bytes()) {
            if !seen.insert(name.clone()) {
                return Err(ApiError::field(name, "is given twice"));
            }
            if name != "tenant" && wanted(&name) {
                part.append_pair(&name, &value);
            }
        }
        let part = part.finish();
        let pairs = form_urlencoded::parse(part.as_bytes());
        serde_path_to_error::deserialize(serde_urlencoded::Deserializer::new(pairs)).map_err(
            |error| {
                let path = error.path().to_string();
                unreadable(path, &error.into_inner().to_string())
            },
        )
    }

    /// The body as JSON. An unknown field is refused by name, and so is a parameter: what has a body has no
    /// query.
    pub fn body<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        self.no_query()?;
        match is_list(&self.body) {
            // The reader would take its items for the fields, one after the other.
            true => Err(ApiError::field("body", "must be an object")),
            false => read_json(&self.body),
        }
    }

    /// A body that is one object, or a list of them; and which.
    pub fn bodies<T: DeserializeOwned>(&self) -> Result<(Vec<T>, bool), ApiError> {
        if !is_list(&self.body) {
            return Ok((vec![self.body()?], false));
        }
        self.no_query()?;
        let items: Vec<T> = read_json(&self.body)?;
        let raw: Vec<&RawValue> = serde_json::from_slice(&self.body).unwrap_or_default();
        match raw.iter().position(|item| item.get().starts_with('[')) {
            Some(index) => Err(ApiError::field(index.to_string(), "must be an object")),
            None => Ok((items, true)),
        }
    }

    /// The body's bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// Notes what is about to be done, where nothing is stored in one transaction with it.
    pub async fn note(
        &self,
        tenant: TenantId,
        action: &str,
        target: String,
        note: Option<String>,
    ) -> Result<(), ApiError> {
        let audit = self.audit(Some(tenant), action, target, note);
        self.context.store.note(audit, None).await?;
        Ok(())
    }

    /// Whose act it is, if an operator or an admin does it by hand, in the dashboard or through `/mcp`. What programs send
    /// all day with such a key is none: an entry for each would be a trail nobody can read, which never ends.
    pub fn by_hand(&self) -> Option<String> {
        let acts = self.within && self.need(Right::Operate).is_ok();
        acts.then(|| self.caller.name.clone())
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

fn is_list(body: &[u8]) -> bool {
    body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

/// A body as JSON. An unknown field is refused by name.
pub fn read_json<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        // `[3].input` in the reader's words is `3.input` in ours.
        let path = error.path().to_string().replace('[', ".").replace(']', "");
        let path =
            path.strip_prefix('.').filter(|rest| !rest.is_empty()).unwrap_or(&path).to_owned();
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
        ApiError::new(StatusCode::BAD_REQUEST, "malformed_json", "text after the JSON")
    })?;
    Ok(value)
}

/// Turns a reader's complaint into the field it is about.
fn unreadable(path: String, message: &str) -> ApiError {
    let quoted = message.split('`').nth(1).unwrap_or_default();
    let inside = |path: &str, name: &str| match path {
        "." | "" | "?" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    // serde says where it stood: "at line 1 column 9" helps nobody who sent one line.
    let message = message.split(" at line ").next().unwrap_or(message);
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let is_field = message.starts_with("unknown field");
        let field = if is_field && !path.ends_with(quoted) { inside(&path, quoted) } else { path };
        let text = if is_field { "is not known here" } else { "is not one of the known words" };
        return ApiError::field(
            field,
            match message.split_once("expected ") {
                Some((_, known)) => format!("{text}; expected {known}"),
                None => text.to_owned(),
            },
        );
    }
    if message.starts_with("missing field") {
        return ApiError::field(inside(&path, quoted), "is required");
    }
    ApiError::field(if path == "." { "body".to_owned() } else { path }, message)
}
