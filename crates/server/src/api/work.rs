//! What the rooms about work share: checks of their fields, and a single item whole.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use wakepost_domain::advice::{self, EffectCounts};
use wakepost_domain::approval::ProposalHash;
use wakepost_domain::effect::EffectState;
use wakepost_domain::rate::Rate;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::transition::{self, Move};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{
    EventId, TenantId, Timestamp, Ulid, WorkId, backoff, budget, limits, webhook,
};
use wakepost_store::moves::{EffectRow, ReplayFrom, WorkRow};
use wakepost_store::vault::{Slot, TenantKey};

use super::call::Call;
use super::error::ApiError;
use super::once;
use crate::context::Context;
use crate::replays::{self, Wish};
use crate::replies;
use crate::schema;
use crate::tokens::idempotency_key;
use crate::view::{ChainLink, Waits, WorkView, name_of, open_json, work_view};

/// A free name: visible, and not too long.
pub fn check_name(field: &str, name: &str) -> Result<(), ApiError> {
    check_text(field, name, limits::NAME_CHARS_MAX)
}

/// A key or subject.
pub fn check_key(field: &str, key: &str) -> Result<(), ApiError> {
    check_text(field, key, limits::KEY_CHARS_MAX)
}

fn check_text(field: &str, text: &str, chars_max: usize) -> Result<(), ApiError> {
    let fits = !text.is_empty()
        && text.chars().count() <= chars_max
        && !text.chars().any(char::is_control);
    match fits {
        true => Ok(()),
        false => {
            Err(ApiError::field(field, format!("must be 1 to {chars_max} visible characters")))
        }
    }
}

/// How often something may be tried.
pub fn check_attempts(field: &str, attempts: Option<u32>) -> Result<(), ApiError> {
    match attempts {
        Some(n) if !(1..=limits::ATTEMPTS_MAX).contains(&n) => {
            Err(ApiError::field(field, format!("must be from 1 to {}", limits::ATTEMPTS_MAX)))
        }
        _ => Ok(()),
    }
}

/// How long something waits between tries.
pub fn check_backoff(delays: Option<&[u64]>) -> Result<(), ApiError> {
    let longest = backoff::DELAY_MAX.as_secs();
    match delays {
        Some(list) if list.is_empty() || list.len() > limits::ATTEMPTS_MAX as usize => Err(
            ApiError::field("backoff_s", format!("must have 1 to {} delays", limits::ATTEMPTS_MAX)),
        ),
        Some(list) if list.iter().any(|delay| *delay > longest) => {
            Err(ApiError::field("backoff_s", format!("no delay may be over {longest} seconds")))
        }
        _ => Ok(()),
    }
}

/// How long each attempt at a delivery waits, the first one included.
pub fn check_retries(field: &str, delays: Option<&[u64]>) -> Result<(), ApiError> {
    let (most, longest) = (webhook::RETRIES_MAX, backoff::DELAY_MAX.as_secs());
    match delays {
        Some(list) if list.is_empty() || list.len() > most => {
            Err(ApiError::field(field, format!("must have 1 to {most} delays")))
        }
        Some(list) if list.iter().any(|delay| *delay > longest) => {
            Err(ApiError::field(field, format!("no delay may be over {longest} seconds")))
        }
        _ => Ok(()),
    }
}

/// How many may start in a second.
pub fn check_rate(field: &str, rate: Option<f64>) -> Result<(), ApiError> {
    match rate {
        Some(rate) if Rate::new(rate).is_none() => {
            Err(ApiError::field(field, "must be above 0 and at most 1000000"))
        }
        _ => Ok(()),
    }
}

/// What a run says it cost.
pub fn check_cost(cost: Option<f64>) -> Result<(), ApiError> {
    match cost {
        Some(cost) if !budget::is_cost(cost) => {
            Err(ApiError::field("cost", "must be from 0 to 1000000000000"))
        }
        _ => Ok(()),
    }
}

