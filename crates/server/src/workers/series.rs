//! Figures over time: what this node counted is written down, and once a minute one node looks how queues stand.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::figures::{Figure, Sample, minute};
use wakepost_domain::work::{Priority, State};
use wakepost_domain::{TenantId, limits};
use wakepost_store::Result;
use wakepost_store::moves::InMinute;

use super::pages::{self, PAGE};
use crate::context::Context;
use crate::telemetry::metrics;
use crate::telemetry::tally::Taken;

/// How often figures are written down.
pub const FLUSH_PERIOD: Duration = Duration::from_secs(5);
/// How often it is asked whether a look is due.
pub const SAMPLE_PERIOD: Duration = Duration::from_secs(5);
/// How many rows are written in one transaction.
const ROWS_MAX: usize = 500;
/// How many of a tenant's live items are looked at, the oldest ones.
const LOOK_MAX: u32 = 20_000;
/// For how many minutes after its last figure a tenant is looked at.
const AFTERWARDS: i64 = 20;

/// Writes down what was counted.
pub async fn flush_tick(context: Arc<Context>) {
    flush(&context).await;
}

/// Writes down what was counted since the last time. What cannot be is kept for the next.
pub async fn flush(context: &Context) {
    let Taken { rows, grown } = context.tally.take(context.now());
    count_by_tenant(context, grown).await;
    let mut left = rows.as_slice();
    while !left.is_empty() {
        let (some, rest) = left.split_at(left.len().min(ROWS_MAX));
        let kept = context.store.keep_figures(context.tally.node, some.to_vec()).await;
        if let Err(error) = kept {
            tracing::debug!(%error, "figures could not be written down; it will be tried again");
            return context.tally.put_back(left);
        }
        left = rest;
    }
}

/// Counts in the metrics what grew, for whom.
async fn count_by_tenant(context: &Context, grown: Vec<(TenantId, Figure, u64)>) {
    let named_max = context.config.metrics_tenants_max;
    for (tenant, figure, more) in grown {
        let tenant = context.directory.tenant(tenant).await.ok().flatten();
        let slug = tenant.as_ref().map_or("other", |tenant| &tenant.slug);
        context.metrics.figure(slug, figure, more, named_max);
    }
}

/// Shows in the metrics how queues stood when some node looked last.
async fn show_latest(context: &Context) -> Result<()> {
    let now = context.store.now().await?;
    let samples = context.store.latest_samples(minute(now) - 2).await?;
    let mut open = 0;
    let mut sums = [(0u64, 0u64); 3];
    for sample in samples {
        open += sample.open_circuits;
        for (place, (depth, age)) in sums.iter_mut().enumerate() {
            *depth += sample.queue[place];
            *age = (*age).max(sample.oldest_age_s[place].unwrap_or_default());
        }
    }
    for (priority, (depth, age)) in Priority::ALL.into_iter().zip(sums) {
        let labels = metrics::Priority { priority: priority.as_str() };
        context.metrics.queue.get_or_create(&labels).set(depth as i64);
        context.metrics.queue_age.get_or_create(&labels).set(age as i64);
    }
    context.metrics.open_circuits.set(open as i64);
    Ok(())
}

/// Looks how queues stand, if no node did in this minute.
pub async fn sample_tick(context: Arc<Context>) {
    let looked = async {
        sample(&context).await?;
        show_latest(&context).await
    };
    if let Err(error) = looked.await {
        tracing::debug!(%error, "queues could not be looked at; it will be tried again");
    }
}

async fn sample(context: &Context) -> Result<()> {
    let now = context.store.now().await?;
    let this = minute(now);
    // Until the next minute begins, so that no minute is left out.
    let left = Duration::from_millis(60_000 - now.as_millis().rem_euclid(60_000).unsigned_abs());
    if !context.store.take_turn("series.sample", left).await? {
        return Ok(());
    }
    let busy = |after| context.store.busy_tenants(this - AFTERWARDS, after, PAGE);
    let mut tenants = pages::all(PAGE, busy).await?;
    if !tenants.contains(&TenantId::DEFAULT) {
        tenants.insert(0, TenantId::DEFAULT);
    }
    let mut rows = Vec::with_capacity(tenants.len().min(ROWS_MAX));
    for tenant in tenants {
        rows.push(InMinute { tenant, minute: this, what: look(context, tenant).await? });
        if rows.len() == ROWS_MAX {
            context.store.keep_samples(std::mem::take(&mut rows)).await?;
        }
        if context.stop.is_cancelled() {
            break;
        }
    }
    if !rows.is_empty() {
        context.store.keep_samples(rows).await?;
    }
    Ok(())
}

/// How a tenant's queue stands. Of a very long one the oldest items are counted.
async fn look(context: &Context, tenant: TenantId) -> Result<Sample> {
    let live = context.store.live_work(tenant, LOOK_MAX).await?;
    let standing = context.store.standing(tenant, limits::DEAD_LETTERS_COUNTED_MAX).await?;
    let ids: Vec<_> = live.lanes.iter().map(|count| count.lane).collect();
    let lanes = context.directory.lanes(&ids).await?;
    let lanes: HashMap<_, _> = lanes.iter().map(|lane| (lane.id, lane.key.priority)).collect();
    let mut sample = Sample {
        open_circuits: standing.open_circuits,
        dead_letters: standing.dead_letters,
        ..Sample::default()
    };
    for count in &live.lanes {
        let items = count.count.unsigned_abs();
        if count.state == State::Retrying {
            sample.retrying += items;
        }
        let waits = count.state == State::Pending || count.ready;
        if let Some(priority) = lanes.get(&count.lane).filter(|_| waits) {
            sample.waiting(*priority, items, live.now.since(count.oldest).as_secs());
        }
    }
    Ok(sample)
}
