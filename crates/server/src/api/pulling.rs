//! Pull mode: a subscriber without a public address leases its deliveries, with the bodies and headers that a push would
//! have had.

use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use wakepost_domain::access::Right;
use wakepost_domain::lease::Ticket;
use wakepost_domain::transition::Ending;
use wakepost_domain::webhook::{Mode, Webhook};
use wakepost_domain::work::{State, WorkKind};
use wakepost_domain::{EventId, TenantId, Timestamp, limits};
use wakepost_store::moves::{Claimed, Heartbeat};
use wakepost_store::{Result as Stored, StoreError};

use super::call::{At, Call};
use super::describe::{self, Conflicting, Keyed, Missing};
use super::error::ApiError;
use super::lease::{LeaseWish, seconds};
use super::once;
use super::taking::{Taker, taken};
use super::ticket::Leased;
use super::webhooks::find;
use super::work::{Moved, check_name};
use crate::context::Context;
use crate::deliveries;
use crate::executors;
use crate::queue::{Ask, Pushed};
use crate::schema;
use crate::telemetry::story;
use crate::to_the_end::ToTheEnd;
use crate::webhooks;
use crate::workers::settle::{End, settle};

/// A wish for deliveries.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeliveryLease)]
struct LeaseBody {
    /// Who asks.
    #[schema(value_type = schema::Name)]
    worker: String,
    /// How many at most.
    #[schema(value_type = Option<schema::LeaseMax>)]
    max: Option<u32>,
    /// How long to wait for the first.
    #[schema(value_type = Option<schema::LeaseWait>)]
    wait_s: Option<u64>,
    /// How long the lease lasts.
    #[schema(value_type = Option<schema::LeaseSeconds>)]
    lease_s: Option<u64>,
}

/// Leased deliveries.
#[derive(Serialize, ToSchema)]
struct LeasedDeliveries {
    /// They; none if there was nothing.
    deliveries: Vec<LeasedDelivery>,
}

/// A leased delivery.
#[derive(Serialize, ToSchema)]
struct LeasedDelivery {
    /// Its id.
    id: String,
    /// The event: what a repeat is told by.
    #[schema(value_type = Option<schema::EventId>)]
    event_id: Option<EventId>,
    /// The lease.
    lease_token: String,
    /// When it ends unless it is extended.
    #[schema(value_type = schema::Timestamp)]
    lease_expires_at: Timestamp,
    /// Which attempt it is.
    attempt: i32,
    /// The headers that a push would have had, the signature among them.
    #[schema(value_type = std::collections::BTreeMap<String, String>)]
    headers: Value,
    /// The body, byte for byte as it was signed.
    body: String,
}

/// Leases deliveries of a webhook whose mode is `pull`, waiting for the first if asked to.
#[utoipa::path(
    post, path = "/webhooks/{id}/deliveries/lease", operation_id = "lease_deliveries", tag = "deliveries",
    params(("id" = schema::WebhookId, Path), describe::Tenant), request_body = LeaseBody,
    responses(
        (status = 200, description = "The deliveries.", body = LeasedDeliveries),
        Keyed, Missing, Conflicting,
    )
)]
pub async fn lease(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_pull(&call)?;
    let tenant = call.tenant().await?;
    let webhook = find(&call, &tenant, &id).await?;
    if webhook.config.mode != Mode::Pull {
        return Err(ApiError::invalid_state("its deliveries are sent, not pulled"));
    }
    let body: LeaseBody = call.body()?;
    check_name("worker", &body.worker)?;
    let wish = LeaseWish::read(body.max, body.wait_s, body.lease_s)?;
    let ask = Ask {
        kind: WorkKind::Delivery,
        worker: body.worker,
        max: wish.max,
        wait: wish.wait,
        tenant: Some(tenant.id),
        kinds: None,
        sources: Some(vec![wakepost_domain::SourceId(webhook.id.0)]),
        lease: wish.lease,
    };
    let context = call.context.clone();
    let deliveries =
        taken(&call.context, |taker| claim(context, tenant.id, webhook, ask, taker)).await?;
    Ok(once::json(StatusCode::OK, &LeasedDeliveries { deliveries }))
}

