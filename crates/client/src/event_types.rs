//! The catalogue: which types of event there are, and what they look like.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::{delete, get, post, put};
use crate::lenient::{null_as_default, sentences};
use crate::{Call, Client, Nothing, Page, PageQuery};

/// One type of event.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventType {
    /// Its name, such as `order.created`.
    pub name: String,
    /// What happened, for those who subscribe.
    #[serde(deserialize_with = "null_as_default")]
    pub description: String,
    /// What it looks like, by `api_version`.
    #[serde(deserialize_with = "null_as_default")]
    pub versions: BTreeMap<String, EventTypeVersion>,
    /// When it was registered.
    pub created_at: Option<String>,
    /// When it was last changed.
    pub updated_at: Option<String>,
    /// What may be wrong with its schemas; only from the call that registers it.
    #[serde(
        alias = "warning",
        deserialize_with = "sentences",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub warnings: Vec<String>,
}

/// What a type of event looks like in one version.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct EventTypeVersion {
    /// A JSON Schema of `data`; publishing is checked against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
    /// An example of `data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub example: Option<Value>,
    /// What changed since the version before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
}

/// What a type of event is to be: all of it, since it replaces what was there.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventTypeFields {
    /// What happened, for those who subscribe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it looks like, by `api_version`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, EventTypeVersion>,
}

#[derive(Serialize)]
struct NewEventType<'a> {
    name: &'a str,
    #[serde(flatten)]
    fields: &'a EventTypeFields,
}

impl Client {
    /// `GET /event-types`
    pub fn list_event_types(&self, query: &PageQuery) -> Call<Page<EventType>> {
        self.call(get(&["event-types"]).query(query))
    }

    /// `POST /event-types`: registers a new one.
    pub fn create_event_type(&self, name: &str, fields: &EventTypeFields) -> Call<EventType> {
        self.call(post(&["event-types"], &NewEventType { name, fields }))
    }

    /// `GET /event-types/{name}`
    pub fn get_event_type(&self, name: &str) -> Call<EventType> {
        self.call(get(&["event-types", name]))
    }

    /// `PUT /event-types/{name}`: registers it, or puts this in the place of what was there.
    pub fn put_event_type(&self, name: &str, fields: &EventTypeFields) -> Call<EventType> {
        self.call(put(&["event-types", name], fields))
    }

    /// `DELETE /event-types/{name}`: events of it stay.
    pub fn delete_event_type(&self, name: &str) -> Call<Nothing> {
        self.call(delete(&["event-types", name]))
    }
}
