//! Alerts: what is wrong with a tenant's traffic, when that is told, and when it is over.
//!
//! It is pure. A worker gathers the evidence once in a while and asks [`findings`]; the store keeps what fires, and
//! [`step`] says what a look means for an alert that is or is not firing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::figures::{Figure, Figures};
use crate::limits;
use crate::time::Timestamp;

/// How much of an error's text an analysis shows.
const ERROR_SHOWN_BYTES: usize = 160;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertKind {
    /// Too many deliveries became dead letters.
    DeliverySuccess = 0,
    /// Too many deliveries needed another try.
    FirstAttempt = 1,
    /// Half of the tries to deliver take too long.
    DeliveryP50 = 2,
    /// The slowest tries to deliver take too long.
    DeliveryP99 = 3,
    /// Dead letters that nobody deals with.
    DeadLetters = 4,
    /// A receiver is given a rest.
    CircuitOpen = 5,
    /// Too much work waits for another try.
    RetryQueue = 6,
    /// One source's jobs fail again and again.
    SourceFailing = 7,
    /// Requests came again that nobody should be able to send.
    SuspiciousReplays = 8,
    /// A webhook's or a source's secret is old.
    SecretAge = 9,
}

impl AlertKind {
    /// All kinds.
    pub const ALL: [AlertKind; 10] = [
        AlertKind::DeliverySuccess,
        AlertKind::FirstAttempt,
        AlertKind::DeliveryP50,
        AlertKind::DeliveryP99,
        AlertKind::DeadLetters,
        AlertKind::CircuitOpen,
        AlertKind::RetryQueue,
        AlertKind::SourceFailing,
        AlertKind::SuspiciousReplays,
        AlertKind::SecretAge,
    ];

    /// From storage.
    pub fn from_code(code: i16) -> Option<AlertKind> {
        AlertKind::ALL.into_iter().find(|kind| *kind as i16 == code)
    }

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            AlertKind::DeliverySuccess => "delivery_success",
            AlertKind::FirstAttempt => "first_attempt",
            AlertKind::DeliveryP50 => "delivery_p50",
            AlertKind::DeliveryP99 => "delivery_p99",
            AlertKind::DeadLetters => "dead_letters",
            AlertKind::CircuitOpen => "circuit_open",
            AlertKind::RetryQueue => "retry_queue",
            AlertKind::SourceFailing => "source_failing",
            AlertKind::SuspiciousReplays => "suspicious_replays",
            AlertKind::SecretAge => "secret_age",
        }
    }

    /// From what on it is wrong, as people say it; none where anything at all is.
    pub fn threshold_text(self, threshold: f64) -> Option<String> {
        match self {
            AlertKind::DeliverySuccess | AlertKind::FirstAttempt => {
                let percent = (threshold * 1000.0).round() / 10.0;
                Some(format!("{percent} %"))
            }
            AlertKind::DeliveryP50 | AlertKind::DeliveryP99 => Some(format!("{threshold} ms")),
            AlertKind::SecretAge => Some(format!("{threshold} days")),
            AlertKind::CircuitOpen => None,
            AlertKind::DeadLetters
            | AlertKind::RetryQueue
            | AlertKind::SourceFailing
            | AlertKind::SuspiciousReplays => Some(threshold.to_string()),
        }
    }
}

/// What happened to an alert that somebody must be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It fired.
    Fired,
    /// It got worse.
    Escalated,
    /// It is over.
    Resolved,
}

impl Change {
    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Change::Fired => "fired",
            Change::Escalated => "escalated",
            Change::Resolved => "resolved",
        }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Somebody should look.
    Warning = 0,
    /// Somebody must look.
    Critical = 1,
}

impl Severity {
    /// From storage.
    pub fn from_code(code: i16) -> Option<Severity> {
        [Severity::Warning, Severity::Critical].into_iter().find(|one| *one as i16 == code)
    }

