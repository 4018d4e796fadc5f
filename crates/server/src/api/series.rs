//! Figures over time: what was counted for a tenant, over all nodes, and how its queue stood.

use std::collections::HashMap;

use axum::response::Response;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use wakepost_domain::Timestamp;
use wakepost_domain::access::Right;
use wakepost_domain::figures::{Figure, Figures, MINUTES_KEPT, Sample, begins, minute};

use super::call::Call;
use super::describe::{self, Keyed, Missing};
use super::error::ApiError;
use super::once;
use crate::schema;

/// How many points an answer has at most.
const POINTS_MAX: i64 = 120;
/// The time that is shown unless another is asked for.
const MINUTES_DEFAULT: i64 = 60;

/// Which time.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct SeriesQuery {
    /// How many minutes back, 1 to 2880; without it, 60.
    #[param(minimum = 1, maximum = 2880, value_type = Option<i64>)]
    minutes: Option<String>,
}

impl SeriesQuery {
    fn minutes(&self) -> Result<i64, ApiError> {
        let asked = self.minutes.as_ref().map_or(Some(MINUTES_DEFAULT), |text| text.parse().ok());
        asked.filter(|minutes| (1..=MINUTES_KEPT).contains(minutes)).ok_or_else(|| {
            ApiError::field("minutes", format!("must be a whole number from 1 to {MINUTES_KEPT}"))
        })
    }
}

/// What was counted over time.
#[derive(Serialize, ToSchema)]
struct Series {
    /// Whose.
    #[schema(value_type = schema::Slug)]
    tenant: String,
    /// When the first point begins.
    #[schema(value_type = schema::Timestamp)]
    from: Timestamp,
    /// When the last point ends; it may not be over yet.
    #[schema(value_type = schema::Timestamp)]
    until: Timestamp,
    /// How long a point lasts: whole minutes, so that there are at most 120 points.
    step_s: i64,
    /// One after the other, oldest first, without a gap.
    points: Vec<Point>,
    /// The whole time.
    totals: Counted,
    /// The time of equal length just before; null where that is longer ago than figures are kept.
    before: Option<Counted>,
}

/// One step of time.
#[derive(Serialize, ToSchema)]
struct Point {
    /// When it begins.
    #[schema(value_type = schema::Timestamp)]
    at: Timestamp,
    #[serde(flatten)]
    counted: Counted,
    #[serde(flatten)]
    stood: Stood,
}

/// What was counted.
#[derive(Serialize, ToSchema)]
struct Counted {
    /// Requests of providers, whatever became of them.
    received: u64,
    /// Of these, those with a new event.
    accepted: u64,
    /// Of these, those with nothing but duplicates.
    duplicates: u64,
    /// Of these, those that were refused.
    rejected: u64,
    /// Events that were published.
    published: u64,
    /// What half of the accepted requests waited at most for their answer.
    ack_ms_p50: Option<f64>,
    /// What 99 % of them did.
    ack_ms_p99: Option<f64>,
    /// Jobs that succeeded.
    jobs_succeeded: u64,
    /// Runs of jobs that failed.
    jobs_failed: u64,
    /// Jobs that became dead letters.
    jobs_dead: u64,
    /// Deliveries that were taken.
    deliveries_succeeded: u64,
    /// Tries to deliver that failed.
    deliveries_failed: u64,
    /// First tries to deliver.
    first_attempts: u64,
    /// Of these, those that were taken.
    first_attempts_succeeded: u64,
    /// Deliveries that became dead letters.
    deliveries_dead: u64,
    /// What half of the tries to deliver took at most.
    delivery_ms_p50: Option<f64>,
    /// What 99 % of them did.
    delivery_ms_p99: Option<f64>,
}

impl Counted {
    fn of(figures: &Figures) -> Counted {
        let of = |figure| figures.get(figure);
        Counted {
            received: of(Figure::Received),
            accepted: of(Figure::Accepted),
            duplicates: of(Figure::Duplicates),
            rejected: of(Figure::Rejected),
            published: of(Figure::Published),
            ack_ms_p50: figures.ack.quantile_ms(0.5),
            ack_ms_p99: figures.ack.quantile_ms(0.99),
            jobs_succeeded: of(Figure::JobsSucceeded),
            jobs_failed: of(Figure::JobsFailed),
            jobs_dead: of(Figure::JobsDead),
            deliveries_succeeded: of(Figure::DeliveriesSucceeded),
            deliveries_failed: of(Figure::DeliveriesFailed),
            first_attempts: of(Figure::FirstAttempts),
            first_attempts_succeeded: of(Figure::FirstAttemptsSucceeded),
            deliveries_dead: of(Figure::DeliveriesDead),
            delivery_ms_p50: figures.delivery.quantile_ms(0.5),
            delivery_ms_p99: figures.delivery.quantile_ms(0.99),
        }
    }
}

/// How the queue stood: the most in this time. Null where nobody looked.
#[derive(Serialize, ToSchema)]
struct Stood {
    /// Work that waited for its turn.
    queue: ByPriority,
    /// How long ago the first of it was made.
    oldest_age_s: ByPriority,
    /// Work that waited for another try.
    retrying: Option<u64>,
    /// Webhooks whose circuit was not closed.
    open_circuits: Option<u64>,
    /// Dead letters that nobody had dealt with.
    dead_letters: Option<u64>,
}

/// A number for each queue.
#[derive(Serialize, ToSchema)]
struct ByPriority {
    /// A person is waiting.
    interactive: Option<u64>,
    /// The usual.
    webhook: Option<u64>,
    /// Can wait.
    batch: Option<u64>,
}

