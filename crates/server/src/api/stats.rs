//! How a tenant's queue stands: counts, bounds and what was used of them, workers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::response::Response;
use http::StatusCode;
use parking_lot::Mutex;
use serde::Serialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::budget::Over;
use wakepost_domain::lane::Lane;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::{Priority, State, WorkKind};
use wakepost_domain::{SourceId, TenantId, Timestamp, WebhookId};
use wakepost_store::moves::{CapScope, Count, Counts, LiveCount, LiveCounts, SourceRecord};

use super::call::Call;
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::once;
use crate::context::Context;
use crate::schema;

/// How many live items are looked at: what keeps an answer quick beside a million of them.
const LOOK_MAX: u32 = 20_000;
/// How many lanes are listed, those with most work first.
const LANES_MAX: usize = 500;
/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(1);
/// How many tenants' answers are kept; beyond it all are made anew.
const KEPT_MAX: usize = 1000;

/// The latest answers.
#[derive(Default)]
pub struct Kept {
    by_tenant: Mutex<HashMap<TenantId, (Instant, Arc<Stats>)>>,
}

impl Kept {
    fn get(&self, tenant: TenantId) -> Option<Arc<Stats>> {
        let kept = self.by_tenant.lock();
        let (at, stats) = kept.get(&tenant)?;
        (at.elapsed() < FRESH).then(|| stats.clone())
    }

    fn put(&self, tenant: TenantId, stats: Arc<Stats>) {
        let mut kept = self.by_tenant.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(tenant, (Instant::now(), stats));
    }
}

/// How a tenant's queue stands.
#[derive(Serialize, ToSchema)]
pub struct Stats {
    /// Whose.
    #[schema(value_type = schema::Slug)]
    tenant: String,
    /// When it was looked at; an answer is at most a second old.
    #[schema(value_type = schema::Timestamp)]
    at: Timestamp,
    /// Whether there is more live work than was looked at: counts are then those of the oldest items.
    at_least: bool,
    /// Live work by where it stands.
    states: BTreeMap<&'static str, Standing>,
    /// Live work by the queue it waits in.
    priorities: BTreeMap<&'static str, Standing>,
    /// Lanes that have live work, those with most first.
    lanes: Vec<LaneStats>,
    /// The tenant's own bounds.
    limits: Limits,
    /// Sources that have bounds.
    sources: Vec<SourceStats>,
    /// Workers that have leases, or asked this node for work in the last five minutes.
    workers: Vec<WorkerStats>,
}

/// How many stand alike.
#[derive(Serialize, ToSchema, Default, Clone, Copy)]
struct Standing {
    /// How many.
    count: i64,
    /// How long ago the first of them was made.
    oldest_age_s: Option<u64>,
}

impl Standing {
    fn add(&mut self, live: &LiveCount, now: Timestamp) {
        let age = now.since(live.oldest).as_secs();
        self.count += live.count;
        self.oldest_age_s = Some(self.oldest_age_s.map_or(age, |oldest| oldest.max(age)));
    }
}

/// A lane: work that is alike to whoever claims it.
#[derive(Serialize, ToSchema)]
struct LaneStats {
    /// Where its work comes from.
    #[schema(value_type = Option<schema::SourceId>)]
    source: Option<SourceId>,
    /// Of deliveries: where they go.
    #[schema(value_type = Option<schema::WebhookId>)]
    webhook: Option<WebhookId>,
    /// What kind of work it is.
    #[schema(value_type = schema::WorkKind)]
    work: WorkKind,
    /// The jobs' own kind.
    kind: String,
    /// Which queue it waits in.
    #[schema(value_type = schema::Priority)]
    priority: Priority,
    /// How many could start now.
    ready: i64,
    /// How many run.
    running: i64,
    /// How many wait for their time, for another job or for a person.
    waiting: i64,
    /// How long ago the first of them was made.
    oldest_age_s: Option<u64>,
}

impl LaneStats {
    fn of(lane: &Lane) -> LaneStats {
        let delivers = lane.key.kind == WorkKind::Delivery;
        LaneStats {
            source: lane.key.origin.filter(|_| !delivers).map(SourceId),
            webhook: lane.key.origin.filter(|_| delivers).map(WebhookId),
            work: lane.key.kind,
            kind: lane.key.name.clone(),
            priority: lane.key.priority,
            ready: 0,
            running: 0,
            waiting: 0,
            oldest_age_s: None,
        }
    }

    fn add(&mut self, live: &LiveCount, now: Timestamp) {
        match live.state {
            State::Running => self.running += live.count,
            _ if live.ready => self.ready += live.count,
            _ => self.waiting += live.count,
        }
        let age = now.since(live.oldest).as_secs();
        self.oldest_age_s = Some(self.oldest_age_s.map_or(age, |oldest| oldest.max(age)));
    }

    fn total(&self) -> i64 {
        self.ready + self.running + self.waiting
    }
}

/// Bounds, and what counts towards them.
#[derive(Serialize, ToSchema)]
struct Limits {
    /// How many run that count towards a bound.
    running: i64,
    /// How many may.
    concurrency: Option<u32>,
    /// How many may start in a second.
    rate_per_s: Option<f64>,
}

/// A source's bounds, and what counts towards them.
#[derive(Serialize, ToSchema)]
struct SourceStats {
    /// Which source.
    #[schema(value_type = schema::SourceId)]
    source: SourceId,
    /// Its name for people.
    name: String,
    #[serde(flatten)]
    limits: Limits,
    /// Today's budget.
    budget: Option<BudgetStats>,
}

