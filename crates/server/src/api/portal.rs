//! Portal links: signed and expiring, each opens one tenant's webhooks to whoever has it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{Timestamp, limits};

use super::auth::portal_name;
use super::call::Call;
use super::describe::{self, Conflicting, Idempotent, Keyed, Missing, Unkeyed};
use super::error::ApiError;
use super::once;
use crate::context::Context;
use crate::schema;

/// How long a link is good, unless said otherwise.
const GOOD_S: u64 = 3600;

/// A link to make.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewPortalLink {
    /// Whose webhooks it opens; left out, those of the tenant that the call is about.
    #[schema(value_type = Option<schema::Slug>)]
    tenant: Option<String>,
    /// For how long; an hour if left out.
    #[schema(minimum = 60, maximum = 604800)]
    expires_s: Option<u64>,
}

/// A link. Whoever has it may use it, so it is as good as a key.
#[derive(Serialize, ToSchema)]
struct PortalLink {
    /// What the audit trail calls it, and what is done with it.
    id: String,
    /// Where it leads. What stands after `/p/` is also a key for the API, for just these calls.
    url: String,
    /// Until when it is good.
    #[schema(value_type = schema::Timestamp)]
    expires_at: Timestamp,
}

/// Makes a link that opens one tenant's webhooks, deliveries and catalogue to a subscriber, and nothing else.
///
/// It cannot be taken back before it ends: give it no more time than it needs.
#[utoipa::path(
    post, path = "/portal-links", operation_id = "create_portal_link", tag = "webhooks",
    params(describe::Tenant, Idempotent), request_body = NewPortalLink,
    responses(
        (status = 201, description = "The link.", body = PortalLink),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn create_link(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Configure)?;
    let acting = call.tenant().await?;
    let NewPortalLink { tenant, expires_s } = call.body()?;
    let (low, high) = (limits::PORTAL_LINK_S_MIN, limits::PORTAL_LINK_S_MAX);
    let expires_s = expires_s.unwrap_or(GOOD_S);
    if !(low..=high).contains(&expires_s) {
        return Err(ApiError::field("expires_s", format!("must be from {low} to {high}")));
    }
    let tenant = match tenant {
        None => acting.clone(),
        Some(slug) => {
            let found = call.context.directory.tenant_by_slug(&slug).await?;
            let found = found.filter(|tenant| call.caller.reaches(tenant.id));
            found.ok_or_else(|| ApiError::field("tenant", "there is no such tenant"))?
        }
    };
    let context = &call.context;
    let expires_at = context.now().after(Duration::from_secs(expires_s));
    let token = context.tokens.portal(tenant.id, expires_at);
    let link = PortalLink {
        id: portal_name(&token),
        url: format!("{}/p/{token}", context.base_url),
        expires_at,
    };
    // Unlike other secrets it is also in the answer to a repeat: it is stored nowhere else, and ends soon.
    let once = call.once(acting.id, StatusCode::CREATED, &link).await?;
    let until = Some(format!("until {expires_at}"));
    let audit = call.audit(Some(tenant.id), "portal_link.create", link.id.clone(), until);
    let made = context.store.note(audit, once).await?;
    call.answer_once(acting.id, made, |()| once::json(StatusCode::CREATED, &link)).await
}

/// Says what a portal link is for, and until when it is good.
#[utoipa::path(
    get, path = "/p/{token}", operation_id = "open_portal", tag = "webhooks", security(()),
    params(("token" = String, Path, description = "What the link ends with.")),
    responses(
        (status = 200, description = "A page.", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that the link is not good.", body = String,
         content_type = "text/html"),
        Unkeyed,
    )
)]
pub async fn page(
    State(context): State<Arc<Context>>,
    token: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let now = context.now();
    let opened = token.ok().and_then(|Path(token)| context.tokens.read_portal(&token, now));
    let tenant = match opened {
        Some((tenant, until)) => context.directory.tenant(tenant).await?.map(|of| (of, until)),
        None => None,
    };
    let (status, text) = match tenant {
        Some((tenant, until)) => (StatusCode::OK, welcome(&tenant, until)),
        None => (StatusCode::NOT_FOUND, nothing_here()),
    };
    Ok((status, page_headers(), text).into_response())
}

/// The address of the page is a secret, and the page needs nothing from anywhere.
fn page_headers() -> HeaderMap {
    let csp = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; \
               frame-ancestors 'none'";
    let mut headers = HeaderMap::new();
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, csp),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("x-robots-tag", HeaderValue::from_static("noindex, nofollow"));
    headers
}

fn welcome(tenant: &Tenant, until: Timestamp) -> String {
    let name = match tenant.settings.name.is_empty() {
        true => &tenant.slug,
        false => &tenant.settings.name,
    };
    let name = escaped(name);
    html(
        &format!("Webhooks of {name}"),
        &format!(
            "<p>This link is for whoever looks after the webhooks of <strong>{name}</strong>: it opens them, their \
             deliveries and the catalogue of events, and nothing else.</p>\
             <p>It is good until <time datetime=\"{until}\">{until}</time>. Whoever has it can use it, so do not pass \
             it on.</p>\
             <p>What stands after <code>/p/</code> in its address is also a key for the API: send it as \
             <code>Authorization: Bearer …</code>.</p>"
        ),
    )
}

fn nothing_here() -> String {
    let text = "<p>There is nothing here. If this link was good once, it is over: ask for a new one where you got \
                it.</p>";
    html("This link is not good", text)
}

fn html(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\
         <style>body{{font:16px/1.5 system-ui,sans-serif;max-width:38rem;margin:4rem auto;padding:0 1rem;\
         color-scheme:light dark}}</style></head>\
         <body><main><h1>{title}</h1>{body}</main></body></html>\n"
    )
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use wakepost_domain::TenantId;
    use wakepost_domain::tenant::TenantSettings;

    use super::*;

    #[test]
    fn a_tenants_name_is_text_on_the_page_and_nothing_else() {
        let name = "<script>alert(\"1\")</script> & 'co'".to_owned();
        let settings = TenantSettings { name, ..TenantSettings::default() };
        let created_at = Timestamp::from_millis(0);
        let tenant =
            Tenant { id: TenantId::DEFAULT, slug: "acme".to_owned(), settings, created_at };
        let page = welcome(&tenant, Timestamp::from_millis(0));
        assert!(
            !page.contains("<script") && page.contains("&lt;script&gt;alert(&quot;1"),
            "{page}"
        );
        assert!(page.contains("1970-01-01T00:00:00.000Z"));
    }
}
