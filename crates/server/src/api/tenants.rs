//! Tenants, and the audit trail. Only a key of all tenants has them.

use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use wakepost_domain::TenantId;
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::executor::Executor;
use wakepost_domain::tenant::{Tenant, TenantSettings, is_slug};

use super::call::Call;
use super::error::ApiError;
use super::once;
use super::page::{PageQuery, listed};
use super::work::{check_attempts, check_backoff, check_name};

#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Changes {
    slug: Option<String>,
    name: Option<String>,
    weight: Option<u32>,
    concurrency: Option<u32>,
    default_executor: Option<Executor>,
    max_attempts: Option<u32>,
    backoff_s: Option<Vec<u64>>,
}

impl Changes {
    fn apply(self, settings: &mut TenantSettings) -> Result<(), ApiError> {
        if let Some(name) = self.name {
            check_name("name", &name)?;
            settings.name = name;
        }
        if let Some(weight) = self.weight {
            if !(1..=1000).contains(&weight) {
                return Err(ApiError::field("weight", "must be from 1 to 1000"));
            }
            settings.weight = Some(weight);
        }
        if let Some(concurrency) = self.concurrency {
            if concurrency == 0 {
                return Err(ApiError::field("concurrency", "must be at least 1"));
            }
            settings.concurrency = Some(concurrency);
        }
        check_attempts(self.max_attempts)?;
        check_backoff(self.backoff_s.as_deref())?;
        settings.default_executor = self.default_executor.or(settings.default_executor.take());
        settings.max_attempts = self.max_attempts.or(settings.max_attempts);
        settings.backoff_s = self.backoff_s.or(settings.backoff_s.take());
        Ok(())
    }
}

fn shown(tenant: &Tenant) -> Value {
    let settings = &tenant.settings;
    json!({
        "id": tenant.slug,
        "slug": tenant.slug,
        "name": settings.name,
        "weight": settings.turn_weight(),
        "concurrency": settings.concurrency,
        "default_executor": settings.default_executor,
        "max_attempts": settings.max_attempts,
        "backoff_s": settings.backoff_s,
        "created_at": tenant.created_at,
    })
}

/// Only a key of all tenants may see or change tenants.
fn need_all(call: &Call) -> Result<(), ApiError> {
    call.need(Right::Administer)?;
    if call.caller.reach == Reach::All {
        Ok(())
    } else {
        Err(ApiError::forbidden())
    }
}

/// All tenants.
pub async fn list(call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let tenants = call.context.store.tenants().await?;
    let rows = tenants.iter().map(shown).collect();
    Ok(once::json(StatusCode::OK, &listed(rows, None, u32::MAX)))
}

/// Makes a tenant.
pub async fn create(call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let mut new: Changes = call.body()?;
    let slug = new
        .slug
        .take()
        .ok_or_else(|| ApiError::field("slug", "is required"))?;
    if !is_slug(&slug) {
        return Err(ApiError::field(
            "slug",
            "must be 1 to 63 of a-z, 0-9 and inner hyphens",
        ));
    }
    let mut settings = TenantSettings::default();
    new.apply(&mut settings)?;
    let remembered = Tenant {
        id: TenantId(0),
        slug: slug.clone(),
        settings: settings.clone(),
        created_at: call.context.now(),
    };
    let once = call
        .once(TenantId::DEFAULT, StatusCode::CREATED, &shown(&remembered))
        .await?;
    let audit = call.audit(None, "tenant.create", slug.clone(), None);
    let made = call
        .context
        .store
        .create_tenant(slug, settings, audit, once)
        .await?;
    call.context.directory.forget_tenants();
    call.context.hub.tell("t");
    call.answer_once(TenantId::DEFAULT, made, |tenant| {
        once::json(StatusCode::CREATED, &shown(&tenant))
    })
    .await
}

/// One tenant.
pub async fn show(Path(slug): Path<String>, call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let tenant = call
        .context
        .directory
        .tenant_by_slug(&slug)
        .await?
        .ok_or_else(ApiError::not_found)?;
    Ok(once::json(StatusCode::OK, &shown(&tenant)))
}

/// Changes a tenant.
pub async fn update(Path(slug): Path<String>, call: Call) -> Result<Response, ApiError> {
    need_all(&call)?;
    let tenant = call
        .context
        .directory
        .tenant_by_slug(&slug)
        .await?
        .ok_or_else(ApiError::not_found)?;
    let changes: Changes = call.body()?;
    if changes.slug.is_some() {
        return Err(ApiError::field("slug", "cannot be changed"));
    }
    let mut tenant = (*tenant).clone();
    changes.apply(&mut tenant.settings)?;
    let audit = call.audit(Some(tenant.id), "tenant.update", slug, None);
    call.context
        .store
        .update_tenant(tenant.id, tenant.settings.clone(), audit)
        .await?;
    call.context.directory.forget_tenants();
    call.context.hub.tell("t");
    Ok(once::json(StatusCode::OK, &shown(&tenant)))
}

/// Who did what.
pub async fn audit(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Administer)?;
    let tenant = match call.caller.reach == Reach::All && !call.names_tenant() {
        true => None,
        false => Some(call.tenant().await?.id),
    };
    let page = call.query::<PageQuery>()?.page()?;
    let rows = call.context.store.audit(tenant, page).await?;
    let last = rows.last().map(|row| row.id.0);
    let shown = rows.iter().map(|row| {
        json!({
            "id": row.id,
            "at": row.id.0.time(),
            "actor": row.actor,
            "action": row.action,
            "target": row.target,
            "note": row.note,
        })
    });
    Ok(once::json(
        StatusCode::OK,
        &listed(shown.collect(), last, page.limit),
    ))
}
