//! Alerts: once in a while one node looks at each tenant that has anything to look at, and says what is wrong.
//!
//! Nothing depends on it being one node: the store lets an alert fire once. What fires is told from its row, so that a
//! crash between the two only delays it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use wakepost_domain::alert::{
    self, AlertKind, Change, Evidence, Finding, Firing, SeenSource, SeenWebhook, Step,
};
use wakepost_domain::circuit::CircuitState;
use wakepost_domain::figures::{Figure, Figures, minute};
use wakepost_domain::receipt::{Class, Compared};
use wakepost_domain::tenant::Tenant;
use wakepost_domain::work::WorkKind;
use wakepost_domain::{AlertId, SourceId, TenantId, Timestamp, limits, retention};
use wakepost_store::moves::{Alert, DeadFilter, Page, SourceRecord, Untold};
use wakepost_store::{Result, StoreError};

use super::pages::{self, PAGE};
use crate::alert_posts::{self, Speaker};
use crate::context::Context;
use crate::directory::LiveSource;
use crate::publishing;
use crate::telemetry::metrics::Metrics;

/// How many firing alerts are looked at.
const FIRING_MAX: u32 = 10_000;
/// In how many minutes dead letters of one source are counted together.
const SOURCE_MINUTES: i64 = 10;
/// How many dead letters, and how many repeats, are looked at one by one.
const ONE_BY_ONE_MAX: u32 = 500;
/// How many dead letters' errors are counted, and how many of these are told.
const ERRORS_LOOK: u32 = 10_000;
const ERRORS_TOLD: u32 = 5;
/// So many tenants or alerts in a row for which the store was away: it is down.
const FAILURES_MAX: usize = 3;
/// How often it is looked which secrets are old by now: they are so in days.
const SECRETS_PERIOD: Duration = Duration::from_secs(3600);
/// How many sources with old secrets are looked at at a time.
const OLD_SECRETS_PAGE: u32 = 200;
/// How many alerts are told of at a time.
const TOLD_MAX: u32 = 100;

/// One look, if no node had one in this period.
pub async fn tick(context: Arc<Context>) {
    flush_streaks(&context).await;
    if let Err(error) = look(&context).await {
        tracing::debug!(%error, "alerts could not be looked at; it will be tried again");
    }
}

/// Writes down how sources' jobs went.
async fn flush_streaks(context: &Context) {
    let streaks = context.streaks.take();
    if !streaks.is_empty()
        && let Err(error) = context.store.note_streaks(streaks.clone()).await
    {
        context.streaks.put_back(streaks);
        tracing::debug!(%error, "failures in a row were not written down");
    }
}

async fn look(context: &Arc<Context>) -> Result<()> {
    let every = context.config.alerts_every;
    // A little less, so that a node that comes on time finds it free.
    let hold = every.saturating_sub(Duration::from_millis(500));
    if !context.store.take_turn("alerts.look", hold).await? {
        return Ok(());
    }
    let now = context.store.now().await?;
    let since = minute(now) - context.config.alerts.window_minutes;
    let mut firing: BTreeMap<TenantId, Vec<Alert>> = BTreeMap::new();
    for alert in context.store.firing_alerts(None, FIRING_MAX).await? {
        firing.entry(alert.tenant).or_default().push(alert);
    }
    let busy = pages::all(PAGE, |after| context.store.busy_tenants(since, after, PAGE)).await?;
    let mut tenants: BTreeSet<TenantId> =
        busy.into_iter().chain(firing.keys().copied()).chain([TenantId::DEFAULT]).collect();
    let all_secrets = context.store.take_turn("alerts.secrets", SECRETS_PERIOD).await?;
    if all_secrets {
        // A secret grows old without any traffic.
        let before = old_before(context, now);
        let next = |after| context.store.tenants_with_secrets_before(before, after, PAGE);
        tenants.extend(pages::all(PAGE, next).await?);
    }
    let mut in_a_row = 0;
    for tenant in tenants {
        if context.stop.is_cancelled() || in_a_row == FAILURES_MAX {
            break;
        }
        let firing = firing.remove(&tenant).unwrap_or_default();
        // What cannot be read of one tenant must not keep the others from being looked at.
        let looked = look_at(context, tenant, now, firing, all_secrets).await;
        if let Err(error) = &looked {
            tracing::warn!(%error, tenant = tenant.0, "a tenant could not be looked at");
        }
        in_a_row = if is_away(&looked) { in_a_row + 1 } else { 0 };
    }
    // Whoever has the turn tells, so that the log of one node has it, once.
    tell_all(context).await
}

