//! How the items of a lane run: the item's own word, else its source's, else its tenant's, else ours.

use std::time::Duration;

use wakepost_domain::backoff::{Backoff, DELIVERY_ATTEMPTS, JOB_ATTEMPTS, REPLY_ATTEMPTS};
use wakepost_domain::executor::Executor;
use wakepost_domain::lane::Lane;
use wakepost_domain::lease::{LEASE, OWN_LEASE, PUSH_LEASE, RUN_TIMEOUT};
use wakepost_domain::rate::Rate;
use wakepost_domain::source::SourceConfig;
use wakepost_domain::tenant::TenantSettings;
use wakepost_domain::webhook::{Mode, Retries, Webhook};
use wakepost_domain::work::WorkKind;
use wakepost_domain::{SourceId, TenantId, WebhookId};
use wakepost_store::Result;
use wakepost_store::moves::{Bound, Cap, CapScope};

use super::Directory;
use crate::callbacks;

/// How many deliveries to one webhook this node has under way at once: one that hangs must not take all places.
const AT_ONCE: usize = 128;
/// The same while its receiver fails.
const AT_ONCE_FAILING: usize = 4;

/// The rules for one lane, as they are now.
#[derive(Debug, Clone)]
pub struct Policy {
    /// How its items run.
    pub executor: Executor,
    /// Whether an administrator of all tenants chose the executor's address.
    pub executor_trusted: bool,
    /// What requests to an http executor are signed with.
    pub executor_secret: Secret,
    /// Whom to ask before an agent runs.
    pub preflight: Option<Preflight>,
    /// How long a lease lasts.
    pub lease: Duration,
    /// How long a run may last in all.
    pub run_timeout: Duration,
    /// What bounds them. What is likely to last longest comes first.
    pub caps: Vec<Cap>,
    /// How long a failed one waits.
    pub backoff: Backoff,
    /// The tenant's weight in turns.
    pub weight: u32,
    /// How many of them this node has under way at once, where that is bounded.
    pub at_once: Option<usize>,
}

impl Policy {
    /// Whether a bound goes by time: it gets free by itself, at a known moment.
    pub fn is_timed(&self) -> bool {
        self.caps.iter().any(|cap| !matches!(cap.bound, Bound::Running(_)))
    }

    /// How many may run at once, if that is bounded.
    pub fn running_max(&self) -> Option<u32> {
        let running = |cap: &Cap| match cap.bound {
            Bound::Running(limit) => Some(limit),
            _ => None,
        };
        self.caps.iter().filter_map(running).min()
    }

    /// How long this node may keep a run in hand: the run's own bound, and that of the request it runs in. An
    /// agent that finishes through the API has the run's bound.
    pub fn in_hand(&self) -> Duration {
        self.executor.budget().map_or(self.run_timeout, |budget| budget.min(self.run_timeout))
    }
}

/// Whom to ask whether a job is still worth an agent's work.
#[derive(Debug, Clone)]
pub struct Preflight {
    /// Where.
    pub url: String,
    /// Whether an administrator of all tenants chose that address.
    pub trusted: bool,
    /// What the request is signed with.
    pub secret: Secret,
}

/// Where the secret comes from that requests to an http executor are signed with.
#[derive(Clone)]
pub enum Secret {
    /// It is stored with the source.
    Kept(Option<String>),
    /// It follows from the server's own secret and this text.
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
            preflight: None,
            lease: OWN_LEASE,
            run_timeout: RUN_TIMEOUT,
            caps: Vec::new(),
            backoff,
            weight,
            at_once: None,
        }
    }

    /// The rules for deliveries to a webhook; none: it is gone, and what waits is given up.
    fn of_webhook(
        lane: &Lane,
        webhook: Option<&Webhook>,
        settings: Option<&TenantSettings>,
        weight: u32,
    ) -> Policy {
        let own = webhook.and_then(|webhook| webhook.config.retry_s.as_deref());
        let retries = Retries::of(own, settings.and_then(|settings| settings.retry_s.as_deref()));
        let policy = Policy::of_the_gateway(retries.backoff, weight);
        let Some(webhook) = webhook.filter(|webhook| webhook.config.disabled.is_none()) else {
            return policy;
        };
        let scope = CapScope::Lane(lane.id);
        let rate = webhook.config.rate_per_s.and_then(Rate::new);
        let rate = rate.map(|rate| Cap { scope, bound: Bound::Rate(rate) });
        // Whether its receiver is back is seen by one delivery at a time.
        let probe = webhook.is_probed().then(|| Cap::running(scope, 1));
        let caps = probe.into_iter().chain(rate).collect();
        if webhook.config.mode == Mode::Pull {
            return Policy { executor: Executor::Pull, lease: LEASE, caps, ..policy };
        }
        let at_once = if webhook.circuit.is_quiet() { AT_ONCE } else { AT_ONCE_FAILING };
        Policy { caps, at_once: Some(at_once), ..policy }
    }
}

