//! What `view` puts together for clients, as the description shows it. The test of the whole story in
//! `openapi/tests.rs` holds answers against it.
#![expect(dead_code, clippy::large_enum_variant, reason = "these are only described, never made")]

use serde_json::Value;
use utoipa::ToSchema;

use super::cancelling::CancelOn;
use super::work::EffectView;
use crate::schema;

/// A work item: a job, or another thing to do.
#[derive(ToSchema)]
pub struct Work {
    /// Its id.
    #[schema(value_type = schema::WorkId)]
    id: String,
    /// A job's free name, or the event type it came from; else what kind of work it is.
    kind: String,
    /// The event it is about.
    #[schema(value_type = Option<schema::EventId>)]
    event_id: Option<String>,
    /// All events it is about.
    #[schema(value_type = Vec<schema::EventId>)]
    event_ids: Vec<String>,
    /// Whose it is.
    #[schema(value_type = schema::Slug)]
    tenant: String,
    /// Where its event came from.
    #[schema(value_type = Option<schema::SourceId>)]
    source: Option<String>,
    /// Who asked for it.
    owner: Option<String>,
    /// Where it stands.
    #[schema(value_type = schema::State)]
    status: String,
    /// Why it waits for an operator.
    #[schema(value_type = Option<schema::HeldReason>)]
    held_reason: Option<String>,
    /// Which queue it waits in.
    #[schema(value_type = schema::Priority)]
    priority: String,
    /// How often it was tried.
    attempts: i32,
    /// How often it may be.
    max_attempts: i32,
    /// When it may start.
    #[schema(value_type = schema::Timestamp)]
    run_at: String,
    /// When it was made.
    #[schema(value_type = schema::Timestamp)]
    created_at: String,
    /// When it ended.
    #[schema(value_type = Option<schema::Timestamp>)]
    finished_at: Option<String>,
    /// What it is about: `provider:kind:id`.
    subject: Option<String>,
    /// What it must run in order with.
    order_key: Option<String>,
    /// What it waits for, if it neither runs nor has ended. `run_at`: its time; `order_key`: an earlier job of its
    /// order key has not ended; `sequence`: an event with a lower number has not come yet; `expansion`: its event
    /// only announced something, which the server has still to fetch; `budget`: its source's day; `tenant_cap`,
    /// `source_cap`: others that run; `tenant_rate`, `source_rate`: others that started just now; `worker`: nobody
    /// has asked for it; `executor`: a free place; `approval`, `operator`: a person.
    waiting_on: Option<String>,
    /// Whether a person must agree before it acts, by its maker's word; `null`: as its source says, else `auto`.
    #[schema(value_type = Option<schema::Mode>)]
    mode: Option<String>,
    /// What is unusual about it.
    flags: Vec<String>,
    /// The item that took its place: it is not run, or not again.
    #[schema(value_type = Option<schema::WorkId>)]
    superseded_by: Option<String>,
    /// What it was replayed as.
    #[schema(value_type = Option<schema::WorkId>)]
    replayed_as: Option<String>,
    /// The work that led to it.
    #[schema(value_type = Option<schema::WorkId>)]
    parent_id: Option<String>,
    /// How many agents led to it.
    hops: u32,
    /// Whose effects it shares.
    scope: String,
    /// The live lease.
    lease: Option<WorkLease>,
    /// Whether a stop was asked for.
    cancel_requested: bool,
    /// Who had it last.
    last_worker: Option<String>,
    /// What went wrong last.
    last_error: Option<String>,
    /// The trace it belongs to.
    trace_id: String,
    /// The event that would cancel it.
    cancel_on: Option<CancelOn>,
    /// The schedule that made it.
    #[schema(value_type = Option<schema::ScheduleId>)]
    schedule_id: Option<String>,
    /// Which of its ticks did; of several that were missed, the last.
    #[schema(value_type = Option<schema::Timestamp>)]
    scheduled_for: Option<String>,
}

