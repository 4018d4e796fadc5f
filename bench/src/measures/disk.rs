//! Bytes on disk per event whose job is finished.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Context;

use super::ACCEPTED;
use super::claim::drain;
use super::window::load;
use crate::bench::Bench;
use crate::figure::{Figure, Target, Unit};
use crate::load::closed::closed;
use crate::world::gateway::{Gateway, Kind};

/// The figures of the spec. They do not depend on how fast the machine is, so one round is enough.
pub async fn figures(bench: &Bench) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for kind in bench.databases() {
        let mut gateway = Gateway::start(bench, kind).await?;
        let before = match kind {
            Kind::Postgres => bytes(bench, &gateway).await?,
            // Next to nothing, and in use by the server.
            _ => 0,
        };
        let load = load(bench, gateway.events()?, ACCEPTED, 64);
        closed(load).await?;
        let events = gateway.numbers.load(Ordering::Relaxed);
        drain(&gateway, 100, usize::try_from(events)?).await?;
        gateway.child.stop().await?;
        let raw = each(before, bytes(bench, &gateway).await?, events);
        println!("disk of {kind}: {raw:.0} bytes for each of {events} events with a finished job");
        let name = "disk per event with its finished job";
        let target = (Target::Below(3000.0), Target::Below(2000.0));
        figures.push(Figure::new(name, kind, Unit::Bytes, vec![raw]).held_to(target.0, target.1));
        if let (Some(postgres), Some(name)) = (&bench.postgres, &gateway.database) {
            postgres.run(name, "VACUUM").await?;
            let vacuumed = each(before, bytes(bench, &gateway).await?, events);
            println!("disk of {kind}: {vacuumed:.0} bytes after a VACUUM");
            let name = "disk per event with its finished job, after VACUUM";
            figures.push(Figure::new(name, kind, Unit::Bytes, vec![vacuumed]));
        }
    }
    Ok(figures)
}

fn each(before: u64, after: u64, events: u64) -> f64 {
    after.saturating_sub(before) as f64 / events.max(1) as f64
}

async fn bytes(bench: &Bench, gateway: &Gateway) -> anyhow::Result<u64> {
    match (gateway.kind, &gateway.database) {
        (Kind::Postgres, Some(name)) => {
            let postgres = bench.postgres.as_ref().context("there is no PostgreSQL")?;
            postgres.bytes(name).await
        }
        _ => sqlite_bytes(&gateway.data_dir),
    }
}

/// The database with its log moved into it: the log is bounded and does not grow with the events.
fn sqlite_bytes(directory: &Path) -> anyhow::Result<u64> {
    let path = directory.join("wakepost.db");
    let database = rusqlite::Connection::open(&path)?;
    let busy: i64 = database.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    anyhow::ensure!(busy == 0, "the log could not be moved: someone still has the database open");
    Ok(fs::metadata(path)?.len())
}