/// Whether the store itself was away, for all tenants.
fn is_away(outcome: &Result<()>) -> bool {
    matches!(outcome, Err(StoreError::Busy | StoreError::Unavailable(_)))
}

async fn look_at(
    context: &Arc<Context>,
    tenant: TenantId,
    now: Timestamp,
    firing: Vec<Alert>,
    all_secrets: bool,
) -> Result<()> {
    let told_of = firing.iter().filter(|alert| alert.kind == AlertKind::SecretAge);
    let secrets = match all_secrets {
        true => Secrets::All,
        // So that a new secret ends what is said of the old one at once.
        false => Secrets::Of(told_of.filter_map(|alert| alert.subject.parse().ok()).collect()),
    };
    let seen = evidence(context, tenant, now, secrets).await?;
    let found = alert::findings(&seen, &context.config.alerts);
    act(context, tenant, now, found, firing).await
}

/// The sources whose secrets' ages are looked at.
enum Secrets {
    All,
    Of(Vec<SourceId>),
}

/// A secret from before this is old.
fn old_before(context: &Context, now: Timestamp) -> Timestamp {
    now.before(retention::days(context.config.alerts.secret_days))
}

/// What there is to know of a tenant. Work that was replayed or purged counts no more.
async fn evidence(
    context: &Context,
    tenant: TenantId,
    now: Timestamp,
    secrets: Secrets,
) -> Result<Evidence> {
    let rules = &context.config.alerts;
    let store = &context.store;
    let this = minute(now);
    let minutes = store.figures(tenant, this - rules.window_minutes + 1, this + 1).await?;
    let mut figures = Figures::default();
    minutes.iter().for_each(|(_, more)| figures.add(more));
    let standing = store.standing(tenant, limits::DEAD_LETTERS_COUNTED_MAX).await?;
    let errors = match standing.dead_letters > rules.dead_letters[1] {
        true => store.dead_letter_errors(tenant, ERRORS_LOOK, ERRORS_TOLD).await?,
        false => Vec::new(),
    };
    // As some node saw it last, at most two minutes ago.
    let samples = store.samples(tenant, this - 2, this + 1).await?;
    Ok(Evidence {
        dead_letters: standing.dead_letters,
        errors,
        retrying: samples.last().map_or(0, |(_, sample)| sample.retrying),
        webhooks: webhooks(context, tenant, now).await?,
        sources: sources(context, tenant, now, &figures, secrets).await?,
        suspicious: suspicious(context, tenant, now, &figures).await?,
        figures,
    })
}

async fn webhooks(context: &Context, tenant: TenantId, now: Timestamp) -> Result<Vec<SeenWebhook>> {
    let records = context.store.webhooks(tenant).await?;
    let seen = records.into_iter().map(|record| {
        let is_live = record.config.disabled.is_none();
        let age = now.since(record.config.secret_made_at).as_secs() / 86_400;
        let id = record.id.to_string();
        SeenWebhook {
            name: match record.config.description.is_empty() {
                true => format!("webhook {id}"),
                false => format!("webhook {id} ({})", record.config.description),
            },
            open: is_live && record.circuit.state != CircuitState::Closed,
            secret_days: is_live.then_some(age),
            id,
        }
    });
    Ok(seen.collect())
}

