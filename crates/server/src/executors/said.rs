//! What the events of claimed deliveries say: as it was just published, or as it is kept, read together and opened by each
//! delivery itself.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{EventId, TenantId};
use wakepost_store::vault::Sealed;
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::deliveries;
use crate::queue::Pushed;

/// What an event says.
#[derive(Debug, Clone)]
pub enum Payload {
    /// As it was just published.
    Open(Bytes),
    /// As it is kept.
    Kept(Arc<Record>),
}

/// A record that several deliveries may share: what one of them opened is open for all.
#[derive(Debug)]
pub struct Record {
    sealed: Sealed,
    opened: OnceLock<Bytes>,
}

impl Payload {
    /// What is kept of an event.
    pub fn kept(sealed: Sealed) -> Payload {
        Payload::Kept(Arc::new(Record { sealed, opened: OnceLock::new() }))
    }

    /// The body, byte for byte as it was published.
    pub async fn open(&self, context: &Context, tenant: TenantId, event: EventId) -> Result<Bytes> {
        let record = match self {
            Payload::Open(body) => return Ok(body.clone()),
            Payload::Kept(record) => record,
        };
        if let Some(body) = record.opened.get() {
            return Ok(body.clone());
        }
        let key = context.vault.key(tenant).await?;
        let body = deliveries::said(&key, event, &record.sealed)?;
        Ok(record.opened.get_or_init(|| body).clone())
    }
}

/// What was found for a batch.
#[derive(Debug, Default)]
pub struct Found {
    /// By event; one that is not kept any more is missing.
    pub said: HashMap<EventId, Payload>,
    /// Why others may be missing.
    pub failed: Option<StoreError>,
}

/// Finds what the events of claimed deliveries say: one look for all that were not just published, however many webhooks
/// an event goes to. Nothing is opened here: large records of many tenants would keep everybody else waiting.
pub async fn find(context: &Context, claimed: &[Pushed]) -> Found {
    let deliveries = claimed.iter().filter(|item| item.0.kind == WorkKind::Delivery);
    let mut found = Found::default();
    let mut unknown = BTreeSet::new();
    for event in deliveries.filter_map(|item| item.0.event) {
        match context.fresh.take(event) {
            Some(body) => drop(found.said.insert(event, Payload::Open(body))),
            None => drop(unknown.insert(event)),
        }
    }
    unknown.retain(|event| !found.said.contains_key(event));
    if unknown.is_empty() {
        return found;
    }
    match context.store.contents(unknown.into_iter().collect()).await {
        Ok(records) => {
            let records = records.into_iter();
            found.said.extend(records.map(|(event, record)| (event, Payload::kept(record))));
        }
        Err(error) => found.failed = Some(error),
    }
    found
}

/// The bodies of one tenant's deliveries. What is missing is not kept any more, or its record is damaged: nobody can
/// have it.
pub async fn bodies(
    context: &Context,
    tenant: TenantId,
    claimed: &[Pushed],
) -> Result<HashMap<EventId, Bytes>> {
    let Found { said, failed } = find(context, claimed).await;
    if let Some(error) = failed {
        return Err(error);
    }
    // First, and apart from the records: a key that this node cannot unwrap makes none of them damaged.
    context.vault.key(tenant).await?;
    let mut bodies = HashMap::with_capacity(said.len());
    for (event, said) in said {
        match said.open(context, tenant, event).await {
            Ok(body) => drop(bodies.insert(event, body)),
            Err(StoreError::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bodies)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use serde_json::json;

    use super::*;
    use crate::queue::Ask;
    use crate::trial::Trial;

    /// Two claimed deliveries, and another node, with the master keys it has.
    async fn claimed(trial: &Trial) -> (Vec<Pushed>, Arc<Context>, Arc<AtomicBool>) {
        let context = &trial.context;
        trial.post("/webhooks", &json!({"mode": "pull", "events": ["*"]})).await;
        for number in 0..2 {
            let event = json!({"type": "order.paid", "data": {"number": number}});
            trial.post("/events", &event).await;
        }
        let ask = Ask {
            kind: WorkKind::Delivery,
            worker: "w".to_owned(),
            max: 2,
            wait: Duration::from_secs(20),
            tenant: Some(TenantId::DEFAULT),
            kinds: None,
            sources: None,
            lease: None,
        };
        let claimed = context.queue.lease(&ask, &context.stop).await.unwrap();
        assert_eq!(claimed.len(), 2);
        let (node, is_lost) = trial.forgetful_node().await;
        (claimed, node, is_lost)
    }

    #[tokio::test]
    async fn a_node_that_lacks_the_master_key_takes_no_record_for_damaged() {
        let trial = Trial::start().await;
        let (claimed, node, is_lost) = claimed(&trial).await;
        is_lost.store(true, Ordering::Relaxed);
        let refused = bodies(&node, TenantId::DEFAULT, &claimed).await.unwrap_err();
        assert!(refused.to_string().contains("master key"), "{refused}");
        is_lost.store(false, Ordering::Relaxed);
        let read = bodies(&node, TenantId::DEFAULT, &claimed).await.unwrap();
        assert_eq!(read.len(), 2);
        // A record of another event is no record of this one.
        let (one, other) = (claimed[0].0.event.unwrap(), claimed[1].0.event.unwrap());
        let Payload::Kept(record) = &find(&node, &claimed).await.said[&one] else {
            panic!("sealed")
        };
        let wrong =
            Payload::kept(record.sealed.clone()).open(&node, TenantId::DEFAULT, other).await;
        assert!(matches!(wrong, Err(StoreError::Corrupt(_))));
    }

    #[tokio::test]
    async fn what_was_just_published_is_had_without_a_key_and_the_rest_is_opened_once() {
        let trial = Trial::start().await;
        let (claimed, node, is_lost) = claimed(&trial).await;
        let (fresh, kept) = (claimed[0].0.event.unwrap(), claimed[1].0.event.unwrap());
        node.fresh.keep(fresh, Bytes::from_static(b"{}"), 1);
        is_lost.store(true, Ordering::Relaxed);
        let found = find(&node, &claimed).await;
        assert!(found.failed.is_none());
        let open =
            async |event| found.said[&event].clone().open(&node, TenantId::DEFAULT, event).await;
        assert_eq!(open(fresh).await.unwrap(), "{}");
        open(kept).await.unwrap_err();
        is_lost.store(false, Ordering::Relaxed);
        let body = open(kept).await.unwrap();
        assert_eq!(body.as_ptr(), open(kept).await.unwrap().as_ptr());
    }
}
