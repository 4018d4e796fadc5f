//! Webhooks: who subscribed to what, how well they take it, and what to do about it. Subscribers see these pages too.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::{Method, StatusCode};
use serde_json::json;
use wakepost_domain::event_type;

use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::visible;
use super::pieces::{Act, Chip, Command, Empty, Field, Id, Mark, Outcome, When};
use super::plot::{Series, Svg, plot};
use super::shapes::{Delivery, Webhook, WebhookStats};
use super::words;
use super::{act, webhook_form};
use crate::within::{List, Refused, part};

/// The states that the chips offer.
const STATES: [&str; 6] =
    ["pending", "running", "retrying", "succeeded", "dead_letter", "cancelled"];
/// How many deliveries the plot of latency looks at.
const LATENCY_OF: &str = "100";

#[derive(Template)]
#[template(path = "webhooks.html")]
struct ListPage {
    frame: Frame,
    rows: Vec<Row>,
    more: Option<String>,
    empty: Empty,
}

struct Row {
    to: String,
    url: String,
    description: String,
    events: String,
    mark: Mark,
    circuit: Mark,
    short: Id,
    warning: String,
}

/// The list.
pub async fn list(desk: Desk) -> Result<Response, Refused> {
    let cursor = desk.parameter("cursor");
    let (webhooks, frame) = tokio::try_join!(
        desk.api.get::<List<Webhook>>("/webhooks", [("cursor", cursor)]),
        Frame::new(&desk, "Webhooks", "webhooks")
    )?;
    let row = |webhook: Webhook| Row {
        to: frame.to(&format!("/webhooks/{}", webhook.id)),
        url: address(&webhook),
        description: visible(webhook.description.as_deref().unwrap_or_default()),
        events: visible(&webhook.events.join(", ")),
        mark: Mark::of(&webhook.status),
        circuit: Mark::of(&webhook.circuit.state),
        short: Id::of(&webhook.id),
        warning: visible(webhook.disabled_reason.as_deref().unwrap_or_default()),
    };
    let page = ListPage {
        rows: webhooks.data.into_iter().map(row).collect(),
        more: webhooks.next_cursor.map(|cursor| frame.to(&format!("/webhooks?cursor={cursor}"))),
        empty: Empty::new(
            "No webhooks yet",
            "A webhook is an address that gets the events it subscribed to, each signed, tried until it is taken.",
            frame.for_operators(&[
                "webhooks create https://hooks.customer.example/in --event 'order.*'",
            ]),
        ),
        frame,
    };
    Ok(page.frame.answer(&page))
}

fn address(webhook: &Webhook) -> String {
    visible(webhook.url.as_deref().unwrap_or("fetched by its subscriber"))
}

