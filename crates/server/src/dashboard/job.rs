//! One job: its time line, what it was given and gave, its effects, and what can be done with it now.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use wakepost_domain::EventId;

use super::act;
use super::desk::{Desk, Form};
use super::frame::Frame;
use super::payload::{Payload, visible};
use super::pieces::{self, Act, Command, Field, Id, Mark, Note, When};
use super::places::linked;
use super::shapes::Job;
use super::timeline::{self, Timeline};
use super::waiting::Waiting;
use super::words;
use crate::within::{Refused, part};

#[derive(Template)]
#[template(path = "job.html")]
struct Page {
    frame: Frame,
    kind: String,
    mark: Mark,
    id: Id,
    when: When,
    colour: &'static str,
    waiting: Waiting,
    facts: Vec<(&'static str, String)>,
    event: Option<Id>,
    parent: Option<Id>,
    timeline: Timeline,
    parts: Vec<(&'static str, Payload)>,
    commands: Vec<Command>,
}

/// The page of a job.
pub async fn page(desk: Desk, Path(id): Path<String>) -> Result<Response, Refused> {
    let path = format!("/jobs/{}", part(&id));
    let (job, mut frame) =
        tokio::try_join!(desk.api.get::<Job>(&path, []), Frame::new(&desk, "Job", "jobs"))?;
    if job.finished_at.is_none() {
        frame.listen_to(&job.id);
    }
    let steps = timeline::job(&desk.api, &frame, &job).await;
    let named = [
        ("Input", &job.input),
        ("Result", &job.result),
        ("Reply", &job.reply),
        ("Checkpoint", &job.checkpoint),
    ];
    let parts = named.into_iter().filter(|(_, value)| !value.is_null());
    let page = Page {
        kind: visible(&job.kind),
        mark: Mark::of(&job.status),
        id: Id::of(&job.id),
        when: When::of(job.created_at, frame.now),
        colour: pieces::colour(&job.status),
        facts: facts(&job),
        event: job.event_id.as_ref().map(|id| Id::link(id, frame.to(&format!("/inbox/{id}")))),
        parent: job.parent_id.as_ref().map(|id| linked(&frame, id)),
        timeline: timeline::draw(steps, frame.now),
        parts: parts.map(|(name, value)| (name, Payload::json(value))).collect(),
        commands: vec![
            frame.curl("GET", &path, ""),
            frame.ctl(&format!("jobs inspect {}", job.id)),
        ],
        waiting: Waiting::of(&frame, job),
        frame,
    };
    Ok(page.frame.answer(&page))
}

/// The one sentence on how it stands.
pub fn verdict(job: &Job, frame: &Frame) -> String {
    let next = job.next_action.as_deref().map(visible).unwrap_or_default();
    let next = if next.starts_with("none") || next.is_empty() {
        String::new()
    } else {
        format!(" {next}.")
    };
    let status = match (job.status.as_str(), job.run_at) {
        ("retrying" | "scheduled", Some(at)) if at > frame.now => {
            format!("Runs {}.", words::ago(at, frame.now))
        }
        ("running", _) if job.cancel_requested => "Running, and asked to stop.".to_owned(),
        ("held", _) => {
            format!(
                "Held: {}.",
                visible(
                    &job.held_reason
                        .as_deref()
                        .unwrap_or("until somebody decides")
                        .replace('_', " ")
                )
            )
        }
        ("dead_letter", _) => "Given up.".to_owned(),
        ("succeeded", _) => "Done.".to_owned(),
        (other, _) => {
            let word = other.replace('_', " ");
            let waits =
                job.waiting_on.as_ref().filter(|waits| other == "pending" && !waits.is_empty());
            let waits = waits.map_or(String::new(), |waits| {
                format!(", waiting for {}", waits.replace('_', " "))
            });
            let mut letters = word.chars();
            let first = letters.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
            format!("{first}{}{waits}.", letters.as_str())
        }
    };
    format!("{status}{next}")
}

/// The buttons that make sense now, and only those.
pub fn acts(frame: &Frame, job: &Job) -> Vec<Act> {
    if !frame.may_operate || job.replayed_as.is_some() {
        return Vec::new();
    }
    let to = |what: &str| format!("/jobs/{}/{what}", job.id);
    let mut acts = Vec::new();
    // What is in doubt is decided first: then it goes on by itself.
    let in_doubt = job.effects.iter().any(|effect| effect.state == "in_doubt");
    if job.status == "held" && !in_doubt {
        let mut release = frame.act(
            "Release",
            &to("release"),
            "Lets the job run again. Look at its effects first.",
        );
        release.note = Note::Must;
        release.style = "main";
        acts.push(release);
    }
    if job.finished_at.is_some() {
        let mut replay = frame.act(
            "Replay",
            &to("replay"),
            "Makes a new one with the same input. With scope \u{201c}same\u{201d}, committed side effects are not done again; with \u{201c}fresh\u{201d} they are.",
        );
        replay.note = Note::Must;
        replay.key = "r";
        replay.style = if job.status == "dead_letter" { "main" } else { "plain" };
        replay.fields.push(Field::choice("scope", "Scope", &["same", "fresh"]));
        acts.push(replay);
    } else {
        let mut cancel =
            frame.act("Cancel", &to("cancel"), "Stops it. What it has done stays done.");
        cancel.note = Note::May;
        cancel.style = "danger";
        acts.push(cancel);
    }
    acts
}

fn facts(job: &Job) -> Vec<(&'static str, String)> {
    let most = job.max_attempts.map_or(String::new(), |most| format!(" of {most}"));
    let facts = [
        ("Attempts", Some(format!("{}{most}", job.attempts))),
        ("Priority", job.priority.clone()),
        ("Subject", job.subject.as_deref().map(visible)),
        ("In order with", job.order_key.as_deref().map(visible)),
        ("Worker", job.last_worker.as_deref().map(visible)),
        ("Lease ends", job.lease.as_ref().map(|lease| lease.expires_at.to_string())),
        ("Cost", job.cost.map(|cost| cost.to_string())),
        ("Replayed as", job.replayed_as.clone()),
        ("Source", job.source.clone()),
        ("Owner", job.owner.as_deref().map(visible)),
        ("Trace", job.trace_id.clone()),
    ];
    facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Does something to a job.
pub async fn act(
    desk: Desk,
    Path((id, what)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Refused> {
    let path = format!("/jobs/{}", part(&id));
    let (body, done) = match what.as_str() {
        "cancel" => (act::fields(&form, &["note"]), "Cancelled, or asked to stop."),
        "release" => {
            (act::fields(&form, &["note"]), "Released: it runs as soon as a worker is free.")
        }
        "replay" => (act::fields(&form, &["note", "scope"]), "Replayed: a new one runs."),
        "approve" => (decision(&desk, &path, &form).await?, "Approved: the job goes on."),
        "reject" => (decision(&desk, &path, &form).await?, "Rejected."),
        _ => return Err(Refused::new(StatusCode::NOT_FOUND, "there is no such action")),
    };
    desk.api.post(&format!("{path}/{what}"), &body).await?;
    Ok(desk.done(&back(&form, path), done))
}

/// What was on the page, and nothing that changed since: the hashes that the form carries are what is decided.
async fn decision(desk: &Desk, path: &str, form: &Form) -> Result<Value, Refused> {
    let mut body = act::fields(form, &["note"]);
    let chosen: Vec<&str> = form.all("effect").collect();
    let hashes: Vec<&str> = form.all("hash").collect();
    let effects: Vec<Value> = match chosen.len() == hashes.len() && !chosen.is_empty() {
        true => chosen
            .iter()
            .zip(hashes)
            .map(|(key, hash)| json!({"key": key, "proposal_hash": hash}))
            .collect(),
        false => {
            desk.api.open(path, &[]).await?;
            return Err(Refused::new(StatusCode::UNPROCESSABLE_ENTITY, "nothing was chosen"));
        }
    };
    act::put(&mut body, "effects", json!(effects));
    Ok(body)
}

/// Says whether an effect in doubt was done.
pub async fn resolve(
    desk: Desk,
    Path((id, key)): Path<(String, String)>,
    form: Form,
) -> Result<Response, Refused> {
    let path = format!("/jobs/{}", part(&id));
    let body = act::fields(&form, &["outcome", "note"]);
    desk.api.post(&format!("{path}/effects/{}/resolve", part(&key)), &body).await?;
    Ok(desk.done(&back(&form, path), "Resolved."))
}

/// Where it was decided: among the approvals, on the page of an event, or on the job's own.
fn back(form: &Form, own: String) -> String {
    match form.get("back") {
        "approvals" => "/approvals".to_owned(),
        id => id.parse::<EventId>().map_or(own, |event| format!("/inbox/{event}")),
    }
}
