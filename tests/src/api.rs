//! The API, as one key sees it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Map, Value, json};

use crate::http::{Answer, Http};
use crate::source::Source;

/// A caller of `/api/v1`.
#[derive(Clone)]
pub struct Api {
    pub(crate) http: Http,
    pub(crate) base: String,
    key: Option<String>,
    tenant: Option<String>,
}

impl Api {
    /// A caller of the server at `base`.
    pub fn new(http: Http, base: &str, key: Option<&str>) -> Api {
        Api { http, base: base.to_owned(), key: key.map(str::to_owned), tenant: None }
    }

    /// The same caller, acting on a tenant.
    pub fn of_tenant(&self, slug: &str) -> Api {
        Api { tenant: Some(slug.to_owned()), ..self.clone() }
    }

    /// A caller with another key.
    pub fn with_key(&self, key: &str) -> Api {
        Api::new(self.http.clone(), &self.base, Some(key))
    }

    /// A caller without a key.
    pub fn without_key(&self) -> Api {
        Api::new(self.http.clone(), &self.base, None)
    }

    /// The key.
    pub fn key(&self) -> &str {
        self.key.as_deref().unwrap_or_default()
    }

    /// Makes any call. `path` begins after `/api/v1`.
    pub async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Answer {
        self.call_with(method, path, HeaderMap::new(), body).await
    }

    /// As [`Api::call`], with further headers.
    pub async fn call_with(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<&Value>,
    ) -> Answer {
        self.try_call(method.clone(), path, headers, body)
            .await
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Makes any call, within `/api/v1` or not. `path` begins at the root.
    pub async fn anywhere(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<&Value>,
    ) -> Answer {
        self.try_anywhere(method.clone(), path, headers, body)
            .await
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// As [`Api::call_with`]; an error is what a caller sees when the server dies.
    pub async fn try_call(
        &self,
        method: Method,
        path: &str,
        headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        self.try_anywhere(method, &format!("/api/v1{path}"), headers, body).await
    }

    async fn try_anywhere(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Option<&Value>,
    ) -> Result<Answer, String> {
        if let Some(key) = &self.key {
            let value = HeaderValue::from_str(&format!("Bearer {key}")).expect("a key");
            headers.insert(header::AUTHORIZATION, value);
        }
        let json = HeaderValue::from_static("application/json");
        headers.insert(header::CONTENT_TYPE, json);
        let mut url = format!("{}{path}", self.base);
        if let Some(tenant) = &self.tenant {
            let mark = if path.contains('?') { '&' } else { '?' };
            url = format!("{url}{mark}tenant={tenant}");
        }
        let body = body.map(|body| Bytes::from(body.to_string()));
        self.http.try_send(method, &url, headers, body.unwrap_or_default()).await
    }

    /// `GET`
    pub async fn get(&self, path: &str) -> Answer {
        self.call(Method::GET, path, None).await
    }

    /// `POST`
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(Method::POST, path, Some(&body)).await
    }

    /// `PUT`
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PUT, path, Some(&body)).await
    }

    /// `PATCH`
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call(Method::PATCH, path, Some(&body)).await
    }

    /// `DELETE`
    pub async fn delete(&self, path: &str) -> Answer {
        self.call(Method::DELETE, path, None).await
    }

    /// Makes a source that is ready to receive.
    pub async fn source(&self, provider: &str) -> Source {
        self.source_with(provider, json!({})).await
    }

    /// As [`Api::source`], with further fields.
    pub async fn source_with(&self, provider: &str, fields: Value) -> Source {
        Source::create(self, provider, fields).await
    }

    /// Makes a job that waits for a worker, and says its id.
    pub async fn job_with(&self, fields: Value) -> String {
        self.post("/jobs", fields).await.is(201).text("id")
    }

    /// Makes a job with nothing special about it, and says its id.
    pub async fn job(&self) -> String {
        self.job_with(json!({"input": {}})).await
    }

    /// Makes a tenant, and a caller who is its administrator.
    pub async fn tenant(&self, slug: &str) -> Api {
        let fields = json!({"slug": slug, "name": slug});
        self.post("/tenants", fields).await.is(201);
        self.role("admin", slug).await
    }

    /// Makes a key of a tenant (`*`: of all), and a caller with it.
    pub async fn role(&self, role: &str, tenant: &str) -> Api {
        let fields = json!({"name": role, "role": role, "tenant": tenant});
        let made = self.post("/keys", fields).await.is(201);
        self.with_key(&made.text("key"))
    }

    /// A job, whole.
    pub async fn show_job(&self, id: &str) -> Value {
        self.get(&format!("/jobs/{id}")).await.is(200).json()
    }

    /// An event, whole.
    pub async fn show_event(&self, id: &str) -> Value {
        self.get(&format!("/inbox/{id}")).await.is(200).json()
    }

    /// Every row of a list, page by page.
    pub async fn list(&self, path: &str) -> Vec<Value> {
        let mut rows = Vec::new();
        let mut cursor = String::new();
        loop {
            let mark = if path.contains('?') { '&' } else { '?' };
            let answer = self.get(&format!("{path}{mark}limit=500{cursor}")).await;
            let page: Map<String, Value> =
                serde_json::from_slice(&answer.is(200).body).expect("a page");
            rows.extend(page["data"].as_array().expect("rows").iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return rows,
            }
        }
    }
}
