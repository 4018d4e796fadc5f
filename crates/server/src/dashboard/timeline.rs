//! The time line: one vertical line from the first byte to the last effect. What went wrong is open, what went well is
//! folded, and the time between two steps is written where it was worth waiting for.

use askama::Template;
use askama::filters::HtmlSafe;
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::Value;
use wakepost_domain::Timestamp;

use super::frame::Frame;
use super::payload::{Payload, visible};
use super::pieces::{Mark, When, colour};
use super::plot::{self, Svg};
use super::shapes::{Attempt, Delivery, Effect, Job, Published, Receipt, Run};
use super::words::{lasting, millis};
use crate::within::{Api, List, part};

/// Shorter pauses are not worth a word.
const GAP_MS_MIN: u128 = 100;
/// How much of a reply its line shows; the rest is folded.
const BEGINNING_CHARS: usize = 60;
/// How many signs of progress are shown of one job, the latest.
const PROGRESS_MAX: usize = 50;
/// How many of the events that one job published are shown, the latest.
const PUBLISHED_MAX: &str = "10";
/// How many deliveries are shown of each of them, the latest; and of how many in all each attempt is.
const DELIVERIES_MAX: &str = "20";
const TRIED_MAX: usize = 10;

/// One step.
pub struct Step {
    at: Timestamp,
    /// What happened.
    title: String,
    /// Where it stood then.
    status: String,
    /// What an operator may want to know, line by line.
    lines: Vec<String>,
    error: Option<String>,
    payload: Option<Payload>,
    picture: Option<Svg>,
    to: Option<String>,
    is_open: bool,
}

impl Step {
    /// A step without more to say.
    pub fn new(at: Timestamp, title: impl Into<String>, status: &str) -> Step {
        Step {
            at,
            title: title.into(),
            status: status.to_owned(),
            lines: Vec::new(),
            error: None,
            payload: None,
            picture: None,
            to: None,
            is_open: false,
        }
    }

    /// With a line and an error.
    pub fn with(self, line: String, error: Option<&str>) -> Step {
        self.line(line).error(error)
    }

    fn line(mut self, text: impl Into<String>) -> Step {
        self.lines.push(text.into());
        self
    }

    fn line_if(self, text: Option<String>) -> Step {
        match text {
            Some(text) => self.line(text),
            None => self,
        }
    }

    fn error(mut self, error: Option<&str>) -> Step {
        self.error = error.map(visible);
        self.is_open = self.is_open || error.is_some();
        self
    }

    fn has_more(&self) -> bool {
        !self.lines.is_empty()
            || self.error.is_some()
            || self.payload.is_some()
            || self.picture.is_some()
    }
}

#[derive(Template)]
#[template(path = "pieces/timeline.html")]
struct Shown {
    steps: Vec<ShownStep>,
}

struct ShownStep {
    step: Step,
    mark: Option<Mark>,
    kind: &'static str,
    when: When,
    gap: Option<String>,
}

/// The line, drawn.
pub struct Timeline(Shown);

impl std::fmt::Display for Timeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl askama::FastWritable for Timeline {
    fn write_into(
        &self,
        dest: &mut dyn std::fmt::Write,
        values: &dyn askama::Values,
    ) -> askama::Result<()> {
        self.0.render_into_with_values(dest, values)
    }
}

// Rendered by a template of its own, which escapes what it is given.
impl HtmlSafe for Timeline {}

/// Puts steps in the order of time.
pub fn draw(mut steps: Vec<Step>, now: Timestamp) -> Timeline {
    steps.sort_by_key(|step| step.at);
    let mut before: Option<Timestamp> = None;
    let shown = steps.into_iter().map(|step| {
        let pause = before.map(|before| step.at.since(before));
        before = Some(step.at);
        ShownStep {
            kind: colour(&step.status),
            mark: (!step.status.is_empty()).then(|| Mark::of(&step.status)),
            when: When::of(step.at, now),
            gap: pause.filter(|pause| pause.as_millis() >= GAP_MS_MIN).map(lasting),
            step,
        }
    });
    Timeline(Shown { steps: shown.collect() })
}

/// Requests that brought an event.
pub fn receipts(receipts: &[Receipt]) -> Vec<Step> {
    let step = |receipt: &Receipt| {
        let title = match (receipt.verdict.as_str(), &receipt.class) {
            ("accepted", _) => "Received and stored".to_owned(),
            ("duplicate", Some(class)) => format!("Received again: {}", class.replace('_', " ")),
            (verdict, _) => format!("Received: {}", verdict.replace('_', " ")),
        };
        let from = receipt.address.as_ref().map(|address| format!("from {address}"));
        let took =
            receipt.latency_us.map(|us| format!("answered in {}", millis(us as f64 / 1000.0)));
        Step::new(receipt.received_at, title, &receipt.verdict)
            .line_if(from)
            .line_if(took)
            .line_if(receipt.detail.as_deref().map(visible))
    };
    receipts.iter().map(step).collect()
}

