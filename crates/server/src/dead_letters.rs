//! Dead letters by filter: which ones, and what was asked to be done to them.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{OperationId, SourceId, Timestamp, WebhookId};
use wakepost_store::moves::DeadFilter;

use crate::schema;

/// Which dead letters.
#[derive(Debug, Clone, Default, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
#[schema(as = DeadLetterFilter)]
pub struct DeadQuery {
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