/// Why an operator does something: a few words at least.
pub fn check_note(note: &str) -> Result<(), ApiError> {
    let fits = !note.trim().is_empty() && note.chars().count() <= limits::NOTE_CHARS_MAX;
    match fits {
        true => Ok(()),
        false => Err(ApiError::field(
            "note",
            format!("must be 1 to {} characters", limits::NOTE_CHARS_MAX),
        )),
    }
}

/// A JSON document: not too large.
pub fn check_document(field: &str, document: Option<&RawValue>) -> Result<(), ApiError> {
    match document {
        Some(document) if document.get().len() > limits::DOCUMENT_BYTES_MAX => {
            let message = format!("must have at most {} bytes", limits::DOCUMENT_BYTES_MAX);
            Err(ApiError::field(field, message))
        }
        _ => Ok(()),
    }
}

/// Where something stands after a call.
#[derive(Serialize, ToSchema)]
pub struct Moved {
    /// Its id.
    pub id: String,
    /// Where it stands.
    pub status: &'static str,
}

/// A request that cannot be read, unless its move is not possible anyway: a conflict is told first.
pub fn or_conflict(row: &WorkRow, wanted: Move, refusal: ApiError) -> ApiError {
    match transition::next(row.state, wanted) {
        Ok(_) => refusal,
        Err(conflict) => ApiError::invalid_state(conflict.to_string()),
    }
}

/// The item with this id; another tenant's is not found.
pub async fn find(context: &Context, tenant: TenantId, id: &str) -> Result<WorkRow, ApiError> {
    let (kind, id) = WorkId::parse_any(id).ok_or_else(ApiError::not_found)?;
    let row = context.store.work(tenant, id).await?.ok_or_else(ApiError::not_found)?;
    if row.kind == kind { Ok(row) } else { Err(ApiError::not_found()) }
}

/// Views of rows, without details.
pub async fn views(
    context: &Context,
    tenant: &Tenant,
    rows: Vec<WorkRow>,
) -> Result<Vec<WorkView>, ApiError> {
    let ids: Vec<_> = rows.iter().map(|row| row.lane).collect();
    let lanes = context.directory.lanes(&ids).await?;
    // Only what runs in order is ever joined.
    let orderly = rows.iter().filter(|row| row.order.is_some() && row.event.is_some());
    let orderly: Vec<WorkId> = orderly.map(|row| row.id).collect();
    let joined = match orderly.is_empty() {
        true => Vec::new(),
        false => context.store.joined(orderly).await?,
    };
    let waits = Waits::look(context, &rows, &lanes).await?;
    let view = |row: WorkRow| {
        let lane = lanes.iter().find(|lane| lane.id == row.lane).map(|lane| &**lane);
        let events = joined.iter().filter(|(work, _)| *work == row.id).map(|(_, event)| *event);
        let events: Vec<EventId> = row.event.into_iter().chain(events).collect();
        work_view(row, events, lane, &tenant.slug, &waits)
    };
    Ok(rows.into_iter().map(view).collect())
}

