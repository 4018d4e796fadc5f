//! Sending a callback: what it says is kept before the first byte leaves, so that every try says the same.

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Value, json};
use wakepost_domain::lease::Ticket;
use wakepost_store::moves::WorkRow;
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use super::Finished;
use super::answer::Said;
use super::lease::{self, Stop};
use crate::callbacks::{self, Kept};
use crate::chains;
use crate::context::Context;
use crate::outbound::{Delivered, Delivery, TIMEOUT, deliver};
use crate::queue::Pushed;

/// Sends one callback.
pub async fn run(context: &Context, item: &Pushed) -> Finished {
    let stopped = tokio::select! {
        // A node that was frozen must hear first that its lease is over.
        biased;
        stopped = lease::keep(context, item, item.2.run_timeout) => stopped,
        finished = send(context, item) => return finished.unwrap_or_else(unstored),
    };
    match stopped {
        Stop::Lost => Finished::Lost,
        Stop::Cancelled => Finished::Cancelled,
        Stop::TimedOut => Finished::failed("the callback took too long", true),
        // Whether the receiver got it is not known. The next try has the same id.
        Stop::NodeStops => Finished::HandBack,
    }
}

fn unstored(error: StoreError) -> Finished {
    match error {
        StoreError::LeaseLost => Finished::Lost,
        error => Finished::failed(error.to_string(), true),
    }
}

async fn send(context: &Context, item: &Pushed) -> Result<Finished> {
    let (claimed, lane, _) = item;
    let ticket = claimed.ticket;
    let Some(row) = context.store.work(ticket.tenant, ticket.work).await? else {
        return Ok(Finished::Lost);
    };
    let Some(kept) = said(context, &ticket, &row).await? else {
        return Ok(Finished::failed("its job is not kept any more", false));
    };
    let Some(to) = callbacks::destination(context, lane, &kept).await? else {
        return Ok(Finished::failed("its source has no callback_url any more", false));
    };
    let delivery = Delivery {
        url: to.url,
        trusted: to.trusted,
        id: kept.webhook_id,
        secrets: to.secret.into_iter().collect(),
        traceparent: traceparent(&ticket, &kept.payload),
        headers: HeaderMap::new(),
        authorization: None,
        identity: None,
        timeout: TIMEOUT,
        body: Bytes::from(kept.payload.get().to_owned()),
    };
    let addresses = &context.config.addresses;
    let sent = deliver(context.client.as_ref(), addresses, context.now(), &delivery).await;
    Ok(match sent.delivered {
        Delivered::Taken { status, body } => {
            let answer = json!({"status_code": status.as_u16(), "body": body});
            Finished::Done(Said { result: Some(answer.to_string()), ..Said::default() })
        }
        Delivered::Failed { error, retryable, retry_after, .. } => {
            Finished::Failed { error, retryable, retry_after }
        }
    })
}

/// What it says: what it said before, or what it has to say, kept from now on.
async fn said(context: &Context, ticket: &Ticket, row: &WorkRow) -> Result<Option<Kept>> {
    if let Some(kept) = callbacks::kept(context, row).await? {
        return Ok(Some(kept));
    }
    let Some(kept) = callbacks::compose(context, row).await? else {
        return Ok(None);
    };
    let plain = serde_json::to_vec(&kept).expect("a callback is plain data");
    let sealed = context.vault.key(row.tenant).await?.seal(Slot::Checkpoint(row.id), &plain);
    context.store.checkpoint(*ticket, sealed).await?;
    Ok(Some(kept))
}

/// The job's trace goes on: the span is this try.
fn traceparent(ticket: &Ticket, payload: &serde_json::value::RawValue) -> String {
    let payload: Value = serde_json::from_str(payload.get()).unwrap_or_default();
    let trace = payload["data"]["trace_id"].as_str().unwrap_or_default();
    let span = chains::span_of(&ticket.run_id().to_bytes());
    format!("00-{trace}-{}-01", hex::encode(span))
}
