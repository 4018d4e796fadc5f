//! Fills the database of a stopped gateway with rows as the product would have left them, without bodies: far
//! faster than through the product. Whoever changes what `create_work`, `accept` or `settle` write looks here
//! too.
//!
//! Ids are the product's: 48 bits of milliseconds first. What follows is not chance but a count of the calls,
//! the lane and a number within it.

mod postgres;
mod sqlite;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use aws_lc_rs::digest;
use wakepost_domain::TenantId;
use wakepost_domain::lane::LaneKey;
use wakepost_domain::work::{Priority, WorkKind};

use crate::bench::Bench;
use crate::world::gateway::Gateway;

/// What a row of each sort takes at most, with its indexes and with what is written beside it.
const WAITING_BYTES: u64 = 300;
const FINISHED_BYTES: u64 = 450;
const EVENT_BYTES: u64 = 900;
const DELIVERY_BYTES: u64 = 1000;
/// The log of a database server, and room to sort.
const LOG_BYTES: u64 = 6 << 30;

/// How many rows of each sort.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rows {
    pub waiting: usize,
    pub finished: usize,
    pub events: usize,
    pub deliveries: usize,
}

/// Tenants with numbers from `first` on.
#[derive(Debug, Clone, Copy)]
pub struct Tenants {
    pub first: i32,
    pub count: usize,
}

impl Tenants {
    /// The one that is always there.
    pub const DEFAULT: Tenants = Tenants { first: TenantId::DEFAULT.0, count: 1 };

    fn last(self) -> i32 {
        self.first + i32::try_from(self.count).unwrap_or(i32::MAX) - 1
    }
}

/// What a seeded tenant is called.
pub fn slug(tenant: i32) -> String {
    format!("grown-{tenant}")
}

/// The database that rows go into.
pub struct Seed {
    database: Database,
    /// Now, in Unix milliseconds.
    now: i64,
    calls: i32,
}

enum Database {
    Sqlite(rusqlite::Connection),
    Postgres(tokio_postgres::Client),
}

impl Seed {
    /// Opens the database of a gateway that was stopped.
    pub async fn open(gateway: &Gateway) -> anyhow::Result<Seed> {
        let database = match &gateway.url {
            Some(url) => Database::Postgres(postgres::open(url).await?),
            None => Database::Sqlite(sqlite::open(&gateway.data_dir)?),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        Ok(Seed { database, now: i64::try_from(now)?, calls: 0 })
    }

    /// Makes tenants.
    pub async fn tenants(&mut self, tenants: Tenants) -> anyhow::Result<()> {
        match &mut self.database {
            Database::Sqlite(database) => sqlite::tenants(database, tenants, self.now),
            Database::Postgres(database) => postgres::tenants(database, tenants, self.now).await,
        }
    }

    /// Makes a lane for the jobs of each of some tenants.
    pub async fn lanes(&mut self, tenants: Tenants) -> anyhow::Result<()> {
        let lanes: Vec<([u8; 16], i32)> =
            (tenants.first..=tenants.last()).map(|tenant| (lane_hash(tenant), tenant)).collect();
        match &mut self.database {
            Database::Sqlite(database) => sqlite::lanes(database, &lanes),
            Database::Postgres(database) => postgres::lanes(database, &lanes).await,
        }
    }

    /// Makes `each` jobs that wait in each lane of some tenants.
    pub async fn waiting(&mut self, tenants: Tenants, each: usize) -> anyhow::Result<()> {
        let make = self.next_call(tenants, each, WorkKind::Job);
        match &mut self.database {
            Database::Sqlite(database) => sqlite::waiting(database, &make),
            Database::Postgres(database) => postgres::waiting(database, &make).await,
        }
    }

    /// Makes `each` jobs that succeeded in each lane of some tenants.
    pub async fn finished(&mut self, tenants: Tenants, each: usize) -> anyhow::Result<()> {
        let make = self.next_call(tenants, each, WorkKind::Job);
        match &mut self.database {
            Database::Sqlite(database) => sqlite::finished(database, &make),
            Database::Postgres(database) => postgres::finished(database, &make).await,
        }
    }

    /// Makes `each` events in each lane of some tenants, whose jobs succeeded.
    pub async fn events(&mut self, tenants: Tenants, each: usize) -> anyhow::Result<()> {
        let make = self.next_call(tenants, each, WorkKind::Job);
        match &mut self.database {
            Database::Sqlite(database) => sqlite::events(database, &make),
            Database::Postgres(database) => postgres::events(database, &make).await,
        }
    }

    /// Makes `each` published events for each webhook of some tenants, which took them.
    pub async fn deliveries(&mut self, tenants: Tenants, each: usize) -> anyhow::Result<()> {
        let make = self.next_call(tenants, each, WorkKind::Delivery);
        match &mut self.database {
            Database::Sqlite(database) => sqlite::deliveries(database, &make),
            Database::Postgres(database) => postgres::deliveries(database, &make).await,
        }
    }

    /// Leaves the database as one that has been running for long.
    pub async fn close(self) -> anyhow::Result<()> {
        match self.database {
            Database::Sqlite(database) => sqlite::close(database),
            Database::Postgres(database) => postgres::close(&database).await,
        }
    }

    fn next_call(&mut self, tenants: Tenants, each: usize, kind: WorkKind) -> Make {
        self.calls += 1;
        Make { tenants, each, kind, now: self.now, call: self.calls }
    }
}

/// Rows to make.
#[derive(Debug, Clone, Copy)]
struct Make {
    tenants: Tenants,
    each: usize,
    /// Of which lanes.
    kind: WorkKind,
    now: i64,
    call: i32,
}

/// What the store finds the lane by: that of jobs made through the API, with the name the bench gives them.
fn lane_hash(tenant: i32) -> [u8; 16] {
    let key = LaneKey {
        tenant: TenantId(tenant),
        kind: WorkKind::Job,
        priority: Priority::Webhook,
        origin: None,
        name: LANE_NAME.to_owned(),
        executor: None,
    };
    let digest = digest::digest(&digest::SHA256, key.text().as_bytes());
    let mut hash = [0; 16];
    hash.copy_from_slice(&digest.as_ref()[..16]);
    hash
}

/// The kind of the bench's jobs.
const LANE_NAME: &str = "bench";

/// Checks that there is room for rows in the database of a gateway, before any is written.
pub async fn room(bench: &Bench, gateway: &Gateway, rows: Rows) -> anyhow::Result<()> {
    let each = [
        (rows.waiting, WAITING_BYTES),
        (rows.finished, FINISHED_BYTES),
        (rows.events, EVENT_BYTES),
        (rows.deliveries, DELIVERY_BYTES),
    ];
    let mut needed: u64 = each.iter().map(|(count, bytes)| *count as u64 * bytes).sum();
    let directory = match (&bench.postgres, &gateway.database) {
        (Some(postgres), Some(_)) => {
            needed += LOG_BYTES;
            match postgres.directory().await? {
                Some(directory) => directory,
                // On another machine, which we cannot look at.
                None => return Ok(()),
            }
        }
        _ => gateway.data_dir.clone(),
    };
    let free = free_bytes(&directory)?;
    anyhow::ensure!(
        free >= needed,
        "{:.1} GB must be free in {} to seed {}, and {:.1} GB are",
        needed as f64 / 1e9,
        directory.display(),
        gateway.kind,
        free as f64 / 1e9
    );
    Ok(())
}

fn free_bytes(directory: &Path) -> anyhow::Result<u64> {
    let stat = rustix::fs::statvfs(directory)
        .with_context(|| format!("how much room there is in {}", directory.display()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}