/// One item whole: documents, effects, runs, advice.
pub async fn detail(
    context: &Context,
    tenant: &Tenant,
    row: WorkRow,
) -> Result<WorkView, ApiError> {
    let key = context.vault.key(tenant.id).await?;
    let states = context.store.job_states(vec![row.id]).await?;
    let state = states.into_iter().next().map(|(_, state)| state).unwrap_or_default();
    let effects = context.store.effects(tenant.id, row.scope).await?;
    let runs = context.store.runs(tenant.id, row.id).await?;
    let advice = advice::next_action(row.state, row.held, counts(&effects, row.id));
    let (id, kind, scope) = (row.id, row.kind, row.scope);
    let waits = (row.state == State::AwaitingApproval).then_some(row.id);
    let chain = chain(context, tenant.id, &row).await?;
    let mut view =
        views(context, tenant, vec![row]).await?.pop().ok_or_else(ApiError::not_found)?;
    let document = |slot: Slot<'_>, record: Option<wakepost_store::vault::Sealed>| {
        record.map(|record| open_json(&key, slot, &record)).transpose()
    };
    let reply = match state.reply {
        Some(record) => {
            Some(String::from_utf8_lossy(&key.open(Slot::Reply(id), &record)?).into_owned())
        }
        None => None,
    };
    let mut input = document(Slot::Input(id), state.input)?;
    let mut checkpoint = document(Slot::Checkpoint(id), state.checkpoint)?;
    if kind == WorkKind::Callback {
        // What it says is kept from its first try on.
        input = input.or_else(|| checkpoint.take());
    }
    // What a reply proposes is what it would say, which is stored sealed and nowhere else.
    let said = input.as_deref().filter(|_| kind == WorkKind::Reply).and_then(replies::said);
    view.detail = Some(crate::view::WorkDetail {
        input,
        result: document(Slot::JobResult(id), state.result)?,
        checkpoint,
        reply,
        cost: state.cost,
        effects: effects
            .iter()
            .map(|effect| {
                let mut view = shown_effect(&key, scope, effect, waits)?;
                if effect.key == replies::PROPOSAL {
                    view.description = view.description.or_else(|| said.clone());
                }
                Ok(serde_json::to_value(view).expect("a view is plain data"))
            })
            .collect::<Result<_, ApiError>>()?,
        runs,
        chain,
        next_action: advice,
    });
    Ok(view)
}

/// How many of those that led to an item are shown.
const CHAIN_SHOWN_MAX: usize = 20;

/// What led to an item, the nearest first, as far as it is kept.
async fn chain(
    context: &Context,
    tenant: TenantId,
    row: &WorkRow,
) -> Result<Vec<ChainLink>, ApiError> {
    let mut links = Vec::new();
    let mut parent = row.meta.parent_id.clone();
    while let Some(id) = parent.filter(|_| links.len() < CHAIN_SHOWN_MAX) {
        let Ok(row) = find(context, tenant, &id).await else { break };
        let lane = context.directory.lanes(&[row.lane]).await?.pop();
        let kind = name_of(&row, lane.as_deref());
        parent = row.meta.parent_id;
        links.push(ChainLink { id, kind, status: row.state, hops: row.meta.hops });
    }
    Ok(links)
}

/// How many effects happened, how many nobody can vouch for, and how many this item proposes.
pub fn counts(effects: &[EffectRow], item: WorkId) -> EffectCounts {
    let counts =
        |effect: &&EffectRow| effect.state != EffectState::Proposed || effect.is_awaited_by(item);
    EffectCounts::of(effects.iter().filter(counts).map(|effect| (effect.state, effect.alive)))
}

/// An entry of the side-effect ledger.
#[derive(Serialize, ToSchema)]
#[schema(as = Effect)]
pub struct EffectView {
    /// Its name.
    key: String,
    /// `begun`, `in_doubt`, `committed` or `aborted`; where a person must agree, before that `proposed`, `approved`
    /// or `rejected`, or `withdrawn` if the job ended before anybody decided.
    state: &'static str,
    /// What it would do.
    description: Option<String>,
    /// What the other side can tell a repeat by.
    idempotency_key: String,
    /// What it came to.
    #[schema(value_type = Value)]
    result: Option<Box<RawValue>>,
    /// Why it did not happen.
    error: Option<String>,
    /// When it was begun first.
    #[schema(value_type = schema::Timestamp)]
    begun_at: Timestamp,
    /// When it was resolved.
    #[schema(value_type = Option<schema::Timestamp>)]
    resolved_at: Option<Timestamp>,
    /// What exactly was proposed.
    #[schema(value_type = Option<schema::ProposalHash>)]
    proposal_hash: Option<ProposalHash>,
    /// Until when it can be decided on; then, until when an approval is good.
    #[schema(value_type = Option<schema::Timestamp>)]
    expires_at: Option<Timestamp>,
    /// Who decided.
    decided_by: Option<String>,
    /// When.
    #[schema(value_type = Option<schema::Timestamp>)]
    decided_at: Option<Timestamp>,
}

