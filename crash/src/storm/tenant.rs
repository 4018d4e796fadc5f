//! The tenants of a storm: each with a source of every provider, and clients of its own.

use std::sync::Arc;

use serde_json::json;
use wakepost_tests::Source;

use crate::caller::Caller;
use crate::clients::Desk;
use crate::told::{Found, Told};
use crate::world::Cluster;

const SLUGS: [&str; 3] = ["north", "east", "south"];
/// Ids in headers and in bodies, times that are signed and that are not.
pub const PROVIDERS: [&str; 5] = ["github", "stripe", "slack", "shopify", "standard-webhooks"];

/// A tenant.
pub struct Tenant {
    /// Its name.
    pub slug: &'static str,
    /// A client with its key: it sees nothing of the others.
    pub caller: Caller,
    /// What its clients share.
    pub desk: Desk,
    /// Its sources, in the order of the providers.
    pub sources: Vec<Source>,
}

impl Tenant {
    /// Makes them all.
    pub async fn make_all(cluster: &mut Cluster) -> anyhow::Result<Vec<Tenant>> {
        let admin = cluster.api().await?;
        let mut tenants = Vec::new();
        for slug in SLUGS {
            let api = admin.tenant(slug).await;
            let mut sources = Vec::new();
            for provider in PROVIDERS {
                let often = json!({"max_attempts": 15, "backoff_s": [1]});
                sources.push(api.source_with(provider, often).await);
            }
            let caller = cluster.caller_with(api.key());
            let desk = Desk::new(caller.clone(), Arc::new(Told::default()));
            tenants.push(Tenant { slug, caller, desk, sources });
        }
        Ok(tenants)
    }

    /// What is there too little or too much, of so many events with so many effects each.
    pub fn count_problems(&self, events: usize, effects_each: usize) -> Vec<String> {
        let effects = events * effects_each;
        let expected = Found { events, jobs: events, succeeded: events, effects };
        let found = self.desk.told.lock().found;
        let mut problems = Vec::new();
        if found != expected {
            problems.push(format!("there are {found:?}, not {expected:?}"));
        }
        let outside = self.desk.told.done_outside();
        let once = outside.values().filter(|times| **times == 1).count();
        if once != effects || outside.len() != effects {
            problems.push(format!(
                "{effects} effects were planned; of {} idempotency keys {once} were used once",
                outside.len()
            ));
        }
        problems
    }
}
