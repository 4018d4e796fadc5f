//! What must hold of the rows.

use async_trait::async_trait;
use rusqlite::Connection;
use wakepost_domain::tenant::Tenant;
use wakepost_domain::{TenantId, Timestamp, Ulid};

use super::rows::{collect, unavailable};
use super::settings::tenants;
use super::{Beside, Sqlite};
use crate::error::Result;
use crate::moves::{CHECKS, CheckScope, Checked, Checks, Dialect, statement};

const DIALECT: Dialect = Dialect {
    id: ["lower(hex(", "))"],
    behind: ".behind = 1",
    instr: "instr(",
    floor: |at| {
        let hex: String =
            Ulid::floor(at).to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("x'{hex}'")
    },
};

#[async_trait]
impl Checks for Sqlite {
    async fn check(&self, scope: CheckScope) -> Result<Vec<Checked>> {
        self.readers.read(move |connection, now| check(connection, &scope, now)).await
    }
}

#[async_trait]
impl Checks for Beside {
    async fn check(&self, scope: CheckScope) -> Result<Vec<Checked>> {
        self.read(move |connection| {
            let now = connection
                .query_row("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)", [], |row| {
                    row.get(0)
                })
                .map_err(unavailable)?;
            check(connection, &scope, Timestamp::from_millis(now))
        })
        .await
    }
}

fn check(connection: &Connection, scope: &CheckScope, now: Timestamp) -> Result<Vec<Checked>> {
    let own = own(connection, now)?;
    CHECKS
        .into_iter()
        .map(|check| {
            let mut select = connection
                .prepare(&statement(&check, scope, now, &own, &DIALECT))
                .map_err(unavailable)?;
            let rows = select.query_map([], |row| row.get(0)).map_err(unavailable)?;
            Ok(Checked { check, wrong: collect(rows)? })
        })
        .collect()
}

fn own(connection: &Connection, now: Timestamp) -> Result<Vec<(TenantId, Timestamp)>> {
    let tenants = tenants(connection)?;
    let own = |tenant: Tenant| Some((tenant.id, tenant.settings.whole_since(now)?));
    Ok(tenants.into_iter().filter_map(own).collect())
}
