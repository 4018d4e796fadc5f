//! `wakepost backup`: a copy of everything at one moment, while servers run.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use wakepost_domain::ports::Clock;
use wakepost_store::moves::{Counted, DataKeys};
use wakepost_store::postgres::{Postgres, PostgresOptions, schema_version as postgres_schema};
use wakepost_store::sqlite::{Beside, FILE as SQLITE_FILE, schema_version as sqlite_schema};

use super::dump;
use super::manifest::{About, Kind, Manifest};
use super::progress::Progress;
use crate::config::{Config, KEY_FILES, key_names};
use crate::system::SystemClock;

/// What pg_dump writes.
const DUMP_FILE: &str = "wakepost.dump";

/// Where to, and what else.
#[derive(Debug, Args)]
pub struct To {
    /// The directory to make
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// Put the data directory's master key beside the data: whoever has the backup can then read all of it
    #[arg(long)]
    with_master_key: bool,
    /// Where pg_dump is, if not in PATH
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
}

/// Writes a backup under another name, and gives it its name when it is complete.
pub async fn run(config: &Config, to: &To) -> anyhow::Result<ExitCode> {
    let draft = to.to.with_extension("draft");
    for path in [&to.to, &draft] {
        anyhow::ensure!(!path.exists(), "{} is there already: name another place", path.display());
    }
    let key = config.data_dir.join(KEY_FILES[0]);
    anyhow::ensure!(
        !to.with_master_key || key.exists(),
        "--with-master-key: there is no {}: a key from elsewhere is kept elsewhere",
        key.display()
    );
    make_private(&draft)?;
    let made = fill(config, to, &draft).await;
    let made = made.and_then(|manifest| {
        sync(&draft)?;
        fs::rename(&draft, &to.to).with_context(|| format!("cannot make {}", to.to.display()))?;
        sync(
            to.to
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new(".")),
        )?;
        Ok(manifest)
    });
    let manifest = made.inspect_err(|_| {
        // Half a backup is none.
        let _ = fs::remove_dir_all(&draft);
    })?;
    println!(
        "backed up to {}: {} bytes, as of {}",
        to.to.display(),
        manifest.bytes,
        manifest.taken_at
    );
    for (table, rows) in &manifest.rows {
        println!("  {table:12} {rows}");
    }
    if to.with_master_key {
        eprintln!(
            "NOTE: the master key is in this backup: whoever has it can read everything in it."
        );
    } else {
        eprintln!(
            "NOTE: this backup cannot be read without the master key {}, which is not in it. Keep that key \
             somewhere else, and safe: without it all of this is lost.",
            manifest.master_keys.join(", ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

async fn fill(config: &Config, to: &To, draft: &Path) -> anyhow::Result<Manifest> {
    let taken_at = SystemClock.now().to_string();
    let (database, schema, file, rows, master_keys) = match &config.database_url {
        Some(url) => {
            let (rows, keys) = postgres(url, to, &draft.join(DUMP_FILE)).await?;
            (Kind::Postgres, i64::from(postgres_schema()), DUMP_FILE, rows, keys)
        }
        None => {
            let (rows, keys) = sqlite(config, &draft.join(SQLITE_FILE)).await?;
            (Kind::Sqlite, sqlite_schema(), SQLITE_FILE, rows, keys)
        }
    };
    File::open(draft.join(file))?.sync_all()?;
    if to.with_master_key {
        copy_keys(&config.data_dir, draft, &master_keys)?;
    }
    let with_master_key = to.with_master_key;
    let about = About { database, schema, taken_at, rows, master_keys, with_master_key };
    Manifest::write(draft, file, about)
}

async fn sqlite(config: &Config, file: &Path) -> anyhow::Result<(Vec<Counted>, Vec<String>)> {
    let store = Beside::open(&config.data_dir)?;
    let before = wrapping(&store).await?;
    let mut progress = Progress::new("copying");
    let rows = store.copy_to(file, move |done, all| progress.show(done, all)).await?;
    Ok((rows, both(before, wrapping(&store).await?)))
}

async fn postgres(url: &str, to: &To, file: &Path) -> anyhow::Result<(Vec<Counted>, Vec<String>)> {
    let store = Postgres::connect(url, PostgresOptions::default()).await?;
    anyhow::ensure!(
        store.pending_migrations().await?.is_empty(),
        "the database is not up to date: run `wakepost migrate` first"
    );
    let before = wrapping(&store).await?;
    let snapshot = store.snapshot().await?;
    let rows = snapshot.counts().await?;
    let dumped = dump::dump(url, to.pg_bin.as_deref(), &snapshot.name, file).await;
    snapshot.end().await?;
    dumped?;
    Ok((rows, both(before, wrapping(&store).await?)))
}

/// The names of the master keys that wrap something.
async fn wrapping(store: &(dyn DataKeys + Send + Sync)) -> anyhow::Result<Vec<String>> {
    let counts = store.data_keys_by_master().await?;
    Ok(counts.iter().map(|(id, _)| id.to_string()).collect())
}

/// A rotation may go on while the copy is made: either key may be needed.
fn both(mut before: Vec<String>, after: Vec<String>) -> Vec<String> {
    before.extend(after);
    before.sort();
    before.dedup();
    before
}

/// Puts the data directory's keys beside the data, and sees that they open it: amid a rotation either may be needed.
fn copy_keys(data_dir: &Path, draft: &Path, needed: &[String]) -> anyhow::Result<()> {
    let mut copied = Vec::new();
    // The one in use first: a rotation that begins meanwhile puts it where the other is looked for.
    for name in KEY_FILES {
        let (from, to) = (data_dir.join(name), draft.join(name));
        if from.exists() {
            fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
            File::open(&to)?.sync_all()?;
            copied.extend(key_names(&to)?);
        }
    }
    let missing: Vec<&str> =
        needed.iter().filter(|name| !copied.contains(name)).map(String::as_str).collect();
    anyhow::ensure!(
        missing.is_empty(),
        "--with-master-key: this opens with master key {}, which is not in {}: a key from elsewhere is kept elsewhere",
        missing.join(", "),
        data_dir.display()
    );
    Ok(())
}

/// Makes a directory that only its owner can enter.
pub fn make_private(path: &Path) -> anyhow::Result<()> {
    let mut builder = fs::DirBuilder::new();
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path).with_context(|| format!("cannot make {}", path.display()))
}

fn sync(directory: &Path) -> anyhow::Result<()> {
    Ok(File::open(directory)?.sync_all()?)
}
