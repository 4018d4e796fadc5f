//! The API, as tools call it: within this process, in the caller's name.

use axum::Router;
use axum::body::Body;
use http::{HeaderValue, Method, Request, header};
use http_body_util::{BodyExt, Limited};
use serde_json::Value;
use tower::ServiceExt;
use url::form_urlencoded;

use crate::api::Caller;

/// The largest answer that is read; what is handed on is far smaller.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The API, and in whose name it is called.
pub struct Api {
    router: Router,
    /// Who calls.
    pub caller: Caller,
    /// About which tenant, if one was named.
    pub tenant: Option<String>,
}

/// Why the API refused.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// A stable word.
    pub code: String,
    /// A sentence.
    pub detail: String,
}

impl Refused {
    fn inside(detail: &str) -> Refused {
        Refused { status: 500, code: "internal".to_owned(), detail: detail.to_owned() }
    }
}

impl Api {
    /// In the name of this caller.
    pub fn new(router: Router, caller: Caller) -> Api {
        Api { router, caller, tenant: None }
    }

    /// Looks.
    pub async fn get(&self, path: &str, query: &[(&str, String)]) -> Result<Value, Refused> {
        self.send(Method::GET, path, query, None, None).await
    }

    /// Does something; with a key, once.
    pub async fn post(
        &self,
        path: &str,
        body: &Value,
        once: Option<&str>,
    ) -> Result<Value, Refused> {
        self.send(Method::POST, path, &[], Some(body), once).await
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<&Value>,
        once: Option<&str>,
    ) -> Result<Value, Refused> {
        let tenant = self.tenant.iter().map(|tenant| ("tenant", tenant.as_str()));
        let pairs = query.iter().map(|(name, value)| (*name, value.as_str())).chain(tenant);
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}?{query}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|_| Refused::inside("the call could not be made"))?;
        if let Some(once) = once {
            let once = HeaderValue::from_str(once)
                .map_err(|_| Refused::inside("the key is not of visible characters"))?;
            request.headers_mut().insert("idempotency-key", once);
        }
        request.extensions_mut().insert(self.caller.clone());
        let answer = match self.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        let status = answer.status();
        let whole = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let whole = whole.map_err(|_| Refused::inside("the answer is too large"))?.to_bytes();
        let json: Value = serde_json::from_slice(&whole).unwrap_or_default();
        match status.is_success() {
            true => Ok(json),
            false => Err(Refused {
                status: status.as_u16(),
                code: json["code"].as_str().unwrap_or("error").to_owned(),
                detail: json["detail"].as_str().unwrap_or("the call was refused").to_owned(),
            }),
        }
    }
}