    /// The word clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

/// From what on something is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// Over how many minutes rates and latencies are looked at.
    pub window_minutes: i64,
    /// Fewer deliveries than this say nothing.
    pub deliveries_min: u64,
    /// For how long all must be well before an alert is over.
    pub calm: Duration,
    /// Below this share of deliveries taken: a warning, and critical.
    pub success: [f64; 2],
    /// Below this share of first tries taken: a warning, and critical.
    pub first_attempt: [f64; 2],
    /// Above this median of a try, in milliseconds.
    pub p50_ms: f64,
    /// Above this 99th percentile of a try, in milliseconds.
    pub p99_ms: f64,
    /// More dead letters than this: a warning, and critical.
    pub dead_letters: [u64; 2],
    /// More items than this that wait for another try.
    pub retrying: u64,
    /// So many failed runs of one source in a row.
    pub failures_in_a_row: u64,
    /// So many dead letters of one source in ten minutes.
    pub source_dead_letters: u64,
    /// So many suspicious repeats.
    pub suspicious: u64,
    /// Older than so many days.
    pub secret_days: u64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            window_minutes: 15,
            deliveries_min: 20,
            calm: Duration::from_secs(300),
            success: [0.99, 0.95],
            first_attempt: [0.95, 0.90],
            p50_ms: 500.0,
            p99_ms: 5000.0,
            dead_letters: [100, 1000],
            retrying: 10_000,
            failures_in_a_row: 5,
            source_dead_letters: 3,
            suspicious: 5,
            secret_days: 180,
        }
    }
}

/// A webhook, as far as alerts look at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenWebhook {
    /// Its id.
    pub id: String,
    /// What its owner calls it.
    pub name: String,
    /// Since when its circuit is not closed.
    pub open: bool,
    /// How old its secret is; `None` if it is disabled.
    pub secret_days: Option<u64>,
}

/// A source, as far as alerts look at it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SeenSource {
    /// Its id.
    pub id: String,
    /// What its owner calls it, and who that is.
    pub name: String,
    /// How many runs failed in a row.
    pub failures: u64,
    /// How many dead letters it made in ten minutes, of those that were not dealt with.
    pub dead_letters: u64,
    /// How old its secret is; `None` if it is disabled or has none.
    pub secret_days: Option<u64>,
}

/// What a look found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// What was counted in the window.
    pub figures: Figures,
    /// Dead letters that nobody dealt with.
    pub dead_letters: u64,
    /// Their errors, the most frequent first, if there are very many.
    pub errors: Vec<(String, u64)>,
    /// How many wait for another try.
    pub retrying: u64,
    /// Webhooks.
    pub webhooks: Vec<SeenWebhook>,
    /// Sources whose jobs fail, or whose secret is old.
    pub sources: Vec<SeenSource>,
    /// Suspicious repeats in the window.
    pub suspicious: u64,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What.
    pub kind: AlertKind,
    /// With whom: a webhook's or a source's id, or nothing for the tenant as a whole.
    pub subject: String,
    /// How bad.
    pub severity: Severity,
    /// In a few words.
    pub title: String,
    /// In a sentence or two.
    pub detail: String,
    /// How it is.
    pub value: f64,
    /// From what on it is wrong.
    pub threshold: f64,
}

/// What is wrong, by kind.
pub fn findings(seen: &Evidence, rules: &Thresholds) -> Vec<Finding> {
    let figures = &seen.figures;
    let of = |figure| figures.get(figure);
    let minutes = rules.window_minutes;
    let mut found = Vec::new();
    let taken = of(Figure::DeliveriesSucceeded);
    found.extend(share(
        rules,
        (AlertKind::DeliverySuccess, "Deliveries fail"),
        (taken, taken + of(Figure::DeliveriesDead)),
        rules.success,
        &format!("deliveries that ended in the last {minutes} minutes were taken"),
    ));
    found.extend(share(
        rules,
        (AlertKind::FirstAttempt, "First tries to deliver fail"),
        (of(Figure::FirstAttemptsSucceeded), of(Figure::FirstAttempts)),
        rules.first_attempt,
        &format!("first tries to deliver in the last {minutes} minutes were taken"),
    ));
    if figures.delivery.count() >= rules.deliveries_min {
        for (kind, part, limit) in [
            (AlertKind::DeliveryP50, 0.5, rules.p50_ms),
            (AlertKind::DeliveryP99, 0.99, rules.p99_ms),
        ] {
            let value = figures.delivery.quantile_ms(part).unwrap_or_default();
            if value > limit {
                let percent = part * 100.0;
                found.push(Finding {
                    kind,
                    subject: String::new(),
                    severity: Severity::Warning,
                    title: "Receivers are slow".to_owned(),
                    detail: format!(
                        "Of the tries to deliver in the last {minutes} minutes {percent:.0} % took up to \
                         {value:.0} ms; the limit is {limit:.0} ms."
                    ),
                    value,
                    threshold: limit,
                });
            }
        }
    }
    found.extend(dead_letters(seen, rules));
    if seen.retrying > rules.retrying {
        found.push(Finding {
            kind: AlertKind::RetryQueue,
            subject: String::new(),
            severity: Severity::Warning,
            title: "Much work waits for another try".to_owned(),
            detail: format!("{} items wait for another try.", seen.retrying),
            value: seen.retrying as f64,
            threshold: rules.retrying as f64,
        });
    }
    found.extend(seen.webhooks.iter().flat_map(|webhook| of_webhook(webhook, rules)));
    found.extend(seen.sources.iter().flat_map(|source| of_source(source, rules)));
    if seen.suspicious >= rules.suspicious {
        found.push(Finding {
            kind: AlertKind::SuspiciousReplays,
            subject: String::new(),
            severity: Severity::Warning,
            title: "Suspicious repeats".to_owned(),
            detail: format!(
                "{} requests of the last {minutes} minutes repeat what was received in a way that their \
                 providers do not. Their receipts have the class suspicious.",
                seen.suspicious
            ),
            value: seen.suspicious as f64,
            threshold: rules.suspicious as f64,
        });
    }
    found
}

