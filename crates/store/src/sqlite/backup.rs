//! A copy of the database at one moment, while a server writes on.

use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};

use super::rows::unavailable;
use super::{Beside, migrate};
use crate::error::{Result, StoreError};
use crate::moves::{AuditEntry, COUNTED, Counted};
use crate::vault::LEASES;

/// How many pages are copied between two reports.
const STEP_PAGES: i32 = 2048;

impl Beside {
    /// Copies the database into a file that is not there yet, as it is at one moment. `progress` hears how many of how many
    /// pages are done.
    pub async fn copy_to(
        &self,
        to: &Path,
        mut progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Vec<Counted>> {
        let to = to.to_owned();
        self.read(move |from| {
            let mut copy = Connection::open(&to).map_err(unavailable)?;
            // A reader's snapshot: whoever writes meanwhile is not waited for, and does not make the copy begin anew.
            from.execute_batch("BEGIN; SELECT count(*) FROM tenants;").map_err(unavailable)?;
            let copied = copy_pages(from, &mut copy, &mut progress);
            from.execute_batch("COMMIT").map_err(unavailable)?;
            copied?;
            // One file, which is whole without a log.
            copy.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL;")
                .map_err(unavailable)?;
            let counts = counts(&copy)?;
            copy.close().map_err(|(_, error)| unavailable(error))?;
            Ok(counts)
        })
        .await
    }

    /// Reads the database through, for pages that are damaged: at most `problems_max` of them.
    pub async fn integrity(&self, full: bool, problems_max: u32) -> Result<Vec<String>> {
        self.read(move |connection| {
            let check = if full { "integrity_check" } else { "quick_check" };
            let mut select = connection
                .prepare(&format!("PRAGMA {check}({problems_max})"))
                .map_err(unavailable)?;
            let rows = select.query_map([], |row| row.get(0)).map_err(unavailable)?;
            let mut problems: Vec<String> = super::rows::collect(rows)?;
            problems.retain(|line| line != "ok");
            Ok(problems)
        })
        .await
    }

    /// How many rows there are.
    pub async fn counts(&self) -> Result<Vec<Counted>> {
        self.read(counts).await
    }

    /// Makes a database that was restored safe to go on with, and notes it in the audit trail: leases from before are
    /// nobody's any more (see [`crate::vault::LEASES`]).
    pub async fn after_restore(&self, entry: AuditEntry) -> Result<()> {
        self.write(move |tx| {
            tx.execute("DELETE FROM data_keys WHERE tenant = ?1", [LEASES.0])
                .map_err(unavailable)?;
            super::rows::audit(tx, &entry)
        })
        .await
    }
}

/// The schema of a copy, which must not be newer than ours.
pub fn schema_of(path: &Path) -> Result<i64> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(path, flags).map_err(unavailable)?;
    let missing = migrate::pending(&connection)?.len() as i64;
    Ok(migrate::schema_version() - missing)
}

fn copy_pages(
    from: &Connection,
    to: &mut Connection,
    progress: &mut impl FnMut(u64, u64),
) -> Result<()> {
    let backup = Backup::new(from, to).map_err(unavailable)?;
    loop {
        let step = backup.step(STEP_PAGES).map_err(unavailable)?;
        let pages = backup.progress();
        let all = pages.pagecount.unsigned_abs();
        progress(u64::from(all - pages.remaining.unsigned_abs()), u64::from(all));
        match step {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ => return Err(StoreError::Unavailable("the database is locked".to_owned())),
        }
    }
}

fn counts(connection: &Connection) -> Result<Vec<Counted>> {
    let count = |table: &&'static str| {
        let rows = connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .map_err(unavailable)?;
        Ok(Counted { table, rows })
    };
    COUNTED.iter().map(count).collect()
}
