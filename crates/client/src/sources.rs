//! Sources: who may send, how it is checked, and what becomes of it.

use http_body_util::Full;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::{get, post};
use crate::lenient::{names, null_as_default};
use crate::{Call, Client, Error, Page};

/// How a job reaches its agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Executor {
    /// A worker asks for it.
    Pull,
    /// It is posted to the agent.
    Http {
        /// Where to.
        url: String,
    },
    /// A local command runs it.
    Exec {
        /// Its name in `wakepost.toml`.
        name: String,
    },
}

/// One source.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// Its id.
    pub id: String,
    /// Which adapter understands its requests.
    pub provider: String,
    /// Its name for people.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Whose it is.
    pub tenant: Option<String>,
    /// Where to send webhooks.
    pub ingest_url: Option<String>,
    /// Whether it accepts them.
    pub enabled: Option<bool>,
    /// Whether its requests are not checked.
    #[serde(deserialize_with = "null_as_default")]
    pub unsigned: bool,
    /// What it still needs.
    #[serde(deserialize_with = "names")]
    pub missing_settings: Vec<String>,
    /// The adapter's settings, secrets left out.
    #[serde(deserialize_with = "null_as_default")]
    pub settings: Map<String, Value>,
    /// How far a signed time may be off.
    pub tolerance_s: Option<u64>,
    /// Which event types make a job; empty: all.
    #[serde(deserialize_with = "null_as_default")]
    pub filter: Vec<String>,
    /// How its jobs run, as the server says it: newer servers know more kinds.
    pub executor: Option<Value>,
    /// Which queue its jobs wait in.
    pub priority: Option<String>,
    /// `auto`, `draft` and so on.
    pub mode: Option<String>,
    /// Who is in charge of it.
    pub owner: Option<String>,
    /// How often its jobs are tried.
    pub max_attempts: Option<u32>,
    /// How many of its jobs may run at once.
    pub concurrency: Option<u32>,
    /// How long a lease lasts.
    pub lease_s: Option<u64>,
    /// How long a run may take.
    pub run_timeout_s: Option<u64>,
    /// The networks it accepts from; empty: any.
    #[serde(deserialize_with = "null_as_default")]
    pub allow_from: Vec<String>,
    /// When it was made.
    pub created_at: Option<String>,
    /// The secret, if the server made it: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What the server signs executor calls with: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor_secret: Option<String>,
}

impl std::fmt::Debug for Source {
    /// Without its secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("id", &self.id)
            .field("provider", &self.provider)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A source to create: only `provider` is needed.
#[derive(Clone, PartialEq, Default, Serialize)]
pub struct NewSource {
    /// Which adapter understands its requests.
    pub provider: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What its requests are checked with. `None`: the server makes one where the provider allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The adapter's settings.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// Off: it answers 404.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who is in charge of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Do not check its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<bool>,
    /// How far a signed time may be off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance_s: Option<u64>,
    /// The largest body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// How long a dedup key blocks a second job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dedup_window_s: Option<u64>,
    /// Which event types make a job.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<String>,
    /// Which queue its jobs wait in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
    /// How its jobs run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor: Option<Executor>,
    /// How often its jobs are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_s: Option<Vec<u64>>,
    /// How long a run may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_timeout_s: Option<u64>,
    /// How long a lease lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_s: Option<u64>,
    /// How many of its jobs may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The networks it accepts from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_from: Vec<String>,
    /// Further fields of the API, by name.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl std::fmt::Debug for NewSource {
    /// Without its secret and settings.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSource")
            .field("provider", &self.provider)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Which sources to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SourceQuery {
    /// How many.
    pub limit: Option<u32>,
    /// From where.
    pub cursor: Option<String>,
}

/// A request to try a source with.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Trial {
    /// What happened, by one of the provider's samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// What is wrong with it: `bad_signature`, `stale` or `duplicate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// What a source answered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Tried {
    /// What was sent.
    pub event_type: String,
    /// The HTTP status.
    pub status_code: u16,
    /// The body.
    pub body: Value,
}

impl Client {
    /// `POST /sources/{id}/test`
    pub fn test_source(&self, id: &str, trial: &Trial) -> Call<Tried> {
        self.call(post(&["sources", id, "test"], trial))
    }

    /// `POST /in/{source_id}`: a request as a provider sends it, without the key. Whatever it is answered is an
    /// answer.
    pub async fn deliver(
        &self,
        source: &str,
        headers: http::HeaderMap,
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), Error> {
        let url = format!("{}/in/{source}", self.url());
        let mut request = http::Request::post(url)
            .body(Full::from(body))
            .map_err(|error| Error::Request(error.to_string()))?;
        *request.headers_mut() = headers;
        let answer =
            self.transport.send(request, self.url(), self.timeout, self.body_bytes_max).await?;
        Ok((answer.status.as_u16(), answer.body.into()))
    }

    /// `POST /sources`
    pub fn create_source(&self, source: &NewSource) -> Call<Source> {
        self.call(post(&["sources"], source))
    }

    /// `GET /sources`
    pub fn list_sources(&self, query: &SourceQuery) -> Call<Page<Source>> {
        self.call(get(&["sources"]).query(query))
    }

    /// `GET /sources/{id}`
    pub fn get_source(&self, id: &str) -> Call<Source> {
        self.call(get(&["sources", id]))
    }
}