/// What bounds a lane's work: its source's budget, then the tenant's and the source's bounds on what runs, and on
/// what starts.
fn caps(lane: &Lane, config: Option<&SourceConfig>, settings: Option<&TenantSettings>) -> Vec<Cap> {
    let tenant = CapScope::Tenant(lane.key.tenant);
    let source = lane.key.origin.map(|origin| CapScope::Source(SourceId(origin)));
    let of_tenant = |bound: Option<Bound>| bound.map(|bound| Cap { scope: tenant, bound });
    let of_source =
        |bound: Option<Bound>| source.zip(bound).map(|(scope, bound)| Cap { scope, bound });
    let rate = |per_s: Option<f64>| per_s.and_then(Rate::new).map(Bound::Rate);
    let budget = config.and_then(|config| config.budget).map(|budget| {
        Bound::Budget(if lane.key.is_let_go() { budget.only_counted() } else { budget })
    });
    let running_of_tenant = settings.and_then(|settings| settings.concurrency);
    let running_of_source = config.and_then(|config| config.concurrency);
    [
        of_source(budget),
        of_tenant(running_of_tenant.map(Bound::Running)),
        of_source(running_of_source.map(Bound::Running)),
        of_tenant(rate(settings.and_then(|settings| settings.rate_per_s))),
        of_source(rate(config.and_then(|config| config.rate_per_s))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Directory {
    /// The rules for a lane.
    pub async fn policy(&self, lane: &Lane) -> Result<Policy> {
        let source = match lane.key.origin {
            Some(origin) if lane.key.kind != WorkKind::Delivery => {
                self.source(SourceId(origin)).await?
            }
            _ => None,
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
        if lane.key.kind == WorkKind::Delivery {
            let webhook = match lane.key.origin {
                Some(origin) => self.webhook(lane.key.tenant, WebhookId(origin)).await?,
                None => None,
            };
            return Ok(Policy::of_webhook(lane, webhook.as_deref(), settings, weight));
        }
        if lane.key.kind == WorkKind::Callback {
            let cap = Cap::running(CapScope::Lane(lane.id), callbacks::AT_ONCE);
            let policy = Policy::of_the_gateway(Backoff::deliveries(), weight);
            return Ok(Policy { caps: vec![cap], ..policy });
        }
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

        let kept = source.as_ref().and_then(|live| live.source.secrets.executor.clone());
        let preflight = config.and_then(|config| {
            let url = config.preflight_url.clone()?;
            Some(Preflight { url, trusted: config.preflight_trusted, secret: Secret::Kept(kept) })
        });

        let usual = if executor.is_pushed() { PUSH_LEASE } else { LEASE };
        let seconds = |choose: fn(&SourceConfig) -> Option<u64>| {
            config.and_then(choose).map(Duration::from_secs)
        };
        Ok(Policy {
            executor,
            executor_trusted,
            executor_secret,
            preflight,
            lease: seconds(|config| config.lease_s).unwrap_or(usual),
            run_timeout: seconds(|config| config.run_timeout_s).unwrap_or(RUN_TIMEOUT),
            caps: caps(lane, config, settings),
            backoff,
            weight,
            at_once: None,
        })
    }

    /// How often an item may be tried: its own word, else its source's, else its tenant's, else ours.
    pub async fn max_attempts(&self, lane: &Lane, own: Option<u32>) -> Result<i32> {
        match lane.key.kind {
            WorkKind::Reply => return Ok(REPLY_ATTEMPTS as i32),
            WorkKind::Callback => return Ok(DELIVERY_ATTEMPTS as i32),
            WorkKind::Delivery => return self.delivery_attempts(lane).await,
            WorkKind::Job => {}
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

    async fn delivery_attempts(&self, lane: &Lane) -> Result<i32> {
        let webhook = match lane.key.origin {
            Some(origin) => self.webhook(lane.key.tenant, WebhookId(origin)).await?,
            None => None,
        };
        let tenant = self.tenant(lane.key.tenant).await?;
        let of_tenant = tenant.as_ref().and_then(|tenant| tenant.settings.retry_s.as_deref());
        let own = webhook.as_ref().and_then(|webhook| webhook.config.retry_s.as_deref());
        Ok(Retries::of(own, of_tenant).attempts)
    }
}
