//! API keys.

use serde::{Deserialize, Serialize};

use crate::call::{delete, get, post};
use crate::lenient::null_as_default;
use crate::{Call, Client, Nothing, Page, PageQuery};

/// One API key. Its text is in the answer that made it, and never again.
#[derive(Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Key {
    /// Its id.
    pub id: String,
    /// Its name for people.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// What it may do.
    pub role: String,
    /// Whose data it reaches; `*`: all tenants'.
    pub tenant: Option<String>,
    /// When it was made.
    pub created_at: Option<String>,
    /// When it stops working.
    pub expires_at: Option<String>,
    /// When it was last used.
    pub last_used_at: Option<String>,
    /// How many calls it may make in a second, on each node.
    pub rate_per_s: Option<f64>,
    /// When it was revoked.
    pub revoked_at: Option<String>,
    /// The key itself, shown once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

impl std::fmt::Debug for Key {
    /// Without the key itself.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key")
            .field("id", &self.id)
            .field("name", &self.name)
            .field("role", &self.role)
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}

/// A key to create.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewKey {
    /// Its name for people.
    pub name: String,
    /// `viewer`, `publisher`, `worker`, `operator` or `admin`.
    pub role: String,
    /// Whose data it reaches; `*`: all tenants'. `None`: as far as the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// When it stops working.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// How many calls it may make in a second, on each node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
}

impl Client {
    /// `POST /keys`
    pub fn create_key(&self, key: &NewKey) -> Call<Key> {
        self.call(post(&["keys"], key))
    }

    /// `GET /keys`
    pub fn list_keys(&self, query: &PageQuery) -> Call<Page<Key>> {
        self.call(get(&["keys"]).query(query))
    }

    /// `DELETE /keys/{id}`: it stops working at once.
    pub fn delete_key(&self, id: &str) -> Call<Nothing> {
        self.call(delete(&["keys", id]))
    }
}
