//! The reference page, `GET /docs`: the description of the API as people read it.
//!
//! It is made of the server's own description, once, and needs no key and no other place: its style and its script come
//! from this program, and it can be read without either.

mod example;
mod page;
mod shape;
mod text;

use std::sync::{Arc, OnceLock};

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::api;
use page::Page;

const STYLE: &str = include_str!("reference.css");
const SCRIPT: &str = include_str!("reference.js");

/// Nothing from anywhere else, and nothing written into the page itself.
const CSP: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; \
                   form-action 'none'; frame-ancestors 'none'";

struct Reference {
    base_url: String,
    page: OnceLock<Result<Bytes, String>>,
}

/// The page and what it uses. `base_url` is where its examples lead.
pub fn router(base_url: &str) -> Router {
    let reference = Reference { base_url: base_url.to_owned(), page: OnceLock::new() };
    Router::new()
        .route("/docs", get(show))
        .route("/docs/reference.css", get(style))
        .route("/docs/reference.js", get(script))
        .with_state(Arc::new(reference))
}

async fn show(State(reference): State<Arc<Reference>>) -> Response {
    let page = reference.page.get_or_init(|| {
        let page = Page::of(&api::description(), &reference.base_url);
        page.render().map(Bytes::from).map_err(|error| error.to_string())
    });
    match page {
        Ok(page) => {
            let headers = headers([
                (header::CACHE_CONTROL, "no-cache"),
                (header::CONTENT_SECURITY_POLICY, CSP),
            ]);
            (headers, kind("text/html; charset=utf-8"), page.clone()).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "the reference page cannot be made");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

async fn style() -> Response {
    file("text/css; charset=utf-8", STYLE)
}

async fn script() -> Response {
    file("text/javascript; charset=utf-8", SCRIPT)
}

/// Asked for by its version, so it may be kept for an hour even where another version runs beside this one.
fn file(kind_of: &'static str, text: &'static str) -> Response {
    let headers = headers([(header::CACHE_CONTROL, "public, max-age=3600")]);
    (headers, kind(kind_of), text).into_response()
}

fn kind(of: &'static str) -> [(HeaderName, &'static str); 1] {
    [(header::CONTENT_TYPE, of)]
}

fn headers<const N: usize>(more: [(HeaderName, &'static str); N]) -> HeaderMap {
    let always =
        [(header::X_CONTENT_TYPE_OPTIONS, "nosniff"), (header::REFERRER_POLICY, "no-referrer")];
    let all = always.into_iter().chain(more);
    all.map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn get(path: &str) -> (HeaderMap, String) {
        let router = router("https://hooks.example.com");
        let request = http::Request::get(path).body(axum::body::Body::empty()).unwrap();
        let answer = router.oneshot(request).await.unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        (parts.headers, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn every_operation_is_on_the_page_with_its_method_its_path_and_a_call() {
        let (_, page) = get("/docs").await;
        let api = api::description();
        for (path, methods) in api["paths"].as_object().unwrap() {
            for (method, about) in methods.as_object().unwrap() {
                let id = about["operationId"].as_str().unwrap();
                assert!(page.contains(&format!("id=\"{id}\"")), "{method} {path}");
                assert!(page.contains(&format!("href=\"#{id}\"")), "{method} {path}");
            }
        }
        assert!(page.contains("https://hooks.example.com/api/v1/jobs"));
        assert!(page.contains("at most 500"), "bounds are told");
    }

    #[tokio::test]
    async fn the_page_takes_nothing_from_elsewhere_and_writes_nothing_into_itself() {
        let (headers, page) = get("/docs").await;
        let csp = headers["content-security-policy"].to_str().unwrap();
        assert!(csp.starts_with("default-src 'none'") && !csp.contains("unsafe"));
        assert_eq!(headers["x-content-type-options"], "nosniff");
        for word in ["style=\"", "<style", "onclick", "javascript:", "src=\"http", "@import"] {
            assert!(!page.contains(word), "{word}");
        }
        assert_eq!(page.matches("<script").count(), page.matches("<script src=\"/docs/").count());
        let (headers, style) = get("/docs/reference.css").await;
        assert_eq!(headers["content-type"], "text/css; charset=utf-8");
        assert!(!style.contains("url(") && style.contains("prefers-color-scheme: dark"));
        let (headers, _) = get("/docs/reference.js").await;
        assert_eq!(headers["content-type"], "text/javascript; charset=utf-8");
    }
}
