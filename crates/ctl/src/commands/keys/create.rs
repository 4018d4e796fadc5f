//! `webhookctl keys create`

use clap::Args;
use wakepost_client::NewKey;

use super::reach;
use crate::output::when::{When, absolute};
use crate::output::{self, Cell, Fields, Tone};
use crate::session::Session;

#[derive(Args)]
pub struct Create {
    /// A name for people
    name: String,
    /// What it may do
    #[arg(long, value_parser = ["viewer", "publisher", "worker", "operator", "admin"])]
    role: String,
    /// For all tenants; so is one that a key of all tenants makes without --tenant
    #[arg(long, conflicts_with = "tenant")]
    all_tenants: bool,
    /// When it stops working: in 30m, 2h, 7d, or a date or time
    #[arg(long, value_name = "WHEN")]
    expires: Option<When>,
    /// How many calls it may make in a second, on each node
    #[arg(long, value_name = "N")]
    rate_per_s: Option<f64>,
}

impl Create {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let new = NewKey {
            name: self.name,
            role: self.role,
            tenant: match self.all_tenants {
                true => Some("*".to_owned()),
                // Named twice, in the query and here: without this an all-tenant caller gets an
                // all-tenant key.
                false => session.tenant.clone(),
            },
            expires_at: self.expires.map(|when| when.ahead(session.now)),
            rate_per_s: self.rate_per_s,
        };
        let call = session.client.create_key(&new);
        let Some(key) = session.answer(call).await? else {
            return Ok(());
        };
        let expires = key.expires_at.as_deref();
        let expires = expires.map(|at| Cell::new(&absolute(session.now, at)));
        let fields = Fields::default()
            .line("id", Cell::new(&key.id))
            .line("name", Cell::new(&key.name))
            .line("role", Cell::new(&key.role))
            .line("tenant", Cell::new(reach(key.tenant.as_deref())))
            .line_if("expires", expires)
            .line_if("rate", key.rate_per_s.map(|rate| Cell::new(&format!("{rate} per s"))))
            .line_if("key", key.key.as_deref().map(|k| Cell::toned(Tone::Bold, k)));
        output::print(&fields.render(session.paint))?;
        output::hint("the key is shown once: keep it now");
        Ok(())
    }
}