/// A share that is too small, of enough to say so.
fn share(
    rules: &Thresholds,
    (kind, title): (AlertKind, &str),
    (good, all): (u64, u64),
    [warning, critical]: [f64; 2],
    what: &str,
) -> Option<Finding> {
    if all < rules.deliveries_min.max(1) {
        return None;
    }
    let value = good as f64 / all as f64;
    let (severity, threshold) = match value {
        value if value < critical => (Severity::Critical, critical),
        value if value < warning => (Severity::Warning, warning),
        _ => return None,
    };
    Some(Finding {
        kind,
        subject: String::new(),
        severity,
        title: title.to_owned(),
        detail: format!("{good} of {all} {what}."),
        value,
        threshold,
    })
}

fn dead_letters(seen: &Evidence, rules: &Thresholds) -> Option<Finding> {
    let [warning, critical] = rules.dead_letters;
    let count = seen.dead_letters;
    let (severity, threshold) = match count {
        count if count > critical => (Severity::Critical, critical),
        count if count > warning => (Severity::Warning, warning),
        _ => return None,
    };
    let mut detail = format!("{count} dead letters wait to be dealt with.");
    if severity == Severity::Critical && !seen.errors.is_empty() {
        let shown: Vec<String> = seen
            .errors
            .iter()
            .map(|(text, count)| format!("{count} × {}", limits::truncate(text, ERROR_SHOWN_BYTES)))
            .collect();
        detail = format!("{detail} Their errors: {}.", shown.join("; "));
    }
    Some(Finding {
        kind: AlertKind::DeadLetters,
        subject: String::new(),
        severity,
        title: "Dead letters pile up".to_owned(),
        detail,
        value: count as f64,
        threshold: threshold as f64,
    })
}

fn of_webhook(webhook: &SeenWebhook, rules: &Thresholds) -> impl Iterator<Item = Finding> {
    let SeenWebhook { id, name, open, secret_days } = webhook;
    let open = open.then(|| Finding {
        kind: AlertKind::CircuitOpen,
        subject: id.clone(),
        severity: Severity::Warning,
        title: "A circuit is open".to_owned(),
        detail: format!("The receiver of {name} fails; its deliveries wait."),
        value: 1.0,
        threshold: 0.0,
    });
    open.into_iter().chain(old_secret(id, name, *secret_days, rules))
}

fn old_secret(id: &str, name: &str, days: Option<u64>, rules: &Thresholds) -> Option<Finding> {
    days.filter(|days| *days > rules.secret_days).map(|days| Finding {
        kind: AlertKind::SecretAge,
        subject: id.to_owned(),
        severity: Severity::Warning,
        title: "A secret is old".to_owned(),
        detail: format!("The secret of {name} is {days} days old: rotate it."),
        value: days as f64,
        threshold: rules.secret_days as f64,
    })
}

fn of_source(source: &SeenSource, rules: &Thresholds) -> impl Iterator<Item = Finding> {
    let SeenSource { id, name, secret_days, .. } = source;
    failing(source, rules).into_iter().chain(old_secret(id, name, *secret_days, rules))
}

fn failing(source: &SeenSource, rules: &Thresholds) -> Option<Finding> {
    let SeenSource { id, name, failures, dead_letters, .. } = source;
    let (value, threshold, detail) = if *dead_letters >= rules.source_dead_letters {
        let detail = format!("{dead_letters} jobs of {name} became dead letters in ten minutes.");
        (*dead_letters, rules.source_dead_letters, detail)
    } else if *failures >= rules.failures_in_a_row {
        let detail = format!("{failures} runs of jobs of {name} failed in a row.");
        (*failures, rules.failures_in_a_row, detail)
    } else {
        return None;
    };
    Some(Finding {
        kind: AlertKind::SourceFailing,
        subject: id.clone(),
        severity: Severity::Warning,
        title: "A source's jobs fail".to_owned(),
        detail,
        value: value as f64,
        threshold: threshold as f64,
    })
}