/// A job with its runs, signs of progress and effects; or a reply or callback with its attempts and parts.
pub async fn job(api: &Api, frame: &Frame, job: &Job) -> Vec<Step> {
    let role = Role::of(&job.id);
    let mut steps = vec![made(frame, job, role)];
    steps.extend(job.runs.iter().map(|run| ran(run, role)));
    steps.extend(job.effects.iter().flat_map(|each| effect(each, role)));
    if let (Some(lease), "running") = (&job.lease, job.status.as_str()) {
        let worker = lease.worker.clone().or_else(|| job.last_worker.clone()).unwrap_or_default();
        let at = job.run_at.unwrap_or(job.created_at);
        let title = role.run(job.attempts, &worker);
        let mut step =
            Step::new(at, title, "running").line(format!("its lease ends {}", lease.expires_at));
        step.is_open = true;
        steps.push(step);
    }
    if role == Role::Job {
        let (progress, published) = tokio::join!(progress(api, &job.id), told_on(api, frame, job));
        steps.extend(progress.into_iter().chain(published));
    }
    if let Some(finished) = job.finished_at {
        let title = role.ended(&job.status);
        let mut end = Step::new(finished, title, &job.status);
        if !job.result.is_null() {
            end.payload = Some(Payload::json(&job.result));
        }
        if job.status != "succeeded" {
            end = end.error(job.last_error.as_deref());
        }
        steps.push(end.line_if(job.cost.map(|cost| format!("cost {cost}"))));
    } else if job.status == "retrying" {
        let at = job.run_at.unwrap_or(frame.now);
        steps.push(Step::new(at, role.run(job.attempts + 1, ""), "retrying"));
    }
    steps
}

/// What a piece of work is to its event: the steps of several stand among each other on one line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Job,
    Reply,
    Callback,
}

impl Role {
    fn of(id: &str) -> Role {
        match id.split_once('_') {
            Some(("rpl", _)) => Role::Reply,
            Some(("clb", _)) => Role::Callback,
            _ => Role::Job,
        }
    }

    /// The gateway itself sends replies and callbacks, so nobody asks who did.
    fn run(self, attempt: u32, worker: &str) -> String {
        match self {
            Role::Job if worker.is_empty() => format!("Run {attempt}"),
            Role::Job => format!("Run {attempt} by {}", visible(worker)),
            Role::Reply => format!("Reply, attempt {attempt}"),
            Role::Callback => format!("Callback, attempt {attempt}"),
        }
    }

    fn ended(self, status: &str) -> String {
        match (self, status) {
            (Role::Job, status) => ended(status).to_owned(),
            (Role::Reply, "succeeded") => "Reply sent".to_owned(),
            (Role::Callback, "succeeded") => "Callback taken".to_owned(),
            (Role::Reply, status) => format!("Reply: {}", ended(status).to_lowercase()),
            (Role::Callback, status) => format!("Callback: {}", ended(status).to_lowercase()),
        }
    }
}

/// How work ended.
fn ended(status: &str) -> &'static str {
    match status {
        "succeeded" => "Done",
        "cancelled" => "Cancelled",
        _ => "Given up",
    }
}

fn made(frame: &Frame, job: &Job, role: Role) -> Step {
    let title = match role {
        Role::Job => format!("Job {}", visible(&job.kind)),
        Role::Reply => format!("Reply {}", beginning(&said(job))),
        Role::Callback => "Callback".to_owned(),
    };
    let most = job.max_attempts.map_or(String::new(), |most| format!(" of {most}"));
    let tried = (role != Role::Job).then(|| format!("attempt {}{most}", job.attempts));
    let mut made = Step::new(job.created_at, title.trim(), "")
        .line_if(tried)
        .line_if(job.input["channel"].as_str().map(|to| format!("in channel {}", visible(to))))
        .line_if(job.input["to"]["url"].as_str().map(|to| format!("to {}", visible(to))))
        .line_if(job.owner.as_ref().map(|owner| format!("owner {}", visible(owner))))
        .line_if(job.order_key.as_ref().map(|key| format!("in order with {}", visible(key))))
        .line_if(job.parent_id.as_ref().map(|id| format!("made by {id}")));
    made.payload = match role {
        Role::Job => None,
        Role::Reply => Some(said(job)).filter(|text| !text.is_empty()).map(|it| Payload::text(&it)),
        Role::Callback => Some(&job.input["payload"]).filter(|it| !it.is_null()).map(Payload::json),
    };
    made.to = Some(frame.to(&format!("/jobs/{}", job.id)));
    made
}

