//! A secret that the provider sends with its first request, while the source has none.

use wakepost_domain::{AuditId, Timestamp};
use wakepost_store::moves::{AuditEntry, SourceRecord};
use wakepost_store::vault::Slot;
use wakepost_store::{Result, StoreError};

use crate::context::Context;
use crate::directory::LiveSource;

/// Keeps it as the source's secret. Of two first requests one wins; the other finds the source changed.
pub async fn keep_secret(context: &Context, live: &LiveSource, secret: String) -> Result<()> {
    let source = &live.source;
    let mut secrets = source.secrets.clone();
    secrets.current = Some(secret.clone());
    secrets.unseen = Some(secret);
    let plain = serde_json::to_vec(&secrets).expect("secrets are plain data");
    let record = SourceRecord {
        id: source.id,
        tenant: source.tenant,
        provider: source.provider.clone(),
        config: source.config.clone(),
        secrets: live.key.seal(Slot::SourceSecrets(source.id), &plain),
        created_at: source.created_at,
        // Two changes within a millisecond must still differ.
        updated_at: context.now().max(Timestamp::from_millis(source.updated_at.as_millis() + 1)),
    };
    let audit = AuditEntry {
        id: AuditId(context.new_id()),
        tenant: Some(source.tenant),
        actor: format!("provider:{}", source.provider),
        action: "source.secret_received".to_owned(),
        target: source.id.to_string(),
        note: None,
    };
    let kept = context.store.update_source(record, source.updated_at, audit).await;
    context.directory.forget_source(source.id);
    context.hub.tell(&format!("s:{}", source.id));
    match kept {
        Ok(_) => Ok(()),
        Err(StoreError::InvalidState(_)) => Err(StoreError::Busy),
        Err(error) => Err(error),
    }
}
