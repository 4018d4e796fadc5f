//! The API, called within this process in somebody's name: by the dashboard for whoever signed in, by `/mcp` for an agent.
//! Roles, tenants, audit and refusals are then those of any other call.

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tower::ServiceExt;
use url::form_urlencoded;

use crate::api::{self, Caller};

/// The largest answer that is read: five hundred rows fit many times.
const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The API, as one caller sees one tenant.
#[derive(Clone)]
pub struct Api {
    /// The API's routes.
    pub router: Router,
    /// In whose name.
    pub caller: Caller,
    /// About which tenant, if one was named.
    pub tenant: Option<String>,
    /// What led to its calls ([`crate::chains::of`]).
    pub led_by: HeaderMap,
}

/// Why the API refused, or could not answer.
#[derive(Debug, Clone, Deserialize)]
pub struct Refused {
    /// The HTTP status.
    pub status: u16,
    /// A stable word.
    #[serde(default)]
    pub code: String,
    /// One sentence.
    #[serde(default)]
    pub detail: String,
    /// The request's id, as the log has it.
    #[serde(default)]
    pub request_id: Option<String>,
}

impl Refused {
    /// A refusal before the API was asked, with the word that is usual for its status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Refused {
        let reason = status.canonical_reason().unwrap_or("refused");
        Refused {
            status: status.as_u16(),
            code: reason.to_lowercase().replace(' ', "_"),
            detail: detail.into(),
            request_id: api::request_id(),
        }
    }
}

/// The parameters of a call.
pub trait Query {
    /// Names and values.
    fn pairs(&self) -> &[(&str, &str)];
}

impl<const N: usize> Query for [(&str, &str); N] {
    fn pairs(&self) -> &[(&str, &str)] {
        self
    }
}

impl Query for Vec<(&str, &str)> {
    fn pairs(&self) -> &[(&str, &str)] {
        self
    }
}

impl<Q: Query> Query for &Q {
    fn pairs(&self) -> &[(&str, &str)] {
        (*self).pairs()
    }
}

/// A list as the API answers it.
#[derive(Debug, Clone, Deserialize)]
pub struct List<T> {
    /// This page, newest first.
    pub data: Vec<T>,
    /// Where the next one begins.
    pub next_cursor: Option<String>,
}

impl Api {
    /// Reads something. `path` begins after `/api/v1`; parameters without a value are left out.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: impl Query,
    ) -> Result<T, Refused> {
        let answer = self.ask(Method::GET, path, query.pairs(), None, None).await?;
        read(&bytes(answer).await?)
    }

    /// Reads text or bytes as they are.
    pub async fn open(&self, path: &str, query: &[(&str, &str)]) -> Result<Response, Refused> {
        self.ask(Method::GET, path, query, None, None).await
    }

    /// Reads text, all of it.
    pub async fn text(&self, path: &str, query: &[(&str, &str)]) -> Result<String, Refused> {
        let answer = bytes(self.open(path, query).await?).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Does something.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, Refused> {
        self.send(Method::POST, path, body, None).await
    }

    /// Makes something, once however often it is sent.
    pub async fn create(&self, path: &str, body: &Value, once: &str) -> Result<Value, Refused> {
        self.send(Method::POST, path, body, Some(once)).await
    }

    /// Does something with this method.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: &Value,
        once: Option<&str>,
    ) -> Result<Value, Refused> {
        let answer = self.ask(method, path, &[], Some(body), once).await?;
        match bytes(answer).await? {
            empty if empty.is_empty() => Ok(Value::Null),
            text => read(&text),
        }
    }

    fn address(&self, path: &str, query: &[(&str, &str)]) -> String {
        let tenant = self.tenant.iter().map(|tenant| ("tenant", tenant.as_str()));
        let pairs = query.iter().copied().filter(|(_, value)| !value.is_empty()).chain(tenant);
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        format!("/api/v1{path}?{query}")
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
        once: Option<&str>,
    ) -> Result<Response, Refused> {
        let uri = self.address(path, query);
        let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
        let mut request = Request::builder()
            .method(method)
            .uri(uri)
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(|_| Refused::new(StatusCode::NOT_FOUND, "there is no such thing"))?;
        if let Some(once) = once.and_then(|once| HeaderValue::from_str(once).ok()) {
            request.headers_mut().insert("idempotency-key", once);
        }
        if let Some(Ok(id)) = api::request_id().map(HeaderValue::try_from) {
            request.headers_mut().insert(api::REQUEST_ID_HEADER, id);
        }
        request.headers_mut().extend(self.led_by.clone());
        request.extensions_mut().insert(self.caller.clone());
        let answer = match self.router.clone().oneshot(request).await {
            Ok(answer) => answer,
            Err(never) => match never {},
        };
        match answer.status().is_success() {
            true => Ok(answer),
            false => Err(refusal(answer).await),
        }
    }
}

async fn refusal(answer: Response) -> Refused {
    let status = answer.status();
    let text = bytes(answer).await.unwrap_or_default();
    let told = serde_json::from_slice(&text);
    told.unwrap_or_else(|_| Refused::new(status, "the server could not do that"))
}

async fn bytes(answer: Response) -> Result<Vec<u8>, Refused> {
    let whole = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    whole
        .map(|whole| whole.to_bytes().to_vec())
        .map_err(|_| Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer is too large"))
}

fn read<T: DeserializeOwned>(text: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(text).map_err(|error| {
        tracing::error!(%error, "what the API answered cannot be read");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be read")
    })
}

/// One part of a path, with what has a meaning there written out.
pub fn part(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                safe.push(byte.into());
            }
            byte => safe.push_str(&format!("%{byte:02X}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn a_part_of_a_path_cannot_become_two() {
        assert_eq!(part("mail:receipt"), "mail%3Areceipt");
        assert_eq!(part("../a?b=c#d é"), "..%2Fa%3Fb%3Dc%23d%20%C3%A9");
    }
}
