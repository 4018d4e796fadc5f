//! Links that open a subscriber's own portal.

use serde::{Deserialize, Serialize};

use crate::call::post;
use crate::{Call, Client};

/// A link to make.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct NewPortalLink {
    /// Whose portal; `None`: that of the tenant the client acts on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// For how long it opens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_s: Option<u64>,
}

/// A link: whoever has it may use the portal, so it is as good as a key.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PortalLink {
    /// Where it leads.
    pub url: String,
    /// Until when.
    pub expires_at: Option<String>,
}

impl std::fmt::Debug for PortalLink {
    /// Without the link itself.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortalLink").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

impl Client {
    /// `POST /portal-links`
    pub fn create_portal_link(&self, link: &NewPortalLink) -> Call<PortalLink> {
        self.call(post(&["portal-links"], link))
    }
}
