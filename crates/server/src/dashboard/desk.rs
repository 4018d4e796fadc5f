//! Where an operator sits: who signed in, which tenant they look at, and the API to ask.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use url::form_urlencoded;
use wakepost_domain::access::{Reach, Right};
use wakepost_domain::limits::truncate;

use super::Dashboard;
use super::answer::go;
use super::session::{self, Session, Visit};
use crate::api;
use crate::within::{Api, Refused};

/// What was done is told once, on the next page.
pub const FLASH: &str = "wakepost_flash";
/// How long it may take to get there.
const FLASH_LASTS: Duration = Duration::from_secs(60);
/// How much is told.
const FLASH_CHARS_MAX: usize = 500;

/// One request of somebody who signed in.
pub struct Desk {
    /// The server.
    pub dashboard: Arc<Dashboard>,
    /// Who.
    pub session: Session,
    /// The API in their name, about the tenant they look at.
    pub api: Api,
    /// The page's parameters.
    pub query: Vec<(String, String)>,
    /// The page's path.
    pub path: String,
    /// What was done just before.
    pub flash: Option<String>,
}

impl FromRequestParts<Arc<Dashboard>> for Desk {
    type Rejection = Response;

    async fn from_request_parts(
        parts: &mut Parts,
        dashboard: &Arc<Dashboard>,
    ) -> Result<Desk, Response> {
        let Some(session) = session::of(&dashboard.context, parts).await else {
            return Err(session::instead(parts));
        };
        // A page is one call of its key, whatever it asks the API.
        session.caller.pace(&dashboard.context).map_err(|error| {
            refused(error.status(), "this key makes too many calls: wait a moment")
        })?;
        let query = parts.uri.query().unwrap_or_default();
        let query: Vec<(String, String)> =
            form_urlencoded::parse(query.as_bytes()).into_owned().collect();
        let tenant = query.iter().find(|(name, _)| name == "tenant");
        let tenant = tenant.map(|(_, slug)| slug.clone()).filter(|slug| !slug.is_empty());
        Ok(Desk {
            api: Api {
                router: dashboard.api.clone(),
                caller: session.caller.clone(),
                tenant: tenant.filter(|_| session.caller.reach == Reach::All),
                led_by: HeaderMap::new(),
            },
            dashboard: dashboard.clone(),
            session,
            query,
            path: parts.uri.path().to_owned(),
            flash: session::cookie(&parts.headers, FLASH).and_then(read_flash),
        })
    }
}

impl Desk {
    /// A parameter of the page, or nothing.
    pub fn parameter(&self, name: &str) -> &str {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.trim())
    }

    /// Whether whoever signed in may do this.
    pub fn may(&self, right: Right) -> bool {
        self.session.caller.need_any(&[right]).is_ok()
    }

    /// Whether whoever signed in sees all tenants.
    pub fn sees_all(&self) -> bool {
        self.session.caller.reach == Reach::All
    }

    /// The address of a page, about the same tenant.
    pub fn to(&self, path: &str) -> String {
        to(path, self.api.tenant.as_deref(), self.session.visit.as_ref())
    }

    /// Leads to a page, and tells there what was done.
    pub fn done(&self, path: &str, what: &str) -> Response {
        let text = URL_SAFE_NO_PAD.encode(truncate(what, FLASH_CHARS_MAX));
        let context = &self.dashboard.context;
        let cookie = session::set_cookie(context, FLASH, &text, FLASH_LASTS);
        ([(header::SET_COOKIE, cookie)], go(&self.to(path))).into_response()
    }

    /// Something new that a form makes once, however often it is sent.
    pub fn once(&self) -> String {
        self.dashboard.context.new_id().to_string()
    }
}

/// The address of a page about a tenant, or behind a portal link.
pub fn to(path: &str, tenant: Option<&str>, visit: Option<&Visit>) -> String {
    if let Some(visit) = visit {
        return format!("{}{path}", visit.prefix);
    }
    let Some(tenant) = tenant else { return path.to_owned() };
    let mark = if path.contains('?') { '&' } else { '?' };
    let pair =
        form_urlencoded::Serializer::new(String::new()).append_pair("tenant", tenant).finish();
    format!("{path}{mark}{pair}")
}

fn read_flash(text: &str) -> Option<String> {
    String::from_utf8(URL_SAFE_NO_PAD.decode(text).ok()?).ok().filter(|text| !text.is_empty())
}

/// A form that one of our own pages sent.
pub struct Form(Vec<(String, String)>);

impl Form {
    /// A field, or nothing.
    pub fn get(&self, name: &str) -> &str {
        self.find(name).unwrap_or_default()
    }

    /// A field, if it is there.
    pub fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Fields whose names begin alike, by the rest of their names.
    pub fn starting_with<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.0
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(prefix)?, value.as_str())))
    }

    /// A field that can be there many times.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl FromRequest<Arc<Dashboard>> for Form {
    type Rejection = Response;

    async fn from_request(request: Request, dashboard: &Arc<Dashboard>) -> Result<Form, Response> {
        let (parts, body) = request.into_parts();
        let body = api::read_body(body, &parts.headers).await;
        let body = body.map_err(|error| refused(error.status(), "the form could not be read"))?;
        let form = Form(form_urlencoded::parse(&body).into_owned().collect());
        if !is_ours(&parts.headers) {
            return Err(refused(StatusCode::FORBIDDEN, "the form came from another site"));
        }
        let session = session::of(&dashboard.context, &parts).await;
        match session {
            // The page to sign in on is the only one that can be sent without a session.
            None if parts.uri.path() == "/sign-in" => Ok(form),
            Some(session) if same(&session.csrf, form.get("csrf")) => Ok(form),
            Some(_) if parts.uri.path() == "/sign-in" => Ok(form),
            Some(_) => Err(refused(
                StatusCode::FORBIDDEN,
                "the form is of another session: load the page again",
            )),
            None => Err(session::instead(&parts)),
        }
    }
}

fn refused(status: StatusCode, detail: &str) -> Response {
    Refused::new(status, detail).into_response()
}

/// Browsers say where a form was; one of another site is refused before anything is looked at.
fn is_ours(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin" || site == "none")
}

/// Compares without telling by the time it takes how much was right.
pub fn same(expected: &str, given: &str) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(expected.as_bytes(), given.as_bytes()).is_ok()
}
