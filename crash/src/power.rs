//! Power cuts: the disk is what was synced at a random moment, and everything starts again on it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use xtask::postgres::Durability;

use crate::caller::Caller;
use crate::chance::Chance;
use crate::check;
use crate::clients::{Clients, Desk};
use crate::kill::end_and_check;
use crate::options::{Common, Database};
use crate::report::{self, Outcome};
use crate::told::Told;
use crate::world::{Cluster, Disk, Place, new_directory};

/// Cuts with loss that a control must show, if it makes as many.
pub const LOSS_ENOUGH: u32 = 2;
const PROGRESS: Duration = Duration::from_secs(5);
/// Makes a debug build of the server answer before a commit is on the disk.
const UNSAFE: [(&str, &str); 1] = [("WAKEPOST_FAILPOINTS", "sqlite.sync=skip")];

/// What the cuts did.
pub struct Cut {
    /// The checker's word.
    pub outcome: Outcome,
    /// Cuts after which something acknowledged was gone.
    pub with_loss: u32,
}

/// Cuts, and checks. As a control, with commits that do not wait for the disk.
pub async fn run(common: &Common, seed: u64, cuts: u32, control: bool) -> anyhow::Result<Cut> {
    let directory = new_directory()?;
    let disk = Disk::new(directory.path())?;
    let durability = if control { Durability::Delayed } else { Durability::Small };
    let settings = if control { UNSAFE.as_slice() } else { &[] };
    let path = disk.path();
    let place = Place { directory: directory.path(), disk: Some(&path) };
    let mut cluster = Cluster::start(common, &place, durability, settings).await?;
    let sources = cluster.sources().await?;
    // What is set up before the load is not what is tested, and the control needs it.
    disk.sync()?;
    let told = Arc::new(Told::default());
    let caller = cluster.caller();
    let mut clients = Clients::start(&Desk::new(caller.clone(), told.clone()), &sources, seed);

    let enough = if control { LOSS_ENOUGH } else { u32::MAX };
    let mut cutting = Cutting { cluster, disk: &disk, told: told.clone(), with_loss: 0, enough };
    let mut survived = cutting.all(&caller, Chance::new(seed, 1), cuts).await;
    let Cutting { mut cluster, with_loss, .. } = cutting;
    if survived.is_ok() && told.counts().violations == 0 {
        survived = end_and_check(&mut clients, &caller, &told).await;
    }
    if let Err(error) = survived {
        told.violation("start", format!("{error:#}"));
    }
    if told.counts().violations == 0 && common.database == Database::Sqlite {
        integrity(&cluster.sqlite_file(), "integrity_check", &told)?;
    }
    let mut kept = Vec::new();
    if told.counts().violations > 0 && !control {
        cluster.end()?;
        let to = tempfile::Builder::new().prefix("wakepost-crash-kept-").tempdir()?.keep();
        disk.keep(&to)?;
        kept.push(to);
    }
    drop(cluster);
    let what = format!("cuts {}, with loss {with_loss}", told.lock().round);
    Ok(Cut { outcome: Outcome { what, told, seed, kept }, with_loss })
}

struct Cutting<'a> {
    cluster: Cluster,
    disk: &'a Disk,
    told: Arc<Told>,
    with_loss: u32,
    /// So many cuts with loss show what they are to show.
    enough: u32,
}

impl Cutting<'_> {
    async fn all(&mut self, caller: &Caller, mut chance: Chance, cuts: u32) -> anyhow::Result<()> {
        let mut shown = Instant::now();
        for cut in 1..=cuts {
            let load = chance.millis(250, 1200);
            tokio::time::sleep(load).await;
            self.cut().await?;
            let round = std::mem::replace(&mut self.told.lock().round, cut);
            let lost = check::round(caller, &self.told, round).await?;
            self.with_loss += u32::from(lost > 0);
            if self.cluster.postgres_url().is_none() {
                integrity(&self.cluster.sqlite_file(), "quick_check", &self.told)?;
            }
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                let done = format!("{cut}/{cuts} cuts, {} with loss", self.with_loss);
                report::progress(&done, &self.told);
            }
            if self.with_loss >= self.enough {
                break;
            }
        }
        Ok(())
    }

    /// Stopped servers answer nobody, so all that clients were told was told before the disk was taken.
    async fn cut(&mut self) -> anyhow::Result<()> {
        self.cluster.pause()?;
        tokio::task::block_in_place(|| self.disk.cut())?;
        self.cluster.end()?;
        tokio::task::block_in_place(|| self.disk.recover())?;
        self.cluster.start_again().await
    }
}

/// What SQLite itself finds wrong with its file.
fn integrity(file: &Path, pragma: &str, told: &Told) -> anyhow::Result<()> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    let found: String = connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))?;
    if found != "ok" {
        told.violation("D1", format!("the database is damaged: {found}"));
    }
    Ok(())
}