#[derive(Template)]
#[template(path = "webhook.html")]
struct OnePage {
    frame: Frame,
    url: String,
    description: String,
    mark: Mark,
    circuit: Mark,
    id: Id,
    verdict: String,
    colour: &'static str,
    acts: Vec<Act>,
    edit: Option<String>,
    is_live: bool,
    outcome: Outcome,
    figures: Vec<(String, String)>,
    latency: Option<Svg>,
    chips: Vec<Chip>,
    deliveries: Vec<DeliveryRow>,
    empty: Empty,
    more: Option<String>,
    history: Vec<(Mark, When, String)>,
    facts: Vec<(&'static str, String)>,
    commands: Vec<Command>,
}

/// A delivery in a list.
pub struct DeliveryRow {
    /// Its id.
    pub id: String,
    /// Its page.
    pub to: String,
    /// What it delivers.
    pub event_type: String,
    /// Where it stands.
    pub mark: Mark,
    /// How often it was tried.
    pub tries: String,
    /// What went wrong.
    pub error: String,
    /// Its id, shortened.
    pub short: Id,
    /// When it was made.
    pub when: When,
}

/// A delivery as a row.
pub fn delivery_row(frame: &Frame, delivery: Delivery) -> DeliveryRow {
    let tries = delivery.tries();
    let most = delivery.max_attempts.map_or(String::new(), |most| format!(" of {most}"));
    DeliveryRow {
        to: frame.to(&format!("/deliveries/{}", delivery.id)),
        event_type: visible(&delivery.event_type),
        mark: Mark::of(&delivery.status),
        tries: format!("{tries}{most}"),
        error: match delivery.status.as_str() {
            "succeeded" => String::new(),
            _ => visible(delivery.last_error.as_deref().unwrap_or_default()),
        },
        short: Id::of(&delivery.id),
        when: When::of(delivery.created_at, frame.now),
        id: delivery.id,
    }
}

/// The page of a webhook.
pub async fn page(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    show(desk, &id, Outcome::default()).await
}

/// The page of a webhook, and what was just done to it.
pub async fn show(desk: Desk, id: &str, outcome: Outcome) -> Result<Response, Refused> {
    let path = format!("/webhooks/{}", part(id));
    let (list_path, stats_path) = (format!("{path}/deliveries"), format!("{path}/stats"));
    let (status, cursor) = (desk.parameter("status"), desk.parameter("cursor"));
    let query = [("status", status), ("cursor", cursor), ("limit", "25")];
    let taken = [("status", "succeeded"), ("limit", LATENCY_OF)];
    let (webhook, deliveries, taken, stats, frame) = tokio::try_join!(
        desk.api.get::<Webhook>(&path, []),
        desk.api.get::<List<Delivery>>(&list_path, &query),
        desk.api.get::<List<Delivery>>(&list_path, &taken),
        desk.api.get::<WebhookStats>(&stats_path, []),
        Frame::new(&desk, "Webhook", "webhooks")
    )?;
    let chips = Chip::choice(&STATES, status, |state| match state {
        "" => frame.to(&path),
        state => frame.to(&format!("{path}?status={state}")),
    });
    let page = OnePage {
        url: address(&webhook),
        description: visible(webhook.description.as_deref().unwrap_or_default()),
        mark: Mark::of(&webhook.status),
        circuit: Mark::of(&webhook.circuit.state),
        id: Id::of(&webhook.id),
        verdict: verdict(&webhook, &frame),
        colour: colour(&webhook),
        acts: acts(&frame, &webhook, &stats),
        edit: frame.may_subscribe.then(|| frame.to(&format!("{path}/edit"))),
        is_live: outcome.is_none() && cursor.is_empty(),
        outcome,
        figures: figures(&stats),
        latency: latency(&taken.data),
        chips,
        more: deliveries.next_cursor.map(|cursor| {
            let status =
                if status.is_empty() { String::new() } else { format!("&status={status}") };
            frame.to(&format!("{path}?cursor={cursor}{status}"))
        }),
        deliveries: deliveries.data.into_iter().map(|each| delivery_row(&frame, each)).collect(),
        empty: match status {
            "" => Empty::new(
                "No deliveries yet",
                "Each event that it subscribed to makes one, as soon as it is published.",
                publishes(&frame, &webhook.events),
            ),
            _ => Empty::new("No delivery is like that", "None of them stands so now.", []),
        },
        history: webhook
            .circuit
            .history
            .iter()
            .rev()
            .map(|step| {
                let reason = visible(step.reason.as_deref().unwrap_or_default());
                (Mark::of(&step.state), When::of(step.at, frame.now), reason)
            })
            .collect(),
        facts: facts(&webhook),
        commands: vec![
            frame.curl("GET", &path, ""),
            frame.ctl(&format!("webhooks deliveries {}", webhook.id)),
        ],
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// What publishes an event that a webhook with these patterns gets; nothing does if it only gets our own.
fn publishes(frame: &Frame, patterns: &[String]) -> Vec<Command> {
    let types = patterns.iter().map(|pattern| match pattern.strip_suffix('*') {
        Some("") => "order.created".to_owned(),
        Some(prefix) => format!("{prefix}created"),
        None => pattern.clone(),
    });
    let publishable = types.into_iter().find(|name| !event_type::is_ours(name));
    let command =
        publishable.map(|name| format!("events publish {name} --data '{{\"id\": \"1\"}}'"));
    frame.for_operators(&command.as_deref().into_iter().collect::<Vec<_>>())
}

/// How long the latest deliveries took from being published to being taken, retries included.
fn latency(taken: &[Delivery]) -> Option<Svg> {
    let took = |delivery: &Delivery| {
        let ms = delivery.finished_at?.since(delivery.created_at).as_millis();
        Some(ms as f64)
    };
    let values: Vec<Option<f64>> = taken.iter().rev().map(took).collect();
    let times = taken
        .iter()
        .rev()
        .map(|delivery| delivery.created_at.to_string().chars().skip(11).take(8).collect());
    let times: Vec<String> = times.collect();
    (values.len() > 1)
        .then(|| plot(&[Series { name: "until taken", values }], &times, 1.0, words::millis))
}

fn figures(stats: &WebhookStats) -> Vec<(String, String)> {
    let rate = stats.success_rate.map_or("–".to_owned(), |rate| {
        let share = (rate * 1000.0).floor() / 10.0;
        if rate >= 1.0 { "100 %".to_owned() } else { format!("{share:.1} %") }
    });
    let mut figures = vec![
        ("Delivered well".to_owned(), rate),
        ("Deliveries".to_owned(), words::count(stats.total)),
    ];
    for (state, count) in &stats.deliveries {
        figures.push((state.replace('_', " "), words::count(*count)));
    }
    figures
}

fn colour(webhook: &Webhook) -> &'static str {
    match (webhook.status.as_str(), webhook.circuit.state.as_str()) {
        ("disabled", _) => "dead",
        ("paused", _) => "held",
        (_, "open") => "dead",
        (_, "half_open") => "retrying",
        _ => "done",
    }
}

fn verdict(webhook: &Webhook, frame: &Frame) -> String {
    let circuit = &webhook.circuit;
    match (webhook.status.as_str(), circuit.state.as_str()) {
        ("disabled", _) => {
            let reason = webhook.disabled_reason.as_deref().unwrap_or("by hand");
            format!(
                "Disabled: {}. Nothing is sent; enable it once the receiver is well.",
                visible(reason)
            )
        }
        ("paused", _) => "Paused: deliveries wait until it is resumed.".to_owned(),
        (_, "open") => {
            let next = circuit.open_until.map_or(String::new(), |at| {
                format!(" The next probe is {}.", words::ago(at, frame.now))
            });
            let end = circuit.disables_at.map_or(String::new(), |at| {
                format!(" If nothing changes it is disabled {}.", words::ago(at, frame.now))
            });
            format!(
                "The circuit is open after {}: nothing is sent, and nothing is lost.{next}{end}",
                words::many(circuit.failures as usize, "failure", "failures")
            )
        }
        (_, "half_open") => {
            "Half open: one delivery at a time, to see whether it is well.".to_owned()
        }
        _ if webhook.mode == "pull" => "Its subscriber fetches what there is.".to_owned(),
        _ => "Takes deliveries.".to_owned(),
    }
}

fn acts(frame: &Frame, webhook: &Webhook, stats: &WebhookStats) -> Vec<Act> {
    if !frame.may_subscribe {
        return Vec::new();
    }
    let to = |what: &str| format!("/webhooks/{}/{what}", webhook.id);
    let act = |label, what: &str, text: &str| frame.act(label, &to(what), text);
    let waiting =
        words::many(stats.waiting() as usize, "delivery that waits", "deliveries that wait");
    let dead = words::many(stats.dead() as usize, "dead letter", "dead letters");
    let mut acts = Vec::new();
    if webhook.mode == "push" {
        let mut test = act("Test", "test", "Sends one test event now, and shows the answer.");
        test.style = "main";
        acts.push(test);
    }
    let mut rotate = act(
        "Rotate secret",
        "rotate",
        "Makes a new secret, shown once. Deliveries are signed with both for a day.",
    );
    rotate.hidden.push(("grace_s", "86400".to_owned()));
    acts.push(rotate);
    match webhook.status.as_str() {
        "paused" => {
            acts.push(act("Resume", "resume", "Deliveries that waited are sent, in their order."))
        }
        "disabled" => acts.push(act(
            "Enable",
            "enable",
            "Deliveries start again. Those that were given up stay so: recover them.",
        )),
        _ => {
            acts.push(act("Pause", "pause", "Deliveries wait until it is resumed."));
            let text = format!("Nothing is sent. Given up, as dead letters: {waiting}.");
            acts.push(act("Disable", "disable", &text));
        }
    }
    let text = format!("Sends again what was given up since then. It has {dead} in all.");
    let mut recover = act("Recover", "recover", &text);
    recover.fields.push(Field::choice("since", "Since", &["1 hour", "24 hours", "7 days"]));
    acts.push(recover);
    let text = format!("The webhook is gone for good. Cancelled with it: {waiting}.");
    let mut delete = act("Delete", "delete", &text);
    delete.style = "danger";
    acts.push(delete);
    acts
}

fn facts(webhook: &Webhook) -> Vec<(&'static str, String)> {
    let age = webhook.secret_age_days.map(|days| words::many(days as usize, "day", "days"));
    let facts = [
        ("Events", Some(visible(&webhook.events.join(", ")))),
        ("Mode", Some(webhook.mode.clone())),
        ("Signature", Some(webhook.signature.clone())),
        ("Secret's age", age),
        ("In order", Some(if webhook.order { "yes" } else { "no" }.to_owned())),
        ("Timeout", Some(format!("{} s", webhook.timeout_s))),
        ("Rate", webhook.rate_per_s.map(|rate| format!("{rate} per second"))),
        ("Made", Some(webhook.created_at.to_string())),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Does something to a webhook.
pub async fn act(
    desk: Desk,
    Path((id, what)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Refused> {
    let path = format!("/webhooks/{}", part(&id));
    let call = format!("{path}/{what}");
    match what.as_str() {
        "test" => {
            let answer = desk.api.post(&call, &act::nothing()).await?;
            let told = match answer["error"].as_str() {
                Some(error) => format!("It was not taken: {}.", visible(error)),
                None => "It was taken. This is the answer:".to_owned(),
            };
            show(desk, &id, Outcome::answered(told, &answer)).await
        }
        "rotate" => {
            let body = json!({"grace_s": form.get("grace_s").parse::<u64>().unwrap_or(86_400)});
            let made = desk.api.post(&call, &body).await?;
            let told = "Rotated. Deliveries are signed with both secrets for a day.".to_owned();
            show(desk, &id, Outcome::made(told, &made)).await
        }
        "recover" => {
            let hours: u64 = match form.get("since") {
                "7 days" => 168,
                "24 hours" => 24,
                _ => 1,
            };
            let now = desk.dashboard.context.now();
            let since = now.before(std::time::Duration::from_secs(hours * 3_600)).to_string();
            let answer = desk.api.post(&call, &json!({"since": since})).await?;
            let operation = answer["operation_id"].as_str().unwrap_or_default();
            Ok(desk.done(&path, &format!("Under way as {operation}.")))
        }
        "save" => webhook_form::save(desk, &id, form).await,
        "delete" => {
            desk.api.send(Method::DELETE, &path, &act::nothing(), None).await?;
            Ok(desk.done("/webhooks", "Deleted."))
        }
        "pause" | "resume" | "enable" | "disable" => {
            desk.api.post(&call, &act::nothing()).await?;
            Ok(desk.done(&path, "Done."))
        }
        _ => Err(Refused::new(StatusCode::NOT_FOUND, "there is no such action")),
    }
}
