//! Webhooks that are due: a rest that is over, a receiver that was away for too long, a secret that is too old, and
//! owners who have to hear of something. Safe on every node at once: each step is a change on a version, or is told under
//! a key of its own.

use std::sync::Arc;
use std::time::Duration;

use wakepost_domain::webhook::{NoticeKind, SECRET_AGE_MAX, Webhook};
use wakepost_domain::work::State;
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::publishing;
use crate::webhooks;

/// How often it looks.
pub const PERIOD: Duration = Duration::from_secs(1);
/// How many it deals with at a time.
const BATCH: u32 = 100;

/// One look.
pub async fn tick(context: Arc<Context>) {
    let due = match context.store.due_webhooks(BATCH).await {
        Ok(due) => due,
        Err(error) => {
            tracing::debug!(%error, "webhooks could not be looked at; it will be tried again");
            return;
        }
    };
    for record in due {
        let id = record.id;
        // One that cannot be dealt with must not keep the others from it.
        if let Err(error) = one(&context, record).await {
            tracing::warn!(%error, webhook_id = %id, "a webhook could not be looked after; it will be tried again");
        }
    }
}

async fn one(context: &Arc<Context>, record: wakepost_store::moves::WebhookRecord) -> Result<()> {
    let seen = context.directory.open_webhook(record).await?;
    if !seen.notices.is_empty() {
        return tell(context, &seen).await;
    }
    let mut given_up = false;
    let changed =
        webhooks::change::<StoreError>(context, seen.tenant, seen.id, None, |webhook, now| {
            given_up = false;
            let settings = webhook.config.circuit;
            webhook.circuit.half_open(now);
            if webhook.circuit.disable_at(&settings).is_some_and(|end| now >= end)
                && webhook.config.disabled.is_none()
            {
                given_up = true;
                webhook.disable(now, "its receiver failed for too long");
            }
            if !webhook.config.secret_told
                && now >= webhook.config.secret_made_at.after(SECRET_AGE_MAX)
            {
                webhook.config.secret_told = true;
                let days = SECRET_AGE_MAX.as_secs() / 86_400;
                let reason = format!("its secret is older than {days} days: rotate it");
                webhook.notify(NoticeKind::SecretExpiring, now, &reason);
            }
            Ok(())
        });
    let webhook = match changed.await {
        Ok(webhook) => webhook,
        // Somebody deleted it.
        Err(StoreError::NotFound) => return Ok(()),
        Err(error) => return Err(error),
    };
    if given_up {
        let reason = "the webhook is disabled";
        webhooks::end_waiting(context, webhook.lane, State::DeadLetter, reason).await?;
    }
    webhooks::wake(context, webhook.lane).await;
    Ok(())
}

/// Tells a webhook's owner what waits to be told. Told twice, by two nodes or after a crash, it is still one event.
async fn tell(context: &Arc<Context>, webhook: &Webhook) -> Result<()> {
    let tenant = context.directory.tenant(webhook.tenant).await?;
    if let Some(tenant) = tenant {
        for notice in &webhook.notices {
            let event_type = notice.kind.event_type();
            let key = format!("{event_type}:{}:{}", webhook.id, notice.at.as_millis());
            let data = webhooks::told(webhook, notice);
            publishing::tell(context, &tenant, event_type, key, &data).await?;
        }
    }
    let told = webhook.notices.clone();
    let change =
        webhooks::change::<StoreError>(context, webhook.tenant, webhook.id, None, |webhook, _| {
            webhook.notices.retain(|notice| !told.contains(notice));
            Ok(())
        });
    match change.await {
        Ok(_) | Err(StoreError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}
