//! How the items of a lane run: the item's own word, else its source's, else its tenant's, else ours.

use std::time::Duration;

use wakepost_domain::backoff::{Backoff, JOB_ATTEMPTS, REPLY_ATTEMPTS};
use wakepost_domain::executor::Executor;
use wakepost_domain::lane::Lane;
use wakepost_domain::lease::{LEASE, OWN_LEASE, PUSH_LEASE, RUN_TIMEOUT};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{SourceId, TenantId};
use wakepost_store::Result;
use wakepost_store::moves::{Cap, CapScope};

use super::Directory;

/// The rules for one lane, as they are now.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How its items run.
    pub executor: Executor,
    /// Whether an administrator of all tenants chose the executor's address.
    pub executor_trusted: bool,
    /// What requests to an http executor are signed with.
    pub executor_secret: Secret,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long a run may last in all.
    pub run_timeout: Duration,
    /// How many may run at once.
    pub caps: Vec<Cap>,
    /// How long a failed one waits.
    pub backoff: Backoff,
    /// The tenant's weight in turns.
    pub weight: u32,
}

impl Policy {
    /// How long this node may keep a run in hand: the run's own bound, and that of the request it runs in. An
    /// agent that finishes through the API has the run's bound.
    pub fn in_hand(&self) -> Duration {
        self.executor.budget().map_or(self.run_timeout, |budget| budget.min(self.run_timeout))
    }
}

/// Where the secret comes from that requests to an http executor are signed with.
#[derive(Clone)]
pub enum Secret {
    /// It is stored with the source.
    Kept(Option<String>),
    /// It follows from the master key and this text.
    Derived(String),
}

impl Secret {
    /// The secret of a tenant's default executor.
    pub fn of_tenant(tenant: TenantId) -> Secret {
        Secret::Derived(format!("tenant {}", tenant.0))
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl Policy {
    /// The rules for what the gateway does itself. An agent's bounds are not its bounds.
    fn of_the_gateway(backoff: Backoff, weight: u32) -> Policy {
        Policy {
            executor: Executor::Gateway,
            executor_trusted: false,
            executor_secret: Secret::Kept(None),
            lease: OWN_LEASE,
            run_timeout: RUN_TIMEOUT,
            caps: Vec::new(),
            backoff,
            weight,
        }
    }
}

impl Directory {
    /// The rules for a lane.
    pub async fn policy(&self, lane: &Lane) -> Result<Policy> {
        let source = match lane.key.origin {
            Some(origin) => self.source(SourceId(origin)).await?,
            None => None,
        };
        let config = source.as_ref().map(|live| &live.source.config);
        let tenant = self.tenant(lane.key.tenant).await?;
        let settings = tenant.as_ref().map(|tenant| &tenant.settings);

        let weight = settings.map_or(1, |settings| settings.turn_weight());
        let backoff = config
            .and_then(|config| config.backoff_s.as_ref())
            .map(|list| list.iter().copied().map(Duration::from_secs).collect())
            .or_else(|| settings.and_then(|settings| settings.backoff()));
        let backoff = backoff.map_or_else(Backoff::default, Backoff::new);
        if lane.key.kind == WorkKind::Reply || lane.key.expands() {
            return Ok(Policy::of_the_gateway(backoff, weight));
        }

        let own = lane.key.own_executor();
        let from_source = config.and_then(|config| config.executor.clone());
        let from_tenant = settings.and_then(|settings| settings.default_executor.clone());
        let (executor, executor_trusted, executor_secret) = match (own, from_source) {
            (Some(own), _) => (own.executor, own.trusted, Secret::Derived(lane.key.text())),
            (None, Some(executor)) => (
                executor,
                config.is_some_and(|config| config.executor_trusted),
                Secret::Kept(source.as_ref().and_then(|live| live.source.secrets.executor.clone())),
            ),
            // Only an administrator of all tenants sets a tenant's default.
            (None, None) => {
                (from_tenant.unwrap_or_default(), true, Secret::of_tenant(lane.key.tenant))
            }
        };

        let usual = if executor.is_pushed() { PUSH_LEASE } else { LEASE };
        let seconds = |choose: fn(&wakepost_domain::source::SourceConfig) -> Option<u64>| {
            config.and_then(choose).map(Duration::from_secs)
        };
        let tenant_cap = settings.and_then(|settings| settings.concurrency);
        let source_cap = config.and_then(|config| config.concurrency);
        let caps = [
            tenant_cap.map(|limit| Cap { scope: CapScope::Tenant(lane.key.tenant), limit }),
            source_cap
                .zip(lane.key.origin)
                .map(|(limit, origin)| Cap { scope: CapScope::Source(SourceId(origin)), limit }),
        ];
        Ok(Policy {
            executor,
            executor_trusted,
            executor_secret,
            lease: seconds(|config| config.lease_s).unwrap_or(usual),
            run_timeout: seconds(|config| config.run_timeout_s).unwrap_or(RUN_TIMEOUT),
            caps: caps.into_iter().flatten().collect(),
            backoff,
            weight,
        })
    }

    /// How often an item may be tried: its own word, else its source's, else its tenant's, else ours.
    pub async fn max_attempts(&self, lane: &Lane, own: Option<u32>) -> Result<i32> {
        if lane.key.kind == WorkKind::Reply {
            return Ok(REPLY_ATTEMPTS as i32);
        }
        let source = match lane.key.origin {
            Some(origin) => self.source(SourceId(origin)).await?,
            None => None,
        };
        let tenant = self.tenant(lane.key.tenant).await?;
        let attempts = own
            .or_else(|| source.and_then(|live| live.source.config.max_attempts))
            .or_else(|| tenant.and_then(|tenant| tenant.settings.max_attempts))
            .unwrap_or(JOB_ATTEMPTS);
        Ok(i32::try_from(attempts).unwrap_or(i32::MAX))
    }
}