impl ByPriority {
    fn of([interactive, webhook, batch]: [Option<u64>; 3]) -> ByPriority {
        ByPriority { interactive, webhook, batch }
    }
}

impl Stood {
    fn of(sample: Option<&Sample>) -> Stood {
        let queue = sample.map_or([None; 3], |sample| sample.queue.map(Some));
        Stood {
            queue: ByPriority::of(queue),
            oldest_age_s: ByPriority::of(sample.map_or([None; 3], |sample| sample.oldest_age_s)),
            retrying: sample.map(|sample| sample.retrying),
            open_circuits: sample.map(|sample| sample.open_circuits),
            dead_letters: sample.map(|sample| sample.dead_letters),
        }
    }
}

/// The time that is shown, in minutes since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    from: i64,
    until: i64,
    step: i64,
}

impl Span {
    /// The last minutes up to now, in steps that begin where they began a moment ago.
    fn last(minutes: i64, now: Timestamp) -> Span {
        let step = (minutes + POINTS_MAX - 1) / POINTS_MAX;
        let points = (minutes + step - 1) / step;
        let until = (minute(now).div_euclid(step) + 1) * step;
        Span { from: until - points * step, until, step }
    }

    fn length(&self) -> i64 {
        self.until - self.from
    }

    /// Where the step begins that a minute is in.
    fn step_of(&self, minute: i64) -> i64 {
        minute - (minute - self.from).rem_euclid(self.step)
    }
}

/// Shows what was counted over time, and how the queue stood.
///
/// Figures are kept by the minute for 48 hours. They come a few seconds after what they count; those of a node's last
/// seconds before a crash are lost.
#[utoipa::path(
    get, path = "/series", operation_id = "get_series", tag = "operations",
    params(SeriesQuery, describe::Tenant),
    responses((status = 200, description = "The figures.", body = Series), Keyed, Missing)
)]
pub async fn show(call: Call) -> Result<Response, ApiError> {
    call.need(Right::Read)?;
    let tenant = call.tenant().await?;
    let minutes = call.only_query::<SeriesQuery>()?.minutes()?;
    let now = call.context.now();
    let span = Span::last(minutes, now);
    let begin = span.from - span.length();
    let store = &call.context.store;
    let (figures, samples) = tokio::try_join!(
        store.figures(tenant.id, begin, span.until),
        store.samples(tenant.id, span.from, span.until)
    )?;
    let is_kept = begin >= minute(now) - MINUTES_KEPT;
    Ok(once::json(StatusCode::OK, &put_together(&tenant.slug, span, &figures, &samples, is_kept)))
}

fn put_together(
    tenant: &str,
    span: Span,
    figures: &[(i64, Figures)],
    samples: &[(i64, Sample)],
    is_kept: bool,
) -> Series {
    let (mut totals, mut before) = (Figures::default(), Figures::default());
    let mut counted: HashMap<i64, Figures> = HashMap::new();
    for (minute, figures) in figures {
        if *minute < span.from {
            before.add(figures);
            continue;
        }
        totals.add(figures);
        counted.entry(span.step_of(*minute)).or_default().add(figures);
    }
    let mut stood: HashMap<i64, Sample> = HashMap::new();
    for (minute, sample) in samples {
        let greatest = stood.entry(span.step_of(*minute)).or_default();
        *greatest = greatest.greatest(*sample);
    }
    let steps = (span.from..span.until).step_by(usize::try_from(span.step).unwrap_or(1));
    let points = steps.map(|minute| Point {
        at: begins(minute),
        counted: Counted::of(&counted.get(&minute).copied().unwrap_or_default()),
        stood: Stood::of(stood.get(&minute)),
    });
    Series {
        tenant: tenant.to_owned(),
        from: begins(span.from),
        until: begins(span.until),
        step_s: span.step * 60,
        points: points.collect(),
        totals: Counted::of(&totals),
        before: is_kept.then(|| Counted::of(&before)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_most_120_points_of_whole_minutes_that_hold_the_time_asked_for() {
        for minutes in 1..=MINUTES_KEPT {
            for now in [0, 59, 60, 1_800_000_123] {
                let span = Span::last(minutes, Timestamp::from_secs(now));
                let points = span.length() / span.step;
                assert!((1..=POINTS_MAX).contains(&points), "{minutes}: {points}");
                assert_eq!(span.length() % span.step, 0);
                assert!(span.length() >= minutes && span.length() < minutes + span.step);
                let this = minute(Timestamp::from_secs(now));
                assert!(span.until > this && span.until <= this + span.step);
            }
        }
    }

    #[test]
    fn steps_add_up_to_the_totals_and_samples_to_their_greatest() {
        let span = Span { from: 100, until: 106, step: 3 };
        let one = |accepted| {
            let mut figures = Figures::default();
            figures.count(Figure::Accepted, accepted);
            figures
        };
        let figures: Vec<_> =
            [(96, 5), (99, 1), (100, 2), (102, 3), (105, 4)].map(|(at, n)| (at, one(n))).into();
        let sample = |retrying| Sample { retrying, ..Sample::default() };
        let samples = [(103, sample(7)), (104, sample(2))];
        let series = put_together("acme", span, &figures, &samples, true);
        let accepted: Vec<u64> = series.points.iter().map(|point| point.counted.accepted).collect();
        assert_eq!(accepted, [5, 4]);
        assert_eq!((series.totals.accepted, series.before.unwrap().accepted), (9, 6));
        let retrying: Vec<_> = series.points.iter().map(|point| point.stood.retrying).collect();
        assert_eq!(retrying, [None, Some(7)]);
        assert_eq!(series.points[1].at, begins(103));
    }
}
