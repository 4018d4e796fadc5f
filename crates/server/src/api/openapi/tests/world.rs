//! A server without a listener, whose every answer is held against the description.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt;

use super::{described, fits};
use crate::app::App;
use crate::config::{Flags, load};
use crate::context::Context;
use crate::{edge, mcp};

const ADMIN: &str = "an-admin-key-of-more-than-32-characters";

/// One operation of the description.
pub struct Operation<'a> {
    pub method: Method,
    pub path: &'a str,
    pub about: &'a Value,
}

/// All operations.
pub fn operations(api: &Value) -> impl Iterator<Item = Operation<'_>> {
    let paths = api["paths"].as_object().unwrap().iter();
    paths.flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(move |(method, about)| Operation {
            method: method.to_ascii_uppercase().parse().unwrap(),
            path,
            about,
        })
    })
}

/// An answer, read.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The server, and what was asked of it.
pub struct World {
    pub context: Arc<Context>,
    router: Router,
    api: Value,
    key: Option<String>,
    /// Operations that went well, by name.
    pub done: BTreeSet<String>,
    _data: TempDir,
}

impl World {
    pub async fn start() -> World {
        let data = tempfile::tempdir().unwrap();
        let values = BTreeMap::from([
            ("listen", "127.0.0.1:0".to_owned()),
            ("data_dir", data.path().display().to_string()),
            ("admin_key", ADMIN.to_owned()),
        ]);
        let flags = Flags { file: None, values };
        let app = App::start(load(&flags, &|_| None).unwrap()).await.unwrap();
        let context = app.context.clone();
        let api = crate::api::router(context.clone());
        let router = edge::router(context.clone())
            .merge(mcp::router(context.clone(), api.clone()))
            .merge(api);
        let key = Some(ADMIN.to_owned());
        World { context, router, api: described(), key, done: BTreeSet::new(), _data: data }
    }

    /// Uses another key, or none.
    pub fn with_key(&mut self, key: Option<&str>) {
        self.key = key.map(str::to_owned);
    }

    pub fn as_admin(&mut self) {
        self.with_key(Some(ADMIN));
    }

    /// Sends any request.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Option<&Value>,
    ) -> Answer {
        if let Some(key) = &self.key {
            let value = HeaderValue::from_str(&format!("Bearer {key}")).unwrap();
            headers.insert(header::AUTHORIZATION, value);
        }
        let body = Body::from(body.map(Value::to_string).unwrap_or_default());
        let mut request = Request::builder().method(method).uri(path).body(body).unwrap();
        *request.headers_mut() = headers;
        let peer: SocketAddr = "127.0.0.1:1".parse().unwrap();
        request.extensions_mut().insert(ConnectInfo(peer));
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Sends a request of the description, and holds its answer against it.
    pub async fn call_with(
        &mut self,
        method: &str,
        path: &str,
        headers: HeaderMap,
        body: Option<Value>,
        status: u16,
    ) -> Answer {
        let method: Method = method.parse().unwrap();
        let place = format!("{method} {path}");
        let answer = self.send(method.clone(), path, headers, body.as_ref()).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{place}: {text}");
        let about = self.about(&method, path);
        let told = &about["responses"][status.to_string()];
        assert!(!told.is_null(), "{place}: {status} is not described");
        let told = match told["$ref"].as_str() {
            Some(place) => self.api.pointer(&place[1..]).unwrap(),
            None => told,
        };
        if let Some(kinds) = told["content"].as_object() {
            let sent = answer.headers[header::CONTENT_TYPE].to_str().unwrap();
            let fitting = kinds.iter().find(|(kind, _)| sent.starts_with(kind.as_str()));
            let (kind, content) = fitting.unwrap_or_else(|| panic!("{place}: {sent}"));
            if kind.ends_with("json") {
                let fit = fits::check(&self.api, &content["schema"], &answer.json());
                assert_eq!(fit, Ok(()), "{place}: {text}");
            }
        }
        assert!(answer.body.is_empty() || !told["content"].is_null(), "{place}: {text}");
        if status < 300 {
            let taken = &about["requestBody"]["content"]["application/json"]["schema"];
            if let Some(body) = body.filter(|_| !taken.is_null()) {
                assert_eq!(fits::check(&self.api, taken, &body), Ok(()), "{place}: {body}");
            }
            let name = about["operationId"].as_str().unwrap().to_owned();
            self.done.insert(name);
        }
        answer
    }

    /// The description of a request. A path without parameters comes first, as in the router.
    fn about(&self, method: &Method, path: &str) -> &Value {
        let bare = path.split('?').next().unwrap();
        operations(&self.api)
            .filter(|operation| operation.method == *method && matches(operation.path, bare))
            .min_by_key(|operation| operation.path.matches('{').count())
            .unwrap_or_else(|| panic!("{method} {path} is not described"))
            .about
    }

    /// Calls the API. `path` begins after `/api/v1`.
    pub async fn call(&mut self, method: &str, path: &str, body: Value, status: u16) -> Value {
        let path = format!("/api/v1{path}");
        let body = Some(body).filter(|body| !body.is_null());
        self.call_with(method, &path, HeaderMap::new(), body, status).await.json()
    }

    pub async fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, Value::Null, 200).await
    }

    pub async fn post(&mut self, path: &str, body: Value, status: u16) -> Value {
        self.call("POST", path, body, status).await
    }

    /// A source without signatures.
    pub async fn source(&mut self) -> String {
        let source = json!({"provider": "github", "name": "ours", "unsigned": true});
        let made = self.post("/sources", source, 201).await;
        made["id"].as_str().unwrap().to_owned()
    }

    /// Sends an event to a source.
    pub async fn event(&mut self, source: &str, id: &'static str, status: u16) -> Value {
        let mut headers = HeaderMap::new();
        headers.insert("x-github-event", HeaderValue::from_static("issues"));
        headers.insert("x-github-delivery", HeaderValue::from_static(id));
        let body = json!({"action": "opened", "issue": {"id": 1, "number": 1, "title": "Broken"}});
        let path = format!("/in/{source}");
        self.call_with("POST", &path, headers, Some(body), status).await.json()
    }

    /// A new job, leased: its id and its token.
    pub async fn leased(&mut self, kind: &str) -> (String, String) {
        self.post("/jobs", json!({"kind": kind, "input": {"a": 1}}), 201).await;
        self.lease(kind).await
    }

    /// Leases a job of a kind.
    pub async fn lease(&mut self, kind: &str) -> (String, String) {
        let wish = json!({"worker": "w-1", "kinds": [kind], "wait_s": 5, "lease_s": 60});
        let jobs = self.post("/jobs/lease", wish, 200).await;
        let text = |field: &str| jobs["jobs"][0][field].as_str().unwrap().to_owned();
        (text("id"), text("lease_token"))
    }
}

fn matches(template: &str, path: &str) -> bool {
    let mut parts = path.split('/');
    let same = |part: &str| parts.next().is_some_and(|real| part == real || part.starts_with('{'));
    template.split('/').all(same) && parts.next().is_none()
}
