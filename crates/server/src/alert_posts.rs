//! What is said of alerts in the channels that sources name for that: replies that answer nothing, made here and sent
//! like all others.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::alert::{Change, Severity};
use wakepost_domain::source::DEDUP_WINDOW;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{SourceId, TenantId, Timestamp};
use wakepost_providers::registry;
use wakepost_store::moves::{Alert, DedupKey, NewWork, OrderKey, SourceRecord, WorkMeta};
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::dashboard::words;
use crate::directory::LiveSource;
use crate::replies::{self, Place, Reply, Whom};

/// A source that alerts are told through, and the channel.
pub struct Speaker {
    live: Arc<LiveSource>,
    channel: String,
}

/// The sources of a tenant that alerts are told through.
pub async fn speakers(context: &Context, tenant: TenantId) -> Result<Vec<Speaker>> {
    let replies = |provider: &str| registry::find(provider).and_then(|provider| provider.replies());
    let may_speak =
        |record: &SourceRecord| record.config.enabled && replies(&record.provider).is_some();
    let mut speakers = Vec::new();
    for record in context.directory.sources_where(tenant, may_speak).await? {
        let Some(replies) = replies(&record.provider) else { continue };
        let Some(live) = opened(context, record.id).await? else { continue };
        if let Some(channel) = replies.alerts_channel(&live.settings) {
            speakers.push(Speaker { channel: channel.to_owned(), live });
        }
    }
    Ok(speakers)
}

/// One that cannot be read must not keep alerts from being told elsewhere.
async fn opened(context: &Context, id: SourceId) -> Result<Option<Arc<LiveSource>>> {
    match context.directory.source(id).await {
        Err(StoreError::Corrupt(why)) => {
            tracing::warn!(source_id = %id, why, "alerts are not told through a source that cannot be read");
            Ok(None)
        }
        found => found,
    }
}

/// Makes the messages that tell of a change, all or none. A repeat, by another node or after a crash, makes none.
pub async fn post(
    context: &Context,
    tenant: &Tenant,
    alert: &Alert,
    change: Change,
    speakers: &[Speaker],
) -> Result<()> {
    if speakers.is_empty() {
        return Ok(());
    }
    // A slug is made of letters that can stand in a URL.
    let overview = format!("{}/?tenant={}", context.base_url, tenant.slug);
    let text = worded(&tenant.slug, &overview, alert, change);
    let (mut items, mut lanes) = (Vec::new(), Vec::new());
    for Speaker { live, channel } in speakers {
        let to = Whom::Channel(channel.clone());
        let reply = Reply { text: text.clone(), place: Place::Beside, to };
        let (item, lane) = replies::item(context, live, &reply).await?;
        let (source, word) = (live.source.id, change.as_str());
        items.push(NewWork {
            subject: Some(format!("wakepost:alert:{}", alert.id)),
            // That it is over never comes before that it fired.
            order: Some(OrderKey::of_alert(tenant.id, source, alert.id)),
            meta: WorkMeta { order_key: Some(alert.id.to_string()), ..WorkMeta::default() },
            dedup: Some((
                DedupKey::of_alert(tenant.id, source, alert.id, word),
                context.now().after(DEDUP_WINDOW),
            )),
            ..item
        });
        lanes.push(lane);
    }
    let made = context.store.create_work(items, None).await;
    // A hint too many costs nothing.
    if made.as_ref().map_or_else(StoreError::is_unknown, |_| true) {
        for lane in &lanes {
            context.queue.hint(lane, 1).await;
        }
    }
    made.map(|_| ())
}

