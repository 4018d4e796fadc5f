//! The overview: is all well, and if not, where.

use std::time::Duration;

use askama::Template;
use axum::response::Response;
use serde::Deserialize;
use wakepost_domain::Timestamp;

use super::desk::Desk;
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Chip, Command, Mark, When};
use super::places::page_of;
use super::plot::{Series, Svg, plot, spark};
use super::shapes::Alert;
use super::words;
use crate::within::{List, Refused};

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    chips: Vec<Chip>,
    figures: Vec<Figure>,
    plots: Vec<(&'static str, Svg)>,
    alerts: Vec<AlertRow>,
    more_fire: Option<Command>,
    first_steps: Option<Vec<Command>>,
}

/// A figure with its line and its change.
struct Figure {
    label: &'static str,
    value: String,
    change: String,
    spark: Svg,
    to: Option<String>,
    is_bad: bool,
}

struct AlertRow {
    to: Option<String>,
    mark: Mark,
    title: String,
    detail: String,
    when: When,
    resolved: Option<When>,
}

#[derive(Deserialize)]
struct Answer {
    points: Vec<Point>,
    totals: Counts,
    before: Option<Counts>,
    step_s: u64,
}

#[derive(Deserialize)]
struct Point {
    at: Timestamp,
    #[serde(flatten)]
    counts: Counts,
    queue: Classes,
    oldest_age_s: Classes,
    open_circuits: Option<u64>,
    dead_letters: Option<u64>,
}

#[derive(Deserialize)]
struct Classes {
    interactive: Option<u64>,
    webhook: Option<u64>,
    batch: Option<u64>,
}

impl Classes {
    fn sum(&self) -> Option<u64> {
        self.all().reduce(|a, b| a + b)
    }

    fn most(&self) -> Option<u64> {
        self.all().max()
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        [self.interactive, self.webhook, self.batch].into_iter().flatten()
    }
}

#[derive(Deserialize)]
struct Counts {
    received: u64,
    duplicates: u64,
    rejected: u64,
    ack_ms_p50: Option<f64>,
    ack_ms_p99: Option<f64>,
    jobs_succeeded: u64,
    jobs_failed: u64,
    deliveries_succeeded: u64,
    deliveries_failed: u64,
    first_attempts: u64,
    first_attempts_succeeded: u64,
    delivery_ms_p50: Option<f64>,
    delivery_ms_p99: Option<f64>,
}

/// How many alerts are shown at least, those that are over among them.
const ALERTS_MIN: usize = 20;

