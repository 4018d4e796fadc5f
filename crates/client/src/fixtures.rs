//! Fixtures: requests that were kept to be sent again.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::call::{delete, get, post};
use crate::lenient::null_as_default;
use crate::{Call, Client, Nothing, Page, PageQuery, Tried};

/// A request that was kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Fixture {
    /// Its name.
    pub name: String,
    /// Who sent the request.
    #[serde(deserialize_with = "null_as_default")]
    pub provider: String,
    /// What it told of.
    #[serde(deserialize_with = "null_as_default")]
    pub event_type: String,
    /// The event it was kept from, which may be gone.
    pub event_id: Option<String>,
    /// How long its body is.
    pub body_bytes: Option<u64>,
    /// When it was kept.
    pub created_at: Option<String>,
}

/// Where to send a fixture.
#[derive(Clone, PartialEq, Eq, Default, Serialize)]
pub struct FixtureSending {
    /// A source of the same provider.
    pub source: String,
    /// What to sign with in place of the source's own secret: the private key, where that is a public one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

impl fmt::Debug for FixtureSending {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixtureSending").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Client {
    /// `POST /inbox/{event_id}/fixture`: keeps an event's request under a name.
    pub fn create_fixture(&self, event_id: &str, name: &str) -> Call<Fixture> {
        self.call(post(&["inbox", event_id, "fixture"], &json!({"name": name})))
    }

    /// `GET /fixtures`
    pub fn list_fixtures(&self, query: &PageQuery) -> Call<Page<Fixture>> {
        self.call(get(&["fixtures"]).query(query))
    }

    /// `POST /fixtures/{name}/send`: to a source, freshly signed for it.
    pub fn send_fixture(&self, name: &str, sending: &FixtureSending) -> Call<Tried> {
        self.call(post(&["fixtures", name, "send"], sending))
    }

    /// `DELETE /fixtures/{name}`
    pub fn delete_fixture(&self, name: &str) -> Call<Nothing> {
        self.call(delete(&["fixtures", name]))
    }
}
