//! `webhookctl tenants create`

use clap::Args;
use wakepost_client::NewTenant;

use super::keeping::Keeping;
use crate::output::{self, Cell, Fields, escape};
use crate::session::Session;

#[derive(Args)]
pub struct Create {
    /// A short name for URLs and flags
    slug: String,
    /// A name for people (the slug unless told otherwise)
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
    #[command(flatten)]
    keeping: Keeping,
}

impl Create {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let new = NewTenant {
            name: self.name.unwrap_or_else(|| self.slug.clone()),
            slug: self.slug,
            weight: self.weight,
            concurrency: self.concurrency,
            rate_per_s: self.rate_per_s,
            max_attempts: self.max_attempts,
            backoff_s: self.backoff_s,
            retention: self.keeping.retention(),
        };
        let call = session.client.create_tenant(&new);
        let Some(tenant) = session.answer(call).await? else {
            return Ok(());
        };
        let fields = Fields::default()
            .line("tenant", Cell::new(&tenant.slug))
            .line("name", Cell::new(&tenant.name));
        output::print(&fields.render(session.paint))?;
        output::hint(&format!(
            "next: webhookctl keys create NAME --role operator --tenant {}",
            escape(&tenant.slug)
        ));
        Ok(())
    }
}
