//! Registering a source at its provider, for the first time and again before it ends.

use std::time::Duration;

use serde_json::Value;
use wakepost_domain::{Timestamp, Ulid};
use wakepost_providers::{Registered, Registering, Registration};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::directory::LiveSource;
use crate::exchange::{self, Halt};

/// What a source's provider is told to send to.
pub fn webhook_url(context: &Context, live: &LiveSource) -> String {
    format!("{}{}", context.base_url, live.ingest_path())
}

/// Registers a source under this address; answers whether its provider has an API for it.
pub async fn register(
    context: &Context,
    live: &LiveSource,
    webhook_url: &str,
) -> std::result::Result<bool, Halt> {
    let position = position(context, live).await.map_err(failed)?;
    let at = Registration {
        webhook_url,
        secret: live.source.secrets.current.as_deref().unwrap_or_default(),
        settings: &live.settings,
    };
    let registering = Registering {
        at,
        before: live.registration.as_ref(),
        position: position.as_ref().map(|(position, _)| position),
        fresh_id: Ulid::random(context.entropy.as_ref()).to_string(),
        now: context.now(),
    };
    let Some(mut exchange) = live.provider.registering(registering) else {
        return Ok(false);
    };
    let registered = exchange::lead(context, live, exchange.as_mut()).await?;
    drop(exchange);
    let after = registered.after.clone();
    keep(context, live, registered).await.map_err(failed)?;
    if let Some(call) = after
        && let Err(halt) = exchange::send(context, live, call).await
    {
        tracing::info!(source_id = %live.source.id, %halt, "a registration that was replaced did not end at once");
    }
    Ok(true)
}

async fn keep(context: &Context, live: &LiveSource, registered: Registered) -> Result<()> {
    let (tenant, source) = (live.source.tenant, live.source.id);
    if let Some(position) = &registered.position {
        let sealed = live.key.seal(Slot::Position(source), position.to_string().as_bytes());
        // Somebody else may have set it up at the same time; what is there is then as good.
        context.store.move_position(tenant, source, sealed, 0).await?;
    }
    if let Some(registration) = &registered.registration {
        let now = context.now();
        let ends = registered.expires_at.map(|ends| (ends, renew_at(now, ends)));
        exchange::keep(context, live, registration, ends).await?;
    }
    Ok(())
}

/// After two thirds of its time: there is the last third to try again in.
fn renew_at(now: Timestamp, ends: Timestamp) -> Timestamp {
    now.after(ends.since(now) * 2 / 3).max(now.after(Duration::from_secs(1)))
}

/// How far the provider's changes were read, and how often that moved.
pub async fn position(context: &Context, live: &LiveSource) -> Result<Option<(Value, i64)>> {
    if !live.provider.keeps_registration() {
        return Ok(None);
    }
    let (tenant, source) = (live.source.tenant, live.source.id);
    let state = context.store.source_state(tenant, source).await?;
    let Some(sealed) = state.position else { return Ok(None) };
    let plain = live.key.open(Slot::Position(source), &sealed)?;
    let position = serde_json::from_slice(&plain)
        .map_err(|_| StoreError::Corrupt(format!("source {source}: its position is not JSON")))?;
    Ok(Some((position, state.version)))
}

fn failed(error: StoreError) -> Halt {
    Halt::Failed { error: error.to_string(), retryable: true, retry_after: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_third_of_the_time_left_to_renew_in() {
        let now = Timestamp::from_secs(1_700_000_000);
        let after = |seconds| now.after(Duration::from_secs(seconds));
        assert_eq!(renew_at(now, after(24 * 3600)), after(16 * 3600));
        assert_eq!(renew_at(now, now.before(Duration::from_secs(5))), after(1), "never at once");
    }
}