/// What a reply says.
fn said(reply: &Job) -> String {
    reply.input["text"].as_str().unwrap_or_default().to_owned()
}

/// How a text begins, in quotation marks.
fn beginning(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default().trim();
    let cut: String = line.chars().take(BEGINNING_CHARS).collect();
    let more = if cut.len() < text.trim().len() { "…" } else { "" };
    if cut.is_empty() { String::new() } else { format!("“{}{more}”", visible(&cut)) }
}

fn ran(run: &Run, role: Role) -> Step {
    let outcome = run.outcome.as_deref().unwrap_or("running");
    let worker = run.worker.as_deref().unwrap_or("a worker");
    let took = run.ended_at.map(|ended| format!("took {}", lasting(ended.since(run.started_at))));
    Step::new(run.started_at, role.run(run.attempt, worker), outcome)
        .line_if(took)
        .line_if(run.cost.map(|cost| format!("cost {cost}")))
        .error(run.error.as_deref())
}

fn effect(effect: &Effect, role: Role) -> Vec<Step> {
    let title = match (role, effect.key.strip_prefix("part-")) {
        (Role::Reply, Some(number)) => format!("Reply, part {}", visible(number)),
        _ => format!("Effect {}", visible(&effect.key)),
    };
    let what = effect.description.as_deref().map(visible);
    let mut step = Step::new(effect.begun_at, title.clone(), &effect.state)
        .line_if(what)
        .line_if(effect.decided_by.as_ref().map(|who| format!("decided by {who}")))
        .error(effect.error.as_deref());
    if !effect.result.is_null() {
        step.payload = Some(Payload::json(&effect.result));
    }
    step.is_open =
        step.is_open || matches!(effect.state.as_str(), "begun" | "in_doubt" | "proposed");
    let ended = effect.resolved_at.filter(|at| at.since(effect.begun_at).as_millis() >= GAP_MS_MIN);
    let end = ended.map(|at| Step::new(at, title, &effect.state));
    [Some(step), end].into_iter().flatten().collect()
}

#[derive(Deserialize)]
struct Told {
    at: Option<Timestamp>,
    message: Option<String>,
    percent: Option<f64>,
    step: Option<String>,
    #[serde(default)]
    data: Value,
}

/// What a job's workers said of their progress. A page without it is better than none.
async fn progress(api: &Api, id: &str) -> Vec<Step> {
    let path = format!("/jobs/{id}/events");
    let Ok(text) = api.text(&path, &[("for_s", "0")]).await else { return Vec::new() };
    let told = text.split("\n\n").filter_map(|event| {
        let line =
            |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        (line("event:")? == "progress")
            .then(|| serde_json::from_str::<Told>(line("data:")?).ok())?
    });
    let told: Vec<Told> = told.collect();
    let skipped = told.len().saturating_sub(PROGRESS_MAX);
    let step = |told: Told| {
        let message = told.message.or(told.step).unwrap_or_else(|| "progress".to_owned());
        let percent = told.percent.map(|percent| format!("{percent:.0} %"));
        let mut step = Step::new(told.at?, visible(&message), "").line_if(percent);
        if !told.data.is_null() {
            step.payload = Some(Payload::json(&told.data));
        }
        Some(step)
    };
    told.into_iter().skip(skipped).filter_map(step).collect()
}

/// What a job's agent published, and how that reached those who subscribed. A page without it is better than none.
async fn told_on(api: &Api, frame: &Frame, job: &Job) -> Vec<Step> {
    let asked = [("parent", job.id.as_str()), ("limit", PUBLISHED_MAX)];
    let Ok(events) = api.get::<List<Published>>("/events", asked).await else { return Vec::new() };
    let deliveries = join_all(events.data.iter().map(|event| async move {
        let path = format!("/events/{}/deliveries", part(&event.id));
        let list = api.get::<List<Delivery>>(&path, [("limit", DELIVERIES_MAX)]).await;
        list.map(|list| list.data).unwrap_or_default()
    }));
    let deliveries = deliveries.await;
    let mut steps = Vec::new();
    if let (Some(_), Some(oldest)) = (&events.next_cursor, events.data.last()) {
        let mut more = Step::new(oldest.created_at, "Published more before", "");
        more.to = Some(frame.to(&format!("/events?parent={}", job.id)));
        steps.push(more);
    }
    for (event, deliveries) in events.data.iter().zip(&deliveries) {
        let to_nobody = if deliveries.is_empty() { ", to nobody" } else { "" };
        let title = format!("Published {}{to_nobody}", visible(&event.event_type));
        let mut step = Step::new(event.created_at, title, "");
        step.to = Some(frame.to(&format!("/events/{}", event.id)));
        steps.push(step);
    }
    let told = deliveries.iter().flatten().enumerate().map(|(nth, delivery)| async move {
        let path = format!("/deliveries/{}", part(&delivery.id));
        let whole = match nth < TRIED_MAX {
            true => api.get::<Delivery>(&path, []).await.ok(),
            false => None,
        };
        delivered(frame, whole.as_ref().unwrap_or(delivery), true)
    });
    steps.extend(join_all(told).await.into_iter().flatten());
    steps
}

