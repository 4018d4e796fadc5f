//! What a gateway's database holds, counted from outside while the gateway runs.

use anyhow::Context;
use rusqlite::{Connection, OpenFlags};

use super::gateway::Gateway;
use crate::bench::Bench;

/// Where anything may grow that is not an event with its body, its keys, its job and the job's lane.
const OTHERS: [&str; 7] =
    ["work_done", "attempts", "job_state", "effects", "progress", "idempotency", "audit"];

/// What a database holds.
#[derive(Debug, Clone, Copy)]
pub struct Contents {
    /// Events.
    pub events: u64,
    /// Receipts.
    pub receipts: u64,
    /// Rows that neither events nor receipts explain.
    pub others: u64,
    /// How large it is.
    pub bytes: u64,
}

impl Contents {
    /// As of now.
    pub async fn of(bench: &Bench, gateway: &Gateway) -> anyhow::Result<Contents> {
        let rows = |table: &str| format!("SELECT count(*) FROM {table}");
        let mut others = 0;
        for table in OTHERS {
            others += number(bench, gateway, &rows(table)).await?;
        }
        let bytes = match &gateway.database {
            // With what is in the log only.
            None => {
                number(bench, gateway, "PRAGMA page_count").await?
                    * number(bench, gateway, "PRAGMA page_size").await?
            }
            Some(_) => {
                number(bench, gateway, "SELECT pg_database_size(current_database())").await?
            }
        };
        Ok(Contents {
            events: number(bench, gateway, &rows("events")).await?,
            receipts: number(bench, gateway, &rows("receipts")).await?,
            others,
            bytes,
        })
    }
}

/// The one number that a query answers.
async fn number(bench: &Bench, gateway: &Gateway, query: &str) -> anyhow::Result<u64> {
    let number: i64 = match &gateway.database {
        None => {
            let path = gateway.data_dir.join("wakepost.db");
            let database = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
            database.query_row(query, [], |row| row.get(0))?
        }
        Some(name) => {
            let postgres = bench.postgres.as_ref().context("there is no PostgreSQL")?;
            postgres.number(name, query).await?
        }
    };
    Ok(u64::try_from(number)?)
}
