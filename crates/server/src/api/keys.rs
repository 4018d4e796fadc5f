//! API keys: made, listed, revoked. A secret is shown once.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::access::{Key, Reach, Right, Role};
use wakepost_domain::{KeyId, TenantId, Timestamp};
use wakepost_store::Store;
use wakepost_store::moves::KeyRecord;

use super::auth::{hash_key, new_key};
use super::call::{At, Call, Nothing};
use super::describe::{Conflicting, Idempotent, Keyed, Missing, Tenant};
use super::error::ApiError;
use super::once;
use super::page::{Listed, PageQuery, cut, listed};
use super::work::{check_name, check_rate};
use crate::context::Context;
use crate::hub::Setting;
use crate::schema;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewKey {
    /// A name for people.
    #[schema(value_type = schema::Name)]
    name: String,
    /// What it may do.
    #[schema(value_type = schema::Role)]
    role: Role,
    /// Whose data it reaches; `*`: all tenants', only from an admin of all. Left out: as far as the caller's.
    tenant: Option<String>,
    /// When it ends by itself.
    #[schema(value_type = Option<schema::Timestamp>)]
    expires_at: Option<Timestamp>,
    /// How many calls it may make in a second, on each node; more get 429. Left out: as `key_rate_per_s` says.
    #[schema(exclusive_minimum = 0, maximum = 1000000)]
    rate_per_s: Option<f64>,
}

/// An API key.
#[derive(Serialize, ToSchema)]
#[schema(as = ApiKey)]
struct KeyView {
    /// Its id.
    #[schema(value_type = schema::KeyId)]
    id: KeyId,
    /// A name for people.
    name: String,
    /// What it may do.
    #[schema(value_type = schema::Role)]
    role: Role,
    /// Whose data it reaches; `*`: all tenants'.
    tenant: String,
    /// When it was made.
    #[schema(value_type = schema::Timestamp)]
    created_at: Timestamp,
    /// When it ends by itself.
    #[schema(value_type = Option<schema::Timestamp>)]
    expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    #[schema(value_type = Option<schema::Timestamp>)]
    last_used_at: Option<Timestamp>,
    /// How many calls it may make in a second, on each node; `null`: as the server's setting says.
    rate_per_s: Option<f64>,
    /// The key itself: only in the answer that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

async fn shown(context: &Context, key: &Key) -> Result<KeyView, ApiError> {
    let tenant = match key.reach {
        Reach::All => "*".to_owned(),
        Reach::Tenant(id) => {
            let tenant = context.directory.tenant(id).await?;
            tenant.map(|tenant| tenant.slug.clone()).unwrap_or_default()
        }
    };
    Ok(KeyView {
        id: key.id,
        name: key.name.clone(),
        role: key.role,
        tenant,
        created_at: key.created_at,
        expires_at: key.expires_at,
        last_used_at: key.last_used_at,
        rate_per_s: key.rate_per_s,
        key: None,
    })
}

/// Makes a key. Its secret is shown once, in this answer.
#[utoipa::path(
    post, path = "/keys", operation_id = "create_key", tag = "keys", params(Tenant, Idempotent),
    request_body = NewKey,
    responses(
        (status = 201, description = "The key, with its secret in `key`.", body = KeyView),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let acting = call.tenant().await?;
    let new: NewKey = call.body()?;
    check_name("name", &new.name)?;
    check_rate("rate_per_s", new.rate_per_s)?;
    if new.expires_at.is_some_and(|end| end <= call.context.now()) {
        return Err(ApiError::field("expires_at", "must be in the future"));
    }
    let reach = reach(&call, new.tenant.as_deref(), acting.id).await?;
    let secret = new_key(call.context.entropy.as_ref());
    let key = Key {
        id: KeyId(call.context.new_id()),
        name: new.name,
        role: new.role,
        reach,
        created_at: call.context.now(),
        expires_at: new.expires_at,
        last_used_at: None,
        rate_per_s: new.rate_per_s,
    };
    let mut answer = shown(&call.context, &key).await?;
    let once = call.once(acting.id, StatusCode::CREATED, &answer).await?;
    let tenant = match reach {
        Reach::All => None,
        Reach::Tenant(tenant) => Some(tenant),
    };
    let audit = call.audit(tenant, "key.create", key.id.to_string(), None);
    let record = KeyRecord { hash: hash_key(&secret), key };
    let made = call.context.store.create_key(record, audit, once).await?;
    answer.key = Some(secret);
    call.answer_once(acting.id, made, |()| once::json(StatusCode::CREATED, &answer)).await
}

/// Whose data a new key reaches. Only a key of all tenants makes another of all.
async fn reach(call: &Call, asked: Option<&str>, acting: TenantId) -> Result<Reach, ApiError> {
    match (asked, call.caller.reach) {
        (Some("*"), Reach::All) => Ok(Reach::All),
        (Some("*"), Reach::Tenant(_)) => Err(ApiError::forbidden()),
        (Some(slug), _) => {
            let tenant = call.context.directory.tenant_by_slug(slug).await?;
            let tenant = tenant.filter(|tenant| call.caller.reaches(tenant.id));
            Ok(Reach::Tenant(
                tenant.ok_or_else(|| ApiError::field("tenant", "there is no such tenant"))?.id,
            ))
        }
        (None, Reach::All) if !call.names_tenant() => Ok(Reach::All),
        (None, _) => Ok(Reach::Tenant(acting)),
    }
}

/// Lists the keys that live. A key of all tenants sees all of them, unless it names one.
#[utoipa::path(
    get, path = "/keys", operation_id = "list_keys", tag = "keys", params(PageQuery, Tenant),
    responses((status = 200, description = "A page.", body = Listed<KeyView>), Keyed, Missing)
)]
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let reach = listed_reach(&call).await?;
    let (Nothing {}, page) = call.list()?;
    let keys = call.context.store.keys(reach).await?;
    let (keys, last) = cut(keys, |key| key.id.0, page);
    let mut rows = Vec::with_capacity(keys.len());
    for key in &keys {
        rows.push(shown(&call.context, key).await?);
    }
    Ok(once::json(StatusCode::OK, &listed(rows, last, page.limit)))
}

async fn listed_reach(call: &Call) -> Result<Option<Reach>, ApiError> {
    match call.caller.reach == Reach::All && !call.names_tenant() {
        true => Ok(None),
        false => Ok(Some(Reach::Tenant(call.tenant().await?.id))),
    }
}

/// Ends a key at once, on every node.
#[utoipa::path(
    delete, path = "/keys/{id}", operation_id = "revoke_key", tag = "keys",
    params(("id" = schema::KeyId, Path), Tenant),
    responses((status = 204, description = "It works no more."), Keyed, Missing)
)]
pub async fn revoke(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let id: KeyId = id.parse().map_err(|_| ApiError::not_found())?;
    let reach = listed_reach(&call).await?;
    let live = call.context.store.keys(reach).await?;
    if !live.iter().any(|key| key.id == id) {
        return Err(ApiError::not_found());
    }
    call.no_query()?;
    let tenant = match reach {
        Some(Reach::Tenant(tenant)) => Some(tenant),
        _ => None,
    };
    let audit = call.audit(tenant, "key.revoke", id.to_string(), None);
    let revoke = |store: Arc<dyn Store>| async move { store.revoke_key(id, reach, audit).await };
    call.context.change(Setting::Keys, revoke).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
