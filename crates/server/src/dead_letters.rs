//! Dead letters by filter: which ones, and what was asked to be done to them.

use std::fmt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::{IntoParams, ToSchema};
use wakepost_domain::limits::DEAD_LETTERS_CHOSEN_MAX;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{OperationId, SourceId, Timestamp, WebhookId, WorkId};
use wakepost_store::moves::DeadFilter;

use crate::schema;

/// Which dead letters.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = DeadLetterFilter)]
pub struct DeadQuery {
    /// One of these, by its id: at most 500. In a query they stand in one parameter, apart by commas.
    // Nodes of an earlier release refuse a field that they do not know: rightly this one, but only where it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<Vec<schema::WorkId>>, style = Form, explode = false, min_items = 1, max_items = 500)]
    #[schema(value_type = Option<Vec<schema::WorkId>>, min_items = 1, max_items = 500)]
    pub ids: Option<Ids>,
    /// Of this kind of work.
    #[param(value_type = Option<schema::WorkKind>)]
    #[schema(value_type = Option<schema::WorkKind>)]
    pub kind: Option<WorkKind>,
    /// Of this source.
    #[param(value_type = Option<schema::SourceId>)]
    #[schema(value_type = Option<schema::SourceId>)]
    pub source: Option<SourceId>,
    /// Of this webhook.
    #[param(value_type = Option<schema::WebhookId>)]
    #[schema(value_type = Option<schema::WebhookId>)]
    pub webhook: Option<WebhookId>,
    /// Not given up before.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub since: Option<Timestamp>,
    /// Given up before.
    #[param(value_type = Option<schema::Timestamp>)]
    #[schema(value_type = Option<schema::Timestamp>)]
    pub until: Option<Timestamp>,
    /// Whose id, event, kind or subject begins with this, or whose last error has it.
    pub q: Option<String>,
}

impl DeadQuery {
    /// Those that nobody dealt with yet, as the store is asked.
    pub fn open(&self) -> DeadFilter {
        DeadFilter {
            chosen: self.ids.as_ref().map(|ids| ids.0.clone()),
            kind: self.kind,
            // A lane's origin, like a source.
            source: self.source.or(self.webhook.map(|webhook| SourceId(webhook.0))),
            lane: None,
            since: self.since,
            until: self.until,
            text: self.q.clone().filter(|text| !text.is_empty()),
            dealt_with: false,
            purged_by: None,
        }
    }

    /// Those that had been given up at a moment, whatever was done to them since by this operation or others.
    pub fn given_up_by(&self, moment: Timestamp, operation: OperationId) -> DeadFilter {
        let end = Timestamp::from_millis(moment.as_millis() + 1);
        let until = self.until.map_or(end, |until| until.min(end));
        let purged_by = Some(operation);
        DeadFilter { until: Some(until), dealt_with: true, purged_by, ..self.open() }
    }
}

/// Work that was chosen by hand, one by one.
#[derive(Debug, Clone)]
pub struct Ids(Vec<(WorkKind, WorkId)>);

impl Ids {
    /// Never none: a list that came out empty by mistake must not mean everything, nor pass for done.
    fn new<E: Error>(ids: Vec<(WorkKind, WorkId)>) -> Result<Ids, E> {
        match (1..=DEAD_LETTERS_CHOSEN_MAX).contains(&ids.len()) {
            true => Ok(Ids(ids)),
            false => Err(E::custom(format!("must have 1 to {DEAD_LETTERS_CHOSEN_MAX} ids"))),
        }
    }
}

impl Serialize for Ids {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(kind, id)| id.text(*kind)))
    }
}

impl<'de> Deserialize<'de> for Ids {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ids, D::Error> {
        deserializer.deserialize_seq(IdsVisitor)
    }
}

struct IdsVisitor;

impl<'de> Visitor<'de> for IdsVisitor {
    type Value = Ids;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a list of ids")
    }

    /// A body's.
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Ids, A::Error> {
        let mut ids = Vec::new();
        while let Some(OneId(kind, id)) = list.next_element()? {
            ids.push((kind, id));
        }
        Ids::new(ids)
    }

    /// A query's: its reader hands out text, whatever it is asked for.
    fn visit_str<E: Error>(self, text: &str) -> Result<Ids, E> {
        let ids = text.split(',').map(one_id);
        Ids::new(ids.collect::<Result<_, E>>()?)
    }
}

struct OneId(WorkKind, WorkId);

impl<'de> Deserialize<'de> for OneId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneId, D::Error> {
        let text = String::deserialize(deserializer)?;
        one_id(&text).map(|(kind, id)| OneId(kind, id))
    }
}

fn one_id<E: Error>(text: &str) -> Result<(WorkKind, WorkId), E> {
    let wrong = || E::custom("must be the id of a job, a delivery, a reply or a callback");
    WorkId::parse_any(text).ok_or_else(wrong)
}

/// What was asked for, for many dead letters.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeadLetterReplay {
    /// Which.
    pub filter: DeadQuery,
    /// Who, and why.
    pub note: String,
    /// Whether committed effects may happen again.
    pub fresh_scope: bool,
    /// Which key asked.
    pub actor: String,
    /// When, by the database's clock, which says when things were given up.
    pub at: Timestamp,
    /// Only count them.
    pub dry_run: bool,
}

/// What is to be purged. Who asked, and why, is in the audit trail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DeadLetterPurge {
    /// Which.
    pub filter: DeadQuery,
    /// When it was asked for, by the database's clock.
    pub at: Timestamp,
}
