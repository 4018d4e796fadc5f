//! What of a job waits for a person: to agree with what it proposes, to say what became of an effect, to let it go on.

use super::frame::Frame;
use super::job::{acts, verdict};
use super::payload::visible;
use super::pieces::{Act, Field, Id, Note, When};
use super::shapes::{Effect, Event, Job};
use crate::within::part;

/// A job, or another piece of work, with what can be decided of it.
pub struct Waiting {
    /// The work itself.
    pub job: Job,
    /// What it is, where it does not have the page to itself.
    pub named: Option<(String, Id)>,
    /// How it stands.
    pub verdict: String,
    /// What can be done with it.
    pub acts: Vec<Act>,
    /// What it asks for.
    pub proposals: Vec<Proposal>,
    /// What nobody knows of it.
    pub doubts: Vec<Doubt>,
}

/// An effect that waits for a person.
pub struct Proposal {
    /// Its key.
    pub key: String,
    /// What it would do.
    pub description: String,
    /// Until when it can be decided.
    pub expires: Option<When>,
}

/// An effect of which nobody knows whether it was done.
pub struct Doubt {
    /// Its key.
    pub key: String,
    /// What it would have done.
    pub description: String,
    /// How it is resolved.
    pub act: Act,
}

impl Waiting {
    /// On the job's own page.
    pub fn of(frame: &Frame, job: Job) -> Waiting {
        Waiting {
            named: None,
            verdict: verdict(&job, frame),
            acts: acts(frame, &job),
            proposals: proposals(frame, &job),
            doubts: job.effects.iter().filter_map(|effect| doubt(frame, &job, effect)).collect(),
            job,
        }
    }

    /// On the page of an event that led to it, to which every decision leads back.
    pub fn on(frame: &Frame, event: &Event, job: Job) -> Waiting {
        let id = Id::link(&job.id, frame.to(&format!("/jobs/{}", job.id)));
        let mut waiting =
            Waiting { named: Some((visible(&job.kind), id)), ..Waiting::of(frame, job) };
        let doubts = waiting.doubts.iter_mut().map(|doubt| &mut doubt.act);
        for act in waiting.acts.iter_mut().chain(doubts) {
            act.hidden.push(("back", event.row.id.clone()));
        }
        waiting
    }
}

/// What of a job waits for a person to say yes or no.
pub fn proposals(frame: &Frame, job: &Job) -> Vec<Proposal> {
    let proposed = job.effects.iter().filter(|effect| effect.state == "proposed");
    let proposal = |effect: &Effect| Proposal {
        key: visible(&effect.key),
        description: visible(effect.description.as_deref().unwrap_or_default()),
        expires: effect.expires_at.map(|at| When::of(at, frame.now)),
    };
    proposed.map(proposal).collect()
}

fn doubt(frame: &Frame, job: &Job, effect: &Effect) -> Option<Doubt> {
    if !frame.may_operate
        || !matches!(effect.state.as_str(), "in_doubt" | "begun")
        || job.status == "running"
    {
        return None;
    }
    let to = format!("/jobs/{}/effects/{}/resolve", job.id, part(&effect.key));
    let mut act = frame.act(
        "Resolve",
        &to,
        "Nobody knows whether this was done. Look where it would have happened, then say.",
    );
    act.note = Note::Must;
    act.style = "main";
    act.fields.push(Field::choice("outcome", "Outcome", &["committed", "not_done"]));
    Some(Doubt {
        key: visible(&effect.key),
        description: visible(effect.description.as_deref().unwrap_or_default()),
        act,
    })
}
