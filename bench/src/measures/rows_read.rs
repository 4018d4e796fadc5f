//! Rows that PostgreSQL reads for each job: what a claim costs, whatever the machine does meanwhile.

use tokio_postgres::Client;

use super::claim::{WORKERS, work_off, workers};
use crate::bench::Bench;
use crate::world::gateway::Gateway;
use crate::world::postgres::connect;

const BATCH: usize = 100;
const JOBS: usize = 10_000;

/// Rows of tables and entries of indexes that were read, by all who are gone.
const READ: &str = "
SELECT (SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables)::bigint
     + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint";

/// How many jobs [`each`] takes at most.
pub fn jobs(warm_up: usize) -> usize {
    2 * (warm_up + WORKERS * BATCH) + JOBS
}

/// Rows read for each job. The server must have been stopped, and is stopped afterwards. It runs twice, once
/// for fewer jobs: what it reads at its start and for its first jobs falls out. Each time vacuum has been there before:
/// what it has not removed yet would be read by one of them alone.
pub async fn each(bench: &Bench, gateway: &mut Gateway, warm_up: usize) -> anyhow::Result<f64> {
    let (few, read_for_few) = read_for(bench, gateway, warm_up).await?;
    let (many, read_for_many) = read_for(bench, gateway, warm_up + JOBS).await?;
    let (jobs, rows) = (many.saturating_sub(few), read_for_many - read_for_few);
    println!("{rows} rows were read for {jobs} jobs, {read_for_few} for the {few} before them");
    Ok(rows as f64 / jobs.max(1) as f64)
}

async fn read_for(
    bench: &Bench,
    gateway: &mut Gateway,
    jobs: usize,
) -> anyhow::Result<(usize, i64)> {
    database(gateway).await?.batch_execute("VACUUM work").await?;
    let before = read_so_far(gateway).await?;
    gateway.start_again(bench).await?;
    let (done, _) = work_off(workers(gateway, BATCH).await?, jobs).await?;
    // Connections tell what they read at the latest when they end.
    gateway.child.stop().await?;
    Ok((done, read_so_far(gateway).await? - before))
}

async fn read_so_far(gateway: &Gateway) -> anyhow::Result<i64> {
    Ok(database(gateway).await?.query_one(READ, &[]).await?.try_get(0)?)
}

async fn database(gateway: &Gateway) -> anyhow::Result<Client> {
    let url = gateway.url.as_deref().unwrap_or_default();
    connect(&url.parse()?).await
}