/// What is said, as Markdown.
fn worded(slug: &str, overview: &str, alert: &Alert, change: Change) -> String {
    let severity = match alert.severity {
        Severity::Warning => "Warning",
        Severity::Critical => "Critical",
    };
    let fired_at = alert.id.0.time();
    let since = moment(fired_at);
    let (head, body) = match (change, alert.resolved_at) {
        (Change::Resolved, Some(over)) => {
            let lasted = words::lasting(whole_seconds(over.since(fired_at)));
            let body =
                format!("It was: {} It lasted {lasted}, since {since}.", plain(&alert.detail));
            ("Over", body)
        }
        (change, _) => {
            let threshold = alert.kind.threshold_text(alert.threshold);
            let threshold = threshold.map_or(String::new(), |text| format!(" Threshold: {text}."));
            let body = format!("{}{threshold} Since {since}.", plain(&alert.detail));
            (if change == Change::Escalated { "Worse, now critical" } else { severity }, body)
        }
    };
    let (title, slug) = (plain(&alert.title), plain(slug));
    format!("**{head}: {title}** (tenant {slug})\n{body}\n[Overview]({overview})")
}

/// To the second, as people write it.
fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    format!("{} UTC", text.get(..19).unwrap_or(&text).replace('T', " "))
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Text that others may have had a hand in, such as an error or a name: Markdown sees nothing in it, nor does Slack in what
/// comes of it.
fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        match c {
            c if c.is_ascii_punctuation() => safe.extend(['\\', c]),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use wakepost_domain::alert::AlertKind;
    use wakepost_domain::{AlertId, Ulid};
    use wakepost_store::moves::Untold;

    use super::*;

    const OVERVIEW: &str = "https://hooks.example/?tenant=acme";

    fn alert() -> Alert {
        Alert {
            id: AlertId(Ulid::floor(Timestamp::from_secs(1_700_000_000))),
            tenant: TenantId::DEFAULT,
            kind: AlertKind::DeadLetters,
            subject: String::new(),
            severity: Severity::Warning,
            title: "Dead letters pile up".to_owned(),
            detail: "101 dead letters wait to be dealt with.".to_owned(),
            value: 101.0,
            threshold: 100.0,
            good_since: None,
            resolved_at: None,
            untold: Untold::default(),
            version: 0,
        }
    }

    /// As Slack gets it.
    fn said(alert: &Alert, change: Change) -> String {
        let slack = registry::find("slack").unwrap().replies().unwrap();
        let parts = slack.parts(&worded("acme", OVERVIEW, alert, change));
        assert_eq!(parts.len(), 1);
        parts.concat()
    }

    #[test]
    fn a_message_says_what_is_wrong_since_when_and_where_to_look() {
        assert_eq!(
            said(&alert(), Change::Fired),
            "*Warning: Dead letters pile up* (tenant acme)\n101 dead letters wait to be dealt with. Threshold: 100. \
             Since 2023-11-14 22:13:20 UTC.\n<https://hooks.example/?tenant=acme|Overview>"
        );
        let worse = Alert { severity: Severity::Critical, ..alert() };
        assert!(said(&worse, Change::Escalated).starts_with("*Worse, now critical: Dead letters"));
        let circuit = Alert { kind: AlertKind::CircuitOpen, threshold: 0.0, ..alert() };
        assert!(!said(&circuit, Change::Fired).contains("Threshold"));
    }

    #[test]
    fn its_end_says_how_long_it_lasted() {
        let over = alert().id.0.time().after(Duration::from_millis(754_321));
        let over = Alert { resolved_at: Some(over), ..alert() };
        assert_eq!(
            said(&over, Change::Resolved),
            "*Over: Dead letters pile up* (tenant acme)\nIt was: 101 dead letters wait to be dealt with. \
             It lasted 12 min 34 s, since 2023-11-14 22:13:20 UTC.\n\
             <https://hooks.example/?tenant=acme|Overview>"
        );
    }

    #[test]
    fn foreign_text_calls_nobody_and_marks_nothing_up() {
        let detail = "9 × <!channel> & [a](https://evil.example) `x` **b**\n# c\n<@U1>".to_owned();
        let text = said(&Alert { detail, ..alert() }, Change::Fired);
        let line = text.lines().nth(1).unwrap();
        assert!(
            line.starts_with(
                "9 × &lt;!channel&gt; &amp; [a](https://evil.example) `x` **b** # c &lt;@U1&gt; Threshold"
            ),
            "{text}"
        );
        assert_eq!(text.matches('<').count(), 1, "only our own link: {text}");
    }
}
