//! The audit trail: who did what, when and why.

use serde::{Deserialize, Serialize};

use crate::call::get;
use crate::lenient::null_as_default;
use crate::{Call, Client, Page, PageQuery};

/// One entry of the audit trail.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditEntry {
    /// Its id.
    pub id: String,
    /// When.
    pub at: Option<String>,
    /// Which key, or which job's key.
    #[serde(deserialize_with = "null_as_default")]
    pub actor: String,
    /// What was done.
    #[serde(deserialize_with = "null_as_default")]
    pub action: String,
    /// To what.
    #[serde(deserialize_with = "null_as_default")]
    pub target: String,
    /// Why.
    pub note: Option<String>,
}

impl Client {
    /// `GET /audit`
    pub fn list_audit(&self, query: &PageQuery) -> Call<Page<AuditEntry>> {
        self.call(get(&["audit"]).query(query))
    }
}