/// Claims deliveries and hands them out.
async fn claim(
    context: Arc<Context>,
    tenant: TenantId,
    webhook: Webhook,
    ask: Ask,
    taker: Taker<LeasedDelivery>,
) -> Result<(), ApiError> {
    let claimed = context.queue.lease(&ask, &taker.stop).await?;
    context.metrics.started(claimed.iter().map(|item| &item.0));
    story::leased(&context, claimed.iter().map(|item| &item.0)).await;
    let bodies = match executors::bodies(&context, tenant, &claimed).await {
        Ok(bodies) => bodies,
        Err(error) => {
            let back = |(item, ..): &Pushed| End::plain(item.ticket, Ending::HandedBack, None);
            settle(&context, claimed.iter().map(back).collect()).await;
            return Err(error.into());
        }
    };
    let (mut leased, mut tickets, mut ends) = (Vec::new(), Vec::new(), Vec::new());
    for (item, ..) in &claimed {
        let body = item.event.and_then(|event| Some((event, bodies.get(&event)?.clone())));
        let handed_out = match body {
            Some((event, body)) => handed_out(&context, &webhook, item, event, body),
            None => Err("the event is not kept any more, or cannot be read".to_owned()),
        };
        match handed_out {
            Ok(delivery) => {
                leased.push(delivery);
                tickets.push(item.ticket);
            }
            // Nobody can have it.
            Err(error) => {
                let ending = Ending::Failed { retryable: false, retry_after: None };
                ends.push(End::plain(item.ticket, ending, Some(error)));
            }
        }
    }
    settle(&context, ends).await;
    taker.give(&context, leased, tickets).await;
    Ok(())
}

/// Refuses a caller who may not lease: deliveries are pulled as jobs are.
fn may_pull(call: &Call) -> Result<(), ApiError> {
    call.need(Right::Work)?;
    // A job's own key is good for that job, which is no delivery.
    match call.caller.ticket {
        Some(_) => Err(ApiError::forbidden()),
        None => Ok(()),
    }
}

fn handed_out(
    context: &Context,
    webhook: &Webhook,
    item: &Claimed,
    event: EventId,
    body: Bytes,
) -> Result<LeasedDelivery, String> {
    let delivery = deliveries::compose(context, item, webhook, event, body)?;
    let headers = delivery.signed_headers(context.now())?;
    let headers: serde_json::Map<String, Value> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), json!(String::from_utf8_lossy(value.as_bytes()))))
        .collect();
    Ok(LeasedDelivery {
        id: item.ticket.work.text(WorkKind::Delivery),
        event_id: item.event,
        lease_token: context.tokens.delivery_lease(&item.ticket),
        lease_expires_at: item.lease_expires_at,
        attempt: item.ticket.attempt,
        headers: Value::Object(headers),
        body: String::from_utf8_lossy(&delivery.body).into_owned(),
    })
}

/// A receiver's word that it has a delivery.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeliveryAck)]
struct AckBody {
    /// The lease.
    lease_token: String,
}

impl Leased for AckBody {
    fn token(&self) -> &str {
        &self.lease_token
    }
}

/// Says that a delivery was taken.
#[utoipa::path(
    post, path = "/deliveries/{id}/ack", operation_id = "ack_delivery", tag = "deliveries",
    params(("id" = schema::WorkId, Path)), request_body = AckBody,
    responses((status = 200, description = "`succeeded`.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn ack(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_pull(&call)?;
    let (_, ticket) = call.leased_as::<AckBody>(WorkKind::Delivery, &id).await?;
    end(&call, id, ticket, Ending::Succeeded, None).await
}

/// A receiver's word that it could not take a delivery.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeliveryNack)]
struct NackBody {
    /// The lease.
    lease_token: String,
    /// What went wrong.
    error: Option<String>,
    /// Whether another try makes sense; `true` if left out.
    retryable: Option<bool>,
    /// When to try again; else by the schedule.
    #[schema(maximum = 86400)]
    retry_after_s: Option<u64>,
    /// It was not looked at, as when a receiver stops: no attempt is counted, and it may be leased again at once.
    hand_back: Option<bool>,
}

impl Leased for NackBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        match self.retry_after_s.is_some_and(|wait| wait > 86_400) {
            true => Err(ApiError::field("retry_after_s", "must be at most 86400")),
            false => Ok(()),
        }
    }
}

