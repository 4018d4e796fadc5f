//! Backfill: events that a webhook never got, delivered to it. Each makes its delivery once, however often it is asked for
//! or interrupted: the delivery's id follows from the event and the webhook.

use serde::{Deserialize, Serialize};
use wakepost_domain::{Timestamp, WebhookId};

/// What was asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Backfill {
    /// Which webhook gets them.
    pub webhook: WebhookId,
    /// What was published since then, …
    pub since: Timestamp,
    /// … and before.
    pub until: Option<Timestamp>,
}