/// Sources whose jobs fail again and again, and those whose secret is old.
async fn sources(
    context: &Context,
    tenant: TenantId,
    now: Timestamp,
    figures: &Figures,
    secrets: Secrets,
) -> Result<Vec<SeenSource>> {
    let mut seen = failing_sources(context, tenant, now, figures).await?;
    let mut note = |live: &LiveSource| {
        let source = seen.entry(live.source.id).or_insert_with(|| seen_source(live));
        source.secret_days = live.secret_days(now);
    };
    match secrets {
        Secrets::Of(ids) => {
            for id in ids {
                // As it is now: a copy of before a rotation would keep the alert firing.
                let record = context.store.source(id).await?;
                for live in opened(context, record.into_iter().collect()).await? {
                    note(&live);
                }
            }
        }
        Secrets::All => {
            let (before, mut after) = (old_before(context, now), None);
            loop {
                let store = &context.store;
                let page = store
                    .sources_with_secrets_before(tenant, before, after, OLD_SECRETS_PAGE)
                    .await?;
                let is_last = page.len() < OLD_SECRETS_PAGE as usize;
                after = page.last().map(|record| record.id);
                opened(context, page).await?.iter().for_each(&mut note);
                if is_last {
                    break;
                }
            }
        }
    }
    Ok(seen.into_values().collect())
}

/// Those of them that are enabled. One that cannot be read must not keep the others from being looked at.
async fn opened(context: &Context, records: Vec<SourceRecord>) -> Result<Vec<LiveSource>> {
    let mut live = Vec::with_capacity(records.len());
    for record in records.into_iter().filter(|record| record.config.enabled) {
        match context.directory.open(record).await {
            Err(StoreError::Corrupt(_)) => {}
            opened => live.push(opened?),
        }
    }
    Ok(live)
}

/// Sources whose jobs fail again and again.
async fn failing_sources(
    context: &Context,
    tenant: TenantId,
    now: Timestamp,
    figures: &Figures,
) -> Result<BTreeMap<SourceId, SeenSource>> {
    let (rules, store) = (&context.config.alerts, &context.store);
    let least = u32::try_from(rules.failures_in_a_row).unwrap_or(u32::MAX);
    let mut failing: BTreeMap<SourceId, (u64, u64)> = BTreeMap::new();
    for (source, failures) in store.streaks(tenant, least).await? {
        failing.entry(source).or_default().0 = failures.into();
    }
    if figures.get(Figure::JobsDead) > 0 {
        let since = now.before(Duration::from_secs(SOURCE_MINUTES as u64 * 60));
        let filter =
            DeadFilter { kind: Some(WorkKind::Job), since: Some(since), ..DeadFilter::default() };
        let page = Page { before: None, limit: ONE_BY_ONE_MAX };
        let dead = store.dead_letters(tenant, filter, page).await?;
        let ids: Vec<_> = dead.iter().map(|row| row.lane).collect();
        let lanes = context.directory.lanes(&ids).await?;
        let origins: BTreeMap<_, _> = lanes.iter().map(|lane| (lane.id, lane.key.origin)).collect();
        for row in dead {
            if let Some(origin) = origins.get(&row.lane).copied().flatten() {
                failing.entry(SourceId(origin)).or_default().1 += 1;
            }
        }
    }
    let mut seen = BTreeMap::new();
    for (id, (failures, dead_letters)) in failing {
        let source = match context.directory.source(id).await {
            Ok(Some(live)) => seen_source(&live),
            // One that was deleted fails no more.
            Ok(None) => continue,
            Err(StoreError::Corrupt(_)) => {
                let name = format!("source {id}, which cannot be read");
                SeenSource { id: id.to_string(), name, ..SeenSource::default() }
            }
            Err(error) => return Err(error),
        };
        seen.insert(id, SeenSource { failures, dead_letters, ..source });
    }
    Ok(seen)
}

/// One of which nothing bad is known.
fn seen_source(live: &LiveSource) -> SeenSource {
    let (id, config) = (live.source.id, &live.source.config);
    let owner = config.owner.as_ref().map_or(String::new(), |owner| format!(", owner {owner}"));
    let name = format!("source {id} ({}{owner})", live.provider.name());
    SeenSource { id: id.to_string(), name, ..SeenSource::default() }
}