/// A delivery with its attempts.
pub fn delivery(frame: &Frame, delivery: &Delivery) -> Vec<Step> {
    delivered(frame, delivery, false)
}

/// `among_others`: on one line with the steps of the job whose event it carries.
fn delivered(frame: &Frame, delivery: &Delivery, among_others: bool) -> Vec<Step> {
    let name = |what: &str| match among_others {
        true => format!("Delivery, {}", what.to_lowercase()),
        false => what.to_owned(),
    };
    let tried = delivery.attempts();
    // Where its attempts are not told, how it stands is said at once.
    let status = if tried.is_empty() { delivery.status.as_str() } else { "" };
    let title = format!("Delivery of {}", visible(&delivery.event_type));
    let mut made = Step::new(delivery.created_at, title, status)
        .line_if(among_others.then(|| format!("to webhook {}", delivery.webhook_id)));
    made.to = Some(frame.to(&format!("/deliveries/{}", delivery.id)));
    let mut steps = vec![made];
    steps.extend(tried.into_iter().map(|tried| attempt(tried, &name)));
    if delivery.status == "retrying" {
        let at = delivery.run_at.unwrap_or(frame.now);
        steps.push(Step::new(at, name(&format!("Attempt {}", delivery.tries() + 1)), "retrying"));
    }
    if let Some(finished) = delivery.finished_at.filter(|_| delivery.status != "succeeded") {
        steps.push(Step::new(finished, name(ended(&delivery.status)), &delivery.status));
    }
    steps
}

fn attempt(attempt: Attempt, name: &dyn Fn(&str) -> String) -> Step {
    let outcome = attempt.outcome.as_deref().unwrap_or("running");
    let answer = attempt.status_code.map_or(String::new(), |code| format!(": {code}"));
    let what = if attempt.probe { "Probe" } else { "Attempt" };
    let what = name(&format!("{what} {}", attempt.attempt));
    let took =
        attempt.ended_at.map(|ended| format!("took {}", lasting(ended.since(attempt.started_at))));
    let mut step = Step::new(attempt.started_at, format!("{what}{answer}"), outcome)
        .line_if(attempt.remote.map(|remote| format!("to {remote}")))
        .line_if(took)
        .error(attempt.error.as_deref().filter(|_| outcome != "succeeded"));
    step.picture = attempt.timings.as_ref().and_then(waterfall);
    let mut sent = String::new();
    for (name, value) in attempt.request_headers.iter().flatten() {
        sent.push_str(&format!("> {name}: {value}\n"));
    }
    for (name, value) in attempt.response_headers.iter().flatten() {
        sent.push_str(&format!("< {name}: {value}\n"));
    }
    if let Some(body) = attempt.body.filter(|body| !body.is_empty()) {
        sent.push_str(&format!("\n{body}"));
        if attempt.truncated == Some(true) {
            sent.push_str("\n… cut off");
        }
    }
    step.payload = (!sent.is_empty()).then(|| Payload::text(&sent));
    step
}

/// The parts of one try beside each other. What comes first in time is part of what comes after it.
fn waterfall(timings: &super::shapes::Timings) -> Option<Svg> {
    let total = timings.total_ms?;
    let before = [timings.dns_ms, timings.connect_ms, timings.tls_ms];
    let begun: f64 = before.iter().flatten().sum();
    let first_byte = timings.first_byte_ms.map(|first| (first - begun).max(0.0));
    let rest = timings.first_byte_ms.map(|first| (total - first).max(0.0));
    let named = [
        ("dns", timings.dns_ms),
        ("connect", timings.connect_ms),
        ("tls", timings.tls_ms),
        ("first byte", first_byte),
        ("body", rest),
    ];
    let parts: Vec<(&str, f64)> =
        named.into_iter().filter_map(|(name, ms)| Some((name, ms?))).collect();
    (!parts.is_empty()).then(|| plot::waterfall(&parts))
}