/// What was used of today's budget.
#[derive(Serialize, ToSchema)]
struct BudgetStats {
    /// How many runs began today.
    runs: i64,
    /// How many may.
    runs_per_day: Option<u32>,
    /// What they cost so far.
    cost: f64,
    /// What they may.
    cost_per_day: Option<f64>,
    /// What becomes of work beyond it.
    #[schema(value_type = String)]
    over: Over,
    /// Whether nothing is left of it today.
    spent: bool,
}

/// A worker.
#[derive(Serialize, ToSchema)]
struct WorkerStats {
    /// Its name.
    name: String,
    /// How many runs it has.
    leases: i64,
    /// When it last asked this node for work, or began a run.
    #[schema(value_type = schema::Timestamp)]
    last_seen_at: Timestamp,
}

/// Shows how the queue stands: counts, bounds, workers.
#[utoipa::path(
    get, path = "/stats", operation_id = "get_stats", tag = "operations", params(describe::Tenant),
    responses((status = 200, description = "How it stands.", body = Stats), Keyed, Missing)
)]
pub async fn show(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    call.no_query()?;
    let stats = match call.context.stats.get(tenant.id) {
        Some(stats) => stats,
        None => {
            let stats = Arc::new(look(&call.context, &tenant).await?);
            call.context.stats.put(tenant.id, stats.clone());
            stats
        }
    };
    Ok(once::json(StatusCode::OK, &*stats))
}

async fn look(context: &Context, tenant: &Tenant) -> Result<Stats, ApiError> {
    let (live, bounded) = tokio::try_join!(
        context.store.live_work(tenant.id, LOOK_MAX),
        context.directory.sources_where(tenant.id, is_bounded)
    )?;
    let scopes = bounded.iter().map(|record| CapScope::Source(record.id));
    let scopes = scopes.chain([CapScope::Tenant(tenant.id)]).collect();
    let counts = context.store.counts(scopes).await?;
    let (mut states, mut priorities) = (empty_states(), empty_priorities());
    let ids: Vec<_> = live.lanes.iter().map(|count| count.lane).collect();
    let known = context.directory.lanes(&ids).await?;
    let known: HashMap<_, _> = known.into_iter().map(|lane| (lane.id, lane)).collect();
    let mut lanes: HashMap<_, LaneStats> = HashMap::new();
    for count in &live.lanes {
        states.entry(count.state.as_str()).or_default().add(count, live.now);
        if let Some(lane) = known.get(&count.lane) {
            priorities.entry(word(lane.key.priority)).or_default().add(count, live.now);
            let stats = lanes.entry(lane.id).or_insert_with(|| LaneStats::of(lane));
            stats.add(count, live.now);
        }
    }
    let mut lanes: Vec<LaneStats> = lanes.into_values().collect();
    lanes.sort_by_key(|lane| (-lane.total(), lane.kind.clone()));
    lanes.truncate(LANES_MAX);
    let of_tenant = counts.get(CapScope::Tenant(tenant.id));
    Ok(Stats {
        tenant: tenant.slug.clone(),
        at: live.now,
        at_least: live.cut_off,
        states,
        priorities,
        lanes,
        limits: Limits {
            running: of_tenant.running,
            concurrency: tenant.settings.concurrency,
            rate_per_s: tenant.settings.rate_per_s,
        },
        sources: bounded.iter().map(|record| source_stats(record, &counts)).collect(),
        workers: workers(context, tenant.id, &live),
    })
}

fn empty_states() -> BTreeMap<&'static str, Standing> {
    let live = State::ALL.into_iter().filter(|state| !state.is_terminal());
    live.map(|state| (state.as_str(), Standing::default())).collect()
}

fn empty_priorities() -> BTreeMap<&'static str, Standing> {
    Priority::ALL.into_iter().map(|class| (word(class), Standing::default())).collect()
}

fn word(priority: Priority) -> &'static str {
    match priority {
        Priority::Interactive => "interactive",
        Priority::Webhook => "webhook",
        Priority::Batch => "batch",
    }
}

fn is_bounded(record: &SourceRecord) -> bool {
    let config = &record.config;
    config.concurrency.is_some() || config.rate_per_s.is_some() || config.budget.is_some()
}

fn source_stats(record: &SourceRecord, counts: &Counts) -> SourceStats {
    let Count { running, spent, .. } = counts.get(CapScope::Source(record.id));
    let config = &record.config;
    SourceStats {
        source: record.id,
        name: config.name.clone(),
        limits: Limits { running, concurrency: config.concurrency, rate_per_s: config.rate_per_s },
        budget: config.budget.map(|budget| BudgetStats {
            runs: spent.runs,
            runs_per_day: budget.runs_per_day,
            cost: spent.cost,
            cost_per_day: budget.cost_per_day,
            over: budget.over,
            spent: budget.room(spent) == 0,
        }),
    }
}

fn workers(context: &Context, tenant: TenantId, live: &LiveCounts) -> Vec<WorkerStats> {
    let mut workers: BTreeMap<String, WorkerStats> = BTreeMap::new();
    let mut seen = |name: &str, leases: i64, at: Timestamp| {
        let worker = workers.entry(name.to_owned()).or_insert_with(|| WorkerStats {
            name: name.to_owned(),
            leases: 0,
            last_seen_at: at,
        });
        worker.leases += leases;
        worker.last_seen_at = worker.last_seen_at.max(at);
    };
    for running in &live.lanes {
        if let (Some(worker), Some(at)) = (&running.worker, running.started_at) {
            seen(worker, running.count, at);
        }
    }
    for (name, age) in context.queue.workers_seen(tenant) {
        seen(&name, 0, live.now.before(age));
    }
    workers.into_values().collect()
}
