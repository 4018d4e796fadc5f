//! `wakepost restore`: a backup, put where there is nothing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use wakepost_domain::ports::{Clock, Entropy};
use wakepost_domain::{AuditId, Ulid};
use wakepost_store::moves::{AuditEntry, Checks, Counted, DataKeys};
use wakepost_store::postgres::{Postgres, PostgresOptions, schema_version as postgres_schema};
use wakepost_store::sqlite::{
    Beside, Drive, Durability, FILE as SQLITE_FILE, Sqlite, schema_of,
    schema_version as sqlite_schema,
};

use super::backup::make_private;
use super::findings::{Findings, Level};
use super::manifest::{Kind, Manifest};
use super::{doctor, dump};
use crate::config::{Config, KEY_FILES, master_keys};
use crate::system::{SystemClock, SystemEntropy};

/// Where from, and over what.
#[derive(Debug, Args)]
pub struct From {
    /// The backup's directory
    #[arg(value_name = "DIR")]
    from: PathBuf,
    /// Put it in the place of what is there, which is kept aside: no server may run
    #[arg(long)]
    force: bool,
    /// Where pg_restore is, if not in PATH
    #[arg(long, value_name = "DIR")]
    pg_bin: Option<PathBuf>,
}

/// Checks a backup, puts it in place, and checks what came of it.
pub async fn run(config: &Config, from: &From) -> anyhow::Result<ExitCode> {
    let manifest = Manifest::read(&from.from)?;
    let here = if config.database_url.is_some() { Kind::Postgres } else { Kind::Sqlite };
    anyhow::ensure!(
        manifest.database == here,
        "the backup is of {:?}, and the settings say {here:?}: a backup goes back to the same database",
        manifest.database
    );
    let known = match here {
        Kind::Postgres => i64::from(postgres_schema()),
        Kind::Sqlite => sqlite_schema(),
    };
    anyhow::ensure!(
        manifest.schema <= known,
        "the backup has schema {}, and this is wakepost {}, which knows schemas up to {known}: restore it with the \
         program that made it ({}) or a newer one",
        manifest.schema,
        env!("CARGO_PKG_VERSION"),
        manifest.wakepost
    );
    let mut made = Vec::new();
    let has_key = match take_keys(config, from, &manifest, &mut made) {
        Ok(()) => check_key(config, &manifest).await,
        refused => refused,
    };
    if let Err(error) = has_key {
        for path in made {
            let _ = fs::remove_file(path);
        }
        return Err(error);
    }
    let mut findings = Findings::default();
    match &config.database_url {
        Some(url) => postgres(config, url, from, &manifest, &mut findings).await?,
        None => sqlite(config, from, &manifest, &mut findings).await?,
    }
    findings.print(false)?;
    println!("restored {}, as of {}", from.from.display(), manifest.taken_at);
    println!(
        "Leases from before are void: what ran then runs again when its lease is over. What was done after the backup"
    );
    println!(
        "may be done again: agents and receivers see the same idempotency keys and webhook ids. Effects in doubt are held."
    );
    Ok(if findings.worst() == Level::Fail { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Puts the backup's master keys into a data directory that has none, and says which files it made.
fn take_keys(
    config: &Config,
    from: &From,
    manifest: &Manifest,
    made: &mut Vec<PathBuf>,
) -> anyhow::Result<()> {
    let in_use = config.data_dir.join(KEY_FILES[0]);
    if config.master_key.is_some() || in_use.exists() {
        return Ok(());
    }
    anyhow::ensure!(
        manifest.with_master_key && from.from.join(KEY_FILES[0]).exists(),
        "there is no master key: put {} into {}, or name it in the settings",
        manifest.master_keys.join(", "),
        in_use.display()
    );
    make_private(&config.data_dir)?;
    for name in KEY_FILES {
        let (theirs, ours) = (from.from.join(name), config.data_dir.join(name));
        if !theirs.exists() {
            continue;
        }
        anyhow::ensure!(!ours.exists(), "{} is there already: put it elsewhere", ours.display());
        made.push(ours.clone());
        fs::copy(&theirs, &ours).with_context(|| format!("cannot write {}", ours.display()))?;
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(&ours, private)?;
        File::open(&ours)?.sync_all()?;
    }
    Ok(())
}

async fn check_key(config: &Config, manifest: &Manifest) -> anyhow::Result<()> {
    let (keys, _) = master_keys(config, &SystemEntropy).await?;
    let ids: Vec<String> = keys.read()?.ids().iter().map(ToString::to_string).collect();
    let missing: Vec<&str> =
        manifest.master_keys.iter().filter(|id| !ids.contains(id)).map(String::as_str).collect();
    anyhow::ensure!(
        missing.is_empty(),
        "the backup opens with master key {}, and the settings have {}: nothing was changed",
        missing.join(", "),
        ids.join(", ")
    );
    Ok(())
}

async fn sqlite(
    config: &Config,
    from: &From,
    manifest: &Manifest,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let data = from.from.join(&manifest.file);
    schema_of(&data)?;
    let target = config.data_dir.join(SQLITE_FILE);
    make_private(&config.data_dir)?;
    // Taken until all is in place, so that no server begins meanwhile.
    let lock = Sqlite::lock(&config.data_dir)?;
    if target.exists() {
        anyhow::ensure!(
            from.force,
            "there is a database in {} already: name another data_dir, or --force to put it aside",
            config.data_dir.display()
        );
        let aside = set_aside(&config.data_dir)?;
        println!("what was there is in {}", aside.display());
    }
    let draft = target.with_extension("draft");
    fs::copy(&data, &draft).with_context(|| format!("cannot write {}", draft.display()))?;
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&draft, private)?;
    File::open(&draft)?.sync_all()?;
    fs::rename(&draft, &target)?;
    File::open(&config.data_dir)?.sync_all()?;
    drop(lock);
    drop(Sqlite::open(&config.data_dir, Arc::new(SystemClock), Durability::Full, Drive::Thread)?);
    let store = Beside::open(&config.data_dir)?;
    count(&store.counts().await?, manifest, findings);
    store.after_restore(note(manifest)).await?;
    check(&store, &store, config, findings).await
}

async fn postgres(
    config: &Config,
    url: &str,
    from: &From,
    manifest: &Manifest,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    let store = Postgres::connect(url, PostgresOptions::default()).await?;
    let is_empty = store.is_empty().await?;
    anyhow::ensure!(
        is_empty || from.force,
        "the database has tables of Wakepost already: make a new one, or --force to put them aside"
    );
    if !is_empty {
        let aside = format!("replaced_{}", SystemClock.now().as_millis());
        store.set_aside(&aside).await?;
        println!("what was there is in the schema {aside}");
    }
    let data = from.from.join(&manifest.file);
    dump::restore(url, from.pg_bin.as_deref(), &data).await?;
    store.migrate().await?;
    store.ensure_partitions(SystemClock.now()).await?;
    count(&store.counts().await?, manifest, findings);
    store.after_restore(note(manifest)).await?;
    check(&store, &store, config, findings).await
}

/// Moves a database and its log to a directory of their own.
fn set_aside(directory: &Path) -> anyhow::Result<PathBuf> {
    let stamp = SystemClock.now().as_millis();
    let aside = directory.join(format!("replaced-{stamp}"));
    fs::create_dir(&aside)?;
    for end in ["", "-wal", "-shm"] {
        let name = format!("{SQLITE_FILE}{end}");
        if directory.join(&name).exists() {
            fs::rename(directory.join(&name), aside.join(&name))?;
        }
    }
    File::open(directory)?.sync_all()?;
    Ok(aside)
}

fn count(rows: &[Counted], manifest: &Manifest, findings: &mut Findings) {
    for Counted { table, rows } in rows {
        let wanted = manifest.rows.get(*table).copied().unwrap_or(0);
        match *rows == wanted {
            true => findings.ok("rows", format!("{table}: {rows}")),
            false => findings.fail(
                "rows",
                format!("{table}: {rows}, and the manifest says {wanted}"),
                "restore another backup",
            ),
        }
    }
}

async fn check(
    keys: &(dyn DataKeys + Send + Sync),
    checks: &(dyn Checks + Send + Sync),
    config: &Config,
    findings: &mut Findings,
) -> anyhow::Result<()> {
    doctor::master_key(keys, config, findings).await?;
    doctor::invariants(checks, config, false, findings).await
}

fn note(manifest: &Manifest) -> AuditEntry {
    let entropy: &dyn Entropy = &SystemEntropy;
    AuditEntry {
        id: AuditId(Ulid::new(SystemClock.now(), entropy)),
        tenant: None,
        actor: "wakepost".to_owned(),
        action: "backup.restore".to_owned(),
        target: manifest.taken_at.clone(),
        note: None,
    }
}
