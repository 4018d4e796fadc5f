//! Tenants, which an all-tenant admin key manages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::call::{get, patch, post};
use crate::lenient::null_as_default;
use crate::{Call, Client, Page, PageQuery};

/// One tenant.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tenant {
    /// Its slug, chosen by the user.
    pub slug: String,
    /// Its name for people.
    #[serde(deserialize_with = "null_as_default")]
    pub name: String,
    /// Its share of the workers, against other tenants'.
    pub weight: Option<f64>,
    /// How many of its jobs may run at once.
    pub concurrency: Option<u64>,
    /// How many of its jobs may start each second.
    pub rate_per_s: Option<f64>,
    /// How its jobs run when their source does not say.
    pub default_executor: Option<Value>,
    /// How often its jobs are tried.
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    pub backoff_s: Option<Vec<u64>>,
    /// Whether only events of registered types may be published.
    pub strict_types: Option<bool>,
    /// How many webhooks it may have.
    pub max_webhooks: Option<u32>,
    /// How long each attempt at a delivery waits, the first one included.
    pub retry_s: Option<Vec<u64>>,
    /// How long its history is kept, where that is less than the server keeps it.
    pub retention: Option<Retention>,
    /// When it was made.
    pub created_at: Option<String>,
}

/// How many days a tenant's history is kept, by kind. None: as long as the server keeps it, which is the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// Headers and bodies. They go with their event at the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bodies_days: Option<u32>,
    /// Events, but for those of live work and of dead letters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events_days: Option<u32>,
    /// Finished jobs and deliveries, their runs and effects; from their end on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runs_days: Option<u32>,
    /// Dead letters, with their event and its body; from their end on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letters_days: Option<u32>,
    /// Receipts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipts_days: Option<u32>,
}

/// A tenant to create.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct NewTenant {
    /// Its slug.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Its share of the workers, against other tenants'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// How many of its jobs may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many of its jobs may start each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// How often its jobs are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_s: Option<Vec<u64>>,
    /// How long its history is kept, where that is less than the server keeps it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
}

/// What to change about a tenant. What is left out stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct TenantChange {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its share of the workers, against other tenants'.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// How many of its jobs may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many of its jobs may start each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<f64>,
    /// How often its jobs are tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_s: Option<Vec<u64>>,
    /// Whether only events of registered types may be published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strict_types: Option<bool>,
    /// How many webhooks it may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_webhooks: Option<u32>,
    /// How long each attempt at a delivery waits, the first one included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_s: Option<Vec<u64>>,
    /// How many days its history is kept, by the names of [`Retention`]; none: as long as the server keeps it. What is
    /// left out stays as it is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub retention: BTreeMap<String, Option<u32>>,
    /// Fields that go back to their defaults, each with null.
    #[serde(flatten)]
    pub reset: Map<String, Value>,
}

impl Client {
    /// `GET /tenants/{slug}`
    pub fn get_tenant(&self, slug: &str) -> Call<Tenant> {
        self.call(get(&["tenants", slug]))
    }

    /// `PATCH /tenants/{slug}`
    pub fn update_tenant(&self, slug: &str, change: &TenantChange) -> Call<Tenant> {
        self.call(patch(&["tenants", slug], change))
    }

    /// `POST /tenants`
    pub fn create_tenant(&self, tenant: &NewTenant) -> Call<Tenant> {
        self.call(post(&["tenants"], tenant))
    }

    /// `GET /tenants`
    pub fn list_tenants(&self, query: &PageQuery) -> Call<Page<Tenant>> {
        self.call(get(&["tenants"]).query(query))
    }
}
