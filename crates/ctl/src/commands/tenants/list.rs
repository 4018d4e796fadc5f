//! `webhookctl tenants list`

use clap::Args;
use wakepost_client::{Tenant, TenantQuery};

use crate::commands::paging::Paging;
use crate::output::when::relative;
use crate::output::{Cell, Table};
use crate::session::Session;

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    paging: Paging,
}

impl List {
    pub async fn run(self, session: &Session) -> anyhow::Result<()> {
        let query = TenantQuery { limit: self.paging.limit, cursor: self.paging.cursor };
        let call = session.client.list_tenants(&query);
        session.list(call, "tenants", |tenants| table(session, tenants)).await
    }
}

fn table(session: &Session, tenants: &[Tenant]) -> Table {
    let mut table = Table::new(&["TENANT", "NAME", "WEIGHT", "CONCURRENCY", "CREATED"]);
    for tenant in tenants {
        let weight = tenant.weight.map(|weight| weight.to_string());
        let concurrency = tenant.concurrency.map(|cap| cap.to_string());
        let created = tenant.created_at.as_deref();
        let created = created.map(|at| relative(session.now, at));
        table.row([
            Cell::new(&tenant.slug),
            Cell::maybe(Some(&tenant.name)),
            Cell::maybe(weight.as_deref()),
            Cell::maybe(concurrency.as_deref()),
            Cell::maybe(created.as_deref()),
        ]);
    }
    table
}
