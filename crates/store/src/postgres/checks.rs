//! What must hold of the rows.

use async_trait::async_trait;
use wakepost_domain::Ulid;
use wakepost_domain::tenant::Tenant;

use super::Postgres;
use super::rows::{get, time, uuid};
use crate::error::Result;
use crate::moves::{CHECKS, CheckScope, Checked, Checks, Dialect, Settings, statement};

const DIALECT: Dialect = Dialect {
    id: ["replace((", ")::text, '-', '')"],
    behind: ".behind",
    instr: "strpos(",
    floor: |at| format!("'{}'::uuid", uuid(Ulid::floor(at))),
};

/// How long one check may take.
const PATIENCE: &str = "SET LOCAL statement_timeout = '10min'; SET LOCAL lock_timeout = '5s'";

#[async_trait]
impl Checks for Postgres {
    async fn check(&self, scope: CheckScope) -> Result<Vec<Checked>> {
        let tenants = self.tenants().await?;
        let mut client = self.cool().await?;
        let mut checked = Vec::with_capacity(CHECKS.len());
        for check in CHECKS {
            let tx = client.build_transaction().read_only(true).start().await?;
            tx.batch_execute(PATIENCE).await?;
            let now = time(&tx.query_one("SELECT wakepost_now()", &[]).await?, 0)?;
            let own = |tenant: &Tenant| Some((tenant.id, tenant.settings.whole_since(now)?));
            let own: Vec<_> = tenants.iter().filter_map(own).collect();
            let rows = tx.query(&statement(&check, &scope, now, &own, &DIALECT), &[]).await?;
            let wrong = rows.iter().map(|row| get(row, 0)).collect::<Result<Vec<String>>>()?;
            checked.push(Checked { check, wrong });
        }
        Ok(checked)
    }
}
