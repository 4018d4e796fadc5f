//! Sending a delivery: a published event to one webhook, once, and what its receiver makes of it.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::transition::Ending;
use wakepost_domain::webhook::Webhook;
use wakepost_domain::{Timestamp, WebhookId};
use wakepost_store::{Result, StoreError, failpoint};

use super::lease::{self, Stop};
use super::{Finished, Payload};
use crate::context::Context;
use crate::deliveries;
use crate::outbound::{Delivered, Tried, deliver};
use crate::queue::Pushed;
use crate::telemetry::metrics::Outcome;
use crate::webhooks;

/// What recording an end may take beyond the receiver's own time.
const MARGIN: Duration = Duration::from_secs(20);

/// Sends one delivery. `said`: what its event says, if that was read already.
pub async fn run(context: &Arc<Context>, item: &Pushed, said: Option<Payload>) -> Finished {
    let webhook = match webhook(context, item).await {
        Ok(Some(webhook)) => webhook,
        Ok(None) => return Finished::Declined { reason: "the webhook was deleted".to_owned() },
        Err(error) => return Finished::failed(error.to_string(), true),
    };
    if webhook.config.disabled.is_some() {
        return Finished::failed("the webhook is disabled", false);
    }
    let limit = webhook.timeout() + MARGIN;
    let stopped = tokio::select! {
        // A node that was frozen must hear first that its lease is over.
        biased;
        stopped = lease::keep(context, item, limit) => stopped,
        finished = send(context, item, &webhook, said) => {
            return finished.unwrap_or_else(|error| match error {
                StoreError::LeaseLost => Finished::Lost,
                error => Finished::failed(error.to_string(), true),
            });
        }
    };
    match stopped {
        Stop::Lost => Finished::Lost,
        Stop::Cancelled => Finished::Cancelled,
        Stop::TimedOut => Finished::failed("the delivery took too long", true),
        // Whether the receiver got it is not known. The next try has the same id.
        Stop::NodeStops => Finished::HandBack,
    }
}

async fn webhook(context: &Context, item: &Pushed) -> Result<Option<Arc<Webhook>>> {
    let (_, lane, _) = item;
    match lane.key.origin {
        Some(origin) => context.directory.webhook(lane.key.tenant, WebhookId(origin)).await,
        None => Ok(None),
    }
}

async fn send(
    context: &Arc<Context>,
    item: &Pushed,
    webhook: &Arc<Webhook>,
    said: Option<Payload>,
) -> Result<Finished> {
    let (claimed, ..) = item;
    let Some(event) = claimed.event else {
        return Ok(Finished::failed("it has no event", false));
    };
    let said = match said {
        Some(said) => said,
        None => match context.store.contents(vec![event]).await?.pop() {
            Some((_, record)) => Payload::kept(record),
            None => return Ok(Finished::failed("the event is not kept any more", false)),
        },
    };
    let body = said.open(context, claimed.ticket.tenant, event).await?;
    let delivery = match deliveries::compose(context, claimed, webhook, event, body) {
        Ok(delivery) => delivery,
        Err(error) => return Ok(Finished::failed(error, false)),
    };
    failpoint::pass_async("delivery.before_send").await?;
    let now = context.now();
    let addresses = &context.config.addresses;
    let tried = deliver(context.client.as_ref(), addresses, now, &delivery).await;
    context.tally.note(webhook.tenant, now, |figures| {
        figures.delivery.observe(tried.timings.total);
    });
    context.metrics.delivery_seconds.observe(tried.timings.total.as_secs_f64());
    let outcome = Outcome { outcome: outcome(&tried) };
    context.metrics.delivery_attempts.get_or_create(&outcome).inc();
    failpoint::pass_async("delivery.after_send").await?;
    judge(context, item, webhook, tried).await
}

/// The class of the answer, or of the failure.
fn outcome(tried: &Tried) -> &'static str {
    let status = tried.answer.as_ref().map(|answer| answer.status.as_u16() / 100);
    match (tried.class, status) {
        (Some(class), _) => class.as_str(),
        (None, Some(1)) => "1xx",
        (None, Some(2)) => "2xx",
        (None, Some(3)) => "3xx",
        (None, Some(4)) => "4xx",
        (None, Some(5)) => "5xx",
        (None, _) => "unknown",
    }
}

/// Tells the circuit of a run, and answers whether it was a probe. What it cannot be told changes nothing about the
/// delivery: a receiver that took it must not get it again for that.
async fn note(context: &Arc<Context>, webhook: &Webhook, started_at: Timestamp, ok: bool) -> bool {
    match webhooks::note(context, webhook, started_at, ok).await {
        Ok(noted) => noted.was_probe,
        Err(error) => {
            tracing::warn!(%error, webhook_id = %webhook.id, "a circuit was not told of a run");
            false
        }
    }
}

/// What follows: for the delivery, and for its webhook.
async fn judge(
    context: &Arc<Context>,
    item: &Pushed,
    webhook: &Arc<Webhook>,
    tried: Tried,
) -> Result<Finished> {
    let started_at = item.0.ticket.started_at;
    let mut was_probe = false;
    let (ending, error) = match &tried.delivered {
        Delivered::Taken { .. } => {
            note(context, webhook, started_at, true).await;
            (Ending::Succeeded, None)
        }
        Delivered::Failed { error, retryable: true, retry_after, .. } => {
            was_probe = note(context, webhook, started_at, false).await;
            let ending = match was_probe {
                true => Ending::ProbeFailed,
                false => Ending::Failed { retryable: true, retry_after: *retry_after },
            };
            (ending, Some(error.clone()))
        }
        Delivered::Failed { error, gone, .. } => {
            if *gone {
                let reason = "the receiver answered 410 Gone";
                let gone = webhooks::disable(context, webhook.tenant, webhook.id, reason, None);
                if let Err(error) = gone.await {
                    tracing::warn!(%error, webhook_id = %webhook.id, "a webhook that is gone was not disabled");
                }
            }
            (Ending::Failed { retryable: false, retry_after: None }, Some(error.clone()))
        }
    };
    Ok(Finished::Delivered { ending, error, detail: deliveries::detail(&tried, was_probe) })
}
