//! `webhookctl tenants update`

use std::collections::BTreeMap;

use clap::Args;
use wakepost_client::TenantChange;

use super::keeping::{FLAGS, Keeping, named};
use super::show::fields as shown;
use crate::commands::resetting::resets;
use crate::exit::Usage;
use crate::output;
use crate::session::Session;

/// What has a default to go back to, by the name of its flag.
const RESETTABLE: [&str; 14] = [
    "weight",
    "concurrency",
    "rate-per-s",
    "default-executor",
    "max-attempts",
    "backoff-s",
    "strict-types",
    "max-webhooks",
    "retry-s",
    FLAGS[0],
    FLAGS[1],
    FLAGS[2],
    FLAGS[3],
    FLAGS[4],
];

#[derive(Args)]
#[command(after_help = "What is not named stays as it is.")]
pub struct Update {
    /// The tenant's slug
    #[arg(value_name = "SLUG")]
    tenant_slug: String,
    /// A name for people
    #[arg(long)]
    name: Option<String>,
    /// Its share of the workers, against other tenants'
    #[arg(long)]
    weight: Option<u32>,
    /// How many of its jobs may run at once
    #[arg(long)]
    concurrency: Option<u32>,
    /// How many of its jobs may start each second
    #[arg(long)]
    rate_per_s: Option<f64>,
    /// How often its jobs are tried
    #[arg(long)]
    max_attempts: Option<u32>,
    /// How long a failed job waits, attempt by attempt (10,60,300)
    #[arg(long, value_delimiter = ',', value_name = "SECONDS")]
    backoff_s: Option<Vec<u64>>,
    /// Whether only events of registered types may be published
    #[arg(long, value_name = "BOOL")]
    strict_types: Option<bool>,
    /// How many webhooks it may have
    #[arg(long)]
    max_webhooks: Option<u32>,
    /// How long each try at a delivery waits, the first one included (0,10,60)
    #[arg(long, value_delimiter = ',', value_name = "SECONDS")]
    retry_s: Option<Vec<u64>>,
    #[command(flatten)]
    keeping: Keeping,
    /// Set this back to its default; may be repeated
    #[arg(long, value_name = "FLAG", value_parser = RESETTABLE)]
    reset: Vec<String>,
}

impl Update {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let kept = self.keeping.retention().unwrap_or_default();
        let mut retention: BTreeMap<_, _> =
            named(&kept).map(|(name, days)| (name.to_owned(), Some(days))).collect();
        let (kinds, fields): (Vec<_>, Vec<_>) =
            self.reset.into_iter().partition(|flag| FLAGS.contains(&flag.as_str()));
        for (name, _) in resets(&retention, &kinds, |flag| flag.replace('-', "_"))? {
            retention.insert(name, None);
        }
        let set = TenantChange {
            name: self.name,
            weight: self.weight,
            concurrency: self.concurrency,
            rate_per_s: self.rate_per_s,
            max_attempts: self.max_attempts,
            backoff_s: self.backoff_s,
            strict_types: self.strict_types,
            max_webhooks: self.max_webhooks,
            retry_s: self.retry_s,
            retention,
            ..TenantChange::default()
        };
        let reset = resets(&set, &fields, |flag| flag.replace('-', "_"))?;
        if set == TenantChange::default() && reset.is_empty() {
            return Err(Usage("say what to change".to_owned()).into());
        }
        let change = TenantChange { reset, ..set };
        let call = session.client.update_tenant(&self.tenant_slug, &change);
        if let Some(tenant) = session.answer(call).await? {
            output::print(&shown(session.now, &tenant).render(session.paint))?;
        }
        Ok(())
    }
}