/// A live lease.
#[derive(ToSchema)]
pub struct WorkLease {
    /// Who has it.
    worker: Option<String>,
    /// Until when.
    #[schema(value_type = Option<schema::Timestamp>)]
    expires_at: Option<String>,
    /// Which run.
    #[schema(value_type = Option<schema::RunId>)]
    run_id: Option<String>,
}

/// A work item with everything about it.
#[derive(ToSchema)]
pub struct WorkWhole {
    #[serde(flatten)]
    work: Work,
    /// What the agent gets.
    input: Value,
    /// What came of it.
    result: Value,
    /// The text to reply with.
    reply: Option<String>,
    /// The agent's own state.
    checkpoint: Value,
    /// What its runs cost in all, as far as they said so.
    cost: Option<f64>,
    /// Its side effects.
    effects: Vec<EffectView>,
    /// Its finished runs.
    runs: Vec<Run>,
    /// The work that led to it, the nearest first; at most 20.
    chain: Vec<ChainLink>,
    /// What to do next.
    next_action: String,
}

/// A dead letter with everything about it.
#[derive(ToSchema)]
pub struct DeadLetterWhole {
    #[serde(flatten)]
    whole: WorkWhole,
    /// The event that it is about, as its agent got it; without `data` once its body is not kept any more.
    envelope: Option<Envelope>,
}

/// Work that led to other work.
#[derive(ToSchema)]
pub struct ChainLink {
    /// Its id.
    #[schema(value_type = schema::WorkId)]
    id: String,
    /// A job's free name, or what kind of work it is.
    kind: String,
    /// Where it stands.
    #[schema(value_type = schema::State)]
    status: String,
    /// How many agents led to it.
    hops: u32,
}

/// A finished run.
#[derive(ToSchema)]
pub struct Run {
    /// Its id.
    #[schema(value_type = schema::RunId)]
    id: String,
    /// Which try it was.
    attempt: i32,
    /// Who ran it.
    worker: String,
    /// When it began.
    #[schema(value_type = schema::Timestamp)]
    started_at: String,
    /// When it ended.
    #[schema(value_type = schema::Timestamp)]
    ended_at: String,
    /// How it ended.
    #[schema(value_type = schema::RunOutcome)]
    outcome: String,
    /// What went wrong.
    error: Option<String>,
    /// What it cost in all, if it said so.
    cost: Option<f64>,
}

/// What a call to make jobs is answered: the job; for an array, all of them in its order.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum MadeJobs {
    One(MadeJob),
    Many { data: Vec<MadeJob> },
}

/// A job that was made, or the first one with its `dedup_key`.
#[derive(ToSchema)]
#[serde(untagged)]
pub enum MadeJob {
    Kept(KeptJob),
    Forgotten(ForgottenJob),
}

/// A job.
#[derive(ToSchema)]
pub struct KeptJob {
    #[serde(flatten)]
    job: Work,
    /// `true` if it had been made before.
    duplicate: Option<bool>,
    /// What requests to its own http executor are signed with; only where it has one.
    #[schema(required = false)]
    executor_secret: Option<String>,
    /// What its callback is signed with; only where it has one.
    #[schema(required = false)]
    callback_secret: Option<String>,
}

/// A job that had been made before and is not kept any more.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgottenJob {
    /// Its id.
    #[schema(value_type = schema::JobId)]
    id: String,
    /// Always `true`.
    duplicate: bool,
}

/// Work about an event. `kind` is what kind of work it is; a job's own kind is its `name`.
#[derive(ToSchema)]
pub struct EventWork {
    #[serde(flatten)]
    work: Work,
    /// A job's own kind.
    name: String,
}

