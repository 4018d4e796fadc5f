//! `webhookctl tenants show`

use clap::Args;
use jiff::Timestamp;
use wakepost_client::Tenant;

use super::keeping::named;
use crate::output::when::absolute;
use crate::output::{self, Cell, Fields};
use crate::session::Session;

#[derive(Args)]
pub struct Show {
    /// The tenant's slug
    #[arg(value_name = "SLUG")]
    tenant_slug: String,
}

impl Show {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let call = session.client.get_tenant(&self.tenant_slug);
        if let Some(tenant) = session.answer(call).await? {
            output::print(&fields(session.now, &tenant).render(session.paint))?;
        }
        Ok(())
    }
}

/// All there is to say of a tenant.
pub fn fields(now: Timestamp, tenant: &Tenant) -> Fields {
    let created = tenant.created_at.as_deref().map(|at| Cell::new(&absolute(now, at)));
    let seconds = |list: &Option<Vec<u64>>| {
        let list = list.as_ref()?;
        let words: Vec<String> = list.iter().map(u64::to_string).collect();
        Some(format!("{} s", words.join(", ")))
    };
    let executor = tenant.default_executor.as_ref().filter(|executor| !executor.is_null());
    let kept = tenant.retention.as_ref().map(|kept| {
        let days = named(kept).map(|(name, days)| {
            format!("{} {days} d", name.trim_end_matches("_days").replace('_', " "))
        });
        days.collect::<Vec<_>>().join(", ")
    });
    Fields::default()
        .line("tenant", Cell::new(&tenant.slug))
        .line("name", Cell::maybe(Some(&tenant.name)))
        .line("weight", Cell::number(tenant.weight))
        .line("concurrency", Cell::number(tenant.concurrency))
        .line("rate per s", Cell::number(tenant.rate_per_s))
        .line_if("executor", executor.map(|executor| Cell::new(&executor.to_string())))
        .line("max attempts", Cell::number(tenant.max_attempts))
        .line("backoff", Cell::maybe(seconds(&tenant.backoff_s).as_deref()))
        .line("retries", Cell::maybe(seconds(&tenant.retry_s).as_deref()))
        .line("strict types", Cell::number(tenant.strict_types))
        .line("max webhooks", Cell::number(tenant.max_webhooks))
        .line_if("keeps", kept.map(|kept| Cell::new(&kept)))
        .line_if("created", created)
}