/// How many repeats in the window nobody should be able to send.
async fn suspicious(
    context: &Context,
    tenant: TenantId,
    now: Timestamp,
    figures: &Figures,
) -> Result<u64> {
    if figures.get(Figure::Duplicates) == 0 {
        return Ok(0);
    }
    let window = context.config.alerts.window_minutes.unsigned_abs() * 60;
    let since = now.before(Duration::from_secs(window));
    let rows = context.store.duplicates_since(tenant, since, ONE_BY_ONE_MAX).await?;
    let ids: BTreeSet<_> = rows.iter().filter_map(|row| row.event).collect();
    let ids = ids.into_iter().map(|id| (tenant, id)).collect();
    let events = context.store.events_by_id(ids).await?;
    let events: BTreeMap<_, _> = events.iter().map(|event| (event.id, event)).collect();
    let judged = rows.iter().filter(|row| {
        let first = row.event.and_then(|id| events.get(&id));
        first.zip(row.evidence.as_ref()).is_some_and(|(first, evidence)| {
            let address = row.remote_addr.as_deref();
            let compared = Compared::new(first, row.id.0.time(), address, evidence);
            compared.class(evidence) == Class::Suspicious
        })
    });
    Ok(judged.count() as u64)
}

/// Lets alerts fire, get worse, and end. What another node did meanwhile stays.
async fn act(
    context: &Arc<Context>,
    tenant: TenantId,
    now: Timestamp,
    found: Vec<Finding>,
    firing: Vec<Alert>,
) -> Result<()> {
    let calm = context.config.alerts.calm;
    let mut firing: BTreeMap<(AlertKind, String), Alert> =
        firing.into_iter().map(|alert| ((alert.kind, alert.subject.clone()), alert)).collect();
    for finding in found {
        let alert = firing.remove(&(finding.kind, finding.subject.clone()));
        let stands = alert.as_ref().map(stands);
        match (alert::step(stands, Some(finding.severity), now, calm), alert) {
            (Step::Fire, _) => {
                context.store.fire_alert(new_alert(context, tenant, finding)).await?;
            }
            (Step::Escalate, Some(alert)) => {
                let untold = Untold { escalated: true, ..Untold::default() };
                context.store.change_alert(Alert { untold, ..seen_again(alert, finding) }).await?;
            }
            (_, Some(alert)) if alert.good_since.is_some() || alert.value != finding.value => {
                // What was critical says so until it is over.
                let severity = alert.severity;
                let again = Alert { severity, ..seen_again(alert, finding) };
                context.store.change_alert(again).await?;
            }
            _ => {}
        }
    }
    for alert in firing.into_values() {
        let untold = Untold::default();
        match alert::step(Some(stands(&alert)), None, now, calm) {
            Step::Calm => {
                let calm = Alert { good_since: Some(now), untold, ..alert };
                context.store.change_alert(calm).await?;
            }
            Step::Resolve => {
                let untold = Untold { resolved: true, ..untold };
                let over = Alert { resolved_at: Some(now), untold, ..alert };
                context.store.change_alert(over).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn stands(alert: &Alert) -> Firing {
    Firing { severity: alert.severity, good_since: alert.good_since }
}

fn new_alert(context: &Context, tenant: TenantId, finding: Finding) -> Alert {
    Alert {
        id: AlertId(context.new_id()),
        tenant,
        kind: finding.kind,
        subject: finding.subject,
        severity: finding.severity,
        title: finding.title,
        detail: finding.detail,
        value: finding.value,
        threshold: finding.threshold,
        good_since: None,
        resolved_at: None,
        untold: Untold { fired: true, ..Untold::default() },
        version: 0,
    }
}

fn seen_again(alert: Alert, finding: Finding) -> Alert {
    let Finding { severity, title, detail, value, threshold, .. } = finding;
    let untold = Untold::default();
    Alert { severity, title, detail, value, threshold, good_since: None, untold, ..alert }
}

/// Tells what is to be told. What cannot be told of one tenant keeps no other's from being told, and is tried again.
async fn tell_all(context: &Arc<Context>) -> Result<()> {
    let (mut told_by, mut unheard) = (BTreeMap::new(), BTreeSet::new());
    let (mut after, mut in_a_row) = (None, 0);
    loop {
        let alerts = context.store.untold_alerts(after, TOLD_MAX).await?;
        for alert in &alerts {
            let told = tell(context, alert, &mut told_by).await;
            if let Err(error) = &told
                && unheard.insert(alert.tenant)
            {
                let (tenant, kind) = (alert.tenant.0, alert.kind.as_str());
                tracing::warn!(%error, tenant, alert_id = %alert.id, kind, "an alert could not be told");
            }
            in_a_row = if is_away(&told) { in_a_row + 1 } else { 0 };
            if context.stop.is_cancelled() || in_a_row == FAILURES_MAX {
                return Ok(());
            }
        }
        after = alerts.last().map(|alert| alert.id);
        if alerts.len() < TOLD_MAX as usize {
            return Ok(());
        }
    }
}

/// Tells of an alert wherever it is to be told, and notes that. Told twice, by two nodes or after a crash, it is still one
/// event, and one message in each channel.
async fn tell(
    context: &Arc<Context>,
    alert: &Alert,
    told_by: &mut BTreeMap<TenantId, Result<Vec<Speaker>>>,
) -> Result<()> {
    let Some(tenant) = context.directory.tenant(alert.tenant).await? else { return Ok(()) };
    let speakers: &Result<_> = match told_by.entry(tenant.id) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(new) => new.insert(alert_posts::speakers(context, tenant.id).await),
    };
    let Untold { fired, escalated, resolved } = alert.untold;
    let changes =
        [(fired, Change::Fired), (escalated, Change::Escalated), (resolved, Change::Resolved)];
    let due = changes.into_iter().filter(|(is_due, _)| *is_due).map(|(_, change)| change);
    for change in due.clone() {
        let published = publish(context, &tenant, alert, change).await;
        let posted = match speakers {
            Ok(speakers) => alert_posts::post(context, &tenant, alert, change, speakers).await,
            Err(error) => Err(error.clone()),
        };
        // Whoever can be told is. That it is over is said to nobody before that it fired.
        published.and(posted)?;
    }
    context.store.alert_told(alert.id, alert.untold).await?;
    due.for_each(|change| log(context, &tenant, alert, change));
    Ok(())
}

fn log(context: &Context, tenant: &Tenant, alert: &Alert, change: Change) {
    let word = change.as_str();
    Metrics::count(&context.metrics.alerts, word);
    tracing::warn!(
        tenant = tenant.slug,
        alert_id = %alert.id,
        kind = alert.kind.as_str(),
        severity = alert.severity.as_str(),
        subject = alert.subject,
        value = alert.value,
        threshold = alert.threshold,
        detail = alert.detail,
        "an alert {word}"
    );
}

async fn publish(
    context: &Arc<Context>,
    tenant: &Tenant,
    alert: &Alert,
    change: Change,
) -> Result<()> {
    let (id, kind, word) = (alert.id, alert.kind.as_str(), change.as_str());
    let status = if change == Change::Resolved { "resolved" } else { "firing" };
    let data = json!({
        "id": id,
        "kind": kind,
        "change": word,
        "status": status,
        "severity": alert.severity,
        "title": alert.title,
        "detail": alert.detail,
        "subject": (!alert.subject.is_empty()).then_some(&alert.subject),
        "value": alert.value,
        "threshold": alert.threshold,
        "fired_at": id.0.time(),
        "resolved_at": alert.resolved_at,
    });
    let event_type = format!("alert.{kind}");
    publishing::tell(context, tenant, &event_type, format!("{id}:{word}"), &data).await
}
