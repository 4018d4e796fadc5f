//! Partitions: a week of events, bodies, finished work and runs each, by the time in the id.
//!
//! Differs from SQLite, which deletes old rows: here retention drops whole weeks.

use std::time::Duration;

use deadpool_postgres::{Client, Transaction};
use tokio_postgres::error::SqlState;
use wakepost_domain::{Timestamp, Ulid};

use super::Postgres;
use super::migrate::lock_schema;
use super::rows::{get, uuid};
use crate::error::{Result, StoreError};

/// What is partitioned, and by which column.
pub const TABLES: [(&str, &str); 4] =
    [("events", "id"), ("bodies", "id"), ("work_done", "id"), ("attempts", "work_id")];

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many weeks are ready beforehand: a node may be without an operator for a while.
const WEEKS_AHEAD: u32 = 4;
/// 1970 began on a Thursday.
const FIRST_MONDAY: i64 = 4 * 24 * 3600 * 1000;

/// One week of one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The table it is a part of.
    pub table: &'static str,
    /// Its own name.
    pub name: String,
    /// The first id it holds.
    pub from: Ulid,
    /// The first id it does not.
    pub to: Ulid,
}

impl Partition {
    fn of_week(table: &'static str, start: Timestamp) -> Partition {
        let day: String = start.to_string().chars().take(10).filter(|c| *c != '-').collect();
        Partition {
            table,
            name: format!("{table}_w{day}"),
            from: Ulid::floor(start),
            to: Ulid::floor(start.after(WEEK)),
        }
    }

    /// The week that a partition's name speaks of.
    fn parse(table: &'static str, name: &str) -> Option<Partition> {
        let day = name.strip_prefix(table)?.strip_prefix("_w").filter(|day| day.len() == 8)?;
        let text = format!("{}-{}-{}T00:00:00Z", day.get(..4)?, day.get(4..6)?, day.get(6..)?);
        Some(Partition::of_week(table, text.parse().ok()?))
    }
}

/// The Monday, at midnight UTC, of the week of a moment.
fn week_start(at: Timestamp) -> Timestamp {
    let week = WEEK.as_millis() as i64;
    let since = (at.as_millis() - FIRST_MONDAY).div_euclid(week);
    Timestamp::from_millis(FIRST_MONDAY + since * week)
}

impl Postgres {
    /// Makes this week's partitions and those of the next few weeks, where they are missing. Many nodes
    /// may do so at once. Without it, rows go to a default partition and retention deletes them one by
    /// one.
    pub async fn ensure_partitions(&self, now: Timestamp) -> Result<()> {
        let mut client = self.cool().await?;
        for (table, key) in TABLES {
            let present = names(&client, table).await?;
            for week in 0..=WEEKS_AHEAD {
                let partition = Partition::of_week(table, week_start(now).after(WEEK * week));
                if !present.contains(&partition.name) {
                    make(&mut client, &partition, key).await?;
                }
            }
        }
        Ok(())
    }
}

async fn names(client: &Client, table: &str) -> Result<Vec<String>> {
    let rows = client
        .query(
            "SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
             WHERE i.inhparent = to_regclass($1::text) ORDER BY 1",
            &[&table],
        )
        .await?;
    rows.iter().map(|row| get(row, 0)).collect()
}

/// The weeks of a table that are wholly before an id, oldest first.
pub async fn older_than(client: &Client, table: &'static str, id: Ulid) -> Result<Vec<Partition>> {
    let names = names(client, table).await?;
    let weeks = names.iter().filter_map(|name| Partition::parse(table, name));
    Ok(weeks.filter(|week| week.to <= id).collect())
}

async fn make(client: &mut Client, partition: &Partition, key: &str) -> Result<()> {
    let tx = client.transaction().await?;
    lock_schema(&tx).await?;
    // The wait for other nodes is over; waiting for the table itself would make everyone else queue up
    // behind us.
    tx.batch_execute("SET LOCAL lock_timeout = '500ms'").await?;
    if exists(&tx, &partition.name).await? {
        return Ok(());
    }
    if default_has_rows(&tx, partition, key).await? {
        tracing::warn!(
            partition = partition.name,
            "the default partition has rows of this week already, which therefore stays in it"
        );
        return Ok(());
    }
    // Made beside the table and then attached, which holds up no reader or writer of other weeks.
    // Indexes and storage (bodies do not compress) come with it.
    let Partition { table, name, from, to } = partition;
    let (from, to) = (uuid(*from), uuid(*to));
    // Room on each page to count repeats in place: an event that is sent again and again would otherwise
    // leave a dead version and an index entry each time.
    let room = if *table == "events" { "WITH (fillfactor = 90)" } else { "" };
    let made = tx
        .batch_execute(&format!(
            "CREATE TABLE {name} (LIKE {table} INCLUDING ALL) {room};
             ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{to}');"
        ))
        .await;
    match made {
        Ok(()) => Ok(tx.commit().await?),
        // A row of that week came into the default partition between the look and the lock.
        Err(error) if error.code() == Some(&SqlState::CHECK_VIOLATION) => {
            tracing::warn!(partition = name, "the default partition has rows of this week already");
            Ok(())
        }
        // A dump or a report reads the table. There is time: weeks are made long before they begin.
        Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
            tracing::warn!(
                partition = name,
                "the table is in use; the partition is made another time"
            );
            Ok(())
        }
        Err(error) => Err(StoreError::from(error)),
    }
}

async fn exists(tx: &Transaction<'_>, name: &str) -> Result<bool> {
    get(&tx.query_one("SELECT to_regclass($1::text) IS NOT NULL", &[&name]).await?, 0)
}

async fn default_has_rows(tx: &Transaction<'_>, partition: &Partition, key: &str) -> Result<bool> {
    let table = partition.table;
    let sql = format!(
        "SELECT EXISTS (SELECT 1 FROM {table}_rest WHERE {key} >= $1::uuid AND {key} < $2::uuid)"
    );
    get(&tx.query_one(&sql, &[&uuid(partition.from), &uuid(partition.to)]).await?, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_begin_on_monday_and_follow_each_other() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let monday = at("2026-11-09T00:00:00Z");
        assert_eq!(week_start(at("2026-11-15T23:59:59.999Z")), monday);
        assert_eq!(week_start(monday), monday);
        let (this, next) = (
            Partition::of_week("events", monday),
            Partition::of_week("events", monday.after(WEEK)),
        );
        assert_eq!(this.name, "events_w20261109");
        assert_eq!(this.to, next.from);
    }

    #[test]
    fn a_partition_is_known_by_its_name() {
        let week = Partition::of_week("work_done", Timestamp::from_millis(FIRST_MONDAY));
        assert_eq!(Partition::parse("work_done", &week.name), Some(week));
        assert_eq!(Partition::parse("work_done", "work_done_rest"), None);
        assert_eq!(Partition::parse("events", "events_wéé"), None);
    }
}
