//! Sources: who may send, how it is checked, and what becomes of it.

mod fields;
mod standing;

use http_body_util::Full;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::call::{delete, get, patch, post};
use crate::lenient::{names, null_as_default};
use crate::{Call, Client, Error, Moved, Nothing, Page, PageQuery, Receipt};
pub use fields::{Budget, Executor, NewSource, Rotation, SourceFields};
pub use standing::{SourceSetup, SourceStatus, Trial, Tried};

/// What the server shows in place of a secret setting's value.
pub const SECRET_SETTING: &str = "(secret)";

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
    /// What is wrong with its set-up, although nothing is missing.
    pub warning: Option<String>,
    /// Whether it has a secret.
    pub has_secret: Option<bool>,
    /// How old its secret is.
    pub secret_age_days: Option<u64>,
    /// Until when the secret before the current one is accepted.
    pub previous_expires_at: Option<String>,
    /// The adapter's settings; of a secret one only [`SECRET_SETTING`].
    #[serde(deserialize_with = "null_as_default")]
    pub settings: Map<String, Value>,
    /// How far a signed time may be off.
    pub tolerance_s: Option<u64>,
    /// The largest body.
    pub max_body_bytes: Option<u64>,
    /// How long a dedup key blocks a second job.
    pub dedup_window_s: Option<u64>,
    /// Whether the body's hash is a second dedup key.
    pub dedup_body: Option<bool>,
    /// What tells its events apart in place of the provider's id.
    pub dedup_key: Option<String>,
    /// Where the payload holds what events are put in order by: a JSON pointer.
    pub order_by: Option<String>,
    /// Where it holds the number of an event among those of its order value.
    pub sequence_by: Option<String>,
    /// How long an event waits for one with a lower number.
    pub order_wait_s: Option<u64>,
    /// Where it holds what makes a newer event supersede a queued older one.
    pub coalesce_by: Option<String>,
    /// What a message does while its thread is busy: `queue`, `merge`, `interrupt` or `off`.
    pub thread_policy: Option<String>,
    /// How long a thread must be quiet before its job runs.
    pub quiet_ms: Option<u64>,
    /// How long a job waits for quiet at most.
    pub quiet_cap_ms: Option<u64>,
    /// Which event types make a job; empty: all.
    #[serde(deserialize_with = "null_as_default")]
    pub filter: Vec<String>,
    /// How its jobs run, as the server says it: newer servers know more kinds.
    pub executor: Option<Value>,
    /// Whom to ask just before an agent runs.
    pub preflight_url: Option<String>,
    /// Which queue its jobs wait in.
    pub priority: Option<String>,
    /// `auto`, `draft` and so on.
    pub mode: Option<String>,
    /// How long a person has to decide on what its jobs would do.
    pub approval_expires_s: Option<u64>,
    /// Who is in charge of it.
    pub owner: Option<String>,
    /// How often its jobs are tried.
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    pub backoff_s: Option<Vec<u64>>,
    /// How many of its jobs may run at once.
    pub concurrency: Option<u32>,
    /// How long a lease lasts.
    pub lease_s: Option<u64>,
    /// How long a run may take.
    pub run_timeout_s: Option<u64>,
    /// How many requests it takes in a second, on each node, and how many of its jobs may start in one.
    pub rate_per_s: Option<f64>,
    /// How much of its work may run on one day.
    pub budget: Option<Budget>,
    /// The networks it accepts from; empty: any.
    #[serde(deserialize_with = "null_as_default")]
    pub allow_from: Vec<String>,
    /// What of its payloads is hidden, as JSON pointers.
    #[serde(deserialize_with = "null_as_default")]
    pub redact: Vec<String>,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it was last changed.
    pub updated_at: Option<String>,
    /// The secret, if the server made it: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// What the server signs executor calls with: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor_secret: Option<String>,
    /// Where the outcome of its jobs goes.
    pub callback_url: Option<String>,
    /// What the server signs callbacks with: shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_secret: Option<String>,
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
    pub fn list_sources(&self, query: &PageQuery) -> Call<Page<Source>> {
        self.call(get(&["sources"]).query(query))
    }

    /// `GET /sources/{id}`
    pub fn get_source(&self, id: &str) -> Call<Source> {
        self.call(get(&["sources", id]))
    }

    /// `PATCH /sources/{id}`
    pub fn update_source(&self, id: &str, change: &SourceFields) -> Call<Source> {
        self.call(patch(&["sources", id], change))
    }

    /// `DELETE /sources/{id}`: its events and jobs stay.
    pub fn delete_source(&self, id: &str) -> Call<Nothing> {
        self.call(delete(&["sources", id]))
    }

    /// `POST /sources/{id}/rotate`
    pub fn rotate_source(&self, id: &str, rotation: &Rotation) -> Call<Source> {
        self.call(post(&["sources", id, "rotate"], rotation))
    }

    /// `POST /sources/{id}/enable`
    pub fn enable_source(&self, id: &str) -> Call<Moved> {
        self.call(post(&["sources", id, "enable"], &json!({})))
    }

    /// `POST /sources/{id}/disable`: it answers 404 from now on.
    pub fn disable_source(&self, id: &str) -> Call<Moved> {
        self.call(post(&["sources", id, "disable"], &json!({})))
    }

    /// `GET /sources/{id}/status`
    pub fn source_status(&self, id: &str) -> Call<SourceStatus> {
        self.call(get(&["sources", id, "status"]))
    }

    /// `POST /sources/{id}/setup`: registers it at its provider, or says how.
    pub fn set_up_source(&self, id: &str) -> Call<SourceSetup> {
        self.call(post(&["sources", id, "setup"], &json!({})))
    }

    /// `GET /sources/{id}/receipts`: its latest requests that were refused or repeated.
    pub fn source_receipts(&self, id: &str, query: &PageQuery) -> Call<Page<Receipt>> {
        self.call(get(&["sources", id, "receipts"]).query(query))
    }
}