/// `waits`: the item, if it waits for a person to decide.
fn shown_effect(
    key: &TenantKey,
    scope: Ulid,
    effect: &EffectRow,
    waits: Option<WorkId>,
) -> Result<EffectView, ApiError> {
    let slot = Slot::EffectResult(scope, &effect.key);
    let result = effect.result.as_ref().map(|record| open_json(key, slot, record)).transpose()?;
    let state = match effect.state {
        EffectState::Begun if effect.alive => "begun",
        EffectState::Begun => "in_doubt",
        EffectState::Committed => "committed",
        EffectState::Aborted => "aborted",
        EffectState::Proposed if waits.is_some_and(|item| effect.is_awaited_by(item)) => "proposed",
        EffectState::Proposed => "withdrawn",
        EffectState::Approved => "approved",
        EffectState::Rejected => "rejected",
    };
    let approval = effect.approval.as_ref();
    Ok(EffectView {
        key: effect.key.clone(),
        state,
        description: effect.description.clone(),
        idempotency_key: idempotency_key(scope, &effect.key),
        result,
        error: effect.error.clone(),
        begun_at: effect.begun_at,
        resolved_at: effect.resolved_at,
        proposal_hash: approval.map(|approval| approval.hash),
        expires_at: approval.map(|approval| approval.expires_at),
        decided_by: approval.and_then(|approval| approval.decided_by.clone()),
        decided_at: approval.and_then(|approval| approval.decided_at),
    })
}

/// What a replay is told.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayBody {
    /// Who, and why.
    #[schema(value_type = schema::Note)]
    note: String,
    /// Whether committed effects are skipped (`same`, the default) or may happen again (`fresh`).
    scope: Option<Scope>,
}

/// Whose effects a replay shares.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The old item's: what happened is skipped.
    #[default]
    Same,
    /// Its own: everything may happen again.
    Fresh,
}

/// What a replay made.
#[derive(Serialize, ToSchema)]
pub struct Replayed {
    /// The new item.
    #[schema(value_type = schema::WorkId)]
    job_id: String,
    /// Where it stands.
    #[schema(value_type = schema::State)]
    status: State,
}

/// Replays a finished item, or an event that never made one.
pub async fn replay(
    call: &Call,
    tenant: &Tenant,
    from: ReplayFrom,
    target: String,
) -> Result<axum::response::Response, ApiError> {
    let context = &call.context;
    let id = WorkId(context.new_id());
    let (body, kind) = match from {
        ReplayFrom::Event(..) => (replay_body(call)?, WorkKind::Job),
        ReplayFrom::Work(old) => {
            let row = context.store.work(tenant.id, old).await?.ok_or_else(ApiError::not_found)?;
            let body = replay_body(call).map_err(|refusal| or_not_finished(&row, refusal))?;
            (body, row.kind)
        }
    };
    let answer = Replayed { job_id: id.text(kind), status: State::Pending };
    let once = call.once(tenant.id, http::StatusCode::ACCEPTED, &answer).await?;
    let wish = Wish {
        tenant: tenant.id,
        from,
        id,
        fresh_scope: body.scope.unwrap_or_default() == Scope::Fresh,
        audit: call.audit(Some(tenant.id), "work.replay", target, Some(body.note)),
    };
    let made = replays::make(context, wish, once).await?;
    call.answer_once(tenant.id, made, |_| once::json(http::StatusCode::ACCEPTED, &answer)).await
}

fn replay_body(call: &Call) -> Result<ReplayBody, ApiError> {
    let body: ReplayBody = call.body()?;
    check_note(&body.note)?;
    Ok(body)
}

/// As [`or_conflict`], for a replay. The store decides; a request that could be read must get there, since
/// it may be a repeat whose first answer is remembered.
fn or_not_finished(row: &WorkRow, refusal: ApiError) -> ApiError {
    match row.state.is_terminal() && row.replayed_as.is_none() {
        true => refusal,
        false => ApiError::invalid_state("it is not finished, or it was replayed already"),
    }
}