/// Where an alert that fires stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Firing {
    /// How bad it was at its worst.
    pub severity: Severity,
    /// Since when all is well again.
    pub good_since: Option<Timestamp>,
}

/// What a look means for an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All is as it was.
    Stay,
    /// It fires.
    Fire,
    /// It still fires, as bad as before at most.
    Hold,
    /// It got worse.
    Escalate,
    /// All is well, for the first time since.
    Calm,
    /// It is over.
    Resolve,
}

/// What a look means for an alert: `firing`, if it fires, and how bad it looked now, if it did.
pub fn step(
    firing: Option<Firing>,
    seen: Option<Severity>,
    now: Timestamp,
    calm: Duration,
) -> Step {
    match (firing, seen) {
        (None, None) => Step::Stay,
        (None, Some(_)) => Step::Fire,
        (Some(firing), Some(seen)) if seen > firing.severity => Step::Escalate,
        (Some(_), Some(_)) => Step::Hold,
        (Some(Firing { good_since: None, .. }), None) if !calm.is_zero() => Step::Calm,
        (Some(Firing { good_since, .. }), None) => {
            match now.since(good_since.unwrap_or(now)) >= calm {
                true => Step::Resolve,
                false => Step::Stay,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn figures(counts: &[(Figure, u64)]) -> Evidence {
        let mut figures = Figures::default();
        counts.iter().for_each(|(figure, count)| figures.count(*figure, *count));
        Evidence { figures, ..Evidence::default() }
    }

    fn found(seen: &Evidence) -> Vec<(AlertKind, Severity)> {
        let found = findings(seen, &Thresholds::default());
        found.into_iter().map(|finding| (finding.kind, finding.severity)).collect()
    }

    #[test]
    fn a_share_below_its_bound_is_found_of_twenty_deliveries_on() {
        use AlertKind::{DeliverySuccess, FirstAttempt};
        use Severity::{Critical, Warning};
        let deliveries = |taken, dead| {
            figures(&[(Figure::DeliveriesSucceeded, taken), (Figure::DeliveriesDead, dead)])
        };
        let first = |taken, all| {
            figures(&[(Figure::FirstAttemptsSucceeded, taken), (Figure::FirstAttempts, all)])
        };
        let table = [
            (deliveries(0, 19), vec![]),
            (deliveries(0, 20), vec![(DeliverySuccess, Critical)]),
            (deliveries(99, 1), vec![]),
            (deliveries(989, 11), vec![(DeliverySuccess, Warning)]),
            (deliveries(95, 5), vec![(DeliverySuccess, Warning)]),
            (deliveries(949, 51), vec![(DeliverySuccess, Critical)]),
            (first(19, 20), vec![]),
            (first(94, 100), vec![(FirstAttempt, Warning)]),
            (first(90, 100), vec![(FirstAttempt, Warning)]),
            (first(89, 100), vec![(FirstAttempt, Critical)]),
            (first(0, 19), vec![]),
        ];
        for (seen, expected) in table {
            assert_eq!(found(&seen), expected, "{:?}", seen.figures);
        }
    }

    #[test]
    fn latencies_are_found_above_their_bounds() {
        let slow = |count: u64, ms: u64| {
            let mut seen = Evidence::default();
            (0..count).for_each(|_| seen.figures.delivery.observe(Duration::from_millis(ms)));
            seen
        };
        assert_eq!(found(&slow(19, 9000)), []);
        assert_eq!(found(&slow(20, 500)), []);
        assert_eq!(found(&slow(20, 501)), [(AlertKind::DeliveryP50, Severity::Warning)]);
        let mut tail = slow(95, 10);
        tail.figures.add(&slow(5, 6000).figures);
        assert_eq!(found(&tail), [(AlertKind::DeliveryP99, Severity::Warning)]);
    }

    #[test]
    fn counts_are_found_above_their_bounds_and_very_many_dead_letters_are_analysed() {
        let dead = |dead_letters| Evidence { dead_letters, ..Evidence::default() };
        assert_eq!(found(&dead(100)), []);
        assert_eq!(found(&dead(101)), [(AlertKind::DeadLetters, Severity::Warning)]);
        let errors = vec![("answered 400".to_owned(), 900), ("timeout".to_owned(), 101)];
        let many = Evidence { errors, ..dead(1001) };
        let finding = &findings(&many, &Thresholds::default())[0];
        assert_eq!(finding.severity, Severity::Critical);
        assert!(finding.detail.contains("900 × answered 400; 101 × timeout"), "{}", finding.detail);
        let retrying = |retrying| Evidence { retrying, ..Evidence::default() };
        assert_eq!(found(&retrying(10_000)), []);
        assert_eq!(found(&retrying(10_001)), [(AlertKind::RetryQueue, Severity::Warning)]);
        let suspicious = |suspicious| Evidence { suspicious, ..Evidence::default() };
        assert_eq!(found(&suspicious(4)), []);
        assert_eq!(found(&suspicious(5)), [(AlertKind::SuspiciousReplays, Severity::Warning)]);
    }

    #[test]
    fn webhooks_and_sources_are_found_one_by_one() {
        let webhook = |id: &str, open, secret_days| SeenWebhook {
            id: id.to_owned(),
            name: id.to_owned(),
            open,
            secret_days,
        };
        let source = |id: &str, failures, dead_letters| SeenSource {
            id: id.to_owned(),
            name: id.to_owned(),
            failures,
            dead_letters,
            secret_days: None,
        };
        let aged = |id: &str, days| SeenSource { secret_days: Some(days), ..source(id, 0, 0) };
        let seen = Evidence {
            webhooks: vec![
                webhook("a", true, Some(181)),
                webhook("b", false, Some(180)),
                webhook("c", false, None),
            ],
            sources: vec![
                source("s", 5, 0),
                source("t", 4, 2),
                source("u", 0, 3),
                aged("v", 180),
                aged("w", 181),
            ],
            ..Evidence::default()
        };
        let found = findings(&seen, &Thresholds::default());
        let told: Vec<_> = found.iter().map(|one| (one.kind.as_str(), &*one.subject)).collect();
        let expected = [
            ("circuit_open", "a"),
            ("secret_age", "a"),
            ("source_failing", "s"),
            ("source_failing", "u"),
            ("secret_age", "w"),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_threshold_is_said_in_its_unit() {
        let said = |kind: AlertKind, threshold| kind.threshold_text(threshold).unwrap_or_default();
        assert_eq!(said(AlertKind::DeliverySuccess, 0.99), "99 %");
        assert_eq!(said(AlertKind::FirstAttempt, 0.995), "99.5 %");
        assert_eq!(said(AlertKind::DeliveryP99, 5000.0), "5000 ms");
        assert_eq!(said(AlertKind::DeadLetters, 100.0), "100");
        assert_eq!(said(AlertKind::SecretAge, 180.0), "180 days");
        assert_eq!(AlertKind::CircuitOpen.threshold_text(0.0), None);
    }

    #[test]
    fn every_kind_and_severity_reads_back_from_its_code() {
        for kind in AlertKind::ALL {
            assert_eq!(AlertKind::from_code(kind as i16), Some(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
        for severity in [Severity::Warning, Severity::Critical] {
            assert_eq!(Severity::from_code(severity as i16), Some(severity));
            assert_eq!(serde_json::to_value(severity).unwrap(), severity.as_str());
        }
        assert_eq!((AlertKind::from_code(10), Severity::from_code(2)), (None, None));
    }

    proptest! {
        /// Whatever is seen minute by minute: it fires once, gets worse at most once, and is over once, not before it was well
        /// for the whole time.
        #[test]
        fn an_alert_fires_once_and_resolves_once(seen in prop::collection::vec(0u8..4, 1..200)) {
            let calm = Duration::from_secs(300);
            let (mut firing, mut escalated, mut good) = (None::<Firing>, 0, 0u64);
            for (minute, seen) in seen.into_iter().enumerate() {
                let now = Timestamp::from_secs(minute as i64 * 60);
                let severity = match seen {
                    0 => Some(Severity::Warning),
                    1 => Some(Severity::Critical),
                    _ => None,
                };
                good = if severity.is_some() { 0 } else { good + 1 };
                match step(firing, severity, now, calm) {
                    Step::Fire => {
                        prop_assert!(firing.is_none() && severity.is_some());
                        escalated = 0;
                        let severity = severity.unwrap();
                        firing = Some(Firing { severity, good_since: None });
                    }
                    Step::Escalate => {
                        escalated += 1;
                        prop_assert_eq!((escalated, severity), (1, Some(Severity::Critical)));
                        firing = Some(Firing { severity: Severity::Critical, good_since: None });
                    }
                    Step::Hold => firing = firing.map(|firing| Firing { good_since: None, ..firing }),
                    Step::Calm => {
                        firing = firing.map(|firing| Firing { good_since: Some(now), ..firing });
                    }
                    Step::Resolve => {
                        prop_assert!(firing.is_some() && good == 6, "{good}");
                        firing = None;
                    }
                    Step::Stay => prop_assert!(severity.is_none()),
                }
            }
        }
    }
}
