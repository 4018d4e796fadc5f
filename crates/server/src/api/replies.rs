//! What a job says on its event's thread before it is done.

use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::limits;
use wakepost_domain::work::State;
use wakepost_store::{Result as Stored, StoreError};

use super::call::{At, Call};
use super::describe::{Conflicting, Keyed, Missing};
use super::error::ApiError;
use super::once;
use super::ticket::Leased;
use super::work::Moved;
use crate::replies::{self, Place};
use crate::schema;
use crate::to_the_end::ToTheEnd;

/// A message on the event's thread.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplyBody {
    /// The lease.
    lease_token: String,
    /// What to say, as Markdown. It is put in the platform's own form, and split where that is too long for one
    /// message.
    #[schema(min_length = 1, max_length = 1048576)]
    text: String,
    /// `true`: in the place of the job's message before it, where the platform can. `false`: a message of its own,
    /// for good. Left out: a message of its own until the job is done, whose reply then takes its place.
    update: Option<bool>,
}

impl Leased for ReplyBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        let fits = (1..=limits::DOCUMENT_BYTES_MAX).contains(&self.text.trim().len());
        match fits {
            true => Ok(()),
            false => Err(ApiError::field(
                "text",
                format!("must have 1 to {} bytes", limits::DOCUMENT_BYTES_MAX),
            )),
        }
    }
}

/// Says something on the thread of the job's event, in order with what the job says before and after.
///
/// It answers as soon as the message is stored; the message itself is work of its own, with its own retries.
#[utoipa::path(
    post, path = "/jobs/{id}/reply", operation_id = "reply_to_job", tag = "leases",
    params(("id" = schema::JobId, Path)), request_body = ReplyBody,
    responses(
        (status = 200, description = "The message's own id, and where it stands.", body = Moved),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn reply(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    call.need(Right::Work)?;
    let (body, ticket) = call.leased::<ReplyBody>(&id).await?;
    let context = &call.context;
    let row = context.store.work(ticket.tenant, ticket.work).await?;
    let row = row.ok_or(StoreError::LeaseLost)?;
    let Some(live) = replies::answerable(context, &row).await? else {
        let refusal = "the job's event came from nowhere that can be answered";
        return Err(call.or_lost(&ticket, ApiError::invalid_state(refusal)).await);
    };
    let place = match body.update {
        None => Place::Interim,
        Some(false) => Place::Beside,
        Some(true) => Place::Update,
    };
    let (item, lane) = replies::new(context, &row, &live, body.text, place).await?;
    let made = Moved { id: item.id.text(item.kind), status: State::Pending.as_str() };
    let once = call.once(ticket.tenant, StatusCode::OK, &made).await?;
    let context = context.clone();
    // A worker that hangs up must not keep the queue from hearing of the commit.
    let stored = ToTheEnd::of(async move {
        let outcome = context.store.follow_up(ticket, item, once).await?;
        context.queue.hint(&lane, 1).await;
        Stored::Ok(outcome)
    });
    let outcome = stored.await?;
    call.answer_once(ticket.tenant, outcome, |()| once::json(StatusCode::OK, &made)).await
}
