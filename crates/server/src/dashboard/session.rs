//! Signing in with an API key. The session is a cookie that proves itself: which key, and until when. The key is looked
//! up at every request, so that one that was revoked or is over opens nothing.

use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use serde::Deserialize;
use wakepost_domain::Timestamp;
use wakepost_domain::access::Right;

use super::Dashboard;
use super::answer::{self, go};
use super::desk::Form;
use super::frame::assets_version;
use super::places::page_with;
use crate::api::{Caller, hash_key};
use crate::context::Context;

/// How long a session lasts.
pub const LASTS: Duration = Duration::from_secs(12 * 3600);
const COOKIE: &str = "wakepost_session";

/// Somebody who signed in, or came by a portal link.
#[derive(Clone)]
pub struct Session {
    /// Who.
    pub caller: Caller,
    /// What their forms must carry.
    pub csrf: String,
    /// The link that they came by.
    pub visit: Option<Visit>,
}

/// A subscriber's visit by a portal link.
#[derive(Clone)]
pub struct Visit {
    /// What the addresses of its pages begin with.
    pub prefix: String,
    /// Whose webhooks it opens.
    pub tenant: String,
    /// Until when the link is good.
    pub until: Timestamp,
}

/// Who asks, if it is anybody: whoever came by a link was found on the way here.
pub async fn of(context: &Context, parts: &Parts) -> Option<Session> {
    match parts.extensions.get::<Session>() {
        Some(visitor) => Some(visitor.clone()),
        None => find(context, &parts.headers).await,
    }
}

async fn find(context: &Context, headers: &HeaderMap) -> Option<Session> {
    let token = cookie(headers, COOKIE)?;
    let hash = context.tokens.read_session(token, context.now())?;
    let caller = Caller::by_key(context, hash).await.ok()?;
    caller.need_any(&[Right::Read]).ok()?;
    Some(Session { caller, csrf: context.tokens.form(token), visit: None })
}

/// One cookie's value.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = values.flat_map(|value| value.split(';'));
    pairs
        .find_map(|pair| pair.trim().split_once('=').filter(|(known, _)| *known == name))
        .map(|(_, value)| value)
}

/// A cookie that only requests of our own pages carry, and that no script reads.
pub fn set_cookie(context: &Context, name: &str, value: &str, lasts: Duration) -> HeaderValue {
    let secure = if context.base_url.starts_with("https://") { "; Secure" } else { "" };
    let text = format!(
        "{name}={value}; Path=/; Max-Age={}; HttpOnly; SameSite=Strict{secure}",
        lasts.as_secs()
    );
    HeaderValue::from_str(&text).expect("what we put in cookies is plain text")
}

/// Where to go after signing in.
#[derive(Deserialize)]
pub struct Aim {
    #[serde(default)]
    to: String,
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn<'a> {
    version: &'static str,
    to: &'a str,
    problem: Option<&'a str>,
}

/// The page to sign in on.
pub async fn page(Query(aim): Query<Aim>) -> Response {
    sign_in_page(StatusCode::OK, own(&aim.to), None)
}

/// Whoever did not sign in gets the page for it instead of what they asked for.
pub fn instead(asked: &Parts) -> Response {
    // A link from elsewhere comes without the cookie even if there is one: asked again from here, it comes along.
    if asked.headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site") {
        return answer::again();
    }
    if matches!(asked.method, Method::GET | Method::HEAD) {
        let wanted = asked.uri.path_and_query().map_or("/", |wanted| wanted.as_str());
        return sign_in_page(StatusCode::UNAUTHORIZED, own(wanted), None);
    }
    // What the form said is not kept: whoever signs in comes to the page that it was on.
    let problem = "The session is over, and nothing was done. Sign in, then do it again.";
    sign_in_page(StatusCode::UNAUTHORIZED, own(&page_with(&asked.uri)), Some(problem))
}

fn sign_in_page(status: StatusCode, to: &str, problem: Option<&str>) -> Response {
    answer::html(status, &SignIn { version: assets_version(), to, problem })
}

/// Only a path of our own.
pub fn own(to: &str) -> &str {
    let is_own = to.starts_with('/') && !to.starts_with("//") && !to.contains(['\\', '\r', '\n']);
    let is_page = !to.starts_with("/sign-") && !to.starts_with("/live/");
    if is_own && is_page { to } else { "/" }
}

/// Takes a key for a session.
pub async fn sign_in(
    State(dashboard): State<Arc<Dashboard>>,
    parts: Parts,
    form: Form,
) -> Response {
    let context = &dashboard.context;
    let to = own(form.get("to"));
    let hash = hash_key(form.get("key").trim());
    let problem = match Caller::by_key(context, hash).await {
        Err(error) if error.status() == StatusCode::UNAUTHORIZED => {
            match Caller::note_stranger(context, &parts) {
                Ok(()) => {
                    "No live key is like that. Keys begin with wpk_, unless you chose your own."
                }
                Err(_) => "Too many wrong keys came from your address. Wait a minute.",
            }
        }
        Err(_) => "The store cannot answer now. Try again in a moment.",
        Ok(caller) if caller.need_any(&[Right::Read]).is_err() => {
            "That key may not read. Sign in with the key of a viewer, an operator or an admin."
        }
        Ok(_) => {
            let token = context.tokens.session(hash, context.now().after(LASTS));
            let cookie = set_cookie(context, COOKIE, &token, LASTS);
            return ([(header::SET_COOKIE, cookie)], go(to)).into_response();
        }
    };
    sign_in_page(StatusCode::UNAUTHORIZED, to, Some(problem))
}

/// Ends the session in this browser.
pub async fn sign_out(State(dashboard): State<Arc<Dashboard>>, _form: Form) -> Response {
    let cookie = set_cookie(&dashboard.context, COOKIE, "", Duration::ZERO);
    ([(header::SET_COOKIE, cookie)], go("/sign-in")).into_response()
}

#[cfg(test)]
mod tests {
    use super::own;

    #[test]
    fn after_signing_in_nobody_is_led_elsewhere() {
        assert_eq!(own("/inbox?status=held"), "/inbox?status=held");
        for elsewhere in
            ["https://evil.example", "//evil.example", "/\\evil.example", "", "/sign-out"]
        {
            assert_eq!(own(elsewhere), "/", "{elsewhere}");
        }
    }
}
