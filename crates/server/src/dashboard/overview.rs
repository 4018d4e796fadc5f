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

/// The page.
pub async fn page(desk: Desk) -> Result<Response, Refused> {
    let span = match desk.parameter("span") {
        "6h" => ("6h", "360"),
        "24h" => ("24h", "1440"),
        _ => ("1h", "60"),
    };
    let (answer, alerts, sources, frame) = tokio::try_join!(
        desk.api.get::<Answer>("/series", [("minutes", span.1)]),
        desk.api.get::<List<Alert>>("/alerts", [("limit", "20")]),
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
        alerts: alerts.data.into_iter().map(|alert| alert_row(&frame, alert)).collect(),
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

fn alert_row(frame: &Frame, alert: Alert) -> AlertRow {
    AlertRow {
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
    let last = |value: &dyn Fn(&Point) -> Option<u64>| points.iter().rev().find_map(value);
    let queue = last(&|point| point.queue.sum());
    let oldest = last(&|point| point.oldest_age_s.most());
    let dead = last(&|point| point.dead_letters);
    let circuits = last(&|point| point.open_circuits);
    let count = |value: Option<u64>| value.map_or("–".to_owned(), words::count);
    let against = |now: Option<f64>, then: Option<f64>| change(now, then, span);
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
    vec![
        figure(
            "Events",
            per_second(totals.received),
            against(
                Some(totals.received as f64),
                before.as_ref().map(|before| before.received as f64),
            ),
            line(&|point| Some(point.counts.received as f64), "Events received"),
            "/inbox",
        ),
        figure(
            "Acknowledged in, p99",
            totals.ack_ms_p99.map_or("–".to_owned(), words::millis),
            against(totals.ack_ms_p99, before.as_ref().and_then(|before| before.ack_ms_p99)),
            line(&|point| point.counts.ack_ms_p99, "Time to acknowledge"),
            "",
        ),
        figure(
            "Queued",
            count(queue),
            oldest.map_or(String::new(), |age| {
                format!("oldest {}", words::lasting(Duration::from_secs(age)))
            }),
            line(&|point| point.queue.sum().map(|sum| sum as f64), "Jobs that wait"),
            "/jobs?status=pending",
        ),
        figure(
            "Runs that succeed",
            share(totals.jobs_succeeded, totals.jobs_failed),
            words::many((totals.jobs_succeeded + totals.jobs_failed) as usize, "run", "runs"),
            line(&|point| runs(&point.counts), "Runs that succeed"),
            "/jobs",
        ),
        figure(
            "Deliveries that succeed",
            share(totals.deliveries_succeeded, totals.deliveries_failed),
            words::many(
                (totals.deliveries_succeeded + totals.deliveries_failed) as usize,
                "attempt",
                "attempts",
            ),
            line(&|point| deliveries(&point.counts), "Deliveries that succeed"),
            "/webhooks",
        ),
        figure(
            "At the first attempt",
            words::percent(totals.first_attempts_succeeded, totals.first_attempts)
                .unwrap_or("–".to_owned()),
            words::many(totals.first_attempts as usize, "delivery", "deliveries"),
            line(&|point| first_tries(&point.counts), "Deliveries taken at the first attempt"),
            "/webhooks",
        ),
        Figure {
            is_bad: dead.is_some_and(|dead| dead > 100),
            ..figure(
                "Dead letters",
                count(dead),
                String::new(),
                line(&|point| point.dead_letters.map(|dead| dead as f64), "Dead letters"),
                "/dead-letters",
            )
        },
        Figure {
            is_bad: circuits.is_some_and(|open| open > 0),
            ..figure(
                "Open circuits",
                count(circuits),
                String::new(),
                line(&|point| point.open_circuits.map(|open| open as f64), "Open circuits"),
                "/webhooks",
            )
        },
    ]
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

/// The change against the span before.
fn change(now: Option<f64>, then: Option<f64>, span: &str) -> String {
    match (now, then) {
        (Some(now), Some(then)) if then > 0.0 => {
            let percent = (now - then) / then * 100.0;
            let arrow = if percent >= 0.5 {
                "↑"
            } else if percent <= -0.5 {
                "↓"
            } else {
                "→"
            };
            format!("{arrow} {:.0} % against the {span} before", percent.abs())
        }
        _ => String::new(),
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