/// The page.
pub async fn page(desk: Desk) -> Result<Response, Refused> {
    let span = match desk.parameter("span") {
        "6h" => ("6h", "360"),
        "24h" => ("24h", "1440"),
        _ => ("1h", "60"),
    };
    let alerts = |status: &'static str, limit: &'static str| {
        desk.api.get::<List<Alert>>("/alerts", [("status", status), ("limit", limit)])
    };
    let (answer, firing, resolved, sources, frame) = tokio::try_join!(
        desk.api.get::<Answer>("/series", [("minutes", span.1)]),
        alerts("firing", "500"),
        alerts("resolved", "20"),
        desk.api.get::<List<serde_json::Value>>("/sources", [("limit", "1")]),
        Frame::new(&desk, "Overview", "overview")
    )?;
    let chips = ["1h", "6h", "24h"].map(|name| Chip {
        label: name.to_owned(),
        to: frame.to(&format!("/?span={name}")),
        on: name == span.0,
    });
    let page = Page {
        chips: chips.into(),
        figures: figures(&frame, &answer, span.0),
        plots: plots(&answer),
        more_fire: firing.next_cursor.map(|_| frame.ctl("alerts --status firing").named("")),
        alerts: alert_rows(&frame, firing.data, resolved.data),
        first_steps: sources.data.is_empty().then(|| first_steps(&frame)),
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn first_steps(frame: &Frame) -> Vec<Command> {
    let steps = [
        ("1", "sources create github --name shop"),
        ("2", "trigger github issues.opened"),
        ("3", "inbox list"),
    ];
    steps.map(|(number, command)| frame.ctl(command).named(number)).into()
}

/// All that fire, the worst first; then what was, as far as there is room.
fn alert_rows(frame: &Frame, mut firing: Vec<Alert>, resolved: Vec<Alert>) -> Vec<AlertRow> {
    firing.sort_by_key(|alert| alert.severity != "critical");
    let room = ALERTS_MIN.saturating_sub(firing.len());
    let shown = firing.into_iter().chain(resolved.into_iter().take(room));
    shown.map(|alert| alert_row(frame, alert)).collect()
}

/// Where an alert is looked into: at what it is about, or where all such things are listed.
fn page_about(kind: &str, subject: Option<&str>) -> Option<String> {
    subject.and_then(page_of).or_else(|| {
        let list = match kind {
            "delivery_success" | "first_attempt" | "delivery_p50" | "delivery_p99" => "/webhooks",
            "dead_letters" => "/dead-letters",
            "retry_queue" => "/jobs?status=retrying",
            "suspicious_replays" => "/inbox",
            _ => return None,
        };
        Some(list.to_owned())
    })
}

fn alert_row(frame: &Frame, alert: Alert) -> AlertRow {
    AlertRow {
        to: page_about(&alert.kind, alert.subject.as_deref()).map(|page| frame.to(&page)),
        mark: Mark::of(if alert.status == "firing" { &alert.severity } else { &alert.status }),
        title: visible(&alert.title),
        detail: visible(alert.detail.as_deref().unwrap_or_default()),
        when: When::of(alert.fired_at, frame.now),
        resolved: alert.resolved_at.map(|at| When::of(at, frame.now)),
    }
}

fn figures(frame: &Frame, answer: &Answer, span: &str) -> Vec<Figure> {
    let Answer { points, totals, before, step_s } = answer;
    let line = |value: &dyn Fn(&Point) -> Option<f64>, what: &str| {
        let values: Vec<Option<f64>> = points.iter().map(value).collect();
        spark(&values, what)
    };
    let seconds = (points.len() as u64 * step_s).max(1) as f64;
    let rate = |count: u64| count as f64 / seconds;
    let share =
        |part: u64, failed: u64| words::percent(part, part + failed).unwrap_or("–".to_owned());
    let last = |value: Level| points.iter().rev().find_map(value);
    let queue = last(queued);
    let oldest = last(|point| point.oldest_age_s.most());
    let dead = last(|point| point.dead_letters);
    let circuits = last(|point| point.open_circuits);
    let count = |value: Option<u64>| value.map_or("–".to_owned(), words::count);
    let then = |value: fn(&Counts) -> Option<f64>| before.as_ref().and_then(value);
    let against = |value: fn(&Counts) -> Option<f64>| change(value(totals), then(value), span);
    // Where there is nothing to compare with, how many it is a share of says more than nothing.
    let share_against = |value: fn(&Counts) -> Option<f64>, of: String| {
        share_change(value(totals), then(value), span).unwrap_or(of)
    };
    let figure = |label, value: String, change: String, spark: Svg, page: &str| Figure {
        label,
        value,
        change,
        spark,
        to: (!page.is_empty()).then(|| frame.to(page)),
        is_bad: false,
    };
    let per_second = |count: u64| match rate(count) {
        rate if rate >= 100.0 => format!("{rate:.0}/s"),
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate => format!("{rate:.2}/s"),
    };
    let age = oldest.map(|age| format!("oldest {}", words::lasting(Duration::from_secs(age))));
    let queue_change = Some(level_change(points, queued, span)).filter(|text| !text.is_empty());
    vec![
        figure(
            "Events",
            per_second(totals.received),
            against(|counts| Some(counts.received as f64)),
            line(&|point| Some(point.counts.received as f64), "Events received"),
            "/inbox",
        ),
        figure(
            "Acknowledged in, p99",
            totals.ack_ms_p99.map_or("–".to_owned(), words::millis),
            against(|counts| counts.ack_ms_p99),
            line(&|point| point.counts.ack_ms_p99, "Time to acknowledge"),
            "",
        ),
        figure(
            "Queued",
            count(queue),
            [queue_change, age].into_iter().flatten().collect::<Vec<_>>().join(", "),
            line(&|point| whole(queued(point)), "Jobs that wait"),
            "/jobs?status=pending",
        ),
        figure(
            "Runs that succeed",
            share(totals.jobs_succeeded, totals.jobs_failed),
            share_against(
                runs,
                words::many((totals.jobs_succeeded + totals.jobs_failed) as usize, "run", "runs"),
            ),
            line(&|point| runs(&point.counts), "Runs that succeed"),
            "/jobs",
        ),
        figure(
            "Deliveries that succeed",
            share(totals.deliveries_succeeded, totals.deliveries_failed),
            share_against(
                deliveries,
                words::many(
                    (totals.deliveries_succeeded + totals.deliveries_failed) as usize,
                    "attempt",
                    "attempts",
                ),
            ),
            line(&|point| deliveries(&point.counts), "Deliveries that succeed"),
            "/webhooks",
        ),
        figure(
            "At the first attempt",
            words::percent(totals.first_attempts_succeeded, totals.first_attempts)
                .unwrap_or("–".to_owned()),
            share_against(
                first_tries,
                words::many(totals.first_attempts as usize, "delivery", "deliveries"),
            ),
            line(&|point| first_tries(&point.counts), "Deliveries taken at the first attempt"),
            "/webhooks",
        ),
        Figure {
            is_bad: dead.is_some_and(|dead| dead > 100),
            ..figure(
                "Dead letters",
                count(dead),
                level_change(points, |point| point.dead_letters, span),
                line(&|point| whole(point.dead_letters), "Dead letters"),
                "/dead-letters",
            )
        },
        Figure {
            is_bad: circuits.is_some_and(|open| open > 0),
            ..figure(
                "Open circuits",
                count(circuits),
                level_change(points, |point| point.open_circuits, span),
                line(&|point| whole(point.open_circuits), "Open circuits"),
                "/webhooks",
            )
        },
    ]
}

/// How much there was of something at a moment, where it was measured.
type Level = fn(&Point) -> Option<u64>;

fn queued(point: &Point) -> Option<u64> {
    point.queue.sum()
}

fn runs(counts: &Counts) -> Option<f64> {
    part(counts.jobs_succeeded, counts.jobs_succeeded + counts.jobs_failed)
}

fn deliveries(counts: &Counts) -> Option<f64> {
    part(counts.deliveries_succeeded, counts.deliveries_succeeded + counts.deliveries_failed)
}

fn first_tries(counts: &Counts) -> Option<f64> {
    part(counts.first_attempts_succeeded, counts.first_attempts)
}

fn part(good: u64, all: u64) -> Option<f64> {
    (all > 0).then(|| good as f64 / all as f64)
}

/// The change of an amount against the span before.
fn change(now: Option<f64>, then: Option<f64>, span: &str) -> String {
    match (now, then) {
        (Some(now), Some(then)) if then > 0.0 => {
            let percent = ((now - then) / then * 100.0).round();
            format!("{} {:.0} % against the {span} before", arrow(percent), percent.abs())
        }
        _ => String::new(),
    }
}

/// The change of a share, in points of a hundred: a share of a share would say little.
fn share_change(now: Option<f64>, then: Option<f64>, span: &str) -> Option<String> {
    let points = ((now? - then?) * 1000.0).round() / 10.0;
    Some(format!("{} {:.1} points against the {span} before", arrow(points), points.abs()))
}

/// The change of what is there at a moment, from the span's first sample to its last.
fn level_change(points: &[Point], value: Level, span: &str) -> String {
    let first = points.first().and_then(value);
    let last = points.iter().rev().find_map(value);
    let Some((first, last)) = first.zip(last) else { return String::new() };
    let by = words::count(last.abs_diff(first));
    format!("{} {by} against {span} ago", arrow(last as f64 - first as f64))
}

fn arrow(by: f64) -> &'static str {
    match by {
        by if by > 0.0 => "↑",
        by if by < 0.0 => "↓",
        _ => "→",
    }
}

/// A value of a moment, where it was measured.
type Value = fn(&Point) -> Option<f64>;
/// A plot: its title, its lines, how high its scale goes at least, and how its values are written.
type Row = (&'static str, &'static [(&'static str, Value)], f64, fn(f64) -> String);

const PLOTS: [Row; 6] = [
    (
        "Events received",
        &[
            ("received", |point| Some(point.counts.received as f64)),
            ("refused", |point| Some(point.counts.rejected as f64)),
            ("duplicates", |point| Some(point.counts.duplicates as f64)),
        ],
        4.0,
        number,
    ),
    (
        "Jobs that wait, by class",
        &[
            ("webhook", |point| whole(point.queue.webhook)),
            ("interactive", |point| whole(point.queue.interactive)),
            ("batch", |point| whole(point.queue.batch)),
        ],
        4.0,
        number,
    ),
    (
        "Oldest job that waits, by class",
        &[
            ("webhook", |point| whole(point.oldest_age_s.webhook)),
            ("interactive", |point| whole(point.oldest_age_s.interactive)),
            ("batch", |point| whole(point.oldest_age_s.batch)),
        ],
        4.0,
        seconds,
    ),
    (
        "What succeeds",
        &[
            ("runs", |point| runs(&point.counts)),
            ("deliveries", |point| deliveries(&point.counts)),
            ("first tries", |point| first_tries(&point.counts)),
        ],
        1.0,
        percents,
    ),
    (
        "Time to acknowledge",
        &[("p50", |point| point.counts.ack_ms_p50), ("p99", |point| point.counts.ack_ms_p99)],
        1.0,
        words::millis,
    ),
    (
        "Time to deliver",
        &[
            ("p50", |point| point.counts.delivery_ms_p50),
            ("p99", |point| point.counts.delivery_ms_p99),
        ],
        1.0,
        words::millis,
    ),
];

fn plots(answer: &Answer) -> Vec<(&'static str, Svg)> {
    let points = &answer.points;
    let clock = |point: &Point| point.at.to_string().chars().skip(11).take(5).collect();
    let times: Vec<String> = points.iter().map(clock).collect();
    let drawn = PLOTS.iter().map(|(title, lines, least, unit)| {
        let line = |(name, value): &(&'static str, Value)| Series {
            name,
            values: points.iter().map(value).collect(),
        };
        let lines: Vec<Series<'_>> = lines.iter().map(line).collect();
        (*title, plot(&lines, &times, *least, unit))
    });
    drawn.collect()
}

fn whole(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

fn number(value: f64) -> String {
    match value {
        value if value >= 10.0 || value.fract() == 0.0 => words::count(value as u64),
        value => format!("{value:.1}"),
    }
}

fn seconds(value: f64) -> String {
    words::lasting(Duration::from_secs_f64(value))
}

fn percents(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_says_which_way_and_nothing_without_a_before() {
        assert_eq!(change(Some(150.0), Some(100.0), "1h"), "↑ 50 % against the 1h before");
        assert_eq!(change(Some(100.2), Some(100.0), "6h"), "→ 0 % against the 6h before");
        assert_eq!(change(Some(1.0), Some(0.0), "1h"), "");
        assert_eq!(change(Some(1.0), None, "1h"), "");
        let share = |now, then| share_change(now, then, "1h");
        assert_eq!(
            share(Some(0.985), Some(1.0)).as_deref(),
            Some("↓ 1.5 points against the 1h before")
        );
        assert_eq!(
            share(Some(1.0), Some(1.0)).as_deref(),
            Some("→ 0.0 points against the 1h before")
        );
        assert_eq!(share(Some(1.0), None), None);
    }

    #[test]
    fn a_level_is_compared_with_the_beginning_of_the_span() {
        let counts = json!({"received": 0, "duplicates": 0, "rejected": 0, "jobs_succeeded": 0,
            "jobs_failed": 0, "deliveries_succeeded": 0, "deliveries_failed": 0,
            "first_attempts": 0, "first_attempts_succeeded": 0});
        let points = |dead: &[Option<u64>]| -> Vec<Point> {
            let point = |dead: &Option<u64>| {
                let mut point = counts.clone();
                point["at"] = json!("2026-11-15T09:00:00.000Z");
                point["queue"] = json!({});
                point["oldest_age_s"] = json!({});
                point["dead_letters"] = json!(dead);
                serde_json::from_value(point).unwrap()
            };
            dead.iter().map(point).collect()
        };
        let told = |dead: &[Option<u64>]| level_change(&points(dead), |it| it.dead_letters, "1h");
        assert_eq!(told(&[Some(3), None, Some(1_200), None]), "↑ 1\u{202f}197 against 1h ago");
        assert_eq!(told(&[Some(3), Some(1)]), "↓ 2 against 1h ago");
        assert_eq!(told(&[Some(3), Some(3)]), "→ 0 against 1h ago");
        // A server that began within the span has nothing to compare with.
        assert_eq!(told(&[None, Some(3)]), "");
        assert_eq!(told(&[]), "");
    }
}