/// Says that a delivery was not taken.
#[utoipa::path(
    post, path = "/deliveries/{id}/nack", operation_id = "nack_delivery", tag = "deliveries",
    params(("id" = schema::WorkId, Path)), request_body = NackBody,
    responses((status = 200, description = "Where it stands.", body = Moved), Keyed, Missing, Conflicting)
)]
pub async fn nack(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_pull(&call)?;
    let (body, ticket) = call.leased_as::<NackBody>(WorkKind::Delivery, &id).await?;
    let error = body.error.unwrap_or_else(|| "the receiver did not take it".to_owned());
    let error = limits::truncate(&error, limits::ERROR_BYTES_MAX).to_owned();
    if body.hand_back == Some(true) {
        return end(&call, id, ticket, Ending::HandedBack, None).await;
    }
    let retryable = body.retryable.unwrap_or(true);
    let retry_after = body.retry_after_s.map(Duration::from_secs);
    end(&call, id, ticket, Ending::Failed { retryable, retry_after }, Some(error)).await
}

async fn end(
    call: &Call,
    id: String,
    ticket: Ticket,
    ending: Ending,
    error: Option<String>,
) -> Result<Response, ApiError> {
    let (context, end) = (call.context.clone(), End::plain(ticket, ending, error));
    // A receiver that hangs up must not keep the queue, and the webhook's owner, from hearing of it.
    let settled = ToTheEnd::of(async move {
        let settled = settle(&context, vec![end]).await.pop().unwrap_or(Err(StoreError::Busy))?;
        if settled.state == State::DeadLetter && !settled.repeated {
            webhooks::tell_of_dead_letter(&context, ticket.tenant, ticket.work).await;
        }
        Stored::Ok(settled)
    });
    let settled = settled.await?;
    Ok(once::json(StatusCode::OK, &Moved { id, status: settled.state.as_str() }))
}

/// A receiver's sign of life.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = DeliveryHeartbeat)]
struct HeartbeatBody {
    /// The lease.
    lease_token: String,
    /// How long from now; left out, as long as it was asked to last.
    #[schema(value_type = Option<schema::LeaseSeconds>)]
    extend_s: Option<u64>,
}

impl Leased for HeartbeatBody {
    fn token(&self) -> &str {
        &self.lease_token
    }

    fn check(&self) -> Result<(), ApiError> {
        seconds("extend_s", self.extend_s).map(|_| ())
    }
}

/// How the lease stands.
#[derive(Serialize, ToSchema)]
#[schema(as = DeliveryBeaten)]
struct Beaten {
    /// When it ends now.
    #[schema(value_type = schema::Timestamp)]
    lease_expires_at: Timestamp,
    /// Whether the receiver is asked to stop.
    cancel_requested: bool,
}

/// Extends the lease on a delivery.
#[utoipa::path(
    post, path = "/deliveries/{id}/heartbeat", operation_id = "heartbeat_delivery", tag = "deliveries",
    params(("id" = schema::WorkId, Path)), request_body = HeartbeatBody,
    responses((status = 200, description = "It lives on.", body = Beaten), Keyed, Missing, Conflicting)
)]
pub async fn heartbeat(At(id): At<String>, call: Call) -> Result<Response, ApiError> {
    may_pull(&call)?;
    let (body, ticket) = call.leased_as::<HeartbeatBody>(WorkKind::Delivery, &id).await?;
    let usual = Duration::from_secs(ticket.lease_s.max(1) as u64);
    let extend = seconds("extend_s", body.extend_s)?.unwrap_or(usual);
    let beat = Heartbeat { ticket, extend, cost: None };
    let answer = call.context.store.heartbeat(vec![beat]).await.pop();
    let answer = answer.unwrap_or(Err(StoreError::Busy))?;
    let beaten = Beaten {
        lease_expires_at: answer.lease_expires_at,
        cancel_requested: answer.cancel_requested,
    };
    Ok(once::json(StatusCode::OK, &beaten))
}
