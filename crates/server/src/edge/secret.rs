//! A secret that the provider sends with its first request, while the source has none.

use std::sync::Arc;

use wakepost_domain::AuditId;
use wakepost_store::moves::AuditEntry;
use wakepost_store::{Result, Store, StoreError};

use crate::context::Context;
use crate::directory::{LiveSource, sealed_record};
use crate::hub::Setting;

/// Keeps it as the source's secret. Of two first requests one wins; the other finds the source changed.
pub async fn keep_secret(context: &Context, live: &LiveSource, secret: String) -> Result<()> {
    let mut source = live.source.clone();
    let seen = source.updated_at;
    source.updated_at = source.changed_at(context.now());
    source.take_secret(secret.clone(), source.updated_at);
    source.secrets.unseen = Some(secret);
    let record = sealed_record(&source, &live.key);
    let audit = AuditEntry {
        id: AuditId(context.new_id()),
        tenant: Some(source.tenant),
        actor: format!("provider:{}", source.provider),
        action: "source.secret_received".to_owned(),
        target: source.id.to_string(),
        note: None,
    };
    let update =
        |store: Arc<dyn Store>| async move { store.update_source(record, seen, audit).await };
    match context.change(Setting::Source(source.id), update).await {
        Ok(_) => Ok(()),
        Err(StoreError::InvalidState(_)) => Err(StoreError::Busy),
        Err(error) => Err(error),
    }
}
