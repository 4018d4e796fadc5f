//! API keys: made, listed, revoked. A secret is shown once.

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use wakepost_domain::access::{Key, Reach, Right, Role};
use wakepost_domain::{KeyId, TenantId, Timestamp};
use wakepost_store::moves::KeyRecord;

use super::auth::{hash_key, new_key};
use super::call::Call;
use super::error::ApiError;
use super::once;
use super::page::listed;
use super::work::check_name;
use crate::context::Context;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewKey {
    name: String,
    role: Role,
    tenant: Option<String>,
    expires_at: Option<Timestamp>,
}

async fn shown(context: &Context, key: &Key) -> Result<Value, ApiError> {
    let tenant = match key.reach {
        Reach::All => "*".to_owned(),
        Reach::Tenant(id) => context
            .directory
            .tenant(id)
            .await?
            .map(|tenant| tenant.slug.clone())
            .unwrap_or_default(),
    };
    Ok(json!({
        "id": key.id,
        "name": key.name,
        "role": key.role,
        "tenant": tenant,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "last_used_at": key.last_used_at,
    }))
}

/// Makes a key.
pub async fn create(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let acting = call.tenant().await?;
    let new: NewKey = call.body()?;
    check_name("name", &new.name)?;
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
    };
    let mut answer = shown(&call.context, &key).await?;
    let once = call.once(acting.id, StatusCode::CREATED, &answer).await?;
    let tenant = match reach {
        Reach::All => None,
        Reach::Tenant(tenant) => Some(tenant),
    };
    let audit = call.audit(tenant, "key.create", key.id.to_string(), None);
    let made = call
        .context
        .store
        .create_key(
            KeyRecord {
                hash: hash_key(&secret),
                key,
            },
            audit,
            once,
        )
        .await?;
    answer["key"] = secret.into();
    call.answer_once(acting.id, made, |()| {
        once::json(StatusCode::CREATED, &answer)
    })
    .await
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
                tenant
                    .ok_or_else(|| ApiError::field("tenant", "there is no such tenant"))?
                    .id,
            ))
        }
        (None, Reach::All) if !call.names_tenant() => Ok(Reach::All),
        (None, _) => Ok(Reach::Tenant(acting)),
    }
}

/// Keys that live. A key of all tenants sees all of them, unless it names one.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let keys = call.context.store.keys(listed_reach(&call).await?).await?;
    let mut rows = Vec::with_capacity(keys.len());
    for key in &keys {
        rows.push(shown(&call.context, key).await?);
    }
    Ok(once::json(StatusCode::OK, &listed(rows, None, u32::MAX)))
}

async fn listed_reach(call: &Call) -> Result<Option<Reach>, ApiError> {
    match call.caller.reach == Reach::All && !call.names_tenant() {
        true => Ok(None),
        false => Ok(Some(Reach::Tenant(call.tenant().await?.id))),
    }
}

/// Ends a key at once, on every node.
pub async fn revoke(Path(id): Path<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let id: KeyId = id.parse().map_err(|_| ApiError::not_found())?;
    let reach = listed_reach(&call).await?;
    let tenant = match reach {
        Some(Reach::Tenant(tenant)) => Some(tenant),
        _ => None,
    };
    let audit = call.audit(tenant, "key.revoke", id.to_string(), None);
    call.context.store.revoke_key(id, reach, audit).await?;
    call.context.directory.forget_keys();
    call.context.hub.tell("k");
    Ok(axum::response::IntoResponse::into_response(
        StatusCode::NO_CONTENT,
    ))
}