/// A leased job, as its worker gets it.
#[derive(ToSchema)]
pub struct LeasedJob {
    /// Its id.
    #[schema(value_type = schema::JobId)]
    id: String,
    /// This run.
    #[schema(value_type = schema::RunId)]
    run_id: String,
    /// Whose it is.
    #[schema(value_type = schema::Slug)]
    tenant: String,
    /// What every later call about it carries.
    lease_token: String,
    /// When the lease ends, unless a heartbeat extends it.
    #[schema(value_type = schema::Timestamp)]
    lease_expires_at: String,
    /// Which try this is; the first is 1.
    attempt: i32,
    /// How many there may be.
    max_attempts: i32,
    /// Grows with every claim.
    fence: i32,
    /// Its free name, or the event type.
    kind: String,
    /// Where its event came from.
    #[schema(value_type = Option<schema::SourceId>)]
    source: Option<String>,
    /// The event, in words that all providers share.
    envelope: Option<Envelope>,
    /// All its events, that one first; left out if it is the only one.
    events: Option<Vec<Envelope>>,
    /// What its maker gave.
    input: Value,
    /// The tick that made it; only of a schedule's job.
    #[schema(value_type = Option<schema::Timestamp>, required = false)]
    scheduled_for: Option<String>,
    /// What an earlier run left.
    checkpoint: Value,
    /// Whose effects it shares.
    scope: String,
    /// The trace to go on with: W3C Trace Context.
    #[schema(pattern = "^00-[0-9a-f]{32}-[0-9a-f]{16}-01$")]
    traceparent: String,
    /// What to send along as `wakepost-chain` with whatever leads to further work.
    chain: String,
}

/// An event in words that all providers share.
#[derive(ToSchema)]
pub struct Envelope {
    /// Its id.
    #[schema(value_type = schema::EventId)]
    event_id: String,
    /// Where it came from.
    #[schema(value_type = schema::SourceId)]
    source: String,
    /// Who sent it.
    provider: Option<String>,
    /// Whose it is.
    #[schema(value_type = schema::Slug)]
    tenant_id: String,
    /// What happened.
    event_type: String,
    /// When it happened, by the provider's word.
    #[schema(value_type = Option<schema::Timestamp>)]
    occurred_at: Option<String>,
    /// When it arrived.
    #[schema(value_type = schema::Timestamp)]
    received_at: String,
    /// The hash of the body.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    payload_hash: String,
    /// What makes a repeat a duplicate.
    dedup_key: String,
    /// What it is in order with.
    order_key: Option<String>,
    /// The provider's request id.
    provider_request_id: Option<String>,
    /// Whether its signature was checked.
    verified: bool,
    /// Whether what was checked covers the body; some providers only send a token along. Unknown once the source is
    /// gone.
    body_signed: Option<bool>,
    /// Who did it.
    actor: Option<Actor>,
    /// What it was done to.
    subject: Option<Subject>,
    /// What was said, on a messaging platform.
    message: Option<Message>,
    /// The payload: JSON as it is, other text as text, anything else not at all.
    data: Value,
}

/// What somebody said, on a platform that carries conversations.
#[derive(ToSchema)]
pub struct Message {
    /// The conversation it belongs to, in the platform's own ids.
    thread_id: String,
    /// What was said, without the mention that called the agent.
    text: String,
    /// Who else hears it: `direct`, `group`, `channel`, `email` or `document`.
    conversation_type: String,
    /// Why it is the agent's business: `direct`, `mention`, `reply`, `command`, `email` or `comment`.
    trigger: String,
    /// What came with it, by reference.
    files: Vec<File>,
}

/// Something that came with a message.
#[derive(ToSchema)]
pub struct File {
    /// The platform's id for it.
    id: Option<String>,
    /// Its name.
    name: Option<String>,
    /// Its media type.
    media_type: Option<String>,
    /// How large it is.
    bytes: Option<u64>,
    /// Where the platform keeps it.
    url: Option<String>,
}

/// Who did it.
#[derive(ToSchema)]
pub struct Actor {
    /// The provider's id for them.
    id: Option<String>,
    /// Their name.
    name: Option<String>,
    /// Their address.
    email: Option<String>,
    /// Whether the provider vouches for who they are.
    verified: bool,
}

/// What it was done to.
#[derive(ToSchema)]
pub struct Subject {
    /// What kind of thing, in the provider's words.
    kind: String,
    /// The provider's id for it.
    id: String,
    /// Where a person can see it.
    url: Option<String>,
}
